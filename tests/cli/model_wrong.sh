# what people type wrong, one line each
set +e
say() { "$@"; echo "rc $?"; }
say $paradl model
say $paradl model shwo resnet50
say $paradl model show
say $paradl model show resnet51
say $paradl model show nonsense
say $paradl model show resnet50:inptu=3
say $paradl model show resnet50:input=x
say $paradl model show alexnet:input=40
say $paradl model show vgg16:input=99999999999999999999
say $paradl model show missing.yaml
say $paradl model show ./missing
say $paradl model show missing.onnx
say $paradl model show .
say $paradl model show resnet50 --dim batch=8
say $paradl model show resnet50 --lyaers
printf 'format: paradl-model/1\ninputs: [{name: x, shape: [3]}]\nlayers:\n- {op: liner, name: a}\n' >bad.yaml
say $paradl model show bad.yaml
printf '\001\002\003\000' >odd
say $paradl model show odd
printf 'format: paradl-model/1\ninputs: [{name: x, shape: [3000000000]}]\nlayers:\n- repeat: 9000000000000000000\n  layers: [{op: relu, name: r}]\n' >huge.yaml
say $paradl model show huge.yaml
say $paradl model convert
