/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators as training runs them: small networks (calibrate_probes.c) are
 * trained for a few steps, by one rank while the others wait ("alone.*") and by
 * all at once, each on its own ("run.*"), and the time of every operation is a
 * row: the kernels that the runtime chooses, its layouts, operands that lie
 * where the operation before left them. The numbers of a row are the
 * operation's key (pdl_plan_op_key) and the bytes of its workspace. */
#include "calibrate.h"
#include "calibrate_probes.h"
#include "paradl/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 1, STEPS = 5, ALONE = 3, WARM_DEVICE = 6, PACES = 64, GIVEN = 4 };

struct watch {
    int step, nops;
    int warm, steps; /* at most STEPS */
    double last_s, threads;
    double turns;       /* ranks that share a processor now */
    double *seconds;    /* STEPS of each operation */
    int64_t *workspace; /* bytes of each */
    bool device;
    double *paces; /* of steps in which nothing was looked at */
    int npaces;
    int64_t taken; /* bytes */
    const struct pdl_plan *plan;
    char *sweep; /* NULL: nothing is swept out */
    int64_t sweep_bytes;
    struct kept { /* the samples, by model tensor + 1 */
        void *at, *given[GIVEN];
    } * kept;
};

/* ---- caches ----------------------------------------------------------- */

static struct pdl_cache last_cache(void)
{
    struct pdl_cache l = pdl_last_cache(PDL_CACHES);

    l.bytes = l.bytes > 0 ? l.bytes : 32 << 20;
    return l;
}

static int64_t share_of_cache(const struct calibration *c)
{
    struct pdl_cache l = last_cache();

    return l.bytes / (c->ranks < l.cpus ? c->ranks : l.cpus);
}

/* What a probe computed a pass ago still lies in the caches; in a network of
 * real size it does not. So they are swept out between passes, but for networks
 * that are small anyway: a quarter of a rank's share holds all of them. */
static void make_sweep(const struct calibration *c, struct watch *w,
                       const pdl_trainer *t)
{
    struct pdl_train_memory m;

    pdl_trainer_memory(t, &m);
    w->sweep_bytes = last_cache().bytes;
    if (!w->device && m.taken > share_of_cache(c) / 4)
        w->sweep = malloc((size_t)w->sweep_bytes);
}

static int pass_of(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_UPDATE ? PDL_BACKWARD_WEIGHTS + 1
           : o->kind == PDL_PLAN_OP_COMPUTE && o->pass == PDL_FORWARD
               ? 0
               : PDL_BACKWARD_WEIGHTS;
}

/* After the last operation of a pass, and of the step. */
static void sweep_out(const struct watch *w, int op)
{
    const struct pdl_plan *p = w->plan;
    int next = op + 1;

    while (next < p->nops && p->ops[next].kind == PDL_PLAN_OP_FREE)
        next++;
    if (w->sweep &&
        (next == p->nops || pass_of(&p->ops[next]) != pass_of(&p->ops[op])))
        memset(w->sweep, w->step & 1, (size_t)w->sweep_bytes);
}

/* ---- steps ------------------------------------------------------------ */

/* CPU time, as run_time_all has it: whatever else runs does not count. */
static void timed(void *ctx, int op, int64_t micro, double start_s,
                  double end_s)
{
    struct watch *w = ctx;
    double now = pdl_cpu_s();

    (void)micro;
    if (w->step >= 0 && w->step < w->steps)
        w->seconds[op * STEPS + w->step] =
            w->device ? end_s - start_s : (now - w->last_s) / w->threads;
    sweep_out(w, op);
    w->last_s = pdl_cpu_s();
}

/* Numbers without a pattern that any kernel could profit from. */
static void make_up(const struct pdl_train_part *part, int64_t n, void *data)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t x = i * 7919 % 1009;

        if (part->dtype == PDL_I32)
            ((int32_t *)data)[i] = (int32_t)(x % 10);
        else if (part->dtype == PDL_BF16)
            ((uint16_t *)data)[i] = pdl_to_bf16((float)x / 504 - 1);
        else if (part->dtype == PDL_F32)
            ((float *)data)[i] = (float)x / 504 - 1;
    }
}

/* Is it there already? The rooms that a device gets samples from are used again
 * and again. */
static bool is_given(const struct watch *w, struct kept *k, void *data)
{
    int i = 0;

    while (i < GIVEN && k->given[i] && k->given[i] != data)
        i++;
    if (!w->device || i == GIVEN || k->given[i] == data)
        return w->device && i < GIVEN;
    k->given[i] = data;
    return false;
}

/* Made once: a device does not wait for them. */
static enum pdl_status fill(void *ctx, int64_t first, int model_tensor,
                            const struct pdl_train_part *part,
                            struct pdl_err *err)
{
    struct watch *w = ctx;
    int64_t n = pdl_box_volume(&part->box);
    struct kept *kept = &w->kept[model_tensor + 1];

    (void)first;
    if (model_tensor < 0 && part->dtype == PDL_I32) /* one label an item */
        n /= part->box.hi[part->ndims >= 4 ? 1 : part->ndims - 1];
    if (!kept->at) {
        kept->at = malloc((size_t)n * 4 + 4);
        if (!kept->at)
            return pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
        make_up(part, n, kept->at);
    }
    if (part->dtype != PDL_F64 && !is_given(w, kept, part->data))
        memcpy(part->data, kept->at,
               (size_t)(n * pdl_dtype_bits(part->dtype) / 8));
    return PDL_OK;
}

static bool advance(void *ctx)
{
    (void)ctx;
    return true;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A step of a probe, which number it is. */
static enum pdl_status step(pdl_trainer *t, struct watch *w, int64_t i,
                            struct pdl_err *err)
{
    struct pdl_train_feed feed = {
        .fill = fill, .ctx = w, .advance = w->device ? advance : NULL};
    struct pdl_train_result result;

    w->last_s = pdl_cpu_s();
    return pdl_trainer_step(t, i, 1e-4, &feed, &result, err);
}

static void note_device(const struct calibration *c, pdl_trainer *t)
{
    struct pdl_train_device d;

    if (!pdl_trainer_device(t, false, &d))
        return;
    c->quiet->probes++;
    c->quiet->clock_hz += d.now_hz;
    c->quiet->capped += d.power_capped;
    c->quiet->hot += d.hot;
}

/* Under a load that lasts the clock is not the one a device begins with: steps
 * that nobody looks at come first, and the time of each counts. */
static enum pdl_status load_device(const struct calibration *c, pdl_trainer *t,
                                   struct watch *w, struct pdl_err *err)
{
    double begin = pdl_clock_s(), last = begin, now;
    enum pdl_status st = PDL_OK;

    pdl_trainer_time(t, false);
    while (st == PDL_OK &&
           (w->npaces < WARM_DEVICE || last - begin < 4 * c->seconds)) {
        st = step(t, w, w->npaces, err);
        now = pdl_clock_s();
        w->paces[w->npaces++ % PACES] = now - last;
        last = now;
    }
    note_device(c, t);
    pdl_trainer_time(t, true);
    return st;
}

static void note_bytes(const pdl_trainer *t, struct watch *w)
{
    struct pdl_train_memory m;

    for (int i = 0; i < w->nops; i++)
        w->workspace[i] = pdl_trainer_workspace(t, i);
    pdl_trainer_memory(t, &m);
    w->taken = m.taken;
}

static enum pdl_status steps(const struct calibration *c,
                             const struct pdl_plan *plan, pdl_comm *alone,
                             const char *optimizer, struct watch *w,
                             struct pdl_err *err)
{
    double wall, cpu;
    struct pdl_train_options opt = {.optimizer = optimizer,
                                    .device = c->device,
                                    .timed = timed,
                                    .timed_ctx = w};
    pdl_trainer *t = NULL;
    enum pdl_status st = pdl_trainer_open(plan, alone, &opt, &t, err);

    w->step = -1;
    if (st == PDL_OK)
        make_sweep(c, w, t);
    if (st == PDL_OK && w->device)
        st = load_device(c, t, w, err);
    wall = pdl_clock_s();
    cpu = pdl_cpu_s();
    for (int i = 0; i < w->warm + w->steps && st == PDL_OK; i++) {
        w->step = i - w->warm;
        st = step(t, w, w->npaces + i, err);
    }
    if (!w->device) {
        c->quiet->wall_s += pdl_clock_s() - wall;
        c->quiet->cpu_s += (pdl_cpu_s() - cpu) / w->threads * w->turns;
    }
    if (st == PDL_OK)
        note_bytes(t, w);
    pdl_trainer_close(t);
    free(w->sweep);
    w->sweep = NULL;
    return st;
}

/* Is the time of op that of a group? Then none of the others has one. */
static bool is_group(const struct pdl_plan *p, const struct watch *w, int op,
                     struct pdl_plan_key *k)
{
    const struct pdl_plan_group *g;

    if (!p->group || p->group[op] < 0)
        return false;
    g = &p->groups[p->group[op]];
    for (int i = 0; i < g->n; i++)
        if ((w->seconds[(ptrdiff_t)g->op[i]] > 0) != (i == 0))
            return false;
    return g->op[0] == op && pdl_plan_group_key(p, g, 0, k);
}

static void row(const struct calibration *c, const struct run_probe *of,
                const char *name, const char *pass, const int64_t *dims, int n,
                int64_t last, double seconds)
{
    pdl_json_row(c->json);
    pdl_json_kstr(c->json, "op", name);
    pdl_json_kstr(c->json, "pass", pass);
    pdl_json_kstr(c->json, "precision", of->bf16 ? "bf16" : "fp32");
    pdl_json_key(c->json, "dims");
    pdl_json_flat(c->json);
    for (int i = 0; i < n; i++)
        pdl_json_int(c->json, dims[i]);
    pdl_json_int(c->json, last);
    pdl_json_end(c->json);
    pdl_json_knum(c->json, "seconds", seconds);
    pdl_json_kint(c->json, "probe", of->number);
    pdl_json_end(c->json);
}

static void print_row(const struct calibration *c, const struct run_probe *of,
                      int op, const struct watch *w, bool alone)
{
    const struct pdl_plan *p = of->plan;
    double seconds = w->seconds[op];
    struct pdl_plan_key k;
    char name[64];

    if (!c->json || !(seconds > 0) ||
        (!is_group(p, w, op, &k) && !pdl_plan_op_key(p, op, 0, &k)))
        return;
    if (p->ops[op].kind == PDL_PLAN_OP_UPDATE)
        k.dims[PDL_KEY_CLASS] = of->slots;
    snprintf(name, sizeof name, "%s.%s", alone ? "alone" : "run", k.op);
    row(c, of, name, k.pass, k.dims, k.ndims, w->workspace[op], seconds);
}

/* A whole step as it goes by itself, beside the operations it consists of:
 * how many, nanoseconds of all, bytes that were taken. */
static void print_step(const struct calibration *c, const struct run_probe *of,
                       const struct watch *w)
{
    int n = w->npaces < PACES ? w->npaces : PACES;
    int64_t dims[2] = {0, 0};

    if (!c->json || n == 0)
        return;
    for (int i = 0; i < w->nops; i++) {
        dims[0] += w->seconds[i] > 0;
        dims[1] += (int64_t)(w->seconds[i] * 1e9);
    }
    qsort(w->paces, (size_t)n, sizeof *w->paces, ascending);
    row(c, of, "step", "forward", dims, 2, w->taken, w->paces[n / 2]);
}

/* The lower quartile of each rank's steps (whatever else runs on the machine
 * only slows them down), the mean over ranks. */
static enum pdl_status gather(const struct calibration *c, struct watch *w,
                              bool alone, struct pdl_err *err)
{
    double *mine = w->seconds; /* shrinks in place */

    for (int i = 0; i < w->nops; i++) {
        qsort(w->seconds + (ptrdiff_t)i * STEPS, (size_t)w->steps,
              sizeof *w->seconds, ascending);
        c->quiet->median_s += w->seconds[i * STEPS + w->steps / 2];
        c->quiet->quartile_s += w->seconds[i * STEPS + w->steps / 4];
        mine[i] =
            w->seconds[i * STEPS + w->steps / (w->device ? 2 : 4)] * w->turns;
    }
    return alone ? PDL_OK
                 : pdl_comm_allreduce(c->comm, mine, mine, w->nops,
                                      PDL_COMM_F64, PDL_COMM_AVG, err);
}

static enum pdl_status measure(const struct calibration *c, pdl_comm *one,
                               const struct run_probe *p, bool alone,
                               struct watch *w, struct pdl_err *err)
{
    enum pdl_status st = pdl_comm_barrier(c->comm, err);

    w->turns = alone ? 1 : c->turns;
    if (alone && w->steps > ALONE)
        w->steps = ALONE;
    if (st == PDL_OK && (!alone || c->rank == 0)) {
        st = steps(c, p->plan, one, p->optimizer, w, err);
        if (st == PDL_OK)
            st = gather(c, w, alone, err);
        for (int i = 0; i < w->nops && st == PDL_OK; i++)
            print_row(c, p, i, w, alone);
        if (st == PDL_OK)
            print_step(c, p, w);
    }
    return st;
}

static enum pdl_status probe(const struct calibration *c, pdl_comm *one,
                             int which, pdl_arena *a, struct pdl_err *err)
{
    struct run_probe p;
    struct watch w = {.step = -1,
                      .threads = (double)c->threads,
                      .warm = run_repeats(c, WARM),
                      .steps = run_repeats(c, STEPS),
                      .device = c->device != NULL};
    enum pdl_status st =
        run_probe_open(a, *c->large, which, share_of_cache(c), &p, err);

    if (st != PDL_OK)
        return st;
    p.number = which;
    w.plan = p.plan;
    w.nops = p.plan->nops;
    w.seconds = PDL_NEW(a, double, (int64_t)w.nops *STEPS + 1);
    w.workspace = PDL_NEW(a, int64_t, w.nops + 1);
    w.paces = PDL_NEW(a, double, PACES);
    w.kept = PDL_NEW(a, struct kept, p.plan->model->ntensors + 1);
    if (!w.seconds || !w.workspace || !w.paces || !w.kept)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = measure(c, one, &p, false, &w, err);
    if (st == PDL_OK && c->ranks > 1)
        st = measure(c, one, &p, true, &w, err);
    for (int i = 0; i <= p.plan->model->ntensors; i++)
        free(w.kept[i].at);
    return st == PDL_OK ? pdl_comm_barrier(c->comm, err) : st;
}

/* A smaller device has no room for some, a library no kernel: the others still
 * say how fast it is, if they are most. */
static enum pdl_status leave_out(const struct calibration *c, int which,
                                 int *missing, enum pdl_status st,
                                 const struct pdl_err *err)
{
    if (st == PDL_OK || !c->device || ++*missing > run_probes(*c->large) / 4)
        return st;
    fprintf(stderr, "%sprobe network %d is left out: %s\n",
            c->progress ? "\r\033[K" : "", which + 1, err->msg);
    return PDL_OK;
}

enum pdl_status run_calibrate_train(const struct calibration *c,
                                    struct pdl_err *err)
{
    int n = run_probes(*c->large), missing = 0;
    pdl_comm *alone = NULL;
    enum pdl_status st = pdl_comm_create_memory(1, NULL, &alone, err);

    for (int i = 0; i < n && st == PDL_OK; i++) {
        pdl_arena *a;

        if (!run_chosen(c, i, n))
            continue;
        a = pdl_arena_create((size_t)1 << 30);
        if (c->rank == 0 && c->progress)
            fprintf(stderr, "\r\033[Kprobe network %d of %d", i + 1, n);
        st = a ? probe(c, alone, i, a, err)
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
        st = leave_out(c, i, &missing, st, err);
        pdl_arena_destroy(a);
    }
    if (c->rank == 0 && c->progress)
        fprintf(stderr, "\r\033[K");
    pdl_comm_destroy(alone);
    return st;
}
