/* SPDX-License-Identifier: Apache-2.0
 *
 * Logs of nccl-tests (and rccl-tests), text or -J JSON. The columns are taken
 * from the log's own header line, because they changed over the years: no
 * root before 2022, error or #wrong, cputime with -C, i_min ... with -I, a
 * timestamp with -S. Launcher tags ("[0]", "[1,0]<stdout>:", "0: ") may stand
 * anywhere in a row. One log may hold several runs. The number of ranks is in
 * the Rank lines only. Times are out-of-place, in-place where those are
 * missing; sizes are counted as nccl-tests counts them. */
#include "nccl_log.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 64 << 20, MAX_TOKENS = 48, MAX_LINE = 2048 };

/* ---- names ------------------------------------------------------------ */

static const struct {
    const char *word, *op;
} ops[] = {
    {"allreduce", "allreduce"},
    {"allgather", "allgather"},
    {"reducescatter", "reduce-scatter"},
    {"alltoall", "alltoall"},
    {"broadcast", "broadcast"},
    {"reduce", "reduce"},
    {"sendrecv", "sendrecv"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"hypercube", "hypercube"},
};

const char *system_nccl_op(const char *text)
{
    char plain[64];
    size_t n = 0;

    for (; *text && n < sizeof plain - 1; text++)
        if (isalpha((unsigned char)*text))
            plain[n++] = (char)tolower((unsigned char)*text);
    plain[n] = '\0';
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strncmp(plain, ops[i].word, strlen(ops[i].word)) == 0)
            return ops[i].op;
    return NULL;
}

/* Bus bandwidth over algorithm bandwidth (nccl-tests doc/PERFORMANCE.md). */
static double bus_factor(const char *op, int64_t n)
{
    double share = n > 1 ? (double)(n - 1) / (double)n : 1;

    if (strcmp(op, "allreduce") == 0)
        return 2 * share;
    if (strcmp(op, "allgather") == 0 || strcmp(op, "reduce-scatter") == 0 ||
        strcmp(op, "alltoall") == 0)
        return share;
    return 1;
}

/* ---- one run ---------------------------------------------------------- */

static enum pdl_status lacking(struct system_nccl_log *log, const char *what,
                               const char *hint)
{
    pdl_fail(log->err, PDL_EPARSE, "%s: %s", log->name, what);
    pdl_hint(log->err, "%s", hint);
    return PDL_EPARSE;
}

/* What a run says of the machine, beside its own table of times. */
static void note_bandwidth(struct pdl_system *sys, const struct system_times *t)
{
    struct pdl_node_links *l = &sys->node.links;
    struct pdl_nics *n = &sys->node.nics;
    double bus = t->bus_bytes_per_s;

    if (strcmp(t->op, "allreduce") != 0)
        return;
    if (t->nodes == 1 && t->pes == sys->node.pes) {
        if (bus <= l->bytes_per_s)
            l->measured_bytes_per_s = bus;
        else if (l->reduces)
            l->reduce_bytes_per_s = bus;
    } else if (t->nodes > 1 && n->count > 0 &&
               bus / (double)n->count <= n->bytes_per_s) {
        n->measured_bytes_per_s = bus / (double)n->count;
    }
}

enum pdl_status system_nccl_finish(struct system_nccl_log *log)
{
    struct system_times *t = &log->times;
    enum pdl_status st;

    if (t->count == 0)
        return PDL_OK;
    if (!t->op && log->how->op)
        t->op = system_nccl_op(log->how->op);
    if (!t->op)
        return lacking(log, "the log does not say which collective it is",
                       "name it, for example --op allreduce");
    t->pes = log->how->np > 0 ? log->how->np : log->ranks;
    t->nodes = log->how->nodes > 0 ? log->how->nodes : log->hosts;
    if (t->pes == 0)
        return lacking(log, "no 'Rank' lines, the number of ranks is unknown",
                       "give it with --np N");
    t->nodes = t->nodes > 0 && t->nodes <= t->pes ? t->nodes : 1;
    for (int i = 0; i < t->count; i++)
        t->bus_bytes_per_s =
            fmax(t->bus_bytes_per_s, fmin(1e16, t->bytes[i] / t->seconds[i] *
                                                    bus_factor(t->op, t->pes)));
    st = system_times_finish(t, log->name, log->sys, log->err);
    if (st == PDL_EINVAL && log->err) {
        struct pdl_err inner = *log->err;

        pdl_say(log->err, "%s: %s: %s", log->name, t->op, inner.msg);
        pdl_hint(log->err, "%s", inner.hint);
        st = PDL_EPARSE;
    }
    if (st == PDL_OK)
        note_bandwidth(log->sys, t);
    log->runs++;
    *t = (struct system_times){.arena = log->a, .library = "nccl", .op = t->op};
    return st;
}

/* ---- text ------------------------------------------------------------- */

static const char *skip_blank(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* The end of a launcher's tag at p, or p. */
static const char *skip_tag(const char *p, bool at_start)
{
    const char *q = skip_digits(p + (*p == '['));

    if (*p == '[') {
        if (q == p + 1)
            return p;
        if (*q == ',')
            q = skip_digits(q + 1);
        if (*q != ']')
            return p;
        q++;
        if (strncmp(q, "<stdout>:", 9) == 0 || strncmp(q, "<stderr>:", 9) == 0)
            q += 9;
        return q;
    }
    return at_start && q > p && q[0] == ':' && q[1] == ' ' ? q + 1 : p;
}

/* Copies a line without tags: at its start, and anywhere in rows. */
static void strip_tags(const char *line, size_t len, char *out)
{
    char copy[MAX_LINE];
    const char *p = copy, *start;
    size_t n = 0;
    bool comment;

    len = len < sizeof copy - 1 ? len : sizeof copy - 1;
    memcpy(copy, line, len);
    copy[len] = '\0';
    start = skip_blank(p);
    while (skip_tag(start, true) != start)
        start = skip_blank(skip_tag(start, true));
    comment = *start == '#';
    for (p = start; *p;) {
        const char *q = comment ? p : skip_tag(p, false);

        if (q != p) {
            out[n++] = ' ';
            p = q;
        } else {
            out[n++] = *p++;
        }
    }
    out[n] = '\0';
}

static int split(char *line, char **tokens)
{
    int n = 0;
    char *save = NULL;

    for (char *t = strtok_r(line, " \t\r", &save); t && n < MAX_TOKENS;
         t = strtok_r(NULL, " \t\r", &save))
        tokens[n++] = t;
    return n;
}

/* The header names the columns; ours to know are time, busbw and the count of
 * wrong results, once or twice. */
static void read_header(struct system_nccl_log *log, char **tokens, int n)
{
    struct system_nccl_row f = {0, {-1, -1}, {-1, -1}, {-1, -1}};
    int times = 0, buses = 0, wrongs = 0;

    for (int i = 0; i < n; i++) {
        if (strcmp(tokens[i], "root") == 0)
            f.root = 1;
        if ((strcmp(tokens[i], "time") == 0 ||
             strcmp(tokens[i], "cputime") == 0) &&
            times < 2)
            f.time[times++] = i;
        if (strcmp(tokens[i], "busbw") == 0 && buses < 2)
            f.bus[buses++] = i;
        if ((strcmp(tokens[i], "#wrong") == 0 ||
             strcmp(tokens[i], "error") == 0) &&
            wrongs < 2)
            f.wrong[wrongs++] = i;
    }
    if (times > 0)
        log->format = f;
}

static void read_rank(struct system_nccl_log *log, const char *p)
{
    const char *on = strstr(p, " on "), *model = strrchr(p, ']');
    const char *host;
    size_t len;
    char *name;

    if (!on || !strstr(on, " device "))
        return;
    if (log->ranks_closed) {
        log->ranks = log->hosts = 0;
        log->ranks_closed = false;
    }
    log->ranks++;
    if (model && model[1])
        log->model = pdl_arena_strdup(log->a, skip_blank(model + 1));
    host = skip_blank(on + 4);
    len = strcspn(host, " \t");
    for (int64_t i = 0; i < log->hosts; i++)
        if (strlen(log->host_names[i]) == len &&
            memcmp(log->host_names[i], host, len) == 0)
            return;
    name = pdl_arena_strndup(log->a, host, len);
    if (name && log->hosts < 512)
        log->host_names[log->hosts++] = name;
}

static enum pdl_status read_comment(struct system_nccl_log *log, char *line)
{
    static const char starting[] = "Collective test starting:";
    const char *p = skip_blank(line + 1);
    enum pdl_status st = PDL_OK;
    char *tokens[MAX_TOKENS];

    if (strncmp(p, "Rank", 4) == 0) {
        if (!log->ranks_closed || log->times.count == 0) {
            read_rank(log, p);
            return PDL_OK;
        }
        st = system_nccl_finish(log);
        read_rank(log, p);
        return st;
    }
    if (strncmp(p, starting, strlen(starting)) == 0) {
        st = system_nccl_finish(log);
        log->times.op = system_nccl_op(skip_blank(p + strlen(starting)));
        return st;
    }
    if (strncmp(p, "nThread", 7) == 0)
        return system_nccl_finish(log);
    if (strncmp(p, "size", 4) == 0 && strstr(p, "busbw")) {
        int n = split(line + 1, tokens);

        st = system_nccl_finish(log);
        read_header(log, tokens, n);
    }
    return st;
}

/* A number of a row; NaN for "N/A" and anything else. */
static double value(char **tokens, int n, int column)
{
    char *end;
    double v;

    if (column < 0 || column >= n)
        return NAN;
    v = pdl_strtod(tokens[column], &end);
    return *end || end == tokens[column] ? NAN : v;
}

/* Without a header: the columns of the last ten years. */
static struct system_nccl_row guess_format(char **tokens, int n)
{
    char *end;
    int root = n > 5 && !strchr(tokens[4], '.') &&
               (strtol(tokens[4], &end, 10), *end == '\0');

    return (struct system_nccl_row){root,
                                    {4 + root, 8 + root},
                                    {6 + root, 10 + root},
                                    {7 + root, 11 + root}};
}

static enum pdl_status read_row(struct system_nccl_log *log, char *line)
{
    char *tokens[MAX_TOKENS];
    int n = split(line, tokens);
    struct system_nccl_row f = log->format;
    double size, seconds;

    if (n < 7 || skip_digits(tokens[0])[0] || skip_digits(tokens[1])[0] ||
        !isalpha((unsigned char)tokens[2][0]) || strlen(tokens[0]) > 18)
        return PDL_OK; /* another program's line */
    if (f.time[0] <= 0)
        f = guess_format(tokens, n);
    size = value(tokens, n, 0);
    seconds = value(tokens, n, f.time[0]) * 1e-6;
    if (!(seconds > 0))
        seconds = value(tokens, n, f.time[1]) * 1e-6;
    if (!(seconds > 0 && seconds < 1e6))
        return pdl_fail(log->err, PDL_EPARSE, "%s:%d: no time in this row",
                        log->name, log->line);
    for (int i = 0; i < 2; i++)
        log->wrong += value(tokens, n, f.wrong[i]) > 0.5;
    log->ranks_closed = true;
    system_times_add(&log->times, size, seconds);
    return PDL_OK;
}

static enum pdl_status read_text(struct system_nccl_log *log,
                                 struct pdl_bytes in)
{
    const char *p = in.data, *end = in.data + in.len;
    char line[MAX_LINE + 1];
    enum pdl_status st = PDL_OK;

    while (p < end && st == PDL_OK) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((nl ? nl : end) - p);

        log->line++;
        strip_tags(p, len, line);
        if (*line == '#')
            st = read_comment(log, line);
        else if (*line >= '0' && *line <= '9')
            st = read_row(log, line);
        p += len + 1;
    }
    return st == PDL_OK ? system_nccl_finish(log) : st;
}

/* ---- what the runs say of the machine ---------------------------------- */

static enum pdl_status describe(struct system_nccl_log *log)
{
    struct pdl_system *sys = log->sys;
    const struct pdl_collective_fit *c =
        &sys->collectives[sys->ncollectives - 1];
    const char *pe = log->model ? pdl_pe_of_model(log->model) : NULL;
    enum pdl_status st = PDL_OK;

    if (strcmp(sys->pe.name, "unknown") == 0) {
        sys->node.pes = (c->pes + c->nodes - 1) / c->nodes;
        sys->nodes = c->nodes;
        if (pe)
            st = pdl_pe_open(log->a, pe, &sys->pe, log->err);
        else if (log->model)
            sys->pe.title = log->model;
        if (st == PDL_OK && c->nodes > 1) {
            struct pdl_tier *t = PDL_NEW(log->a, struct pdl_tier, 1);

            if (!t)
                return system_no_memory(log->err, log->name);
            *t = (struct pdl_tier){.name = "network",
                                   .bytes_per_s = c->bus_bytes_per_s,
                                   .measured_bytes_per_s = c->bus_bytes_per_s,
                                   .oversubscription = 1};
            sys->network.tiers = t;
            sys->network.ntiers = 1;
            st = system_add_text(log->a, &sys->unverified, &sys->nunverified,
                                 log->err,
                                 "network.levels: the bus bandwidth measured; "
                                 "the line rate is not in the log");
        }
    }
    if (st == PDL_OK)
        st = system_add_text(log->a, &sys->sources, &sys->nsources, log->err,
                             "nccl-tests: %s", log->name);
    if (st == PDL_OK && log->wrong > 0)
        st = system_add_text(log->a, &sys->unverified, &sys->nunverified,
                             log->err,
                             "%s: %lld results were wrong, nccl-tests says",
                             log->name, (long long)log->wrong);
    return st;
}

static enum pdl_status run(pdl_arena *a, struct pdl_bytes in, const char *name,
                           const struct pdl_import *how, struct pdl_system *sys,
                           struct pdl_err *err)
{
    struct system_nccl_log *log = PDL_NEW(a, struct system_nccl_log, 1);
    const char *first;
    enum pdl_status st;

    if (!log)
        return system_no_memory(err, name);
    if (in.len > MAX_FILE)
        return pdl_fail(err, PDL_EPARSE, "%s: larger than %d MiB", name,
                        MAX_FILE >> 20);
    if (memchr(in.data, '\0', in.len))
        return pdl_fail(err, PDL_EPARSE, "%s: not a text file", name);
    log->a = a;
    log->name = name;
    log->how = how;
    log->sys = sys;
    log->err = err;
    log->format = (struct system_nccl_row){0, {-1, -1}, {-1, -1}, {-1, -1}};
    log->times = (struct system_times){.arena = a, .library = "nccl"};
    first = in.data;
    while (first < in.data + in.len && isspace((unsigned char)*first))
        first++;
    if (first < in.data + in.len && *first == '{')
        st = system_nccl_json(log, in);
    else
        st = read_text(log, in);
    if (st != PDL_OK)
        return st;
    if (log->runs == 0)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: no rows of nccl-tests in this file", name);
    return describe(log);
}

const struct pdl_importer system_import_nccl_tests = {
    .name = "nccl-tests",
    .summary = "logs of nccl-tests, text or -J JSON: times and a fitted line",
    .run = run,
};
