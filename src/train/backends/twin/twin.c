/* SPDX-License-Identifier: Apache-2.0
 *
 * Device twin: the host plays a device, so that everything between the executor
 * and a device is tested where there is none. Its memory cannot be touched but
 * by work of its own (the pages are closed to all else: host code that looks at
 * a tensor dies at once). What it is given lies in its streams until somebody
 * waits, or until chance has it done earlier; of the streams that may go on,
 * chance takes one (twin:SEED), and one stream, or none, last of all. So each
 * run is another of the orders that the tickets allow, and work that relies on
 * an order nobody asked for goes wrong.
 *
 * Kernels are the reference backend's, work of the executor is the host's. */
#include "train/exec/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { OPERANDS = 80, SELDOM = 12, FEW = 3, MANY = 30 };

struct twin;

struct region {
    void *at;
    size_t bytes;
    struct region *next;
};

/* Something in a stream. */
struct job {
    struct job *next;
    void (*run)(struct twin *w, struct job *j);
    uint64_t ticket; /* run NULL: wait for it; else it is reached afterwards */
    void *to;
    const void *from;
    int64_t bytes;
    int byte;
    const struct train_work *work;
    const struct train_kernel *kernel;
    struct train_moment when;
    void *at[2 * OPERANDS], *scratch;
    int nin;
    _Alignas(8) char args[TRAIN_ARGS];
};

/* What a stream kept instead of doing it. */
struct held {
    struct held *next;
    struct job *first, **last;
    struct train_moment when;
};

struct twin {
    pdl_arena *arena;
    int64_t may_lock;            /* bytes of the host's memory */
    struct held *held, *holding; /* all; the one that is being given */
    uint64_t seed, draws, tickets;
    int slow; /* the stream that waits for all others; TRAIN_STREAMS: none */
    uint32_t many; /* jobs done at once: few, and the host is far ahead */
    struct region *regions;
    bool open; /* its memory */
    struct job *first[TRAIN_STREAMS], **last[TRAIN_STREAMS];
    uint64_t reached[TRAIN_STREAMS];
    double *marks;
    int64_t nmarks;
    enum pdl_status st;
    struct pdl_err err;
    void *ref;
};

/* ---- memory ----------------------------------------------------------- */

static void unlock(struct twin *w, bool open)
{
    if (w->open == open)
        return;
    for (struct region *r = w->regions; r; r = r->next)
        (void)!mprotect(r->at, r->bytes,
                        open ? PROT_READ | PROT_WRITE : PROT_NONE);
    w->open = open;
}

static enum pdl_status twin_alloc(void *state, int64_t bytes, void **out,
                                  struct pdl_err *err)
{
    struct twin *w = state;
    struct region *r = PDL_NEW(w->arena, struct region, 1);
    size_t n = (size_t)bytes + 1;
    void *p = r ? mmap(NULL, n, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                : MAP_FAILED;

    if (p == MAP_FAILED)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the twin");
    memset(p, 0xff, n); /* what nobody wrote is no number */
    if (!w->open)
        (void)!mprotect(p, n, PROT_NONE);
    *r = (struct region){p, n, w->regions};
    w->regions = r;
    *out = p;
    return PDL_OK;
}

static void twin_free(void *state, void *p)
{
    struct twin *w = state;

    for (struct region **r = &w->regions; *r; r = &(*r)->next)
        if ((*r)->at == p && p) {
            (void)!munmap(p, (*r)->bytes);
            *r = (*r)->next;
            return;
        }
}

/* ---- streams ---------------------------------------------------------- */

static int stream_of(uint64_t ticket)
{
    return (int)(ticket % TRAIN_STREAMS);
}

static bool is_reached(const struct twin *w, uint64_t ticket)
{
    return w->reached[stream_of(ticket)] >= ticket;
}

static uint32_t draw(struct twin *w, uint32_t below)
{
    return pdl_philox(w->seed, UINT64_C(0x7477696e), w->draws++).v[0] % below;
}

static bool may_go_on(const struct twin *w, int s)
{
    const struct job *j = w->first[s];

    return j && (j->run || is_reached(w, j->ticket));
}

/* A stream that may go on, by chance; the slow one if no other may; -1. */
static int some_stream(struct twin *w)
{
    int s = (int)draw(w, TRAIN_STREAMS);

    for (int i = 0; i < TRAIN_STREAMS; i++, s = (s + 1) % TRAIN_STREAMS)
        if (s != w->slow && may_go_on(w, s))
            return s;
    return w->slow < TRAIN_STREAMS && may_go_on(w, w->slow) ? w->slow : -1;
}

/* The first job of that stream; false: none may go on. */
static bool do_one(struct twin *w)
{
    int s = some_stream(w);
    struct job *j;

    if (s < 0)
        return false;
    j = w->first[s];
    w->first[s] = j->next;
    if (!j->next)
        w->last[s] = &w->first[s];
    if (j->run) {
        j->run(w, j);
        if (j->ticket)
            w->reached[s] = j->ticket;
    }
    free(j);
    return true;
}

/* Chance lets the device run ahead of the host's next word; not every time:
 * opening the memory takes longer than small work. */
static void do_some(struct twin *w)
{
    uint32_t n = draw(w, SELDOM) == 0 ? draw(w, w->many) : 0;

    if (n == 0)
        return;
    unlock(w, true);
    while (n-- > 0 && do_one(w))
        ;
    unlock(w, false);
}

static enum pdl_status append(struct twin *w, enum train_stream s,
                              const struct job *what, struct pdl_err *err)
{
    struct job *j = malloc(sizeof *j);

    if (!j)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the twin");
    *j = *what;
    j->next = NULL;
    if (w->holding && s == TRAIN_COMPUTE) {
        *w->holding->last = j;
        w->holding->last = &j->next;
        return PDL_OK;
    }
    *w->last[s] = j;
    w->last[s] = &j->next;
    do_some(w);
    return PDL_OK;
}

static enum pdl_status twin_hold(void *state, const struct train_moment *when,
                                 struct pdl_err *err)
{
    struct twin *w = state;
    struct held *h = PDL_NEW(w->arena, struct held, 1);

    if (!h)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the twin");
    *h = (struct held){.next = w->held, .last = &h->first, .when = *when};
    w->held = w->holding = h;
    return PDL_OK;
}

static enum pdl_status twin_held(void *state, void **work, struct pdl_err *err)
{
    struct twin *w = state;

    (void)err;
    *work = w->holding;
    w->holding = NULL;
    return PDL_OK;
}

static enum pdl_status twin_repeat(void *state, void *work,
                                   const struct train_moment *when,
                                   struct pdl_err *err)
{
    const struct held *h = work;
    enum pdl_status st = PDL_OK;

    for (const struct job *j = h->first; j && st == PDL_OK; j = j->next) {
        struct job now = *j;

        now.when.step += when->step - h->when.step;
        now.when.first_sample += when->first_sample - h->when.first_sample;
        st = append(state, TRAIN_COMPUTE, &now, err);
    }
    return st;
}

static void do_mark(struct twin *w, struct job *j)
{
    (void)w;
    (void)j;
}

static void do_look(struct twin *w, struct job *j)
{
    w->marks[j->bytes] = pdl_clock_s();
}

static enum pdl_status twin_mark(void *state, enum train_stream s, int64_t i,
                                 struct pdl_err *err)
{
    struct twin *w = state;

    if (i >= w->nmarks) {
        double *more =
            realloc(w->marks, (size_t)(2 * i + 256) * sizeof(double));

        if (!more)
            return pdl_fail(err, PDL_ENOMEM, "out of memory for the twin");
        w->marks = more;
        w->nmarks = 2 * i + 256;
    }
    return append(w, s, &(struct job){.run = do_look, .bytes = i}, err);
}

static double twin_between(void *state, int64_t from, int64_t to)
{
    const struct twin *w = state;

    return w->marks[to] - w->marks[from];
}

static uint64_t twin_record(void *state, enum train_stream s)
{
    struct twin *w = state;
    struct job j = {.run = do_mark};

    j.ticket = ++w->tickets * TRAIN_STREAMS + s;
    return append(w, s, &j, &w->err) == PDL_OK ? j.ticket : 0;
}

static void twin_wait(void *state, enum train_stream s, uint64_t ticket)
{
    (void)!append(state, s, &(struct job){.ticket = ticket}, NULL);
}

static bool twin_reached(void *state, uint64_t ticket)
{
    do_some(state);
    return is_reached(state, ticket);
}

static enum pdl_status twin_finish(void *state, uint64_t ticket,
                                   struct pdl_err *err)
{
    struct twin *w = state;

    unlock(w, true);
    while (!is_reached(w, ticket) && do_one(w))
        ;
    unlock(w, false);
    if (!is_reached(w, ticket))
        return pdl_fail(err, PDL_EWRONG,
                        "the twin's streams wait for each "
                        "other");
    if (w->st != PDL_OK && err)
        *err = w->err;
    return w->st;
}

/* ---- work ------------------------------------------------------------- */

static void do_copy(struct twin *w, struct job *j)
{
    (void)w;
    memmove(j->to, j->from, (size_t)j->bytes);
}

static enum pdl_status twin_copy(void *state, enum train_stream s,
                                 enum train_way way, void *to, const void *from,
                                 int64_t bytes, struct pdl_err *err)
{
    (void)way;
    return append(
        state, s,
        &(struct job){.run = do_copy, .to = to, .from = from, .bytes = bytes},
        err);
}

static void do_fill(struct twin *w, struct job *j)
{
    (void)w;
    memset(j->to, j->byte, (size_t)j->bytes);
}

static enum pdl_status twin_fill(void *state, enum train_stream s, void *to,
                                 int byte, int64_t bytes, struct pdl_err *err)
{
    return append(
        state, s,
        &(struct job){.run = do_fill, .to = to, .byte = byte, .bytes = bytes},
        err);
}

static void do_task(struct twin *w, struct job *j)
{
    (void)w;
    j->work->run(j->args, j->at);
}

static enum pdl_status twin_launch(void *state, enum train_stream s,
                                   const struct train_task *t,
                                   struct pdl_err *err)
{
    struct job j = {.run = do_task, .work = t->work};

    if (t->args_bytes > sizeof j.args)
        return pdl_fail(err, PDL_EWRONG, "%s: too many arguments",
                        t->work->name);
    memcpy(j.args, t->args, t->args_bytes);
    for (int i = 0; i < t->n; i++)
        j.at[i] = t->span[i].at;
    return append(state, s, &j, err);
}

/* ---- kernels ---------------------------------------------------------- */

struct twin_kernel {
    struct train_kernel base;
    struct twin *w;
    struct train_kernel *ref;
    int nin, nout;
};

static void do_kernel(struct twin *w, struct job *j)
{
    struct pdl_err err;
    enum pdl_status st = j->kernel->run(j->kernel, j->at, j->at + j->nin,
                                        j->scratch, &j->when, &err);

    if (st == PDL_OK || w->st != PDL_OK)
        return;
    w->st = st;
    w->err = err;
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct twin_kernel *k = (const struct twin_kernel *)base;
    struct job j = {.run = do_kernel,
                    .kernel = k->ref,
                    .when = *when,
                    .scratch = scratch,
                    .nin = k->nin};

    memcpy(j.at, in, (size_t)k->nin * sizeof *in);
    memcpy(j.at + k->nin, out, (size_t)k->nout * sizeof *out);
    return append(k->w, TRAIN_COMPUTE, &j, err);
}

static enum pdl_status make(void *state, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    struct twin *w = state;
    struct twin_kernel *k = PDL_NEW(w->arena, struct twin_kernel, 1);
    enum pdl_status st;

    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (c->nin > OPERANDS || c->nout > OPERANDS)
        return pdl_fail(err, PDL_EINVAL, "too many operands");
    st = train_ref.make(w->ref, c, &k->ref, err);
    if (st != PDL_OK)
        return st;
    *k = (struct twin_kernel){.base = {.scratch_bytes = k->ref->scratch_bytes,
                                       .implementation = "twin:ref",
                                       .in_place = !c->node && c->nin == 2,
                                       .run = run},
                              .w = w,
                              .ref = k->ref,
                              .nin = c->nin,
                              .nout = c->nout};
    *out = &k->base;
    return PDL_OK;
}

static enum train_aux aux(const struct train_call *c, struct train_array *a)
{
    return train_ref.aux(c, a);
}

/* One kernel as far as the executor sees. */
static enum pdl_status join(void *state, const struct train_group *g,
                            struct train_kernel **out, struct pdl_err *err)
{
    struct twin *w = state;

    return train_in_turn(w->arena, &train_twin.kernels, w, g, out, err);
}

/* ---- opening ---------------------------------------------------------- */

static void *twin_take_host(void *state, int64_t bytes)
{
    struct twin *w = state;

    if (bytes > w->may_lock)
        return NULL;
    w->may_lock -= bytes;
    return malloc((size_t)bytes);
}

static void twin_give_host(void *state, void *p)
{
    (void)state;
    free(p);
}

/* "7": the seed; "7:1000": bytes of the host's memory that may be locked */
static bool parse(struct twin *w, const char *which)
{
    char *end = NULL, *more;

    w->may_lock = INT64_MAX;
    if (!which)
        return true;
    w->seed = strtoull(which, &end, 10);
    if (end == which || *end != ':')
        return end != which && !*end;
    w->may_lock = strtoll(end + 1, &more, 10);
    return more > end + 1 && !*more && w->may_lock >= 0;
}

static enum pdl_status twin_open(pdl_arena *a, const char *which, int64_t rank,
                                 void **state, struct pdl_err *err)
{
    struct twin *w = PDL_NEW(a, struct twin, 1);

    if (!w)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    w->arena = a;
    if (!parse(w, which))
        return pdl_fail(err, PDL_EINVAL, "twin:%.40s: the seed is a number",
                        which);
    w->seed = w->seed * 4099 + (uint64_t)rank;
    w->slow = (int)draw(w, TRAIN_STREAMS + 1);
    w->many = draw(w, 2) ? MANY : FEW;
    for (int s = 0; s < TRAIN_STREAMS; s++)
        w->last[s] = &w->first[s];
    *state = w;
    return train_ref.open(a, &w->ref, err);
}

static void drop(struct job *j)
{
    for (struct job *next; j; j = next) {
        next = j->next;
        free(j);
    }
}

static void twin_close(void *state)
{
    struct twin *w = state;

    unlock(w, true);
    while (do_one(w))
        ;
    for (int s = 0; s < TRAIN_STREAMS; s++)
        drop(w->first[s]);
    for (struct held *h = w->held; h; h = h->next)
        drop(h->first);
    while (w->regions)
        twin_free(w, w->regions->at);
    free(w->marks);
    train_ref.close(w->ref);
}

const struct train_device train_twin = {
    .name = "twin",
    .summary = "the host plays a device, work is done in orders of chance",
    .open = twin_open,
    .kernels = {.name = "twin",
                .close = twin_close,
                .make = make,
                .aux = aux,
                .join = join},
    .alloc = twin_alloc,
    .free = twin_free,
    .take_host = twin_take_host,
    .give_host = twin_give_host,
    .copy = twin_copy,
    .fill = twin_fill,
    .launch = twin_launch,
    .hold = twin_hold,
    .held = twin_held,
    .repeat = twin_repeat,
    .record = twin_record,
    .wait = twin_wait,
    .reached = twin_reached,
    .finish = twin_finish,
    .mark = twin_mark,
    .between = twin_between,
};
