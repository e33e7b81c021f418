/* SPDX-License-Identifier: Apache-2.0
 *
 * What a projection rests on: numbers of the PE, given or stood in for, and the
 * error of projections where the system was fitted (else: evidence.c). What a
 * framework adds is its own list (pdl_framework_habit). */
#include "oracle/answer/answer.h"

bool pdl_basis_at(const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt, int i,
                  struct pdl_basis *out)
{
    int n = 0;

    if (opt->parameters == PDL_IDEAL)
        return false;
    while (n <= i && oracle_pe_basis(&sys->pe, opt->precision, n, out))
        n++;
    if (i < n)
        return true;
    *out = (struct pdl_basis){"projection_error", sys->projection_error,
                              PDL_UNIT_NONE, "given", "the system"};
    return i == n && sys->projection_error > 0;
}
