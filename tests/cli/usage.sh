# what people type wrong first, and what they get
set +e
$paradl 2>&1 >/dev/null | grep -v '^  '; echo "rc ${PIPESTATUS[0]}"
$paradl inof; echo "rc $?"
$paradl info --jsn; echo "rc $?"
$paradl info extra; echo "rc $?"
$paradl completion; echo "rc $?"
$paradl completion tcsh; echo "rc $?"
$paradl --version
$paradl help info
$paradl help inof; echo "rc $?"
$paradl info --js; echo "rc $?"
$paradl info -xq; echo "rc $?"
$paradl info --json=yes; echo "rc $?"
$paradl info --color sometimes; echo "rc $?"
$paradl info --color; echo "rc $?"
$paradl --nonsense; echo "rc $?"
$paradl $'in\x1b[31mfo'; echo "rc $?"
