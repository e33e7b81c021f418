#!/bin/sh
# Every public header stands alone, in C and in C++, and all of them together.
cd "$(dirname "$0")/.." || exit 5
bad=0
mpi="$(pkg-config --cflags ompi-c 2>/dev/null || pkg-config --cflags mpich) -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX" # comm.h
for h in include/paradl/*.h; do
    g++ -Wall -Wextra -Werror -Iinclude $mpi -fsyntax-only -x c++ "$h" || bad=1
    gcc -std=c11 -Wall -Wextra -Werror -Iinclude $mpi -fsyntax-only -x c "$h" || bad=1
done
all=$(for h in include/paradl/*.h; do echo "#include \"$h\""; done)
echo "$all" | g++ -Wall -Wextra -Werror -I. -Iinclude $mpi -fsyntax-only -x c++ - || bad=1
echo "$all" | gcc -std=c11 -Wall -Wextra -Werror -I. -Iinclude $mpi -fsyntax-only -x c - || bad=1
[ $bad = 0 ] && echo "headers: all compile alone, as C and as C++"
exit $bad
