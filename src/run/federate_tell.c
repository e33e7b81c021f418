/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 tells of a federated run: rounds as text or JSON, a line of
 * progress, the summary. */
#include "federate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_PAIRS = 100, /* clients that a page shows all pairs of */
    GROUPS_A_LINE = 10
};

void federate_erase(struct federation *s)
{
    if (s->line_shown)
        fprintf(stderr, "\r\033[K");
    s->line_shown = false;
}

void federate_progress(void *ctx, int64_t done, int64_t of)
{
    struct federation *s = ctx;
    double now = pdl_clock_s();

    if (!s->o.progress || s->args->quiet || now - s->last_s < 0.1)
        return;
    s->last_s = now;
    s->line_shown = true;
    fprintf(stderr, "\r\033[Kround %lld/%lld  %lld of %lld models",
            (long long)s->round + 1, (long long)s->job.rounds, (long long)done,
            (long long)of);
    fflush(stderr);
}

static void numbers(struct pdl_json *j, const char *key, const double *x,
                    int64_t n)
{
    pdl_json_key(j, key);
    pdl_json_flat(j);
    for (int64_t i = 0; i < n; i++)
        pdl_json_num(j, x[i]);
    pdl_json_end(j);
}

static void json_clusters(struct pdl_json *j, int64_t clusters,
                          const int32_t *cluster, int64_t clients)
{
    pdl_json_kint(j, "clusters", clusters);
    pdl_json_key(j, "cluster");
    pdl_json_flat(j);
    for (int64_t i = 0; i < clients; i++)
        pdl_json_int(j, cluster[i]);
    pdl_json_end(j);
}

static void json_line(const struct pdl_fed_line *l)
{
    struct pdl_json j;

    pdl_json_init(&j, run_out());
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kint(&j, "round", l->round);
    pdl_json_kint(&j, "models", l->trained);
    pdl_json_kint(&j, "lost", l->lost);
    pdl_json_knum(&j, "train_loss", l->train_loss);
    if (!isnan(l->loss))
        pdl_json_knum(&j, "test_loss", l->loss);
    if (!isnan(l->accuracy))
        pdl_json_knum(&j, "accuracy", l->accuracy);
    if (l->client_accuracy) {
        numbers(&j, "group_accuracy", l->group_accuracy, l->groups);
        numbers(&j, "client_accuracy", l->client_accuracy, l->clients);
    }
    if (l->clusters > 0)
        json_clusters(&j, l->clusters, l->cluster, l->clients);
    pdl_json_kint(&j, "down_bytes", l->plan->down_bytes);
    pdl_json_kint(&j, "up_bytes", l->plan->up_bytes);
    pdl_json_kint(&j, "across_bytes", l->plan->across_bytes);
    pdl_json_knum(&j, "seconds", l->plan->seconds);
    pdl_json_end(&j);
    fflush(stdout);
}

static void text_line(const struct pdl_fed_line *l)
{
    struct pdl_sink *out = run_out();

    pdl_printf(out, "round %4lld  models %lld", (long long)l->round,
               (long long)l->trained);
    if (l->lost > 0)
        pdl_printf(out, " (%lld lost)", (long long)l->lost);
    if (l->trained > 0)
        pdl_printf(out, "  loss %.4f", l->train_loss);
    if (!isnan(l->loss))
        pdl_printf(out, "  test loss %.4f", l->loss);
    if (!isnan(l->accuracy))
        pdl_printf(out, "  accuracy %.2f %%", 100 * l->accuracy);
    if (l->clusters > 0)
        pdl_printf(out, "  clusters %lld", (long long)l->clusters);
    pdl_printf(out, "\n");
    if (l->group_accuracy && l->groups > 1 && l->groups <= 20) {
        for (int64_t g = 0; g < l->groups; g++)
            pdl_printf(out, "%s %5.1f",
                       g == 0                  ? "            groups"
                       : g % GROUPS_A_LINE > 0 ? ""
                                               : "\n                  ",
                       100 * l->group_accuracy[g]);
        pdl_printf(out, "\n");
    }
    fflush(stdout);
}

/* The run's own are gone when it ends. */
static void remember_clusters(struct federation *s,
                              const struct pdl_fed_line *l)
{
    size_t n = (size_t)l->clients;

    if (!s->cluster)
        s->cluster = PDL_NEW(s->arena, int32_t, l->clients);
    if (!s->cluster)
        return;
    s->clusters = l->clusters;
    memcpy(s->cluster, l->cluster, n * sizeof *s->cluster);
    if (!l->similarity || l->clients > MOST_PAIRS)
        return;
    if (!s->similarity)
        s->similarity = PDL_NEW(s->arena, float, l->clients * l->clients);
    if (s->similarity)
        memcpy(s->similarity, l->similarity, n * n * sizeof *s->similarity);
}

static void remember_clients(struct federation *s, const struct pdl_fed_line *l)
{
    if (!s->client)
        s->client = PDL_NEW(s->arena, double, l->clients + 1);
    if (s->client)
        memcpy(s->client, l->client_accuracy,
               (size_t)l->clients * sizeof s->client[0]);
}

/* For the page at the end; what there is no memory for is not on it. */
static void remember(struct federation *s, const struct pdl_fed_line *l)
{
    int64_t g = l->groups, at = s->nhistory;

    if (l->clusters > 0)
        remember_clusters(s, l);
    if (l->client_accuracy)
        remember_clients(s, l);
    if (!s->history) {
        s->room = s->job.rounds;
        s->history = PDL_NEW(s->arena, struct federate_point, s->room);
        s->groups = PDL_NEW(s->arena, double, s->room *g);
    }
    if (!s->history || !s->groups || at >= s->room)
        return;
    s->history[s->nhistory++] =
        (struct federate_point){l->round,          l->trained,
                                l->lost,           l->plan->down_bytes,
                                l->plan->up_bytes, l->plan->across_bytes,
                                l->train_loss,     l->loss,
                                l->accuracy,       l->plan->seconds};
    for (int64_t i = 0; i < g; i++)
        s->groups[at * g + i] = l->group_accuracy ? l->group_accuracy[i] : NAN;
}

void federate_tell(void *ctx, const struct pdl_fed_line *l)
{
    struct federation *s = ctx;

    federate_erase(s);
    s->round = l->round;
    if (!l->note)
        remember(s, l);
    if (l->past)
        return;
    if (l->note)
        fprintf(stderr, "paradl: %s\n", l->note);
    else if (s->args->json)
        json_line(l);
    else if (!s->args->quiet)
        text_line(l);
}

static void json_history(struct pdl_json *j, const struct federation *s)
{
    int64_t g = s->job.partition.groups;

    pdl_json_key(j, "history");
    pdl_json_array(j);
    for (int64_t i = 0; i < s->nhistory; i++) {
        const struct federate_point *h = &s->history[i];

        pdl_json_row(j);
        pdl_json_kint(j, "round", h->round);
        pdl_json_kint(j, "models", h->trained);
        pdl_json_kint(j, "lost", h->lost);
        pdl_json_knum(j, "train_loss", h->train_loss);
        pdl_json_kint(j, "down_bytes", h->down);
        pdl_json_kint(j, "up_bytes", h->up);
        pdl_json_kint(j, "across_bytes", h->across);
        pdl_json_knum(j, "seconds", h->seconds);
        if (!isnan(h->loss))
            pdl_json_knum(j, "test_loss", h->loss);
        if (!isnan(h->accuracy)) {
            pdl_json_knum(j, "accuracy", h->accuracy);
            if (s->client)
                numbers(j, "group_accuracy", s->groups + i * g, g);
        }
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

static void json_similarity(struct pdl_json *j, const struct federation *s)
{
    int64_t n = s->job.partition.clients;

    if (!s->similarity)
        return;
    pdl_json_key(j, "similarity");
    pdl_json_array(j);
    for (int64_t i = 0; i < n; i++) {
        pdl_json_flat(j);
        for (int64_t k = 0; k < n; k++)
            pdl_json_num(j, (double)s->similarity[i * n + k]);
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

static void json_groups(struct pdl_json *j, const struct federation *s)
{
    const struct pdl_partition *p = &s->job.partition;

    pdl_json_key(j, "group");
    pdl_json_flat(j);
    for (int64_t c = 0; c < p->clients; c++)
        pdl_json_int(j, p->group[c]);
    pdl_json_end(j);
}

void federate_result(const struct federation *s, struct pdl_sink *out)
{
    const struct pdl_fed_summary *x = &s->summary;
    struct pdl_json j;

    pdl_json_init(&j, out);
    pdl_json_schema(&j, "federate");
    pdl_json_kstr(&j, "model", s->args->pos[0]);
    pdl_json_kstr(&j, "data", s->o.data);
    pdl_json_kstr(&j, "partition", s->o.partition ? s->o.partition : "iid");
    pdl_json_kstr(&j, "algorithm", s->o.algorithm ? s->o.algorithm : "fedavg");
    pdl_json_kint(&j, "clients", s->job.partition.clients);
    pdl_json_kint(&j, "parameters", x->parameters);
    pdl_json_knum(&j, "accuracy", x->accuracy);
    pdl_json_knum(&j, "best_accuracy", x->best);
    pdl_json_kint(&j, "client_memory_bytes", x->memory_bytes);
    json_groups(&j, s);
    if (s->client)
        numbers(&j, "client_accuracy", s->client, s->job.partition.clients);
    json_history(&j, s);
    if (s->clusters > 0)
        json_clusters(&j, s->clusters, s->cluster, s->job.partition.clients);
    json_similarity(&j, s);
    pdl_json_end(&j);
}

static void json_summary(const struct federation *s)
{
    const struct pdl_fed_summary *x = &s->summary;
    struct pdl_json j;

    pdl_json_init(&j, run_out());
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kstr(&j, "schema", "paradl.federate-summary/1");
    pdl_json_kint(&j, "rounds", x->rounds);
    pdl_json_kint(&j, "models", x->models);
    pdl_json_kint(&j, "lost", x->lost);
    pdl_json_kint(&j, "parameters", x->parameters);
    pdl_json_knum(&j, "test_loss", x->loss);
    pdl_json_knum(&j, "accuracy", x->accuracy);
    pdl_json_knum(&j, "best_accuracy", x->best);
    if (s->o.target > 0)
        pdl_json_kbool(&j, "reached", x->reached);
    pdl_json_kint(&j, "down_bytes", x->down_bytes);
    pdl_json_kint(&j, "up_bytes", x->up_bytes);
    pdl_json_kint(&j, "across_bytes", x->across_bytes);
    pdl_json_knum(&j, "device_seconds", x->seconds);
    pdl_json_kint(&j, "client_memory_bytes", x->memory_bytes);
    pdl_json_knum(&j, "wall_s", x->wall_s);
    pdl_json_end(&j);
}

/* How even it is: the worst client, the one in the middle, the best. */
static void text_clients(const struct federation *s)
{
    int64_t n = 0, all = s->client ? s->job.partition.clients : 0;
    double *x = PDL_NEW(s->arena, double, all + 1);

    for (int64_t c = 0; x && c < all; c++)
        if (!isnan(s->client[c]))
            x[n++] = s->client[c];
    if (n == 0)
        return;
    pdl_sort(x, n);
    pdl_printf(run_out(),
               "clients   %.1f %% at the worst, half from %.1f %%, %.1f %% at "
               "the best\n",
               100 * x[0], 100 * x[n / 2], 100 * x[n - 1]);
}

void federate_summary(struct federation *s)
{
    const struct pdl_fed_summary *x = &s->summary;
    struct pdl_sink *out = run_out();
    char a[32], b[32], c[32];

    if (s->args->json) {
        json_summary(s);
        return;
    }
    pdl_printf(out, "%lld rounds, %lld models of %lld numbers",
               (long long)x->rounds, (long long)x->models,
               (long long)x->parameters);
    if (x->lost > 0)
        pdl_printf(out, ", %lld lost", (long long)x->lost);
    if (!isnan(x->accuracy))
        pdl_printf(out, "; accuracy %.2f %%, best %.2f %%", 100 * x->accuracy,
                   100 * x->best);
    if (s->o.target > 0)
        pdl_printf(out, "\ntarget    %.2f %% %s", 100 * s->o.target,
                   x->reached ? "reached" : "not reached");
    pdl_printf(out, "\n");
    text_clients(s);
    pdl_printf(
        out, "traffic   down %s, up %s, between clients %s\n",
        pdl_unit_format((double)x->down_bytes, PDL_UNIT_BYTES, a, sizeof a),
        pdl_unit_format((double)x->up_bytes, PDL_UNIT_BYTES, b, sizeof b),
        pdl_unit_format((double)x->across_bytes, PDL_UNIT_BYTES, c, sizeof c));
    pdl_printf(
        out, "a client  %s of memory; the rounds %s on their devices\n",
        pdl_unit_format((double)x->memory_bytes, PDL_UNIT_BYTES, a, sizeof a),
        pdl_unit_format(x->seconds, PDL_UNIT_SECONDS, b, sizeof b));
}
