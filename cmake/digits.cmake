# Turns a file into a C array: cmake -DIN=x -DOUT=x.c -P digits.cmake
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" n)
math(EXPR n "${n} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "/* Made by cmake/digits.cmake. */
#include \"io_priv.h\"
const unsigned char io_digits[] = {${hex}};
const int64_t io_digits_bytes = ${n};
")
