/* SPDX-License-Identifier: Apache-2.0
 *
 * What paradl simulate prints. */
#include "cli/output/simulate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LABEL = 15 }; /* width of what stands before a figure */

static void print_links_json(struct pdl_json *j, const struct cli_simulation *r)
{
    char name[128];
    double n = (double)r->times;

    pdl_json_key(j, "links");
    pdl_json_array(j);
    for (int i = 0; r->sim.links && i < r->net->nlinks; i++) {
        const struct pdl_link_use *use = &r->sim.links[i];

        if (use->bytes == 0)
            continue;
        pdl_json_row(j);
        pdl_json_kint(j, "link", i);
        pdl_json_kstr(j, "name",
                      pdl_net_link_name(r->net, i, name, sizeof name));
        pdl_json_kint(j, "bytes", use->bytes / r->times);
        pdl_json_knum(j, "busy_s", use->busy_s / n);
        pdl_json_knum(
            j, "utilization",
            use->load / n / r->net->links[i].bytes_per_s / r->sim.time_s);
        pdl_json_knum(j, "energy_j", use->energy_j / n);
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

static void print_bounds_json(struct pdl_json *j, const struct pdl_bounds *b)
{
    pdl_json_key(j, "bounds");
    pdl_json_row(j);
    pdl_json_knum(j, "latency_s", b->latency_s);
    pdl_json_knum(j, "alone_s", b->alone_s);
    pdl_json_knum(j, "link_s", b->link_s);
    pdl_json_knum(j, "host_s", b->host_s);
    pdl_json_knum(j, "bisection_s", b->bisection_s);
    pdl_json_end(j);
}

static void print_command(const struct pdl_args *args, struct pdl_json *j)
{
    struct pdl_buf line;

    pdl_buf_init(&line);
    cli_command_line(&cli_simulate, args, &line.sink);
    pdl_json_kstr(j, "command", line.text);
    pdl_buf_free(&line);
}

static void print_chakra_json(struct pdl_json *j,
                              const struct pdl_chakra_count *c)
{
    pdl_json_key(j, "chakra");
    pdl_json_row(j);
    pdl_json_kint(j, "nodes", c->nodes);
    pdl_json_kint(j, "computations", c->computations);
    pdl_json_kint(j, "messages", c->messages);
    pdl_json_kint(j, "collectives", c->collectives);
    pdl_json_kint(j, "untimed", c->untimed);
    pdl_json_end(j);
}

/* args: for the command, of a page; NULL: not said. */
void cli_simulation_json(const struct cli_simulate_options *o,
                         const struct cli_simulation *r,
                         const struct pdl_args *args, struct pdl_sink *out)
{
    struct pdl_json j;

    pdl_json_init(&j, out);
    pdl_json_schema(&j, "simulate");
    if (args)
        print_command(args, &j);
    pdl_json_kstr(&j, "collective",
                  r->trace ? "trace" : r->job.alg->collective->name);
    pdl_json_kstr(&j, "algorithm", r->trace ? r->trace : r->job.alg->name);
    pdl_json_kstr(&j, "topology", o->topology);
    pdl_json_kint(&j, "size_bytes", o->size);
    pdl_json_kint(&j, "ranks", r->job.nranks);
    if (r->groups > 1)
        pdl_json_kint(&j, r->channels > 1 ? "channels" : "groups", r->groups);
    if (o->repeat || r->times > 1)
        pdl_json_kint(&j, "repeat", r->times);
    if (r->jitter_s > 0)
        pdl_json_knum(&j, "jitter_s", r->jitter_s);
    if (r->chakra.nodes > 0)
        print_chakra_json(&j, &r->chakra);
    pdl_json_kint(&j, "messages", r->sim.messages);
    pdl_json_knum(&j, "time_s", r->sim.time_s);
    pdl_json_knum(&j, "wall_s", r->sim.wall_s);
    pdl_json_knum(&j, "lower_bound_s", r->sim.bounds.lower_s);
    print_bounds_json(&j, &r->sim.bounds);
    pdl_json_kint(&j, "bytes_on_wire", r->sim.bytes_on_wire);
    pdl_json_kint(&j, "max_link_bytes", r->sim.max_link_bytes);
    pdl_json_key(&j, "contention");
    pdl_json_flat(&j);
    for (int64_t i = 0; i < r->nrounds; i++)
        for (int64_t k = 0; k < r->rounds[i].repeat; k++)
            pdl_json_int(&j, r->rounds[i].link_flows);
    pdl_json_end(&j);
    if (o->energy)
        pdl_json_knum(&j, "energy_j", r->sim.energy_j);
    if (o->path)
        cli_path_json(&j, &r->sim.path);
    if (o->timeline)
        cli_timeline_json(&j, &r->sim);
    if (o->links)
        print_links_json(&j, r);
    pdl_json_end(&j);
}

/* Rounds in a row that are equally crowded as one, in lines of the width. */
static void print_contention(const struct cli_simulation *r)
{
    struct pdl_sink *out = cli_out();
    int column = LABEL, width = cli_text_width();

    if (r->nrounds == 0)
        return;
    pdl_puts(out, "flows a link   ");
    for (int64_t i = 0, same; i < r->nrounds; i++) {
        char text[64];
        int n;

        same = r->rounds[i].repeat;
        while (i + 1 < r->nrounds &&
               r->rounds[i + 1].link_flows == r->rounds[i].link_flows)
            same += r->rounds[++i].repeat;
        n = snprintf(text, sizeof text, "%" PRId64, r->rounds[i].link_flows);
        if (same > 1)
            n +=
                snprintf(text + n, sizeof text - (size_t)n, " x%" PRId64, same);
        if (column > LABEL && column + n + 2 > width) {
            pdl_printf(out, "\n%*s", LABEL, "");
            column = LABEL;
        }
        pdl_printf(out, "%s%s", text, i + 1 < r->nrounds ? ", " : "\n");
        column += n + 2;
    }
}

static void print_links(const struct cli_simulation *r, bool energy,
                        pdl_arena *a)
{
    static const struct pdl_column columns[] = {
        {"link", false}, {"bytes", true}, {"in use", true}, {"energy", true}};
    struct pdl_table t;
    char text[64], name[128];
    double n = (double)r->times;

    pdl_table_init(&t, a, columns, energy ? 4 : 3);
    for (int i = 0; i < r->net->nlinks; i++) {
        const struct pdl_link_use *use = &r->sim.links[i];

        if (use->bytes == 0)
            continue;
        pdl_table_cell(&t, "%s",
                       pdl_net_link_name(r->net, i, name, sizeof name));
        pdl_table_cell(&t, "%s",
                       pdl_unit_format((double)use->bytes / n, PDL_UNIT_BYTES,
                                       text, sizeof text));
        pdl_table_cell(&t, "%s",
                       pdl_unit_format(use->busy_s / n, PDL_UNIT_SECONDS, text,
                                       sizeof text));
        if (energy)
            pdl_table_cell(&t, "%.4g J", use->energy_j / n);
    }
    pdl_table_print(&t, cli_width(), cli_out());
}

static void print_calls(const struct cli_simulation *r)
{
    char text[64];

    if (r->times == 1)
        return;
    pdl_unit_format(r->jitter_s, PDL_UNIT_SECONDS, text, sizeof text);
    cli_say(LABEL,
            "calls          %" PRId64 " in a row%s%s%s; figures are those of "
            "one, in the mean",
            r->times, r->jitter_s > 0 ? ", each rank " : "",
            r->jitter_s > 0 ? text : "", r->jitter_s > 0 ? " later" : "");
}

static void print_bounds(const struct pdl_bounds *b)
{
    char all[32], latency[32], alone[32], busiest[32], bisection[32];

    pdl_printf(
        cli_out(),
        "lower bound    %s\n"
        "  by           latency %s, alone %s, links %s, bisection %s\n",
        pdl_unit_format(b->lower_s, PDL_UNIT_SECONDS, all, sizeof all),
        pdl_unit_format(b->latency_s, PDL_UNIT_SECONDS, latency,
                        sizeof latency),
        pdl_unit_format(b->alone_s, PDL_UNIT_SECONDS, alone, sizeof alone),
        pdl_unit_format(b->link_s, PDL_UNIT_SECONDS, busiest, sizeof busiest),
        pdl_unit_format(b->bisection_s, PDL_UNIT_SECONDS, bisection,
                        sizeof bisection));
}

static void print_chakra(const struct pdl_chakra_count *c)
{
    pdl_printf(cli_out(),
               "nodes          %" PRId64 ": %" PRId64 " computations, %" PRId64
               " messages, %" PRId64 " collectives\n",
               c->nodes, c->computations, c->messages, c->collectives);
    if (c->untimed > 0)
        pdl_printf(cli_out(),
                   "without time   %" PRId64
                   " nodes that compute or load have no duration: taken as "
                   "none\n",
                   c->untimed);
}

static void print_what(const struct cli_simulate_options *o,
                       const struct cli_simulation *r)
{
    double time = r->sim.time_s;
    char text[64], rate[64];

    if (r->trace) {
        cli_say(2, "%s, %d ranks, %s", r->trace, r->job.nranks, o->topology);
        pdl_printf(cli_out(), "time           %s\n",
                   pdl_unit_format(time, PDL_UNIT_SECONDS, text, sizeof text));
        if (r->chakra.nodes > 0)
            print_chakra(&r->chakra);
        return;
    }
    if (r->groups > 1)
        snprintf(rate, sizeof rate,
                 r->channels > 1 ? "%d channels of " : "%d groups of ",
                 r->groups);
    cli_say(2, "%s/%s, %s on %s%d ranks, %s", r->job.alg->collective->name,
            r->job.alg->name,
            pdl_unit_format((double)o->size, PDL_UNIT_BYTES, text, sizeof text),
            r->groups > 1 ? rate : "", r->job.nranks, o->topology);
    pdl_printf(cli_out(), "time           %s (%s of buffer)\n",
               pdl_unit_format(time, PDL_UNIT_SECONDS, text, sizeof text),
               pdl_unit_format(time > 0 ? (double)o->size / time : 0,
                               PDL_UNIT_BYTES_S, rate, sizeof rate));
}

void cli_simulation_text(const struct cli_simulate_options *o,
                         const struct cli_simulation *r, pdl_arena *a)
{
    struct pdl_sink *out = cli_out();
    char text[64], name[128];

    print_what(o, r);
    print_calls(r);
    print_bounds(&r->sim.bounds);
    pdl_printf(out, "messages       %" PRId64 ", %s on all links\n",
               r->sim.messages,
               pdl_unit_format((double)r->sim.bytes_on_wire, PDL_UNIT_BYTES,
                               text, sizeof text));
    if (r->sim.max_link >= 0)
        pdl_printf(
            out, "busiest link   %s, %s\n",
            pdl_net_link_name(r->net, r->sim.max_link, name, sizeof name),
            pdl_unit_format((double)r->sim.max_link_bytes, PDL_UNIT_BYTES, text,
                            sizeof text));
    print_contention(r);
    if (o->energy)
        pdl_printf(out, "link energy    %.4g J\n", r->sim.energy_j);
    if (o->timeline)
        cli_timeline_print(&r->sim);
    if (o->path)
        cli_path_print(&r->sim.path, a);
    if (o->links && r->sim.links)
        print_links(r, o->energy != NULL, a);
}
