# what networks there are, what one is, and what is said of a wrong one
set +e
$paradl topology list
$paradl topology show fat-tree:down=8x8,up=1x8; echo "rc $?"
$paradl topology show kautz:d=16,k=2 --json; echo "rc $?"
$paradl topology show hybrid-optical:eps=\(torus:4x4\),reconfigure=3ms; echo "rc $?"
$paradl topology show tsubame3:nodes=9 --routes 3,4; echo "rc $?"
$paradl topology show torus:3 --links; echo "rc $?"
$paradl topology show torus:2x2,bw=1GB/s,lat=2us --links --routes 0,3 --json; echo "rc $?"
$paradl topology show torus:2 --routes all; echo "rc $?"
$paradl topology show $data/net/cluster_fat_tree.xml; echo "rc $?"
$paradl topology export dragonfly:groups=3,chassis=4,routers=5,nodes=2,blue=4,black=3; echo "rc $?"
$paradl topology export mesh:2 -o mesh.xml; cat mesh.xml
$paradl topology show tours:4x4; echo "rc $?"
$paradl topology show torus:4x4,bw=12; echo "rc $?"
$paradl topology show dln:switches=1099511627776,hosts=4; echo "rc $?"
$paradl topology show torus:4x4 --routes 0,16; echo "rc $?"
$paradl topology show torus:4x4 --routes 3; echo "rc $?"
$paradl topology show nothing.xml; echo "rc $?"
$paradl topology export mesh:32x32; echo "rc $?"
