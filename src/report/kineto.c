/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of PyTorch's profiler (Kineto: Chrome trace JSON, plain or gz): what
 * the device of one rank did, summed by phase. Traces are 10 MB to 1 GB, so
 * nothing of the document is kept: one pass over the text, of which only the
 * intervals of device activities stay (32 bytes each).
 *
 * Kernels are told apart by name, as the libraries name them; collectives also
 * by "Collective name", where the trace has it. Times are decimal microseconds
 * with up to three digits after the point, read as whole nanoseconds: a double
 * has not enough digits for them. NCCL kernels include the wait for the
 * slowest rank. */
#include "report_priv.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, NAME = 512 };
static const int64_t MOST_EVENTS = INT64_C(1) << 23;

struct reader {
    const char *at, *end, *start, *name;
    struct pdl_err *err;
    enum pdl_status status;
};

/* ---- JSON, as much as is needed ------------------------------------------------ */

static void bad(struct reader *r, const char *what)
{
    if (r->status == PDL_OK)
        r->status = pdl_fail(r->err, PDL_EPARSE, "%s: at byte %lld: %s",
                             r->name, (long long)(r->at - r->start), what);
}

static char peek(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' ||
                              *r->at == '\t' || *r->at == '\r'))
        r->at++;
    return r->at < r->end && r->status == PDL_OK ? *r->at : '\0';
}

static bool take(struct reader *r, char c)
{
    if (peek(r) != c)
        return false;
    r->at++;
    return true;
}

/* The next string; what does not fit is cut. Escapes are kept as they are:
 * names that matter have none. */
static bool string(struct reader *r, char *out, size_t size)
{
    size_t n = 0;

    if (!take(r, '"')) {
        bad(r, "a string is missing");
        return false;
    }
    while (r->at < r->end && *r->at != '"') {
        int step = *r->at == '\\' && r->end - r->at > 1 ? 2 : 1;

        for (int i = 0; i < step; i++)
            if (n + 1 < size)
                out[n++] = r->at[i];
        r->at += step;
    }
    if (size > 0)
        out[n] = '\0';
    if (r->at >= r->end) {
        bad(r, "a string does not end");
        return false;
    }
    r->at++;
    return true;
}

/* Over a value of any kind, without recursion. */
static void skip(struct reader *r)
{
    char open[DEPTH];
    int depth = 0;

    do {
        char c = peek(r);

        if (c == '"') {
            string(r, NULL, 0);
        } else if (c == '{' || c == '[') {
            if (depth == DEPTH) {
                bad(r, "nested too deeply");
                return;
            }
            open[depth++] = c;
            r->at++;
            continue;
        } else if ((c == '}' || c == ']') && depth > 0) {
            if ((c == '}') != (open[--depth] == '{'))
                bad(r, "brackets do not match");
            r->at++;
        } else if ((c == ',' || c == ':') && depth > 0) {
            r->at++;
            continue;
        } else if (c == '\0' || strchr("},]:", c)) {
            bad(r, "a value is missing");
        } else {
            while (r->at < r->end && !strchr(",:{}[]\" \n\t\r", *r->at))
                r->at++;
        }
    } while (depth > 0 && r->status == PDL_OK);
}

/* A number of microseconds as nanoseconds; false: it is none, or too large. */
static bool nanoseconds(struct reader *r, int64_t *out)
{
    const char *p, *from;
    int64_t v = 0;
    int places = -1;
    bool minus = peek(r) == '-';

    p = r->at + minus;
    for (from = p; p < r->end && ((*p >= '0' && *p <= '9') ||
                                  (*p == '.' && places < 0 && p > from));
         p++) {
        if (*p == '.') {
            places = 0;
        } else if (places < 3) {
            if (!pdl_mul64(v, 10, &v) || !pdl_add64(v, *p - '0', &v))
                return false;
            places += places >= 0;
        }
    }
    if (p == from || (p < r->end && (*p == 'e' || *p == 'E')))
        return false;
    for (places = places < 0 ? 0 : places; places < 3; places++)
        if (!pdl_mul64(v, 10, &v))
            return false;
    r->at = p;
    *out = minus ? -v : v;
    return true;
}

/* The keys of an object, one after the other. */
static bool next_key(struct reader *r, bool *first, char *key, size_t size)
{
    if (*first && !take(r, '{')) {
        bad(r, "an object is missing");
        return false;
    }
    if (take(r, '}'))
        return false;
    if (!*first && !take(r, ',')) {
        bad(r, "',' or '}' is missing");
        return false;
    }
    *first = false;
    if (!string(r, key, size) || r->status != PDL_OK)
        return false;
    if (!take(r, ':'))
        bad(r, "':' is missing");
    return r->status == PDL_OK;
}

/* ---- what a name is --------------------------------------------------------------- */

/* The first row whose word is part of the name, letters of either case. */
static const struct word {
    const char *part;
    enum pdl_trace_class class;
} words[] = {
    {"allreduce", PDL_TRACE_ALLREDUCE},
    {"all_reduce", PDL_TRACE_ALLREDUCE},
    {"reducescatter", PDL_TRACE_REDUCE_SCATTER},
    {"reduce_scatter", PDL_TRACE_REDUCE_SCATTER},
    {"allgather", PDL_TRACE_ALLGATHER},
    {"all_gather", PDL_TRACE_ALLGATHER},
    {"alltoall", PDL_TRACE_ALLTOALL},
    {"all_to_all", PDL_TRACE_ALLTOALL},
    {"sendrecv", PDL_TRACE_SEND},
    {"send", PDL_TRACE_SEND},
    {"recv", PDL_TRACE_SEND},
    {"", PDL_TRACE_OTHER_COMM},
};

static const struct word kernels[] = {
    {"multi_tensor_apply", PDL_TRACE_UPDATE},
    {"adam", PDL_TRACE_UPDATE},
    {"fmha", PDL_TRACE_ATTENTION},
    {"flash", PDL_TRACE_ATTENTION},
    {"attention", PDL_TRACE_ATTENTION},
    {"conv", PDL_TRACE_CONVOLUTION},
    {"wgrad", PDL_TRACE_CONVOLUTION},
    {"dgrad", PDL_TRACE_CONVOLUTION},
    {"fprop", PDL_TRACE_CONVOLUTION},
    {"implicit_gemm", PDL_TRACE_CONVOLUTION},
    {"winograd", PDL_TRACE_CONVOLUTION},
    {"gemm", PDL_TRACE_PRODUCT},
    {"gemv", PDL_TRACE_PRODUCT},
    {"cutlass", PDL_TRACE_PRODUCT},
    {"nvjet", PDL_TRACE_PRODUCT},
    {"Cijk_", PDL_TRACE_PRODUCT},
    {"", PDL_TRACE_OTHER},
};

static enum pdl_trace_class look_up(const struct word *list, const char *name)
{
    while (!strcasestr(name, list->part))
        list++;
    return list->class;
}

static const char *const class_names[] = {
#define X(name, text) text,
    PDL_TRACE_LIST(X)
#undef X
};

const char *pdl_trace_class_name(enum pdl_trace_class c)
{
    return class_names[c];
}

/* ---- events ------------------------------------------------------------------------ */

struct span {
    int64_t from, to;
    enum pdl_trace_class class;
};

struct events {
    pdl_arena *arena;
    struct span *list;
    int64_t n, cap;
    struct pdl_trace *out;
};

struct event {
    char ph[4], cat[32], name[NAME], collective[64];
    int64_t ts, dur;
    bool timed, lasts;
};

static void read_args(struct reader *r, struct event *e)
{
    bool first = true;
    char key[64];

    if (peek(r) != '{') {
        skip(r);
        return;
    }
    while (next_key(r, &first, key, sizeof key))
        if (strcmp(key, "Collective name") == 0 && peek(r) == '"')
            string(r, e->collective, sizeof e->collective);
        else
            skip(r);
}

static void read_event(struct reader *r, struct event *e)
{
    const struct {
        const char *key;
        char *to;
        size_t size;
    } texts[] = {{"ph", e->ph, sizeof e->ph},
                 {"cat", e->cat, sizeof e->cat},
                 {"name", e->name, sizeof e->name}};
    bool first = true;
    char key[64];

    while (next_key(r, &first, key, sizeof key)) {
        bool done = false;

        for (int i = 0; i < 3 && peek(r) == '"'; i++)
            if (!done && strcmp(key, texts[i].key) == 0)
                done = string(r, texts[i].to, texts[i].size);
        if (!done && strcmp(key, "ts") == 0)
            done = e->timed = nanoseconds(r, &e->ts);
        else if (!done && strcmp(key, "dur") == 0)
            done = e->lasts = nanoseconds(r, &e->dur);
        else if (!done && strcmp(key, "args") == 0) {
            read_args(r, e);
            done = true;
        }
        if (!done)
            skip(r);
    }
}

/* Which class an event of the device is of; false: it is none. */
static bool classify(const struct event *e, enum pdl_trace_class *class)
{
    if (strcmp(e->cat, "gpu_memcpy") == 0 || strcmp(e->cat, "gpu_memset") == 0)
        *class = PDL_TRACE_COPY;
    else if (strcasecmp(e->cat, "kernel") != 0)
        return false;
    else if (strcasestr(e->name, "nccl") || strcasestr(e->name, "rccl"))
        *class = look_up(words, *e->collective ? e->collective : e->name);
    else
        *class = look_up(kernels, e->name);
    return true;
}

static void keep(struct reader *r, struct events *x, const struct event *e,
                 enum pdl_trace_class class)
{
    static const int64_t most = INT64_C(1) << 60; /* 36 years */

    if (!e->timed || !e->lasts || e->dur < 0 || e->dur > most ||
        e->ts < -most || e->ts > 4 * most)
        return;
    if (x->n == x->cap) {
        int64_t cap = x->cap ? 2 * x->cap : 1024;
        void *p = cap <= MOST_EVENTS
                      ? pdl_arena_grow(x->arena, x->list, (size_t)x->n,
                                       (size_t)cap, sizeof *x->list)
                      : NULL;

        if (!p) {
            if (r->status == PDL_OK)
                r->status = pdl_fail(r->err, PDL_ENOMEM, "%s: too many events",
                                     r->name);
            return;
        }
        x->list = p;
        x->cap = cap;
    }
    x->list[x->n++] = (struct span){e->ts, e->ts + e->dur, class};
    x->out->calls[class]++;
}

/* "ProfilerStep#3" of the host: once for each step. */
static void note_step(struct events *x, const struct event *e)
{
    if (strncmp(e->name, "ProfilerStep#", 13) == 0 &&
        strncmp(e->cat, "gpu_", 4) != 0)
        x->out->steps++;
}

static void read_events(struct reader *r, struct events *x)
{
    if (!take(r, '[')) {
        bad(r, "traceEvents is no list");
        return;
    }
    if (take(r, ']'))
        return;
    do {
        struct event e = {.ph = ""};
        enum pdl_trace_class class;

        read_event(r, &e);
        if (r->status != PDL_OK)
            return;
        note_step(x, &e);
        if (strcmp(e.ph, "X") == 0 && classify(&e, &class))
            keep(r, x, &e, class);
    } while (r->status == PDL_OK && take(r, ','));
    if (r->status == PDL_OK && !take(r, ']'))
        bad(r, "',' or ']' is missing");
}

static void read_distributed(struct reader *r, struct pdl_trace *out)
{
    bool first = true;
    char key[64];
    int64_t v;

    if (peek(r) != '{') {
        skip(r);
        return;
    }
    while (next_key(r, &first, key, sizeof key)) {
        int64_t *to = strcmp(key, "rank") == 0         ? &out->rank
                      : strcmp(key, "world_size") == 0 ? &out->ranks
                                                       : NULL;

        if (to && nanoseconds(r, &v))
            *to = v / 1000;
        else
            skip(r);
    }
}

static void read_document(struct reader *r, struct events *x)
{
    bool first = true, found = false;
    char key[64];

    if (peek(r) == '[') { /* the bare list, as Chrome takes it too */
        read_events(r, x);
        return;
    }
    while (next_key(r, &first, key, sizeof key)) {
        if (strcmp(key, "traceEvents") == 0) {
            read_events(r, x);
            found = true;
        } else if (strcmp(key, "distributedInfo") == 0) {
            read_distributed(r, x->out);
        } else {
            skip(r);
        }
    }
    if (r->status == PDL_OK && !found)
        bad(r, "there are no traceEvents");
}

/* ---- sums ------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

static bool is_comm(enum pdl_trace_class c)
{
    return c >= PDL_TRACE_ALLREDUCE && c <= PDL_TRACE_OTHER_COMM;
}

/* Nanoseconds that events cover: all of them, or those that compute. */
static int64_t covered(const struct events *x, bool compute)
{
    int64_t sum = 0, end = INT64_MIN;

    for (int64_t i = 0; i < x->n; i++) {
        const struct span *s = &x->list[i];
        int64_t from = s->from > end ? s->from : end;

        if (compute && (is_comm(s->class) || s->class == PDL_TRACE_COPY))
            continue;
        if (s->to > from)
            sum += s->to - from;
        end = s->to > end ? s->to : end;
    }
    return sum;
}

static void add_up(struct events *x)
{
    struct pdl_trace *out = x->out;
    int64_t first, last = INT64_MIN, all, compute;

    if (x->n == 0)
        return;
    qsort(x->list, (size_t)x->n, sizeof *x->list, by_start);
    first = x->list[0].from;
    for (int64_t i = 0; i < x->n; i++) {
        const struct span *s = &x->list[i];

        out->busy_s[s->class] += (double)(s->to - s->from) * 1e-9;
        last = s->to > last ? s->to : last;
    }
    all = covered(x, false);
    compute = covered(x, true);
    out->span_s = (double)(last - first) * 1e-9;
    out->compute_s = (double)compute * 1e-9;
    out->exposed_s = (double)(all - compute) * 1e-9;
    out->idle_s = out->span_s - (double)all * 1e-9;
    if (out->idle_s < 0)
        out->idle_s = 0;
}

enum pdl_status pdl_trace_read(pdl_arena *a, struct pdl_bytes in,
                               const char *name, struct pdl_trace *out,
                               struct pdl_err *err)
{
    struct pdl_trace trace = {.rank = -1};
    struct events x = {.arena = a, .out = &trace};
    struct reader r = {.at = in.data,
                       .end = in.data + in.len,
                       .start = in.data,
                       .name = name,
                       .err = err};

    read_document(&r, &x);
    if (r.status == PDL_OK && peek(&r) != '\0')
        bad(&r, "something follows the document");
    if (r.status == PDL_OK && x.n == 0)
        r.status = pdl_fail(err, PDL_EPARSE,
                            "%s: no kernels: was the device profiled?", name);
    if (r.status != PDL_OK)
        return r.status;
    add_up(&x);
    *out = trace;
    return PDL_OK;
}
