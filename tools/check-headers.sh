#!/bin/sh
# Every public header stands alone, in C and in C++.
cd "$(dirname "$0")/.." || exit 5
bad=0
for h in include/paradl/*.h; do
    g++ -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ "$h" || bad=1
    gcc -std=c11 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c "$h" || bad=1
done
[ $bad = 0 ] && echo "headers: all compile alone, as C and as C++"
exit $bad
