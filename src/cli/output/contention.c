/* SPDX-License-Identifier: Apache-2.0
 *
 * Who shares what in a step: text and JSON of the projecting commands. */
#include "cli/output/projection.h"

#include <string.h>

static const char *phase_of(const struct pdl_contention *c)
{
    return c->gradient ? "gradient exchange" : "forward, backward";
}

void cli_contention_json(struct pdl_json *w, const struct cli_job *j)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_contentions c = {.n = 0};

    if (a)
        pdl_contention(a, j->plan, &j->sys, &j->oracle, &c, NULL);
    pdl_json_key(w, "contention");
    pdl_json_array(w);
    for (int i = 0; i < c.n; i++) {
        const struct pdl_contention *x = &c.row[i];

        pdl_json_row(w);
        pdl_json_kstr(w, "operation",
                      pdl_plan_op_name(j->plan->ops[x->op].kind));
        pdl_json_kstr(w, "phase", phase_of(x));
        pdl_json_kint(w, "count", x->count);
        pdl_json_kint(w, "members", x->members);
        pdl_json_kstr(w, "level", j->sys.levels[x->level].name);
        pdl_json_kstr(w, "at", x->at > 0 ? j->sys.levels[x->at].name : "node");
        pdl_json_knum(w, "groups", x->groups);
        pdl_json_knum(w, "adapters", x->adapters);
        pdl_json_knum(w, "phi", x->phi);
        pdl_json_knum(w, "seconds", x->seconds);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_arena_destroy(a);
}

void cli_contention_text(const struct cli_job *j)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_contentions c = {.n = 0};
    struct pdl_buf lines, line;

    if (a)
        pdl_contention(a, j->plan, &j->sys, &j->oracle, &c, NULL);
    pdl_buf_init(&lines);
    for (int i = 0; i < c.n; i++) {
        const struct pdl_contention *x = &c.row[i];

        if (x->phi <= 1)
            continue;
        pdl_buf_init(&line);
        pdl_printf(&line.sink,
                   "  %s of %lld (%s): %.0f flows on %.3g adapters of a %s, "
                   "phi %.2g\n",
                   pdl_plan_op_name(j->plan->ops[x->op].kind),
                   (long long)x->members, j->sys.levels[x->level].name,
                   x->groups, x->adapters,
                   x->at > 0 ? j->sys.levels[x->at].name : "node", x->phi);
        /* forward and backward, say, differ in --json alone */
        if (line.text && (!lines.text || !strstr(lines.text, line.text)))
            pdl_puts(&lines.sink, line.text);
        pdl_buf_free(&line);
    }
    if (lines.text)
        pdl_printf(cli_out(), "Contention\n%s", lines.text);
    pdl_buf_free(&lines);
    pdl_arena_destroy(a);
}
