/* SPDX-License-Identifier: Apache-2.0
 *
 * How many PEs each axis can have: text and JSON of plan --space. */
#include "cli/output/projection.h"

static int find(pdl_arena *a, const struct cli_job *j, int64_t batch,
                struct pdl_axis_limit *out)
{
    int n;

    return pdl_axis_limits(a, j->model, batch, out, &n, NULL) == PDL_OK ? n : 0;
}

void cli_limits_json(struct pdl_json *w, pdl_arena *a, const struct cli_job *j,
                     int64_t batch)
{
    struct pdl_axis_limit list[PDL_AXIS_LIMITS];
    int n = find(a, j, batch, list);

    pdl_json_key(w, "axis_limits");
    pdl_json_array(w);
    for (int i = 0; i < n; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "axis", list[i].axis);
        pdl_json_kint(w, "most", list[i].most);
        pdl_json_kstr(w, "reason", list[i].reason);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

void cli_limits_text(pdl_arena *a, const struct cli_job *j, int64_t batch)
{
    struct pdl_axis_limit list[PDL_AXIS_LIMITS];
    int n = find(a, j, batch, list);

    pdl_puts(cli_out(), "Most PEs of one axis, and what stops one more\n");
    for (int i = 0; i < n; i++)
        cli_say(21, "  %-8s %8lld  %s", list[i].axis, (long long)list[i].most,
                list[i].reason);
}
