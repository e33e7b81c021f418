# the zoo
$paradl model list | head -12
$paradl model list --json | head -5
