/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 tells where nothing is trained: the table of a partition, and
 * projected rounds. */
#include "federate.h"

#include <math.h>

/* ---- the partition -------------------------------------------------- */

static void json_partition(const struct pdl_partition *p)
{
    struct pdl_json j;

    pdl_json_init(&j, run_out());
    pdl_json_schema(&j, "partition");
    pdl_json_kint(&j, "clients", p->clients);
    pdl_json_kint(&j, "groups", p->groups);
    pdl_json_kint(&j, "classes", p->classes);
    pdl_json_key(&j, "samples");
    pdl_json_array(&j);
    for (int64_t c = 0; c < p->clients; c++) {
        pdl_json_row(&j);
        pdl_json_kint(&j, "client", c);
        pdl_json_kint(&j, "group", p->group[c]);
        pdl_json_kint(&j, "samples", p->first[c + 1] - p->first[c]);
        pdl_json_key(&j, "classes");
        pdl_json_flat(&j);
        for (int64_t k = 0; k < p->classes; k++)
            pdl_json_int(&j, p->count[c * p->classes + k]);
        pdl_json_end(&j);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
}

/* A line has 80 columns. */
enum { MOST_MARKS = 54, BEFORE = 22, COLUMNS = 80 };

static int digits(int64_t n)
{
    return n < 10 ? 1 : 1 + digits(n / 10);
}

/* Do the numbers of all classes stand beside every picture? */
static bool has_room(const struct pdl_partition *p)
{
    const int64_t *count = p->count;
    bool all = count && p->classes <= MOST_MARKS;

    for (int64_t c = 0; c < p->clients && all; c++) {
        int64_t wide = BEFORE + 4 + p->classes;

        for (int64_t k = 0; k < p->classes; k++)
            wide += 1 + digits(count[c * p->classes + k]);
        all = wide <= COLUMNS;
    }
    return all;
}

/* A picture of a row: each class a mark, as dark as its share. */
static void draw(const int64_t *count, int64_t classes, int64_t all)
{
    static const char marks[] = " .:-=+*#%@";

    pdl_printf(run_out(), "  |");
    for (int64_t k = 0; k < classes && k < MOST_MARKS; k++) {
        double share = all > 0 ? (double)count[k] / (double)all : 0;
        int at = (int)ceil(share * 9);

        pdl_printf(run_out(), "%c", marks[at > 9 ? 9 : at]);
    }
    pdl_printf(run_out(), "|");
}

void federate_show(struct federation *s)
{
    const struct pdl_partition *p = &s->job.partition;
    struct pdl_sink *out = run_out();
    bool numbers = has_room(p);

    if (s->args->json) {
        json_partition(p);
        return;
    }
    pdl_printf(out, "client group samples  by class\n");
    for (int64_t c = 0; c < p->clients; c++) {
        int64_t n = p->first[c + 1] - p->first[c];
        const int64_t *count = p->count ? p->count + c * p->classes : NULL;

        pdl_printf(out, "%6lld %5d %7lld", (long long)c, (int)p->group[c],
                   (long long)n);
        if (count)
            draw(count, p->classes, n);
        for (int64_t k = 0; numbers && count && k < p->classes; k++)
            pdl_printf(out, " %lld", (long long)count[k]);
        pdl_printf(out, "\n");
    }
    if (p->count && p->classes > MOST_MARKS)
        pdl_printf(out, "drawn: the first %d of %lld classes; --json has all\n",
                   (int)MOST_MARKS, (long long)p->classes);
    pdl_printf(out, "%lld of %lld samples are somebody's\n",
               (long long)p->first[p->clients], (long long)p->samples);
}

/* ---- projections -------------------------------------------------------- */

static void json_projection(const struct pdl_fed_projection *x)
{
    struct pdl_json j;

    pdl_json_init(&j, run_out());
    pdl_json_schema(&j, "federate-projection");
    pdl_json_kint(&j, "rounds", x->rounds);
    pdl_json_kint(&j, "tasks", x->tasks);
    pdl_json_kint(&j, "lost", x->lost);
    pdl_json_kint(&j, "parameters", x->parameters);
    pdl_json_knum(&j, "round_mean_s", x->mean_s);
    pdl_json_knum(&j, "round_median_s", x->median_s);
    pdl_json_knum(&j, "round_p90_s", x->p90_s);
    pdl_json_knum(&j, "total_s", x->total_s);
    pdl_json_knum(&j, "round_down_bytes", x->down_bytes);
    pdl_json_knum(&j, "round_up_bytes", x->up_bytes);
    pdl_json_knum(&j, "round_across_bytes", x->across_bytes);
    pdl_json_kint(&j, "client_memory_bytes", x->memory_bytes);
    pdl_json_end(&j);
}

static void line(const char *what, double v, enum pdl_unit unit,
                 const char *note)
{
    char text[32];

    pdl_printf(run_out(), "%-16s %s%s\n", what,
               pdl_unit_format(v, unit, text, sizeof text), note);
}

void federate_projection(const struct federation *s,
                         const struct pdl_fed_projection *x)
{
    if (s->args->json) {
        json_projection(x);
        return;
    }
    pdl_printf(run_out(),
               "%s, %s, %lld models a round, of %lld clients, %lld rounds\n",
               s->args->pos[0], s->o.algorithm ? s->o.algorithm : "fedavg",
               (long long)(x->rounds > 0 ? x->tasks / x->rounds : 0),
               (long long)s->job.partition.clients, (long long)x->rounds);
    line("a round", x->mean_s, PDL_UNIT_SECONDS, " (mean)");
    line("  half within", x->median_s, PDL_UNIT_SECONDS, "");
    line("  90 % within", x->p90_s, PDL_UNIT_SECONDS, "");
    line("all rounds", x->total_s, PDL_UNIT_SECONDS, "");
    line("sent down", x->down_bytes, PDL_UNIT_BYTES, " a round");
    line("sent up", x->up_bytes, PDL_UNIT_BYTES, " a round");
    if (x->across_bytes > 0)
        line("between clients", x->across_bytes, PDL_UNIT_BYTES, " a round");
    line("client memory", (double)x->memory_bytes, PDL_UNIT_BYTES, "");
    pdl_printf(run_out(), "%-16s %lld of %lld models\n", "lost",
               (long long)x->lost, (long long)x->tasks);
    pdl_printf(run_out(), "How many rounds an accuracy takes is not projected: "
                          "it is measured, or unknown.\n");
}
