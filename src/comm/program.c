/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one rank's program of coll.h on real buffers. Steps are made when they
 * can begin at the earliest (an algorithm says how far apart two steps that
 * overlap can be), begin when what they wait for is complete, and are done
 * when their messages are.
 *
 * A message that is one run of memory goes from where it is and arrives where
 * it belongs; any other is packed. What a step sends and receives into at the
 * same time is set aside first (the rule of coll.h). Scratch buffers are
 * filled with the neutral element of the operation when something is added to
 * them that nobody wrote: the model's "zeros". */
#include "comm_core.h"

#include <float.h>
#include <math.h>

struct slot {
    struct pdl_step step;
    enum { WAITING, BEGUN, DONE } state;
    int send_tag, recv_tag;
    struct comm_msg send, recv;
    char *packed, *arrived; /* where a message is not one run of memory */
};

struct program {
    pdl_comm_request head;
    struct comm_call call;
    struct comm_combine combine;
    struct pdl_coll_job job;
    int64_t size; /* of an element */
    char *buf[PDL_COLL_BUFS];
    struct comm_spare room[PDL_COLL_BUFS]; /* ours */
    uint8_t *written[PDL_COLL_BUFS];       /* scratch: by chunk */
    int64_t nsteps, base, made, window;
    struct slot *ring; /* step s is at s % window */
    int *sent, *got;   /* messages so far, by peer */
    bool begun;
};

/* ---- pieces of memory ------------------------------------------------- */

/* Walks the runs of memory that spans stand for. */
struct walk {
    const struct pdl_span *spans;
    int n, span;
    int64_t run, used; /* chunks of this run already given */
};

struct piece {
    int buf;
    int64_t first, chunks; /* chunks */
    int64_t begin, count;  /* elements */
};

static int64_t wrap(int64_t c, int64_t n)
{
    int64_t m = c % n;

    return m < 0 ? m + n : m;
}

static bool next_piece(const struct pdl_coll_job *job, struct walk *w,
                       struct piece *out)
{
    const struct pdl_span *s;
    const struct pdl_coll_buf *b;
    int64_t first, n;

    if (w->span >= w->n)
        return false;
    s = &w->spans[w->span];
    b = &job->buf[s->buf];
    first = wrap(s->first + w->run * s->stride + w->used, b->chunks);
    n = s->run - w->used;
    if (n > b->chunks - first)
        n = b->chunks - first;
    out->buf = s->buf;
    out->first = first;
    out->chunks = n;
    out->begin = pdl_coll_chunk_begin(b, first);
    out->count = pdl_coll_chunk_begin(b, first + n) - out->begin;
    w->used += n;
    if (w->used == s->run) {
        w->used = 0;
        if (++w->run == s->n) {
            w->run = 0;
            w->span++;
        }
    }
    return true;
}

/* Are the spans one run of memory? Empty pieces do not count. */
static bool one_piece(const struct pdl_coll_job *job,
                      const struct pdl_span *spans, int n, struct piece *out)
{
    struct walk w = {.spans = spans, .n = n};
    struct piece p;

    *out = (struct piece){0, 0, 0, 0, 0};
    while (next_piece(job, &w, &p)) {
        if (p.count == 0)
            continue;
        if (out->count == 0)
            *out = p;
        else if (p.buf == out->buf && p.begin == out->begin + out->count)
            out->count += p.count;
        else
            return false;
    }
    return true;
}

static bool overlaps(const struct pdl_coll_job *job, const struct piece *a,
                     const struct pdl_span *spans, int n)
{
    struct walk w = {.spans = spans, .n = n};
    struct piece p;

    while (next_piece(job, &w, &p))
        if (p.buf == a->buf && p.begin < a->begin + a->count &&
            a->begin < p.begin + p.count)
            return true;
    return false;
}

static char *at(const struct program *g, const struct piece *p)
{
    return g->buf[p->buf] + p->begin * g->size;
}

/* ---- the neutral element ---------------------------------------------- */

/* By type: what max and min start from, as bits. A sum starts from -0, which
 * changes nothing, not even the sign of a zero. */
struct neutral {
    uint64_t sum, max, min;
};
// clang-format off
static const struct neutral neutrals[PDL_NCOMM_TYPES] = {
    [PDL_COMM_F32] = {0x80000000u, 0xff800000u, 0x7f800000u},
    [PDL_COMM_F64] = {UINT64_C(1) << 63, UINT64_C(0xfff) << 52, UINT64_C(0x7ff) << 52},
    [PDL_COMM_BF16] = {0x8000, 0xff80, 0x7f80},
    [PDL_COMM_F16] = {0x8000, 0xfc00, 0x7c00},
    [PDL_COMM_I32] = {0, 0x80000000u, 0x7fffffffu},
    [PDL_COMM_I64] = {0, UINT64_C(1) << 63, INT64_MAX},
};
// clang-format on

static void fill_neutral(char *to, int64_t n, const struct comm_combine *how)
{
    const struct neutral *e = &neutrals[how->type];
    int64_t size = comm_type_bytes(how->type);
    uint64_t bits = how->op == PDL_COMM_MAX   ? e->max
                    : how->op == PDL_COMM_MIN ? e->min
                                              : e->sum;

    const uint16_t h = (uint16_t)bits;
    const uint32_t w = (uint32_t)bits;
    const void *one = size == 2   ? (const void *)&h
                      : size == 4 ? (const void *)&w
                                  : (const void *)&bits;

    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * size, one, (size_t)size);
}

/* Scratch that is read, or added to, before it is written. */
static void touch(struct program *g, const struct pdl_span *spans, int n,
                  bool overwrite)
{
    struct walk w = {.spans = spans, .n = n};
    struct piece p;

    if (g->job.nbufs == 1)
        return;
    while (next_piece(&g->job, &w, &p)) {
        const struct pdl_coll_buf *b = &g->job.buf[p.buf];

        for (int64_t c = p.first; g->written[p.buf] && c < p.first + p.chunks;
             c++) {
            int64_t begin = pdl_coll_chunk_begin(b, c);

            if (!overwrite && !g->written[p.buf][c])
                fill_neutral(g->buf[p.buf] + begin * g->size,
                             pdl_coll_chunk_begin(b, c + 1) - begin,
                             &g->combine);
            g->written[p.buf][c] = 1;
        }
    }
}

/* ---- steps ------------------------------------------------------------ */

static enum pdl_status no_memory(struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
}

static char *pack(struct program *g, const struct pdl_span *spans, int n,
                  int64_t bytes)
{
    struct walk w = {.spans = spans, .n = n};
    char *to = malloc((size_t)bytes + 1), *put = to;
    struct piece p;

    while (to && next_piece(&g->job, &w, &p)) {
        memcpy(put, at(g, &p), (size_t)(p.count * g->size));
        put += p.count * g->size;
    }
    return to;
}

static void unpack(struct program *g, const struct pdl_step *step,
                   const char *from)
{
    struct walk w = {.spans = step->recv, .n = step->nrecv};
    struct piece p;

    while (next_piece(&g->job, &w, &p)) {
        if (step->act == PDL_ACT_REDUCE)
            comm_reduce(at(g, &p), from, p.count, g->combine.type,
                        g->combine.op);
        else if (p.count > 0)
            memcpy(at(g, &p), from, (size_t)(p.count * g->size));
        from += p.count * g->size;
    }
}

static struct slot *slot_of(const struct program *g, int64_t s)
{
    return &g->ring[s % g->window];
}

static void make_step(struct program *g, int64_t s)
{
    struct slot *x = slot_of(g, s);
    int me = g->head.comm->rank;

    memset(x, 0, sizeof *x);
    pdl_coll_step(&g->job, me, s, &x->step);
    if (x->step.send_to >= 0 && x->step.send_to != me)
        x->send_tag = g->sent[x->step.send_to]++;
    if (x->step.recv_from >= 0 && x->step.recv_from != me)
        x->recv_tag = g->got[x->step.recv_from]++;
}

static bool ready(const struct program *g, const struct slot *x)
{
    for (int i = 0; i < x->step.nafter; i++) {
        int64_t a = x->step.after[i];

        if (a >= g->base && slot_of(g, a)->state != DONE)
            return false;
    }
    return true;
}

static enum pdl_status begin_send(struct program *g, struct slot *x,
                                  struct pdl_err *err)
{
    const struct pdl_step *step = &x->step;
    struct piece p;

    x->send = (struct comm_msg){.peer = step->send_to,
                                .tag = x->send_tag,
                                .channel = COMM_COLLECTIVE,
                                .send = true};
    x->send.bytes =
        pdl_coll_span_count(&g->job, step->send, step->nsend) * g->size;
    x->send.done = true;
    if (x->send.bytes == 0)
        return PDL_OK;
    touch(g, step->send, step->nsend, false);
    if (one_piece(&g->job, step->send, step->nsend, &p) &&
        !overlaps(&g->job, &p, step->recv, step->nrecv)) {
        x->send.data = at(g, &p);
    } else {
        x->packed = pack(g, step->send, step->nsend, x->send.bytes);
        if (!x->packed)
            return no_memory(err);
        x->send.data = x->packed;
    }
    return comm_post(g->head.comm, &x->send, err);
}

static enum pdl_status begin_recv(struct program *g, struct slot *x,
                                  struct pdl_err *err)
{
    const struct pdl_step *step = &x->step;
    struct piece p;

    x->recv = (struct comm_msg){.peer = step->recv_from,
                                .tag = x->recv_tag,
                                .channel = COMM_COLLECTIVE};
    x->recv.bytes =
        pdl_coll_span_count(&g->job, step->recv, step->nrecv) * g->size;
    x->recv.done = true;
    if (x->recv.bytes == 0)
        return PDL_OK;
    touch(g, step->recv, step->nrecv, step->act == PDL_ACT_COPY);
    if (one_piece(&g->job, step->recv, step->nrecv, &p)) {
        x->recv.data = at(g, &p);
        x->recv.combine = step->act == PDL_ACT_REDUCE ? &g->combine : NULL;
    } else {
        x->arrived = malloc((size_t)x->recv.bytes);
        if (!x->arrived)
            return no_memory(err);
        x->recv.data = x->arrived;
    }
    return comm_post(g->head.comm, &x->recv, err);
}

/* A step from this rank to itself. */
static enum pdl_status local(struct program *g, struct slot *x,
                             struct pdl_err *err)
{
    const struct pdl_step *step = &x->step;
    int64_t n = pdl_coll_span_count(&g->job, step->send, step->nsend);
    struct piece from;
    char *packed = NULL;

    x->send.done = x->recv.done = true;
    g->head.comm->worked += n * g->size;
    if (n == 0)
        return PDL_OK;
    touch(g, step->send, step->nsend, false);
    touch(g, step->recv, step->nrecv, step->act == PDL_ACT_COPY);
    if (!one_piece(&g->job, step->send, step->nsend, &from) ||
        overlaps(&g->job, &from, step->recv, step->nrecv)) {
        packed = pack(g, step->send, step->nsend, n * g->size);
        if (!packed)
            return no_memory(err);
    }
    unpack(g, step, packed ? packed : at(g, &from));
    free(packed);
    return PDL_OK;
}

static enum pdl_status begin(struct program *g, struct slot *x,
                             struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    int me = g->head.comm->rank;

    x->state = BEGUN;
    x->send.done = x->recv.done = true;
    if (x->step.send_to == me)
        return local(g, x, err);
    if (x->step.send_to >= 0)
        st = begin_send(g, x, err);
    if (st == PDL_OK && x->step.recv_from >= 0)
        st = begin_recv(g, x, err);
    return st;
}

static void finish(struct program *g, struct slot *x)
{
    pdl_comm *c = g->head.comm;

    if (x->recv.bytes > 0)
        c->signals++;
    c->worked += x->recv.bytes + (x->packed ? x->send.bytes : 0) +
                 (x->arrived ? x->recv.bytes : 0);
    if (x->arrived)
        unpack(g, &x->step, x->arrived);
    free(x->arrived);
    free(x->packed);
    x->arrived = x->packed = NULL;
    x->state = DONE;
}

static enum pdl_status go_on(struct program *g, bool *moved,
                             struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    *moved = false;
    while (g->made < g->nsteps && g->made < g->base + g->window)
        make_step(g, g->made++);
    for (int64_t s = g->base; st == PDL_OK && s < g->made; s++) {
        struct slot *x = slot_of(g, s);

        if (x->state == WAITING && ready(g, x))
            st = begin(g, x, err);
        if (st == PDL_OK && x->state == BEGUN && x->send.done && x->recv.done) {
            finish(g, x);
            *moved = true;
        }
    }
    while (g->base < g->made && slot_of(g, g->base)->state == DONE)
        g->base++;
    return st;
}

/* ---- before and after ------------------------------------------------- */

static struct piece own_block(const struct program *g, int buf)
{
    const struct pdl_coll_buf b = {g->job.buf[buf].count, g->job.nranks};
    int r = g->head.comm->rank;
    struct piece p = {.buf = buf, .begin = pdl_coll_chunk_begin(&b, r)};

    p.count = pdl_coll_chunk_begin(&b, r + 1) - p.begin;
    return p;
}

static void move_bytes(struct program *g, void *to, const void *from,
                       int64_t bytes)
{
    if (to == from || bytes == 0)
        return;
    memmove(to, from, (size_t)bytes);
    g->head.comm->worked += bytes;
}

/* How a collective's caller sees the buffers of its program. */
struct shape {
    const char *name;
    bool private_input; /* buffer 0 is ours: the caller's must not change */
    bool own_input;     /* the caller gives only its own block */
    bool own_result;    /* the caller gets only its own block */
};
static const struct shape shapes[] = {
    {"allreduce", false, false, false}, {"reduce-scatter", true, false, true},
    {"allgather", false, true, false},  {"broadcast", false, false, false},
    {"alltoall", true, false, false},
};

static const struct shape *shape_of(const struct program *g)
{
    int i = 0;

    while (strcmp(shapes[i].name, g->call.collective) != 0)
        i++;
    return &shapes[i];
}

static void bring_in(struct program *g)
{
    const struct shape *s = shape_of(g);
    struct piece own = own_block(g, 0);

    if (s->own_input)
        move_bytes(g, at(g, &own), g->call.in, own.count * g->size);
    else
        move_bytes(g, g->buf[0], g->call.in, g->job.count * g->size);
}

static void bring_out(struct program *g)
{
    const struct shape *s = shape_of(g);
    const struct pdl_collective *coll = g->job.alg->collective;
    struct piece own = own_block(g, coll->result);
    int64_t n = s->own_result ? own.count : g->job.buf[coll->result].count;

    if (s->own_result)
        move_bytes(g, g->call.out, at(g, &own), own.count * g->size);
    if (g->call.op == PDL_COMM_AVG)
        comm_scale(g->call.out, n, g->call.type, g->job.nranks);
}

static enum pdl_status advance(pdl_comm_request *r, bool *done,
                               struct pdl_err *err)
{
    struct program *g = (struct program *)r;
    enum pdl_status st = PDL_OK;
    bool moved = true;

    if (!g->begun) {
        g->begun = true;
        bring_in(g);
    }
    while (st == PDL_OK && moved && g->base < g->nsteps)
        st = go_on(g, &moved, err);
    *done = st == PDL_OK && g->base == g->nsteps;
    if (*done)
        bring_out(g);
    return st;
}

/* Memory for a buffer. The pages of what was used last are there already,
 * those of new memory are made one by one as they are touched. */
static bool take_room(struct program *g, int b)
{
    struct comm_spare *spare = &g->head.comm->spare[b];
    int64_t bytes = g->job.buf[b].count * g->size + 1;

    if (spare->data && spare->bytes >= bytes) {
        g->room[b] = *spare;
        *spare = (struct comm_spare){NULL, 0};
    } else {
        g->room[b] = (struct comm_spare){malloc((size_t)bytes), bytes};
    }
    g->buf[b] = g->room[b].data;
    return g->buf[b];
}

static void give_room(struct program *g, int b)
{
    enum { KEEP = 64 << 20 };
    struct comm_spare *spare = &g->head.comm->spare[b], old = *spare;

    if (g->room[b].bytes > old.bytes && g->room[b].bytes <= KEEP &&
        !*g->head.comm->broken) {
        *spare = g->room[b];
        free(old.data);
    } else {
        free(g->room[b].data);
    }
    g->room[b] = (struct comm_spare){NULL, 0};
}

static bool release(pdl_comm_request *r, bool force)
{
    struct program *g = (struct program *)r;

    /* others may still read or write what a broken one left under way */
    if (!force && *r->comm->broken && g->begun && g->base < g->nsteps)
        return false;
    for (int64_t i = 0; g->ring && i < g->window; i++) {
        free(g->ring[i].packed);
        free(g->ring[i].arrived);
    }
    for (int b = 0; b < PDL_COLL_BUFS; b++) {
        if (force) /* the communicator may be gone */
            free(g->room[b].data);
        else
            give_room(g, b);
        free(g->written[b]);
    }
    free(g->ring);
    free(g->sent);
    free(g->got);
    return true;
}

/* ---- making one ------------------------------------------------------- */

/* May the program use the caller's input as buffer 0: is nothing received
 * into it, and is the output elsewhere? */
static bool reads_input(const struct program *g)
{
    enum { FEW = 256 };
    const struct shape *s = shape_of(g);
    const char *in = g->call.in, *out = g->call.out;
    int64_t bytes = g->job.count * g->size;

    if (!s->private_input || s->own_input || g->nsteps > FEW ||
        g->job.alg->collective->result == 0 ||
        (in < out + bytes && out < in + bytes))
        return false;
    for (int64_t i = 0; i < g->nsteps; i++) {
        struct pdl_step step;

        pdl_coll_step(&g->job, g->head.comm->rank, i, &step);
        for (int k = 0; step.recv_from >= 0 && k < step.nrecv; k++)
            if (step.recv[k].buf == 0)
                return false;
    }
    return true;
}

static bool take_buffers(struct program *g)
{
    const struct shape *s = shape_of(g);
    int result = g->job.alg->collective->result;
    bool ok = true;

    for (int b = 0; b < g->job.nbufs; b++) {
        if (b == result && !s->own_result) {
            g->buf[b] = g->call.out;
            continue;
        }
        if (b == 0 && reads_input(g)) { /* and never writes */
            g->buf[b] = (char *)(uintptr_t)g->call.in;
            continue;
        }
        ok = ok && take_room(g, b);
        if (b > 0)
            g->written[b] = calloc((size_t)g->job.buf[b].chunks, 1);
        ok = ok && (b == 0 || g->written[b]);
    }
    return ok;
}

static enum pdl_status prepare(struct program *g, struct pdl_err *err)
{
    int64_t window = g->job.alg->window ? g->job.alg->window(&g->job) : 1;
    size_t p = (size_t)g->job.nranks;

    g->nsteps = pdl_coll_nsteps(&g->job, g->head.comm->rank);
    if (window > g->nsteps)
        window = g->nsteps;
    g->window = window < 1 ? 1 : window;
    g->ring = calloc((size_t)g->window, sizeof *g->ring);
    g->sent = calloc(p, sizeof *g->sent);
    g->got = calloc(p, sizeof *g->got);
    if (!g->ring || !g->sent || !g->got || !take_buffers(g))
        return no_memory(err);
    return PDL_OK;
}

static enum pdl_status make_job(struct program *g, const char *spec,
                                struct pdl_err *err)
{
    const pdl_comm *c = g->head.comm;
    enum pdl_status st = PDL_OK;

    if (!spec)
        pdl_coll_program_job(c->program, &g->job);
    g->job.nranks = c->size;
    g->job.count = g->call.count;
    g->job.elem_bytes = (int)g->size;
    if (spec)
        st = pdl_alg_parse(g->call.collective, spec, &g->job, err);
    g->job.params.root = g->call.root;
    return st == PDL_OK ? pdl_coll_setup(&g->job, err) : st;
}

enum pdl_status comm_program(pdl_comm *c, const struct comm_call *call,
                             const char *spec, pdl_comm_request **out,
                             struct pdl_err *err)
{
    struct program *g = calloc(1, sizeof *g);
    enum pdl_status st;

    if (!g)
        return no_memory(err);
    g->head.comm = c;
    g->head.what = call->collective;
    g->head.advance = advance;
    g->head.release = release;
    g->call = *call;
    g->combine = (struct comm_combine){call->type, call->op};
    g->size = comm_type_bytes(call->type);
    g->head.is_long = call->count * g->size / c->size >= COMM_LONG_BYTES;
    st = make_job(g, spec, err);
    if (st == PDL_OK)
        st = prepare(g, err);
    c->used = "messages";
    if (st != PDL_OK) {
        release(&g->head, true);
        free(g);
        return st;
    }
    return comm_enqueue(&g->head, out, err);
}
