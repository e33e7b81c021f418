/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl simulate --path and --timeline: the chain of messages that made the
 * last rank finish when it did, and how much of the links is in use over
 * time. */
#include "cli/questions/cli_collective.h"

#include <inttypes.h>
#include <stdio.h>

enum { LABEL = 15 };

static const char *seconds(double s, char *buf, size_t size)
{
    return pdl_unit_format(s, PDL_UNIT_SECONDS, buf, size);
}

void cli_path_print(const struct pdl_path *path, pdl_arena *a)
{
    static const struct pdl_column columns[] = {{"from", true},
                                                {"to", true},
                                                {"step", true},
                                                {"starts", true},
                                                {"ends", true}};
    char latency[32], wire[32], shared[32];
    struct pdl_table t;

    pdl_printf(cli_out(),
               "critical path  %" PRId64 " messages: latency %s, bytes %s, "
               "sharing %s\n",
               path->messages, seconds(path->latency_s, latency, 32),
               seconds(path->wire_s, wire, 32),
               seconds(path->shared_s, shared, 32));
    if (path->messages > path->nsteps)
        pdl_printf(cli_out(), "%*sthe last %d of them:\n", LABEL, "",
                   path->nsteps);
    pdl_table_init(&t, a, columns, 5);
    for (int i = 0; i < path->nsteps; i++) {
        const struct pdl_path_step *s = &path->steps[i];

        pdl_table_cell(&t, "%d", s->from);
        pdl_table_cell(&t, "%d", s->to);
        pdl_table_cell(&t, "%" PRId64, s->op);
        pdl_table_cell(&t, "%s", seconds(s->start_s, latency, 32));
        pdl_table_cell(&t, "%s", seconds(s->end_s, wire, 32));
    }
    pdl_table_print(&t, cli_width(), cli_out());
}

void cli_path_json(struct pdl_json *j, const struct pdl_path *path)
{
    pdl_json_key(j, "critical_path");
    pdl_json_object(j);
    pdl_json_kint(j, "messages", path->messages);
    pdl_json_knum(j, "latency_s", path->latency_s);
    pdl_json_knum(j, "wire_s", path->wire_s);
    pdl_json_knum(j, "shared_s", path->shared_s);
    pdl_json_key(j, "last");
    pdl_json_array(j);
    for (int i = 0; i < path->nsteps; i++) {
        const struct pdl_path_step *s = &path->steps[i];

        pdl_json_row(j);
        pdl_json_kint(j, "from", s->from);
        pdl_json_kint(j, "to", s->to);
        pdl_json_kint(j, "step", s->op);
        pdl_json_knum(j, "start_s", s->start_s);
        pdl_json_knum(j, "end_s", s->end_s);
        pdl_json_end(j);
    }
    pdl_json_end(j);
    pdl_json_end(j);
}

/* Percent of all links, a number for each bucket, in lines of the width. */
void cli_timeline_print(const struct pdl_sim_result *r)
{
    int column = LABEL, width = cli_width() ? cli_width() : 80;
    char text[32];

    pdl_printf(cli_out(), "links in use   in %%, every %s\n%*s",
               seconds(r->timeline_s, text, sizeof text), LABEL, "");
    for (int i = 0; i < r->ntimeline; i++) {
        int n = snprintf(text, sizeof text, "%.3g", 100 * r->timeline[i]);

        if (i > 0 && column + n + 1 > width) {
            pdl_printf(cli_out(), "\n%*s%s", LABEL, "", text);
            column = LABEL + n;
            continue;
        }
        pdl_printf(cli_out(), "%s%s", i > 0 ? " " : "", text);
        column += n + 1;
    }
    pdl_puts(cli_out(), "\n");
}

void cli_timeline_json(struct pdl_json *j, const struct pdl_sim_result *r)
{
    pdl_json_key(j, "timeline");
    pdl_json_object(j);
    pdl_json_knum(j, "bucket_s", r->timeline_s);
    pdl_json_key(j, "utilization");
    pdl_json_flat(j);
    for (int i = 0; i < r->ntimeline; i++)
        pdl_json_num(j, r->timeline[i]);
    pdl_json_end(j);
    pdl_json_end(j);
}
