# What bench refuses before it starts anything.
set +e
$paradl bench; echo "exit $?"
$paradl bench halo; echo "exit $?"
$paradl bench allreduce --algorithm rong; echo "exit $?"
$paradl bench allreduce -n 3 --algorithm halving-doubling; echo "exit $?"
$paradl bench allreduce --transport pigeon; echo "exit $?"
$paradl validate --collective allreduce; echo "exit $?"

$paradl collective show swing --ranks 2 >swing.coll
$paradl bench allreduce -n 4 --algorithm swing.coll; echo "exit $?"
$paradl bench allreduce --algorithm nosuch.coll; echo "exit $?"
