/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands on collectives share: a job from what was typed, and
 * where its ranks are. */
#include "cli/questions/cli_collective.h"

#include <stdio.h>
#include <string.h>

bool cli_is_program(const char *name)
{
    size_t n = strlen(name);

    return n > 5 && strcmp(name + n - 5, ".coll") == 0;
}

enum pdl_status cli_program_read(pdl_arena *a, const char *path,
                                 struct pdl_coll_job *job, struct pdl_err *err)
{
    struct pdl_bytes text;
    struct pdl_coll_program *prog;
    enum pdl_status st = pdl_file_read(a, path, (size_t)1 << 28, &text, err);

    if (st == PDL_OK)
        st = pdl_coll_parse(a, text, path, &prog, err);
    if (st == PDL_OK)
        pdl_coll_program_job(prog, job);
    return st;
}

const char *cli_collective_of(const char *spec, const char *collective)
{
    char name[64];
    size_t n = strcspn(spec, ":");

    if (collective || n >= sizeof name)
        return collective ? collective : "allreduce";
    memcpy(name, spec, n);
    name[n] = '\0';
    for (int i = 0; pdl_alg_at(i); i++)
        if (strcmp(pdl_alg_at(i)->name, name) == 0)
            return pdl_alg_at(i)->collective->name;
    return "allreduce";
}

enum pdl_status cli_ranks_parse(const char *text, int *first, int *last,
                                struct pdl_err *err)
{
    const char *dots = strstr(text, "..");
    char low[32];
    int64_t a, b;
    enum pdl_status st;

    snprintf(low, sizeof low, "%.*s", dots ? (int)(dots - text) : 31, text);
    st = pdl_int_parse(low, 1, 1 << 22, &a, err);
    b = a;
    if (st == PDL_OK && dots)
        st = pdl_int_parse(dots + 2, a, 1 << 22, &b, err);
    if (st != PDL_OK) {
        pdl_fail(err, st, "--ranks '%.40s' is neither a number nor a range",
                 text);
        pdl_hint(err, "for example 16 or 1..64");
        return st;
    }
    *first = (int)a;
    *last = (int)b;
    return PDL_OK;
}

static void shuffle(int *hosts, int n, uint64_t seed)
{
    struct pdl_rng rng = {.key = seed};

    for (int i = n - 1; i > 0; i--) {
        int j = (int)pdl_rng_below(&rng, (uint64_t)i + 1), t = hosts[i];

        hosts[i] = hosts[j];
        hosts[j] = t;
    }
}

/* Host numbers, one for each rank, between spaces or lines. */
static enum pdl_status map_of_file(pdl_arena *a, const struct pdl_net *net,
                                   int nranks, const char *path, int *map,
                                   struct pdl_err *err)
{
    struct pdl_bytes in;
    enum pdl_status st = pdl_file_read(a, path, (size_t)1 << 26, &in, err);
    char *text = st == PDL_OK ? pdl_arena_strndup(a, in.data, in.len) : NULL;
    int n = 0;

    if (st != PDL_OK)
        return st;
    if (!text)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    for (char *word = text + strspn(text, " \t\r\n"); *word; n++) {
        char *end = word + strcspn(word, " \t\r\n");
        size_t gap = strspn(end, " \t\r\n");
        int64_t host;

        *end = '\0';
        if (pdl_int_parse(word, 0, net->nhosts - 1, &host, NULL) != PDL_OK)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: '%.40s' is no host from 0 to %d", path, word,
                            net->nhosts - 1);
        if (n < nranks)
            map[n] = (int)host;
        word = end + gap;
    }
    if (n != nranks)
        return pdl_fail(err, PDL_EINVAL, "%s: %d hosts for %d ranks", path, n,
                        nranks);
    return PDL_OK;
}

static bool is_mapping(const char *name)
{
    return !name || strcmp(name, "linear") == 0 ||
           strcmp(name, "random") == 0 || strcmp(name, "reverse") == 0;
}

/* More ranks than hosts: blocks of neighbouring ranks share one. */
enum pdl_status cli_map_ranks(pdl_arena *a, const struct pdl_net *net,
                              int nranks, const char *mapping, int64_t seed,
                              int **hosts, struct pdl_err *err)
{
    int used = nranks < net->nhosts ? nranks : net->nhosts;
    bool reverse = mapping && strcmp(mapping, "reverse") == 0;
    int *of_slot = PDL_NEW(a, int, net->nhosts + 1);
    int *map = PDL_NEW(a, int, nranks + 1);

    if (!of_slot || !map)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d ranks", nranks);
    *hosts = map;
    if (!is_mapping(mapping))
        return map_of_file(a, net, nranks, mapping, map, err);
    for (int i = 0; i < net->nhosts; i++)
        of_slot[i] = pdl_net_seat(net, reverse ? net->nhosts - 1 - i : i);
    if (mapping && strcmp(mapping, "random") == 0)
        shuffle(of_slot, net->nhosts, (uint64_t)seed);
    for (int r = 0; r < nranks; r++)
        map[r] = of_slot[(int64_t)r * used / nranks];
    return PDL_OK;
}

/* Four-byte elements where the size allows. */
static void set_size(struct pdl_coll_job *job, int64_t bytes)
{
    job->elem_bytes = bytes % 4 == 0 ? 4 : 1;
    job->count = bytes / job->elem_bytes;
}

enum pdl_status cli_job_make(pdl_arena *a, const char *collective,
                             const char *spec, const struct pdl_net *net,
                             const struct cli_job_size *size,
                             struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st;

    *job = (struct pdl_coll_job){.nranks = size->ranks};
    if (cli_is_program(spec)) {
        st = cli_program_read(a, spec, job, err);
        if (st == PDL_OK && size->ranks > 0)
            job->nranks = size->ranks;
    } else {
        st = pdl_alg_parse(collective, spec, job, err);
    }
    if (st != PDL_OK)
        return st;
    if (!(size->density >= 0 && size->density <= 1))
        return pdl_fail(err, PDL_EINVAL, "--density is a share, from 0 to 1");
    set_size(job, size->bytes);
    if (size->density > 0)
        job->density = size->density;
    if (net)
        pdl_coll_suit(job, net);
    return pdl_coll_setup(job, err);
}
