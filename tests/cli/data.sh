# data sets and stores of samples: what they are, and what is wrong with them
set +e
$paradl data show digits
$paradl data show digits --json
$paradl data show nosuch
$paradl data check digits
$paradl data stage digits
$paradl data stage digits --store s -n 2 --only 2
$paradl data stage digits --store s -n 2000
$paradl data stage digits --store s -n 2 --shuffle global
$paradl data stage digits --store s -n 2 --shuffle partial:q=1.5
$paradl data stage digits --store s -n 2 --shuffle partial:q=0.3 --only 1 --threads 1
$paradl data stage digits --store s -n 2 --shuffle partial:q=0.3 --threads 1
$paradl data stage digits --store s -n 2 --shuffle partial:q=0.3 --threads 1
$paradl data show s
$paradl data check s
# one bit of one sample, which is where one thread puts it, and staging again
printf '\377' | dd of=s/rank-1.store bs=1 seek=10000 conv=notrunc 2>/dev/null
$paradl data check s
echo "rc $?"
$paradl data stage digits --store s -n 2 --shuffle partial:q=0.3 --threads 1
$paradl data check s/rank-1.store
head -c 20000 s/rank-0.store >t && mv t s/rank-0.store
$paradl data check s
$paradl data stage digits --store s -n 2
mkdir link && ln -s ../s/rank-1.store link/rank-0.store
$paradl data stage digits --store link
