/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster skew (Nguyen et al., "CADIS", CCGrid 2023): clients form groups, all
 * clients of a group have the same classes, and groups are of unequal size, so
 * that a mean over clients hears the largest group most. Group g has the
 * classes g k, g k + 1, ..., g k + k - 1 (modulo all), a class that several
 * groups have is shared evenly between them. `main` is the share of the clients
 * that the first group has; the others are as large as each other. With
 * equal=yes every client has as many samples, as in the paper, and what the
 * smaller groups have too much is left to nobody: otherwise the groups of few
 * clients would have richer ones, and no group more data than another. */
#include "data_priv.h"

enum { GROUPS, CLASSES, MAIN, EQUAL };
static const char *const answers[] = {"no", "yes", NULL};

/* Clients [first, end) are group g's: the first group is `main` of all. */
static int64_t group_begin(const struct data_split *s, int64_t g)
{
    int64_t n = s->opt->clients, head;
    double share = s->with.value[MAIN];

    if (share <= 0)
        return n * g / s->groups;
    head = (int64_t)(share * (double)n + 0.5);
    head = head < 1 ? 1 : head > n - s->groups + 1 ? n - s->groups + 1 : head;
    return g == 0 ? 0 : head + (n - head) * (g - 1) / (s->groups - 1);
}

static bool has_class(const struct data_split *s, int64_t g, int64_t k,
                      int64_t c)
{
    int64_t all = s->opt->classes;

    return (c - g * k % all + all) % all < k;
}

static enum pdl_status check(const struct data_split *s, int64_t k,
                             struct pdl_err *err)
{
    if (s->groups > s->opt->clients)
        return pdl_fail(err, PDL_EINVAL, "cluster: %lld groups, %lld clients",
                        (long long)s->groups, (long long)s->opt->clients);
    if (s->with.value[MAIN] > 0 && s->groups < 2)
        return pdl_fail(err, PDL_EINVAL, "cluster: main= is of several groups");
    if (k > s->opt->classes || s->groups * k < s->opt->classes) {
        pdl_say(err, "cluster: %lld groups of %lld classes, of %lld in all",
                (long long)s->groups, (long long)k, (long long)s->opt->classes);
        pdl_hint(err, "every class is some group's");
        return PDL_EINVAL;
    }
    return PDL_OK;
}

/* Samples of a class to its groups, evenly, and there to one client after the
 * other; next[g] goes on from class to class. */
static void deal_class(struct data_split *s, int64_t k, int64_t c,
                       int64_t *next)
{
    int64_t g = -1;

    for (int64_t i = s->begin[c]; i < s->begin[c + 1]; i++) {
        int64_t from, n;

        do
            g = (g + 1) % s->groups;
        while (!has_class(s, g, k, c));
        from = group_begin(s, g);
        n = group_begin(s, g + 1) - from;
        s->owner[s->list[i]] = from + next[g]++ % n;
    }
}

/* Of every client as many as the poorest has, evenly over its classes: the
 * list is class by class, so what goes is every so-manieth. */
static enum pdl_status make_equal(struct data_split *s, int64_t *kept,
                                  struct pdl_err *err)
{
    int64_t n = s->opt->samples, m = s->opt->clients, least = n;
    double *count = s->share;

    for (int64_t c = 0; c < m; c++)
        count[c] = 0, kept[c] = 0;
    for (int64_t i = 0; i < n; i++)
        count[s->owner[i]]++;
    for (int64_t c = 0; c < m; c++)
        least = (int64_t)count[c] < least ? (int64_t)count[c] : least;
    if (least == 0) {
        pdl_say(err, "cluster: %lld samples leave some of %lld clients none",
                (long long)n, (long long)m);
        pdl_hint(err, "fewer clients, or equal=no");
        return PDL_EINVAL;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t *x = &s->owner[s->list[i]], c = *x, seen = kept[c]++;
        double step = (double)least / count[c];

        if ((int64_t)((double)(seen + 1) * step + 1e-9) ==
            (int64_t)((double)seen * step + 1e-9))
            *x = DATA_NOBODY;
    }
    return PDL_OK;
}

static enum pdl_status split(struct data_split *s, struct pdl_err *err)
{
    int64_t k = (int64_t)s->with.value[CLASSES], m = s->opt->clients;
    pdl_arena *a = pdl_arena_create(((size_t)m + 64) * 64);
    int64_t *next = a ? PDL_NEW(a, int64_t, m + 1) : NULL;
    enum pdl_status st;

    s->groups = (int64_t)s->with.value[GROUPS];
    k = k > 0 ? k : (s->opt->classes + s->groups - 1) / s->groups;
    st = next ? check(s, k, err)
              : pdl_fail(err, PDL_ENOMEM, "out of memory for a partition");
    for (int64_t c = 0; c < s->opt->classes && st == PDL_OK; c++)
        deal_class(s, k, c, next);
    for (int64_t g = 0; g < s->groups && st == PDL_OK; g++)
        for (int64_t c = group_begin(s, g); c < group_begin(s, g + 1); c++)
            s->group[c] = (int32_t)g;
    if (st == PDL_OK && s->with.value[EQUAL] > 0)
        st = make_equal(s, next, err);
    pdl_arena_destroy(a);
    return st;
}

const struct data_partition data_partition_cluster = {
    .is = {.name = "cluster",
           .summary = "groups of clients with the same few classes",
           .keys = {{"groups", "of clients", 5, 1, 1e6, pdl_sampling_whole},
                    {"classes", "of a group; 0: all are somebody's, evenly", 0,
                     0, 1e6, pdl_sampling_whole},
                    {"main", "share of the clients in the first group; 0: even",
                     0, 0, 1, NULL},
                    {"equal", "all clients have as many samples", 1, 0, 1,
                     answers}}},
    .by_class = true,
    .split = split,
};
