/* How much of a test is done. make check does the usual part, make check-long
 * (PDL_LONG=1) all of it; PDL_SHORT=1 is for the second time that make check
 * runs a test, under the sanitizers, which see a fault in a few rounds as well
 * as in many, and take ten times as long for each. */
#ifndef TESTS_EFFORT_H
#define TESTS_EFFORT_H

#include <stdlib.h>

static inline int effort(int brief, int usual, int all)
{
    return getenv("PDL_LONG") ? all : getenv("PDL_SHORT") ? brief : usual;
}

#endif
