/* SPDX-License-Identifier: Apache-2.0
 *
 * What a projection rests on: numbers of the PE, given or stood in for, and the
 * error of projections. What a framework adds is its own list
 * (pdl_framework_habit). */
#include "oracle/answer/answer.h"

bool pdl_basis_at(const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt, int i,
                  struct pdl_basis *out)
{
    static const struct pdl_basis none = {
        "projection_error", ORACLE_GUESS_ERROR, PDL_UNIT_NONE,
        "fitted(650 published runs)", "80 % of them are as near or nearer"};
    int n = 0;

    if (opt->parameters == PDL_IDEAL)
        return false;
    while (n <= i && oracle_pe_basis(&sys->pe, opt->precision, n, out))
        n++;
    if (i < n)
        return true;
    *out = none;
    if (sys->projection_error > 0)
        *out = (struct pdl_basis){none.name, sys->projection_error, none.unit,
                                  "given", "the system"};
    return i == n;
}
