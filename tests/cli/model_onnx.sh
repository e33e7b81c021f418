# ONNX files: totals, layers, the same network as the zoo's, what is wrong
set +e
say() { "$@"; echo "rc $?"; }
cp "$data"/onnx/*.onnx .
$paradl model show resnet50.onnx
$paradl model show ext_mlp.onnx --layers
$paradl model show gpt2_124m_seq1024.onnx --json
$paradl model show resnet50.onnx --layers --json | grep '"name": "' >file
$paradl model show resnet50 --layers --json | grep '"name": "' >zoo
cmp file zoo && echo "the same layers"
cp resnet50.onnx noname; $paradl model show noname | head -1
head -c 300 ext_mlp.onnx >cut.onnx; say $paradl model show cut.onnx
: >empty.onnx; say $paradl model show empty.onnx
echo "version https://git-lfs.github.com/spec/v1" >lfs.onnx
say $paradl model show lfs.onnx
say $paradl model show resnet50.onnx --dim bach=8
say $paradl model show resnet50.onnx --dim batch=8 --json
