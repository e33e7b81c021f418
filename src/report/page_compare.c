/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl collective compare`: which algorithm is fastest on
 * which network at which size, how times grow with size and with ranks, and
 * where the fastest one heats the network. */
#include "report_priv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NETWORKS = 16, MAX_ALGS = 64 };

struct row {
    const char *topology, *algorithm, *refused;
    int64_t bytes, ranks, messages;
    double time_s, lower_s;
};

struct comparison {
    struct report_page *p;
    struct row *rows;
    int n;
    const char *networks[MAX_NETWORKS];
    int nnetworks;
    const char *algs[MAX_ALGS]; /* best first */
    int nalgs;
};

static void read_row(struct report_reader *rd, const struct pdl_doc *d,
                     struct row *r)
{
    r->topology = report_get_str(rd, d, "topology");
    r->algorithm = report_get_str(rd, d, "algorithm");
    r->bytes = report_get_int(rd, d, "size_bytes");
    r->ranks = report_get_int(rd, d, "ranks");
    r->refused = rd->st == PDL_OK ? report_opt_str(d, "refused") : NULL;
    if (r->refused)
        return;
    r->time_s = report_get_num(rd, d, "time_s");
    r->lower_s = report_get_num(rd, d, "lower_bound_s");
    r->messages = report_get_int(rd, d, "messages");
}

static void note(const char **list, int *n, int max, const char *text)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(list[i], text) == 0)
            return;
    if (*n < max)
        list[(*n)++] = text;
}

static bool read_rows(struct comparison *c)
{
    struct report_page *p = c->p;
    const struct pdl_doc *list = report_get_list(&p->rd, p->doc, "rows");

    if (!list)
        return false;
    c->rows = PDL_NEW(p->arena, struct row, list->count + 1);
    if (!c->rows) {
        p->rd.st = pdl_fail(p->rd.err, PDL_ENOMEM, "no memory for the rows");
        return false;
    }
    for (const struct pdl_doc *d = list->child; d && p->rd.st == PDL_OK;
         d = d->next)
        read_row(&p->rd, d, &c->rows[c->n++]);
    for (int i = 0; i < c->n; i++) {
        note(c->networks, &c->nnetworks, MAX_NETWORKS, c->rows[i].topology);
        if (!c->rows[i].refused)
            note(c->algs, &c->nalgs, MAX_ALGS, c->rows[i].algorithm);
    }
    return p->rd.st == PDL_OK;
}

static bool same_place(const struct row *a, const struct row *b)
{
    return a->bytes == b->bytes && a->ranks == b->ranks &&
           strcmp(a->topology, b->topology) == 0;
}

static const struct row *best_at(const struct comparison *c,
                                 const struct row *place)
{
    const struct row *best = NULL;

    for (int i = 0; i < c->n; i++)
        if (!c->rows[i].refused && same_place(&c->rows[i], place) &&
            (!best || c->rows[i].time_s < best->time_s))
            best = &c->rows[i];
    return best;
}

/* How good an algorithm is, small is good: first by how often it is the
 * fastest, then by the mean logarithm of its ratio to the fastest where it
 * runs. */
static double score(const struct comparison *c, const char *alg)
{
    double sum = 0, wins = 0;
    int n = 0;

    for (int i = 0; i < c->n; i++) {
        const struct row *r = &c->rows[i], *best;

        if (r->refused || strcmp(r->algorithm, alg) != 0)
            continue;
        best = best_at(c, r);
        wins += best == r;
        n++;
        if (best && best->time_s > 0)
            sum += log(r->time_s / best->time_s);
    }
    return n > 0 ? sum / n - 1000 * wins : INFINITY;
}

static void sort_algs(struct comparison *c)
{
    double key[MAX_ALGS];

    for (int i = 0; i < c->nalgs; i++)
        key[i] = score(c, c->algs[i]);
    for (int i = 1; i < c->nalgs; i++)
        for (int k = i; k > 0 && key[k] < key[k - 1]; k--) {
            const char *alg = c->algs[k];
            double x = key[k];

            c->algs[k] = c->algs[k - 1];
            key[k] = key[k - 1];
            c->algs[k - 1] = alg;
            key[k - 1] = x;
        }
}

/* ---- who is fastest ---------------------------------------------------- */

static void fastest(struct comparison *c)
{
    static const struct report_column columns[] = {
        {"network", false}, {"ranks", true},        {"size", true},
        {"fastest", false}, {"time", true},         {"to bound", true},
        {"next", false},    {"times as long", true}};
    struct report_table t;

    report_section(c->p->out, "fastest", "Which algorithm?");
    report_table_begin(&t, c->p->out, columns, 8);
    for (int i = 0; i < c->n; i++) {
        const struct row *best = best_at(c, &c->rows[i]), *next = NULL;

        if (best != &c->rows[i])
            continue;
        for (int k = 0; k < c->n; k++)
            if (!c->rows[k].refused && &c->rows[k] != best &&
                same_place(&c->rows[k], best) &&
                (!next || c->rows[k].time_s < next->time_s))
                next = &c->rows[k];
        report_cell(&t, "%s", best->topology);
        report_cell(&t, "%" PRId64, (int64_t)best->ranks);
        report_cell_unit(&t, (double)best->bytes, PDL_UNIT_BYTES);
        report_cell(&t, "%s", best->algorithm);
        report_cell_unit(&t, best->time_s, PDL_UNIT_SECONDS);
        report_cell(&t, "%.2f",
                    best->lower_s > 0 ? best->time_s / best->lower_s : 1);
        report_cell(&t, "%s", next ? next->algorithm : "");
        report_cell(&t, "%.2f",
                    next && best->time_s > 0 ? next->time_s / best->time_s : 1);
    }
    report_table_end(&t);
    report_section_end(c->p->out);
}

/* ---- lines ------------------------------------------------------------- */

/* Which rows a chart takes, and what lies across. */
struct choice {
    const char *topology; /* NULL: any of the family */
    const char *family;   /* a network of it; "" with a topology */
    int64_t bytes;        /* < 0: all */
    int64_t ranks;        /* with a topology */
};

static size_t family_length(const char *topology)
{
    return strcspn(topology, ":");
}

static bool chosen(const struct choice *ch, const struct row *r)
{
    size_t n;

    if (r->refused || (ch->bytes >= 0 && r->bytes != ch->bytes))
        return false;
    if (ch->topology)
        return r->ranks == ch->ranks && strcmp(r->topology, ch->topology) == 0;
    if (!ch->family)
        return false;
    n = family_length(ch->family);
    return family_length(r->topology) == n &&
           strncmp(r->topology, ch->family, n) == 0;
}

static void add_point(struct report_series *s, double x, double y)
{
    int k = s->n;

    for (int i = 0; i < s->n; i++)
        if (s->x[i] == x)
            return; /* two networks of one size: the first */
    for (; k > 0 && s->x[k - 1] > x; k--) {
        s->x[k] = s->x[k - 1];
        s->y[k] = s->y[k - 1];
    }
    s->x[k] = x;
    s->y[k] = y;
    s->n++;
}

/* One line an algorithm, best first; its colour is the same everywhere. */
static int make_series(struct comparison *c, const struct choice *ch,
                       struct report_series *out)
{
    int n = 0, count = 0;

    for (int i = 0; i < c->n; i++)
        count += chosen(ch, &c->rows[i]);
    for (int i = 0; i < c->nalgs; i++) {
        struct report_series *s = &out[n];

        *s = (struct report_series){.name = c->algs[i], .colour = i};
        s->x = PDL_NEW(c->p->arena, double, count + 1);
        s->y = PDL_NEW(c->p->arena, double, count + 1);
        for (int k = 0; s->x && s->y && k < c->n; k++)
            if (chosen(ch, &c->rows[k]) && c->rows[k].time_s > 0 &&
                strcmp(c->rows[k].algorithm, s->name) == 0)
                add_point(s,
                          (double)(ch->topology ? c->rows[k].bytes
                                                : c->rows[k].ranks),
                          c->rows[k].time_s);
        n += s->n > 0;
    }
    return n;
}

static int distinct_x(const struct report_series *s, int n)
{
    int most = 0;

    for (int i = 0; i < n; i++)
        most = s[i].n > most ? s[i].n : most;
    return most;
}

static void bars_of(struct comparison *c, const char *id, const char *label,
                    const struct report_series *s, int n)
{
    static const char *const part[] = {"time"};
    struct report_bar bars[MAX_ALGS] = {{.label = NULL}};
    struct report_bars b = {.id = id,
                            .label = label,
                            .title = "time",
                            .unit = PDL_UNIT_SECONDS,
                            .parts = part,
                            .nparts = 1,
                            .bars = bars,
                            .nbars = n};

    for (int i = 0; i < n; i++) {
        bars[i].label = s[i].name;
        bars[i].parts[0] = s[i].y[0];
    }
    b.cut = n > 0 ? 20 * bars[0].parts[0] : 0;
    report_bars(c->p->out, &b);
}

static int64_t most_ranks(const struct comparison *c, const char *topology)
{
    int64_t most = 0;

    for (int i = 0; i < c->n; i++)
        if (strcmp(c->rows[i].topology, topology) == 0 &&
            c->rows[i].ranks > most)
            most = c->rows[i].ranks;
    return most;
}

static void size_chart(struct comparison *c, int net)
{
    struct choice ch = {.topology = c->networks[net],
                        .family = "",
                        .bytes = -1,
                        .ranks = most_ranks(c, c->networks[net])};
    struct report_series series[MAX_ALGS];
    char id[32], label[256];
    struct report_lines lines = {
        .id = id,
        .label = label,
        .x = {.title = "bytes of each rank",
              .unit = PDL_UNIT_BYTES,
              .log = true},
        .y = {.title = "time", .unit = PDL_UNIT_SECONDS, .log = true},
        .series = series,
        .nseries = make_series(c, &ch, series)};

    snprintf(id, sizeof id, "size-%d", net);
    snprintf(label, sizeof label, "%.200s", ch.topology);
    report_section(c->p->out, id, label);
    snprintf(id, sizeof id, "size-chart-%d", net);
    if (lines.nseries == 0)
        report_para(c->p->out, "Nothing runs here.");
    else if (distinct_x(series, lines.nseries) == 1)
        bars_of(c, id, label, series, lines.nseries);
    else
        report_lines(c->p->out, &lines);
    report_section_end(c->p->out);
}

/* ---- against ranks ----------------------------------------------------- */

static void ranks_chart(struct comparison *c, const char *family, int number,
                        int64_t bytes)
{
    struct choice ch = {.family = family, .bytes = bytes};
    struct report_series series[MAX_ALGS];
    char id[48], label[128], size[64];
    struct report_lines lines = {
        .id = id,
        .label = label,
        .x = {.title = "ranks",
              .unit = PDL_UNIT_NONE,
              .log = true,
              .whole = true},
        .y = {.title = "time", .unit = PDL_UNIT_SECONDS, .log = true},
        .series = series,
        .nseries = make_series(c, &ch, series)};

    if (distinct_x(series, lines.nseries) < 2)
        return;
    pdl_unit_format((double)bytes, PDL_UNIT_BYTES, size, sizeof size);
    snprintf(label, sizeof label, "Against ranks: %.*s at %s",
             (int)family_length(family) < 60 ? (int)family_length(family) : 60,
             family, size);
    snprintf(id, sizeof id, "ranks-%d-%" PRId64, number, bytes);
    report_section(c->p->out, id, label);
    snprintf(id, sizeof id, "ranks-chart-%d-%" PRId64, number, bytes);
    report_lines(c->p->out, &lines);
    report_section_end(c->p->out);
}

/* The smallest and the largest size of every family. */
static void ranks_charts(struct comparison *c)
{
    for (int i = 0; i < c->nnetworks; i++) {
        struct choice ch = {.family = c->networks[i], .bytes = -1};
        int64_t least = INT64_MAX, most = -1;
        bool first = true;

        for (int k = 0; k < i; k++)
            first = first && (family_length(c->networks[k]) !=
                                  family_length(ch.family) ||
                              strncmp(c->networks[k], ch.family,
                                      family_length(ch.family)) != 0);
        for (int k = 0; first && k < c->n; k++)
            if (chosen(&ch, &c->rows[k])) {
                least = c->rows[k].bytes < least ? c->rows[k].bytes : least;
                most = c->rows[k].bytes > most ? c->rows[k].bytes : most;
            }
        if (most >= 0)
            ranks_chart(c, c->networks[i], i, least);
        if (most > least)
            ranks_chart(c, c->networks[i], i, most);
    }
}

/* ---- heat -------------------------------------------------------------- */

static bool read_bytes(struct report_page *p, const struct pdl_doc *list,
                       struct report_heat *h)
{
    int64_t *bytes = PDL_NEW(p->arena, int64_t, list->count + 1);

    if (!bytes)
        return false;
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        p->rd.st = pdl_doc_int(d, 0, INT64_MAX, &bytes[h->nbytes], p->rd.err);
        if (p->rd.st != PDL_OK)
            return false;
        h->nbytes++;
    }
    h->bytes = bytes;
    return true;
}

static void one_heat(struct report_page *p, const struct pdl_doc *d, int i)
{
    struct report_heat h = {.topology = report_get_str(&p->rd, d, "topology")};
    const char *alg = report_get_str(&p->rd, d, "algorithm");
    int64_t size = report_get_int(&p->rd, d, "size_bytes");
    const struct pdl_doc *list;
    char id[32], title[256], what[160], text[64];

    h.time_s = report_get_num(&p->rd, d, "time_s");
    list = report_get_list(&p->rd, d, "link_bytes");
    if (!list || !read_bytes(p, list, &h))
        return;
    snprintf(what, sizeof what,
             "%.60s at %s, the share of each link's "
             "capacity that it uses",
             alg,
             pdl_unit_format((double)size, PDL_UNIT_BYTES, text, sizeof text));
    h.what = what;
    snprintf(title, sizeof title, "Where is %.180s hot?", h.topology);
    snprintf(id, sizeof id, "heat-%d", i);
    report_section(p->out, id, title);
    snprintf(id, sizeof id, "heat-chart-%d", i);
    report_network(p->out, id, &h);
    report_section_end(p->out);
}

static void heats(struct comparison *c)
{
    const struct pdl_doc *list = pdl_doc_get(c->p->doc, "heat");
    int n = 0;

    if (!list || list->kind != PDL_DOC_LIST)
        return;
    for (const struct pdl_doc *d = list->child; d && n < MAX_NETWORKS;
         d = d->next)
        one_heat(c->p, d, n++);
}

/* ---- all rows ---------------------------------------------------------- */

static void numbers(struct comparison *c)
{
    static const struct report_column columns[] = {
        {"network", false},   {"ranks", true},    {"size", true},
        {"algorithm", false}, {"time", true},     {"to best", true},
        {"to bound", true},   {"messages", true}, {"", false}};
    struct report_table t;

    report_section(c->p->out, "numbers", "All numbers");
    report_table_begin(&t, c->p->out, columns, 9);
    for (int i = 0; i < c->n; i++) {
        const struct row *r = &c->rows[i], *best = best_at(c, r);

        report_cell(&t, "%s", r->topology);
        report_cell(&t, "%" PRId64, r->ranks);
        report_cell_unit(&t, (double)r->bytes, PDL_UNIT_BYTES);
        report_cell(&t, "%s", r->algorithm);
        if (r->refused) {
            for (int k = 0; k < 4; k++)
                report_cell(&t, "%s", "");
        } else {
            report_cell_unit(&t, r->time_s, PDL_UNIT_SECONDS);
            report_cell(
                &t, "%.2f",
                best && best->time_s > 0 ? r->time_s / best->time_s : 1);
            report_cell(&t, "%.2f",
                        r->lower_s > 0 ? r->time_s / r->lower_s : 1);
            report_cell(&t, "%" PRId64, r->messages);
        }
        report_cell(&t, "%s", r->refused ? r->refused : "");
    }
    report_table_end(&t);
    report_section_end(c->p->out);
}

static const char *const assumptions[] = {
    "Every message is a flow; flows on a link share it max-min fairly; a "
    "message pays the latency of its route once.",
    "\"to bound\" compares with the largest of: latencies alone, every message "
    "alone on its links, the busiest link, the busiest host.",
    "Rank r is on host r. Reductions take no time.", NULL};

static void write_page(struct report_page *p)
{
    struct comparison c = {.p = p};
    const char *what = report_get_str(&p->rd, p->doc, "collective");
    char title[160];

    p->assumptions = assumptions;
    if (!read_rows(&c))
        return;
    sort_algs(&c);
    snprintf(title, sizeof title, "%.100s: algorithms compared", what);
    report_head(p->out, title);
    fastest(&c);
    for (int i = 0; i < c.nnetworks; i++)
        size_chart(&c, i);
    ranks_charts(&c);
    heats(&c);
    numbers(&c);
}

const struct report_page_kind report_page_compare = {"collective-compare",
                                                     write_page};
