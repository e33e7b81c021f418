# what a network is: totals, layers, repeated blocks once in text
set +e
$paradl model show resnet50
$paradl model show lenet --layers
$paradl model show deepcam --layers | sed -n '/block{i}/p'
$paradl model show resnet:depth=152,stride=1x1,input=320
$paradl model show lenet --json --layers
$paradl model show resnet50 --json
# every round of a repeated block has its own line in JSON
$paradl model show deepcam --layers --json | grep -o '"name": "[a-z_]*.block[0-9]*.Add"'
