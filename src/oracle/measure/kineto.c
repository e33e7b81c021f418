/* SPDX-License-Identifier: Apache-2.0
 *
 * A step as PyTorch's profiler saw it (Kineto: Chrome-trace JSON, plain or
 * gzip), summed up so that it can stand beside a projection: kernels by what
 * they do, the time in which only the network works, the time in which
 * nothing does. The file is read as a stream; of an event only what is needed
 * is kept, 24 bytes for each kernel.
 *
 * Two traps of these files: ts is in microseconds, whole or fractional; and a
 * collective's kernel also waits for the slowest rank, so that its time is
 * an upper bound of the transfer. Kernels are told apart by their names,
 * which NVIDIA's libraries and PyTorch have kept stable for years; what no row
 * of the table knows is counted as "other".
 *
 * A job on processors has no kernels: its operators are taken, each without
 * those inside of it (kineto_host.c). Where PyTorch is built without Kineto, as
 * Debian's is, the file is a list of events without categories. */
#include "oracle/measure/kineto.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 160, CAT = 32 };

/* First match counts; words are lower case and matched anywhere. */
static const struct kind {
    const char *name, *words; /* separated by blanks */
    enum pdl_kineto_phase phase;
} kinds[] = {
    {"send and receive", "nccl*sendrecv nccl*send nccl*recv", PDL_KINETO_P2P},
    {"allreduce", "nccl*allreduce gloo:all_reduce", PDL_KINETO_COLLECTIVE},
    {"allgather", "nccl*allgather gloo:all_gather", PDL_KINETO_COLLECTIVE},
    {"reduce-scatter", "nccl*reducescatter", PDL_KINETO_COLLECTIVE},
    {"other collectives", "nccl rccl gloo:", PDL_KINETO_COLLECTIVE},
    {"update", "multi_tensor_apply adam sgd lamb optimizer", PDL_KINETO_UPDATE},
    {"attention", "flash fmha attention sdpa dot_do_o convert_dq",
     PDL_KINETO_COMPUTE},
    {"normalisation", "norm gammabeta bn_fw bn_bw welford", PDL_KINETO_COMPUTE},
    {"convolution",
     "convolution conv2d conv3d fprop dgrad wgrad winograd implicit_gemm "
     "addpadding nchwtonhwc nhwctonchw",
     PDL_KINETO_COMPUTE},
    {"matrix product",
     "gemm gemv cutlass cublas nvjet xmma splitk addmm aten::mm aten::bmm "
     "aten::matmul aten::linear",
     PDL_KINETO_COMPUTE},
    {"pooling", "pool", PDL_KINETO_COMPUTE},
    {"loss", "softmax nll_loss cross_entropy", PDL_KINETO_COMPUTE},
    {"embedding",
     "embedding indexselect index_ gather scatter radix_sort unique_by_key "
     "compute_grad_weight",
     PDL_KINETO_COMPUTE},
    {"element-wise",
     "elementwise vectorized reduce_kernel dropout relu gelu silu fused triton "
     "catarray copy fill",
     PDL_KINETO_COMPUTE},
    {"other", "", PDL_KINETO_COMPUTE},
};
enum { NKINDS = sizeof kinds / sizeof kinds[0], COPIES = NKINDS };

_Static_assert(NKINDS + 1 <= PDL_KINETO_CLASSES, "classes");

struct span {
    double from, to;
};

struct spans {
    struct span *s;
    size_t n, cap;
};

/* What is kept of the event that is being read. */
struct event {
    char ph[4], cat[CAT], name[NAME];
    double ts, dur;
    char pid[24], tid[24];
};

struct reader {
    struct pdl_pull *p;
    struct pdl_kineto *out;
    struct pdl_err *err;
    struct spans network, device; /* busy */
    struct kineto_ops host;       /* until there is a kernel */
    char pid[24];                 /* of the first device */
    double marked_s;              /* all steps */
    double origin;                /* ts of the first kernel */
    double first, last;           /* of kernels, after it */
};

static bool add_span(struct spans *x, double from, double to)
{
    if (x->n == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 1024;
        struct span *s = realloc(x->s, cap * sizeof *s);

        if (!s)
            return false;
        x->s = s;
        x->cap = cap;
    }
    x->s[x->n++] = (struct span){from, to};
    return true;
}

/* Does a word (with at most one "*", both sides in this order) occur? */
static bool occurs(const char *name, const char *word, size_t len)
{
    const char *star = memchr(word, '*', len);
    size_t head = star ? (size_t)(star - word) : len;

    for (; *name; name++)
        if (strncmp(name, word, head) == 0)
            return !star || occurs(name + head, star + 1, len - head - 1);
    return false;
}

static int classify(const char *name)
{
    char low[NAME];
    size_t n = strlen(name);

    for (size_t i = 0; i <= n; i++)
        low[i] = (char)tolower((unsigned char)name[i]);
    for (int k = 0; k < NKINDS - 1; k++)
        for (const char *w = kinds[k].words; *w;) {
            size_t len = strcspn(w, " ");

            if (occurs(low, w, len))
                return k;
            w += len + (w[len] == ' ');
        }
    return NKINDS - 1;
}

static struct spans *busy(struct reader *r, int k)
{
    enum pdl_kineto_phase phase = r->out->of[k].phase;

    return phase == PDL_KINETO_COLLECTIVE || phase == PDL_KINETO_P2P
               ? &r->network
               : &r->device;
}

static bool add_kernel(struct reader *r, const struct event *e, int k)
{
    struct pdl_kineto_class *c = &r->out->of[k];
    double from, to;

    if (r->out->kernels == 0) {
        memcpy(r->pid, e->pid, sizeof r->pid);
        r->origin = e->ts;
        r->host.n = 0;
    }
    /* clocks count from the machine's start: keep the digits of differences */
    from = (e->ts - r->origin) * 1e-6;
    to = from + e->dur * 1e-6;
    if (strcmp(r->pid, e->pid) != 0)
        return true; /* of another device: its own trace has it */
    c->calls++;
    c->seconds += e->dur * 1e-6;
    r->out->kernels++;
    r->first = fmin(r->first, from);
    r->last = fmax(r->last, to);
    return add_span(busy(r, k), from, to);
}

static bool has_prefix(const char *s, const char *head)
{
    return strncmp(s, head, strlen(head)) == 0;
}

static bool is_of_host(const struct event *e)
{
    return (e->cat[0] == '\0' || strcmp(e->cat, "cpu_op") == 0 ||
            has_prefix(e->name, "Optimizer.")) &&
           !has_prefix(e->name, "ProfilerStep#");
}

static bool add_host(struct reader *r, const struct event *e)
{
    struct kineto_op op = {.kind = (int16_t)classify(e->name),
                           .step = has_prefix(e->name, "Optimizer.step#")};

    if (r->host.n == 0)
        r->origin = e->ts;
    op.from = (e->ts - r->origin) * 1e-6;
    op.to = op.from + e->dur * 1e-6;
    for (const char *t = e->tid; *t; t++)
        op.thread = 31 * op.thread + (unsigned char)*t;
    return oracle_kineto_add(&r->host, &op);
}

/* Operators of processors in the place of kernels. Steps that nobody marked are
 * as many as the optimizer's. */
static bool take_host(struct reader *r)
{
    struct pdl_kineto *out = r->out;
    int64_t steps = 0;

    oracle_kineto_nest(&r->host);
    r->first = INFINITY;
    for (size_t i = 0; i < r->host.n; i++) {
        const struct kineto_op *op = &r->host.op[i];

        out->of[op->kind].calls += !op->inside;
        out->of[op->kind].seconds += fmax(0, op->own);
        steps += op->step;
        r->first = fmin(r->first, op->from);
        r->last = fmax(r->last, op->to);
        if (op->top && !add_span(busy(r, op->kind), op->from, op->to))
            return false;
    }
    out->kernels = (int64_t)r->host.n;
    if (out->steps == 0 && steps > 0) {
        out->steps = steps;
        r->marked_s = r->last - r->first;
    }
    return true;
}

static enum pdl_status add_event(struct reader *r, const struct event *e)
{
    bool kept = true;

    r->out->events++;
    if (strcmp(e->ph, "X") != 0 || !(e->dur >= 0) || !isfinite(e->dur) ||
        !isfinite(e->ts))
        return PDL_OK;
    if (strcmp(e->cat, "kernel") == 0) {
        kept = add_kernel(r, e, classify(e->name));
    } else if (has_prefix(e->cat, "gpu_mem")) {
        kept = add_kernel(r, e, COPIES);
    } else if (strcmp(e->cat, "user_annotation") == 0 &&
               has_prefix(e->name, "ProfilerStep#")) {
        r->out->steps++;
        r->marked_s += e->dur * 1e-6;
    } else if (r->out->kernels == 0 && is_of_host(e)) {
        kept = add_host(r, e);
    }
    return kept ? PDL_OK : pdl_fail(r->err, PDL_ENOMEM, "out of memory");
}

static void keep(char *to, size_t size, const char *text)
{
    size_t n = strlen(text);

    n = n < size ? n : size - 1;
    memcpy(to, text, n);
    to[n] = '\0';
}

/* One member of an event, after its key. */
static enum pdl_status read_member(struct reader *r, const char *key,
                                   struct event *e)
{
    struct {
        const char *key;
        char *text;
        size_t size;
        double *num;
    } const known[] = {
        {"ph", e->ph, sizeof e->ph, NULL},
        {"cat", e->cat, sizeof e->cat, NULL},
        {"name", e->name, sizeof e->name, NULL},
        {"pid", e->pid, sizeof e->pid, NULL},
        {"tid", e->tid, sizeof e->tid, NULL},
        {"ts", NULL, 0, &e->ts},
        {"dur", NULL, 0, &e->dur},
    };
    enum pdl_token kind;
    const char *text;
    enum pdl_status st;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(key, known[i].key) != 0)
            continue;
        st = pdl_pull_next(r->p, &kind, &text, r->err);
        if (st != PDL_OK)
            return st;
        if (kind != PDL_TOKEN_STRING && kind != PDL_TOKEN_NUMBER)
            return pdl_pull_fail(r->p, r->err,
                                 "an event's %s is text or a number",
                                 known[i].key);
        if (known[i].num)
            *known[i].num = pdl_strtod(text, NULL);
        else
            keep(known[i].text, known[i].size, text);
        return PDL_OK;
    }
    return pdl_pull_skip(r->p, r->err);
}

/* The rest of an object, each member by what the caller makes of its key. */
static enum pdl_status read_event(struct reader *r)
{
    struct event e = {.dur = -1};
    enum pdl_token kind;
    const char *text;
    char key[16];
    enum pdl_status st;

    while ((st = pdl_pull_next(r->p, &kind, &text, r->err)) == PDL_OK &&
           kind == PDL_TOKEN_KEY) {
        keep(key, sizeof key, text);
        st = read_member(r, key, &e);
        if (st != PDL_OK)
            return st;
    }
    return st == PDL_OK ? add_event(r, &e) : st;
}

static enum pdl_status read_list(struct reader *r)
{
    enum pdl_token kind;
    enum pdl_status st = PDL_OK;

    while (st == PDL_OK) {
        st = pdl_pull_next(r->p, &kind, NULL, r->err);
        if (st != PDL_OK || kind == PDL_TOKEN_CLOSE)
            return st;
        if (kind != PDL_TOKEN_OBJECT)
            return pdl_pull_fail(r->p, r->err, "an event is an object");
        st = read_event(r);
    }
    return st;
}

static enum pdl_status read_events(struct reader *r)
{
    enum pdl_token kind;
    enum pdl_status st = pdl_pull_next(r->p, &kind, NULL, r->err);

    if (st == PDL_OK && kind != PDL_TOKEN_ARRAY)
        return pdl_pull_fail(r->p, r->err, "traceEvents is a list");
    return st == PDL_OK ? read_list(r) : st;
}

/* The file is an object with traceEvents among its members, or their list. */
static enum pdl_status read_file(struct reader *r)
{
    enum pdl_token kind;
    const char *key;
    enum pdl_status st = pdl_pull_next(r->p, &kind, NULL, r->err);
    bool list = st == PDL_OK && kind == PDL_TOKEN_ARRAY;

    if (st == PDL_OK && !list && kind != PDL_TOKEN_OBJECT)
        return pdl_pull_fail(r->p, r->err,
                             "a trace is an object with traceEvents");
    if (list)
        st = read_list(r);
    while (st == PDL_OK && !list) {
        st = pdl_pull_next(r->p, &kind, &key, r->err);
        if (st != PDL_OK || kind != PDL_TOKEN_KEY)
            break;
        st = strcmp(key, "traceEvents") == 0 ? read_events(r)
                                             : pdl_pull_skip(r->p, r->err);
    }
    return st == PDL_OK ? pdl_pull_next(r->p, &kind, NULL, r->err) : st;
}

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

/* Seconds in which at least one of them is busy. */
static double cover(struct spans *x)
{
    double sum = 0, end = -INFINITY;

    if (x->n > 1)
        qsort(x->s, x->n, sizeof *x->s, by_start);
    for (size_t i = 0; i < x->n; i++) {
        double from = fmax(x->s[i].from, end);

        if (x->s[i].to > from) {
            sum += x->s[i].to - from;
            end = x->s[i].to;
        }
    }
    return sum;
}

/* Sums become means of a step; false without memory. */
static bool sum_up(struct reader *r)
{
    struct pdl_kineto *out = r->out;
    double device = cover(&r->device), steps, all;

    for (size_t i = 0; i < r->network.n; i++)
        if (!add_span(&r->device, r->network.s[i].from, r->network.s[i].to))
            return false;
    all = cover(&r->device);
    out->marked = out->steps > 0;
    steps = out->marked ? (double)out->steps : 1;
    out->step_s = (out->marked ? r->marked_s : r->last - r->first) / steps;
    for (int k = 0; k < out->nclasses; k++) {
        out->of[k].seconds /= steps;
        out->phase_s[out->of[k].phase] += out->of[k].seconds;
    }
    out->exposed_s = (all - device) / steps;
    out->idle_s = fmax(0, out->step_s - all / steps);
    return true;
}

static enum pdl_status read_all(struct pdl_pull *p, const char *name,
                                struct pdl_kineto *out, struct pdl_err *err)
{
    struct reader r = {.p = p, .out = out, .err = err};
    enum pdl_status st;

    *out = (struct pdl_kineto){.nclasses = NKINDS + 1};
    for (int k = 0; k < NKINDS; k++)
        out->of[k] = (struct pdl_kineto_class){.name = kinds[k].name,
                                               .phase = kinds[k].phase};
    out->of[COPIES] =
        (struct pdl_kineto_class){.name = "copies", .phase = PDL_KINETO_COPY};
    st = read_file(&r);
    if (st == PDL_OK && out->kernels == 0 && !take_host(&r))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK && out->kernels == 0)
        st = pdl_fail(err, PDL_EPARSE,
                      "%s: no kernel and no operator in %lld events", name,
                      (long long)out->events);
    if (st == PDL_OK && !sum_up(&r))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    free(r.network.s);
    free(r.device.s);
    free(r.host.op);
    return st;
}

enum pdl_status pdl_kineto_read(const char *path, struct pdl_kineto *out,
                                struct pdl_err *err)
{
    struct pdl_pull *p;
    enum pdl_status st = pdl_pull_open(path, &p, err);

    if (st != PDL_OK)
        return st;
    st = read_all(p, path, out, err);
    pdl_pull_close(p);
    return st;
}

enum pdl_status pdl_kineto_bytes(struct pdl_bytes in, const char *name,
                                 struct pdl_kineto *out, struct pdl_err *err)
{
    struct pdl_pull *p;
    enum pdl_status st = pdl_pull_bytes(in, name, &p, err);

    if (st != PDL_OK)
        return st;
    st = read_all(p, name, out, err);
    pdl_pull_close(p);
    return st;
}

static double compute_of(const struct pdl_projection *x)
{
    return x->forward_s + x->backward_s + x->recompute_s;
}

static double update_of(const struct pdl_projection *x)
{
    return x->update_s;
}

static double collectives_of(const struct pdl_projection *x)
{
    return x->gradient_comm_s + x->layer_comm_s + x->halo_s;
}

static double p2p_of(const struct pdl_projection *x)
{
    return x->p2p_s;
}

static double exposed_of(const struct pdl_projection *x)
{
    return x->exposed_comm_s;
}

static double idle_of(const struct pdl_projection *x)
{
    return x->bubble_s + x->io_s;
}

static double step_of(const struct pdl_projection *x)
{
    return x->step_s;
}

int pdl_kineto_join(const struct pdl_kineto *k, const struct pdl_projection *x,
                    struct pdl_kineto_row *out)
{
    const struct {
        const char *name;
        double (*projected)(const struct pdl_projection *x);
        double measured;
    } rows[] = {
        {"computation", compute_of, k->phase_s[PDL_KINETO_COMPUTE]},
        {"update", update_of, k->phase_s[PDL_KINETO_UPDATE]},
        {"collectives, busy", collectives_of,
         k->phase_s[PDL_KINETO_COLLECTIVE]},
        {"stage to stage, busy", p2p_of, k->phase_s[PDL_KINETO_P2P]},
        {"exposed communication", exposed_of, k->exposed_s},
        {"idle: bubble, I/O, host", idle_of, k->idle_s},
        {"step", step_of, k->step_s},
    };
    int n = sizeof rows / sizeof rows[0];

    _Static_assert(sizeof rows / sizeof rows[0] <= PDL_KINETO_ROWS, "rows");
    for (int i = 0; i < n; i++)
        out[i] = (struct pdl_kineto_row){rows[i].name, rows[i].projected(x),
                                         rows[i].measured};
    return n;
}
