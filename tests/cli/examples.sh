# the example in every command's help is a command line that runs as it is
PATH=$(dirname "$paradl"):$PATH
$paradl help --list | while read -r cmd; do
    example=$($paradl help $cmd | sed -n '/^Example:/{n;s/^  //p}')
    timeout 60 bash -c "$example" >out 2>err || echo "$cmd: '$example' exits with $?: $(head -n1 err)"
    [ -s out ] || echo "$cmd: '$example' prints nothing"
done
echo done
