# from other tools' output to a system
set +e
cp "$data"/system/nccl_tests/*.txt "$data"/system/nccl_topo/*.xml "$data"/system/osu/*.txt "$data"/system/hwloc/*.xml .
$paradl system import nccl-tests variant_g_two_runs.txt --base dgx-a100:nodes=2 --name lab -o lab.yaml; echo "rc $?"
$paradl system show lab.yaml | sed -n '1,2p;/Measured/,/Facts/p'
$paradl system import nccl-tests rank_prefixed_excerpt.txt; echo "rc $?"
$paradl system import nccl-tests rank_prefixed_excerpt.txt --np 32 --op allreduce -q | head -n 12
$paradl system import osu allreduce.txt; echo "rc $?"
$paradl system import osu allreduce.txt --np 16 | sed -n '/collectives/,$p'
$paradl system import nccl-topo dgx-h100-like.xml | sed -n '/^node/,$p'
$paradl system import nccl-topo azure-ndv4-topo.xml | sed -n '/^pe/,$p'
$paradl system import nccl-topo azure-ncv4-graph.xml; echo "rc $?"
$paradl system import nccl-topo aws-g5.48xl-topo.xml; echo "rc $?"
$paradl system import nccl-topo billion-laughs.xml; echo "rc $?"
$paradl system import hwloc nvidiaDGX2.v2.xml | sed -n '/^node/,$p'
$paradl system import hwloc version3.xml; echo "rc $?"
echo 'n[1-4]' >hosts
$paradl system import hostlist hosts; echo "rc $?"
$paradl system import hostlist hosts --base dgx-h100 --tasks '8(x4)' | grep -E '^(hosts|nodes|  pes)'
echo 'n[1-4' >hosts
$paradl system import hostlist hosts --base dgx-h100; echo "rc $?"
$paradl system import ncl-tests hosts; echo "rc $?"
$paradl system import osu; echo "rc $?"
