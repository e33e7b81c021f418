# a result that could not be written is not a result
$paradl info >/dev/full; echo "rc $?"
$paradl help --man info >/dev/full; echo "rc $?"
$paradl info >&-; echo "rc $?"
