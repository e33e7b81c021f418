/* SPDX-License-Identifier: Apache-2.0
 *
 * What paradl collective compare prints. */
#include "cli/output/collective_compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void json_heat(struct pdl_json *j, const struct cli_comparison *c)
{
    pdl_json_key(j, "heat");
    pdl_json_array(j);
    for (int i = 0; i < c->nheats; i++) {
        const struct cli_comparison_heat *h = &c->heats[i];

        pdl_json_object(j);
        pdl_json_kstr(j, "topology", h->row->topology);
        pdl_json_kstr(j, "algorithm", h->row->algorithm);
        pdl_json_kint(j, "size_bytes", h->row->bytes);
        pdl_json_knum(j, "time_s", h->row->time_s);
        pdl_json_key(j, "link_bytes");
        pdl_json_flat(j);
        for (int k = 0; k < h->nlinks; k++)
            pdl_json_int(j, h->bytes[k]);
        pdl_json_end(j);
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

static void json_command(struct pdl_json *j, const struct pdl_args *args)
{
    struct pdl_buf line;

    pdl_buf_init(&line);
    cli_command_line(&cli_collective_compare, args, &line.sink);
    pdl_json_kstr(j, "command", line.text);
    pdl_buf_free(&line);
}

void cli_comparison_json(const struct cli_comparison *c, struct pdl_sink *out)
{
    struct pdl_json j;

    pdl_json_init(&j, out);
    pdl_json_schema(&j, "collective-compare");
    json_command(&j, c->args);
    pdl_json_kstr(&j, "collective", c->collective);
    pdl_json_key(&j, "rows");
    pdl_json_array(&j);
    for (int i = 0; i < c->nrows; i++) {
        const struct cli_comparison_row *r = &c->rows[i];

        pdl_json_row(&j);
        pdl_json_kstr(&j, "topology", r->topology);
        pdl_json_kint(&j, "size_bytes", r->bytes);
        pdl_json_kstr(&j, "algorithm", r->algorithm);
        pdl_json_kint(&j, "ranks", r->ranks);
        if (r->refused) {
            pdl_json_kstr(&j, "refused", r->refused);
        } else {
            pdl_json_knum(&j, "time_s", r->time_s);
            pdl_json_knum(&j, "lower_bound_s", r->lower_s);
            pdl_json_kint(&j, "messages", r->messages);
        }
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    if (c->o->links || c->o->report)
        json_heat(&j, c);
    pdl_json_end(&j);
}

/* The same reason for another size is no news. */
static bool said_before(const struct cli_comparison *c, int i)
{
    for (int j = 0; j < i; j++)
        if (c->rows[j].refused &&
            strcmp(c->rows[j].refused, c->rows[i].refused) == 0)
            return true;
    return false;
}

static void put_row(struct pdl_table *t, const struct cli_comparison_row *r)
{
    char text[64];

    pdl_table_cell(
        t, "%s",
        pdl_unit_format((double)r->bytes, PDL_UNIT_BYTES, text, sizeof text));
    pdl_table_cell(t, "%s", r->algorithm);
    pdl_table_cell(
        t, "%s",
        pdl_unit_format(r->time_s, PDL_UNIT_SECONDS, text, sizeof text));
    pdl_table_cell(t, "%.2f", r->best > 0 ? r->time_s / r->best : 1);
    pdl_table_cell(t, "%.2f", r->lower_s > 0 ? r->time_s / r->lower_s : 1);
}

/* The rows of one network and number of ranks, from `at` on; returns the first
 * of the next. */
static int print_network(const struct cli_comparison *c, int at)
{
    static const struct pdl_column columns[] = {{"size", true},
                                                {"algorithm", false},
                                                {"time", true},
                                                {"to best", true},
                                                {"to bound", true}};
    const struct cli_comparison_row *first = &c->rows[at];
    struct pdl_table t;

    pdl_table_init(&t, c->arena, columns, 5);
    for (; at < c->nrows && c->rows[at].ranks == first->ranks &&
           strcmp(c->rows[at].topology, first->topology) == 0;
         at++)
        if (!c->rows[at].refused)
            put_row(&t, &c->rows[at]);
    if (t.nrows == 0)
        return at;
    cli_say(2, "%s on %d ranks of %s", c->collective, first->ranks,
            first->topology);
    pdl_table_print(&t, cli_width(), cli_out());
    return at;
}

void cli_comparison_text(const struct cli_comparison *c)
{
    for (int i = 0; i < c->nrows;)
        i = print_network(c, i);
    for (int i = 0; i < c->nrows; i++)
        if (c->rows[i].refused && !said_before(c, i))
            cli_say(2, "not run: %s", c->rows[i].refused);
}
