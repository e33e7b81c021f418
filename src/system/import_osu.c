/* SPDX-License-Identifier: Apache-2.0
 *
 * Output of the OSU micro-benchmarks: "# OSU MPI[-CUDA] NAME Latency Test
 * v7.3", a header line, then size and average latency in us (or bandwidth in
 * MB/s = 1e6 B/s) and columns that do not matter here. The number of ranks is
 * not printed: a collective needs --np. A file may hold several tests. */
#include "system_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 64 << 20, MAX_LINE = 512 };

/* What the title says between "OSU MPI" and "Test"; longest first where one
 * is the start of another. */
static const struct title {
    const char *words, *op;
    bool rate; /* MB/s instead of us */
} titles[] = {
    {"Allreduce Latency", "allreduce", false},
    {"Allgather Latency", "allgather", false},
    {"Allgatherv Latency", "allgather", false},
    {"All-to-All Personalized Exchange Latency", "alltoall", false},
    {"All-to-Allv Personalized Exchange Latency", "alltoall", false},
    {"Alltoall Latency", "alltoall", false},
    {"Alltoallv Latency", "alltoall", false},
    {"Broadcast Latency", "broadcast", false},
    {"Reduce_scatter Latency", "reduce-scatter", false},
    {"Reduce_scatter_block Latency", "reduce-scatter", false},
    {"Reduce Latency", "reduce", false},
    {"Gather Latency", "gather", false},
    {"Scatter Latency", "scatter", false},
    {"Barrier Latency", "barrier", false},
    {"Bi-Directional Bandwidth", "p2p-both", true},
    {"Bandwidth", "p2p-stream", true},
    {"Latency", "p2p", false},
};

struct reader {
    pdl_arena *a;
    const char *name;
    const struct pdl_import *how;
    struct pdl_system *sys;
    struct pdl_err *err;
    const struct title *test;
    struct system_times times;
    int line, runs;
};

static bool is_p2p(const struct title *t)
{
    return strncmp(t->op, "p2p", 3) == 0;
}

static enum pdl_status finish(struct reader *r)
{
    struct system_times *t = &r->times;
    enum pdl_status st;

    if (t->count == 0)
        return PDL_OK;
    t->op = r->test->op;
    t->pes = is_p2p(r->test) ? 2 : r->how->np;
    t->nodes = r->how->nodes > 0 && r->how->nodes <= t->pes ? r->how->nodes : 0;
    if (t->pes <= 0) {
        pdl_fail(r->err, PDL_EPARSE,
                 "%s: OSU does not print the number of ranks", r->name);
        pdl_hint(r->err, "give it with --np N");
        return PDL_EPARSE;
    }
    st = system_times_finish(t, r->name, r->sys, r->err);
    if (st == PDL_EINVAL && r->err) {
        struct pdl_err inner = *r->err;

        pdl_say(r->err, "%s: %s: %s", r->name, t->op, inner.msg);
        pdl_hint(r->err, "%s", inner.hint);
        st = PDL_EPARSE;
    }
    r->runs++;
    *t = (struct system_times){.arena = r->a, .library = "mpi"};
    return st;
}

static enum pdl_status read_title(struct reader *r, const char *p)
{
    enum pdl_status st = finish(r);

    p += strcspn(p, " ");
    p += strspn(p, " ");
    r->test = NULL;
    for (size_t i = 0; i < sizeof titles / sizeof titles[0] && !r->test; i++)
        if (strncmp(p, titles[i].words, strlen(titles[i].words)) == 0)
            r->test = &titles[i];
    if (st == PDL_OK && !r->test) {
        pdl_fail(r->err, PDL_EPARSE, "%s:%d: no test called '%.60s'", r->name,
                 r->line, p);
        pdl_hint(r->err, "latency and bandwidth of collectives and of two "
                         "ranks can be read");
        return PDL_EPARSE;
    }
    return st;
}

static enum pdl_status read_row(struct reader *r, char *line)
{
    char *end, *second;
    double size, v;

    if (!r->test)
        return pdl_fail(r->err, PDL_EPARSE,
                        "%s:%d: a row before the title '# OSU MPI ...'",
                        r->name, r->line);
    size = pdl_strtod(line, &end);
    second = end;
    v = pdl_strtod(second, &end);
    if (end == second && strcmp(r->test->op, "barrier") == 0) {
        v = size; /* it has no size */
        size = 0;
    }
    if (!(v > 0 && v < 1e10) || !(size >= 0 && size < 1e18) ||
        size != floor(size))
        return pdl_fail(r->err, PDL_EPARSE, "%s:%d: not a size and a number",
                        r->name, r->line);
    if (r->test->rate && size == 0)
        return PDL_OK;
    system_times_add(&r->times, size,
                     r->test->rate ? size / (v * 1e6) : v * 1e-6);
    return PDL_OK;
}

static enum pdl_status read_line(struct reader *r, char *line)
{
    char *p = line + strspn(line, " \t\r");

    if (*p == '#') {
        p += 1 + strspn(p + 1, " \t");
        if (strncmp(p, "OSU ", 4) != 0)
            return PDL_OK;
        p += 4;
        /* "MPI", "MPI-CUDA", "MPI-ROCM", "NCCL" */
        if (strncmp(p, "MPI", 3) != 0 && strncmp(p, "NCCL", 4) != 0)
            return PDL_OK;
        return read_title(r, p);
    }
    if (*p >= '0' && *p <= '9')
        return read_row(r, p);
    return PDL_OK;
}

static enum pdl_status run(pdl_arena *a, struct pdl_bytes in, const char *name,
                           const struct pdl_import *how, struct pdl_system *sys,
                           struct pdl_err *err)
{
    struct reader r = {.a = a,
                       .name = name,
                       .how = how,
                       .sys = sys,
                       .err = err,
                       .times = {.arena = a, .library = "mpi"}};
    const char *p = in.data, *end = in.data + in.len;
    enum pdl_status st = PDL_OK;

    if (in.len > MAX_FILE)
        return pdl_fail(err, PDL_EPARSE, "%s: larger than %d MiB", name,
                        MAX_FILE >> 20);
    if (memchr(in.data, '\0', in.len))
        return pdl_fail(err, PDL_EPARSE, "%s: not a text file", name);
    while (p < end && st == PDL_OK) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((nl ? nl : end) - p);
        char line[MAX_LINE];
        size_t n = len < sizeof line - 1 ? len : sizeof line - 1;

        memcpy(line, p, n);
        line[n] = '\0';
        r.line++;
        st = read_line(&r, line);
        p += len + 1;
    }
    if (st == PDL_OK)
        st = finish(&r);
    if (st != PDL_OK)
        return st;
    if (r.runs == 0)
        return pdl_fail(err, PDL_EPARSE, "%s: no rows of an OSU benchmark",
                        name);
    return system_add_text(a, &sys->sources, &sys->nsources, err,
                           "OSU micro-benchmarks: %s", name);
}

const struct pdl_importer system_import_osu = {
    .name = "osu",
    .summary = "output of the OSU micro-benchmarks (--np N for collectives)",
    .run = run,
};
