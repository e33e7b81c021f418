/* SPDX-License-Identifier: Apache-2.0
 *
 * project -v: the numbers that a projection rests on, and where they come
 * from. */
#include "cli/output/projection.h"

void cli_basis_text(const struct cli_job *j)
{
    const struct pdl_habit *h;
    struct pdl_basis b;
    char value[40];

    if (j->oracle.parameters == PDL_IDEAL)
        return;
    pdl_printf(cli_out(), "Rests on (given: paradl system show %s)\n",
               j->sys.name);
    for (int i = 0; pdl_basis_at(&j->sys, &j->oracle, i, &b); i++)
        cli_say(6, "  %s %s: %s, %s", b.name,
                pdl_unit_format(b.value, b.unit, value, sizeof value), b.kind,
                b.source);
    if (pdl_framework_habit(j->oracle.framework, 0))
        pdl_printf(cli_out(), "and on (sources: paradl framework show %s)\n",
                   pdl_framework_name(j->oracle.framework));
    for (int i = 0; (h = pdl_framework_habit(j->oracle.framework, i)); i++)
        cli_say(6, "  %s %s: %s", h->key, h->value, h->kind);
}
