# What bench refuses before it starts anything.
set +e
$paradl bench; echo "exit $?"
$paradl bench halo; echo "exit $?"
$paradl bench allreduce --algorithm rong; echo "exit $?"
$paradl bench allreduce -n 3 --algorithm halving-doubling; echo "exit $?"
$paradl bench allreduce --transport pigeon; echo "exit $?"
$paradl validate --collective allreduce; echo "exit $?"
