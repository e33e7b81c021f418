/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl federate`: accuracy by round, of all and of each group of
 * clients, and of each client in the end; how alike clients are, in the order
 * of the clusters that were found; what was sent. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GROUPS = REPORT_COLOURS - 1, CLIENTS = 100, SHOWN = 200 };

static bool number_of(const struct pdl_doc *d, double low, double high,
                      double *out)
{
    return d && pdl_doc_num(d, PDL_UNIT_NONE, low, high, out, NULL) == PDL_OK;
}

static const struct pdl_doc *nth(const struct pdl_doc *list, int n)
{
    const struct pdl_doc *d = list ? list->child : NULL;

    while (d && n-- > 0)
        d = d->next;
    return d;
}

/* ---- accuracy ------------------------------------------------------------ */

/* Percent right in the rounds that were tested: of a group, or of all (-1). */
static void read_accuracy(const struct pdl_doc *history, int group,
                          struct report_series *s)
{
    s->n = 0;
    for (const struct pdl_doc *d = history->child; d; d = d->next) {
        const struct pdl_doc *a =
            group < 0 ? pdl_doc_get(d, "accuracy")
                      : nth(pdl_doc_get(d, "group_accuracy"), group);
        double v, round;

        if (!number_of(a, 0, 1, &v) ||
            !number_of(pdl_doc_get(d, "round"), 0, 1e15, &round))
            continue;
        s->x[s->n] = round;
        s->y[s->n++] = 100 * v;
    }
}

static int groups_of(const struct pdl_doc *history)
{
    for (const struct pdl_doc *d = history->child; d; d = d->next) {
        const struct pdl_doc *g = pdl_doc_get(d, "group_accuracy");

        if (g && g->kind == PDL_DOC_LIST)
            return (int)(g->count < 1000 ? g->count : 1000);
    }
    return 0;
}

static bool make_room(struct report_page *p, struct report_series *s, int64_t n)
{
    s->x = PDL_NEW(p->arena, double, n + 1);
    s->y = PDL_NEW(p->arena, double, n + 1);
    return s->x && s->y;
}

/* Where numbers are to be met nothing is right or wrong. */
static bool test_loss(struct report_page *p, const struct pdl_doc *history)
{
    struct report_series s = {.name = "all clients"};
    struct report_lines c = {.id = "loss-chart",
                             .label = "loss on the test split by round",
                             .series = &s,
                             .nseries = 1,
                             .x = {.title = "round", .whole = true},
                             .y = {.title = "loss on the test split"}};

    if (!make_room(p, &s, (int64_t)history->count))
        return false;
    for (const struct pdl_doc *d = history->child; d; d = d->next)
        if (number_of(pdl_doc_get(d, "round"), 0, 1e15, &s.x[s.n]) &&
            number_of(pdl_doc_get(d, "test_loss"), 0, 1e300, &s.y[s.n]))
            s.n++;
    if (s.n > 0)
        report_lines(p->out, &c);
    return s.n > 0;
}

static void accuracy(struct report_page *p, const struct pdl_doc *history)
{
    struct report_series s[GROUPS + 1] = {{.name = "all clients"}};
    char names[GROUPS][24];
    int all = groups_of(history), groups = all > 1 ? all : 0, n = 0;
    struct report_lines c = {
        .id = "accuracy-chart",
        .label = "accuracy on the test split by round, of all and by group",
        .x = {.title = "round", .whole = true},
        .y = {.title = "% right", .max = 100}};

    groups = groups < GROUPS ? groups : GROUPS;
    for (int g = -1; g < groups; g++) {
        if (g >= 0) {
            snprintf(names[g], sizeof names[g], "group %d", g);
            s[n].name = names[g];
        }
        s[n].colour = n;
        if (!make_room(p, &s[n], (int64_t)history->count))
            return;
        read_accuracy(history, g, &s[n]);
        n += s[n].n > 0;
    }
    report_section(p->out, "accuracy", "How good is the model?");
    c.series = s;
    c.nseries = n;
    if (n > 0)
        report_lines(p->out, &c);
    else if (!test_loss(p, history))
        report_para(p->out, "Nothing was tested.");
    if (all > GROUPS)
        report_para(p->out, "The first %d of %d groups are shown.", (int)GROUPS,
                    all);
    if (groups > 0)
        report_para(p->out, "A group's accuracy is of test samples mixed by "
                            "class as its clients' own are.");
    report_section_end(p->out);
}

/* Of each client after the last round, the worst first. */
static void by_client(struct report_page *p)
{
    const struct pdl_doc *list = pdl_doc_get(p->doc, "client_accuracy");
    struct report_series s = {.name = "clients"};
    struct report_lines c = {
        .id = "clients-chart",
        .label = "accuracy of each client, the worst first",
        .series = &s,
        .nseries = 1,
        .x = {.title = "clients, the worst first", .whole = true},
        .y = {.title = "% right", .max = 100}};
    double v;
    int n = 0, every;

    if (!list || list->kind != PDL_DOC_LIST ||
        !make_room(p, &s, (int64_t)list->count))
        return;
    for (const struct pdl_doc *d = list->child; d; d = d->next)
        if (number_of(d, 0, 1, &v))
            s.y[s.n++] = 100 * v;
    pdl_sort(s.y, s.n);
    if (s.n < 2)
        return;
    report_section(p->out, "clients", "How even is it?");
    report_para(p->out,
                "After the last round. A client's accuracy is of test samples "
                "mixed by class as its own are: the worst %.1f %%, half from "
                "%.1f %%, the best %.1f %%.",
                s.y[0], s.y[s.n / 2], s.y[s.n - 1]);
    every = s.n / SHOWN + 1;
    for (int i = 0; i < s.n; i += every, n++)
        s.x[n] = i + 1, s.y[n] = s.y[i];
    s.n = n;
    report_lines(p->out, &c);
    report_section_end(p->out);
}

/* ---- traffic ------------------------------------------------------------- */

static void traffic(struct report_page *p, const struct pdl_doc *history)
{
    static const char *const keys[] = {"down_bytes", "up_bytes",
                                       "across_bytes"};
    static const char *const names[] = {
        "server to clients", "clients to server", "client to client"};
    struct report_series s[3] = {{.name = NULL}};
    struct report_lines c = {
        .id = "traffic-chart",
        .label = "bytes sent so far by round",
        .x = {.title = "round", .whole = true},
        .y = {.title = "sent so far", .unit = PDL_UNIT_BYTES}};
    int n = 0;

    for (int k = 0; k < 3; k++) {
        double sum = 0;

        if (!make_room(p, &s[n], (int64_t)history->count))
            return;
        s[n].name = names[k];
        s[n].colour = k;
        s[n].n = 0;
        for (const struct pdl_doc *d = history->child; d; d = d->next) {
            double round, bytes;

            if (!number_of(pdl_doc_get(d, "round"), 0, 1e15, &round) ||
                !number_of(pdl_doc_get(d, keys[k]), 0, 1e24, &bytes))
                continue;
            s[n].x[s[n].n] = round;
            s[n].y[s[n].n++] = sum += bytes;
        }
        n += sum > 0;
    }
    if (n == 0)
        return;
    report_section(p->out, "traffic", "What is sent?");
    c.series = s;
    c.nseries = n;
    report_lines(p->out, &c);
    report_section_end(p->out);
}

/* ---- similarity ---------------------------------------------------------- */

struct matrix {
    double at[CLIENTS][CLIENTS]; /* -2: not known */
    int order[CLIENTS], cluster[CLIENTS], n;
};

static bool read_matrix(const struct report_page *p, struct matrix *m)
{
    const struct pdl_doc *rows = pdl_doc_get(p->doc, "similarity");
    const struct pdl_doc *cluster = pdl_doc_get(p->doc, "cluster");
    int n = 0;

    if (!rows || rows->kind != PDL_DOC_LIST || !cluster ||
        cluster->kind != PDL_DOC_LIST)
        return false;
    for (const struct pdl_doc *r = rows->child; r && n < CLIENTS; r = r->next) {
        double of = -1;

        for (int k = 0; k < CLIENTS; k++)
            m->at[n][k] = -2;
        for (int k = 0; nth(r, k) && k < CLIENTS; k++)
            if (!number_of(nth(r, k), -2, 1.001, &m->at[n][k]))
                m->at[n][k] = -2;
        (void)!number_of(nth(cluster, n), -1, 1e6, &of);
        m->cluster[n++] = (int)of;
    }
    m->n = n;
    return n > 1;
}

/* Clients of a cluster side by side. */
static void sort(struct matrix *m)
{
    for (int i = 0; i < m->n; i++) {
        int k = i;

        while (k > 0 && m->cluster[m->order[k - 1]] > m->cluster[i]) {
            m->order[k] = m->order[k - 1];
            k--;
        }
        m->order[k] = i;
    }
}

static void cell(struct pdl_sink *out, const struct matrix *m, int i, int k,
                 double side)
{
    int a = m->order[i], b = m->order[k];
    double v = m->at[a][b];

    if (v < -1)
        return;
    pdl_printf(out, "<rect class=\"f%d\"", v > 0 ? 0 : 1);
    report_attr(out, "x", 40 + k * side);
    report_attr(out, "y", 10 + i * side);
    report_attr(out, "width", side);
    report_attr(out, "height", side);
    pdl_printf(out, " fill-opacity=\"%.2f\">", fabs(v));
    report_tip(out, "clients %d and %d: %.3f", a, b, v);
    pdl_puts(out, "</rect>");
}

static void borders(struct pdl_sink *out, const struct matrix *m, double side)
{
    for (int i = 0; i <= m->n; i++) {
        double at = i * side, end = m->n * side;

        if (i > 0 && i < m->n &&
            m->cluster[m->order[i]] == m->cluster[m->order[i - 1]])
            continue;
        report_svg_line(out, "axis", 40, 10 + at, 40 + end, 10 + at);
        report_svg_line(out, "axis", 40 + at, 10, 40 + at, 10 + end);
    }
}

static void draw(struct pdl_sink *out, const struct matrix *m, int width)
{
    double side = (double)(width < 560 ? width - 50 : 510) / m->n;

    report_svg(out, "similarity-chart", "chart",
               "similarity of each two clients, by cluster", width,
               (int)(side * m->n) + 30);
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->n; k++)
            cell(out, m, i, k, side);
    borders(out, m, side);
    report_svg_end(out);
}

/* Clients are in a cluster where they are in a group, and only there? */
static const char *compare_groups(const struct report_page *p,
                                  const struct matrix *m)
{
    const struct pdl_doc *list = pdl_doc_get(p->doc, "group");
    double group[CLIENTS] = {0};
    bool several = false, same = true;

    for (int i = 0; i < m->n; i++)
        if (!number_of(nth(list, i), 0, 1e9, &group[i]))
            return "";
    for (int i = 0; i < m->n * m->n; i++) {
        bool together = group[i / m->n] == group[i % m->n];

        several = several || !together;
        same =
            same && together == (m->cluster[i / m->n] == m->cluster[i % m->n]);
    }
    return !several ? ""
           : same   ? " They are the groups of the partition."
                    : " They are not the groups of the partition.";
}

static void similarity(struct report_page *p)
{
    struct matrix *m = PDL_NEW(p->arena, struct matrix, 1);
    double clusters = 0;

    if (!m || !read_matrix(p, m))
        return;
    sort(m);
    (void)!number_of(pdl_doc_get(p->doc, "clusters"), 0, 1e15, &clusters);
    report_section(p->out, "similarity", "Who is alike?");
    draw(p->out, m, REPORT_BROAD);
    draw(p->out, m, REPORT_NARROW);
    report_para(p->out,
                "Cosines between what each two clients changed in the last "
                "layer, a mean over rounds: the diagonal's colour where they "
                "pull the same way, the other where they pull apart, darker "
                "for more. %.0f clusters, between the lines.%s",
                clusters, compare_groups(p, m));
    report_section_end(p->out);
}

/* ---- the page ------------------------------------------------------------ */

static void write_page(struct report_page *p)
{
    const char *model = report_get_str(&p->rd, p->doc, "model");
    const char *algorithm = report_get_str(&p->rd, p->doc, "algorithm");
    const char *partition = report_get_str(&p->rd, p->doc, "partition");
    int64_t clients = report_get_int(&p->rd, p->doc, "clients");
    const struct pdl_doc *history = report_get_list(&p->rd, p->doc, "history");
    char *title =
        pdl_arena_printf(p->arena, "%s by %s on %lld clients, %s", model,
                         algorithm, (long long)clients, partition);

    report_head(p->out, title ? title : "A federated run");
    if (!history)
        return;
    accuracy(p, history);
    by_client(p);
    similarity(p);
    traffic(p, history);
}

const struct report_page_kind report_page_federate = {"federate", write_page};
