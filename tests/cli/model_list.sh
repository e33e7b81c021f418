# the zoo
$paradl model list | head -12
$paradl model list --json | head -5

$paradl model list resnet101
$paradl model list resnet101 --json
$paradl model list resnt
