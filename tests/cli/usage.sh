# what people type wrong first, and what they get
set +e
$paradl; echo "rc $?"
$paradl inof; echo "rc $?"
$paradl info --jsn; echo "rc $?"
$paradl info extra; echo "rc $?"
$paradl completion; echo "rc $?"
$paradl completion tcsh; echo "rc $?"
$paradl --version
$paradl help info
