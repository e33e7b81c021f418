/* SPDX-License-Identifier: Apache-2.0
 *
 * A step, event by event, as paradl/karma.h says, and the memory of its
 * program. */
#include "karma_priv.h"

#include <math.h>

static const char *const words[] = {
#define X(name, text, what) text,
    PDL_KARMA_CHOICES(X)
#undef X
};

const char *pdl_karma_word(enum pdl_karma_choice c)
{
    return words[c];
}

enum pdl_karma_again pdl_karma_again(enum pdl_karma_choice c)
{
    static const enum pdl_karma_again again[PDL_KARMA_NCHOICES] = {
        [PDL_KARMA_RECOMPUTE] = PDL_KARMA_ALL,
        [PDL_KARMA_BOTH] = PDL_KARMA_ALL,
        [PDL_KARMA_PART] = PDL_KARMA_SOME,
        [PDL_KARMA_REST] = PDL_KARMA_SOME};

    return again[c];
}

bool karma_may(const struct pdl_karma *k, int block, enum pdl_karma_choice c)
{
    if (c == PDL_KARMA_KEEP)
        return true;
    if (karma_moves(c) && block == k->nblocks - 1)
        return false;
    return (k->block[block].may >> c & 1) != 0;
}

int64_t karma_passing(const struct pdl_karma *k, int block, bool back)
{
    int64_t n = 0;

    for (int i = 0; i < k->nskips; i++)
        if (k->skip[i].from < block && block < k->skip[i].to)
            n += back ? k->skip[i].backward_bytes : k->skip[i].forward_bytes;
    return n;
}

/* ---- states --- */

/* Groups in the order in which gradients come: by block, the last first. The
 * longest way from each to the end goes through all that come after it. */
static double way(const struct pdl_karma *k, const bool *host, int first)
{
    double out = 0, used = 0, in = 0;

    for (int g = first; g < k->ngroups; g++) {
        if (!host[g])
            continue;
        out += (double)k->group[g].out_bytes / k->out_bytes_per_s;
        used = fmax(used, out) + k->group[g].host_s;
        in = fmax(in, used) + (double)k->group[g].in_bytes / k->in_bytes_per_s;
    }
    return in;
}

void karma_update(const struct pdl_karma *k, const bool *host,
                  struct karma_update *u)
{
    u->device_bytes = u->host_bytes = 0;
    u->device_s = u->in_s = u->out_busy_s = 0;
    for (int i = 0; i < k->nblocks; i++)
        u->tail[i] = -1;
    for (int g = 0; g < k->ngroups; g++) {
        const struct pdl_karma_group *x = &k->group[g];

        if (!host[g]) {
            u->device_bytes += x->state_bytes;
            u->device_s += x->device_s;
            continue;
        }
        u->host_bytes += x->state_bytes + x->out_bytes + x->in_bytes;
        u->out_busy_s += (double)x->out_bytes / k->out_bytes_per_s;
        u->in_s += (double)x->in_bytes / k->in_bytes_per_s;
        u->tail[x->block] = fmax(u->tail[x->block], way(k, host, g));
    }
}

/* ---- memory --- */

/* What blocks before `at` have on the device while it computes. */
static int64_t others(const struct pdl_karma *k, const struct pdl_karma_plan *p,
                      int at)
{
    int64_t n = 0;

    for (int i = 0; i < at; i++)
        if (!karma_moves(p->choice[i]) || at - i <= p->ahead)
            n += karma_left(&k->block[i], p->choice[i])->bytes;
    return n;
}

static void add_memory(const struct pdl_karma *k,
                       const struct pdl_karma_plan *p,
                       const struct karma_update *u, struct pdl_karma_step *s)
{
    s->host_bytes = u->host_bytes;
    for (int i = 0; i < k->nblocks; i++) {
        const struct pdl_karma_left *l = karma_left(&k->block[i], p->choice[i]);
        int64_t all = k->fixed_bytes + u->device_bytes + others(k, p, i);
        int64_t f = all + karma_passing(k, i, false) + l->forward_bytes;
        int64_t g = all + karma_passing(k, i, true) + l->backward_bytes;

        s->peak_bytes = f > s->peak_bytes ? f : s->peak_bytes;
        s->peak_bytes = g > s->peak_bytes ? g : s->peak_bytes;
        if (karma_moves(p->choice[i]))
            s->moved_bytes += l->bytes;
    }
    s->host_bytes += s->moved_bytes;
    s->fits = s->peak_bytes <= k->capacity &&
              (k->host_bytes == 0 || s->host_bytes <= k->host_bytes);
}

/* ---- time --- */

struct clock {
    const struct pdl_karma *k;
    const struct pdl_karma_plan *p;
    struct pdl_karma_step *s;
    struct pdl_karma_times *times;
    double now, out, in;
    double *done; /* of each block: its copy out, then its copy in */
};

static double copy_s(const struct clock *c, int i, double rate)
{
    return (double)karma_left(&c->k->block[i], c->p->choice[i])->bytes / rate;
}

static void wait_for(struct clock *c, double t)
{
    if (t > c->now) {
        c->s->wait_s += t - c->now;
        c->now = t;
    }
}

static void note(double *at, int i, double t)
{
    if (at)
        at[i] = t;
}

#define NOTE(c, what, i, t) note((c)->times ? (c)->times->what : NULL, (i), (t))

static void leave(struct clock *c, int i)
{
    double s = copy_s(c, i, c->k->out_bytes_per_s);
    double start = fmax(c->now, c->out);

    NOTE(c, out, i, start);
    c->out = c->done[i] = start + s;
    c->s->out_busy_s += s;
    c->now += c->k->slow * s;
}

static void come_back(struct clock *c, int i)
{
    double s, start;

    if (i < 0 || !karma_moves(c->p->choice[i]))
        return;
    s = copy_s(c, i, c->k->in_bytes_per_s);
    start = fmax(c->now, c->in);
    NOTE(c, in, i, start);
    c->in = c->done[i] = start + s;
    c->s->in_busy_s += s;
    c->now += c->k->slow * s;
}

static void run_forward(struct clock *c)
{
    int n = c->k->nblocks, ahead = c->p->ahead;

    for (int i = 0; i < n; i++) {
        NOTE(c, forward, i, c->now);
        c->now += c->k->block[i].forward_s;
        if (i >= ahead && karma_moves(c->p->choice[i - ahead]))
            wait_for(c, c->done[i - ahead]);
        if (karma_moves(c->p->choice[i]))
            leave(c, i);
    }
    wait_for(c, c->out);
    c->s->forward_s = c->now;
}

/* Returns when the last group of the host is done. */
static double run_backward(struct clock *c, const struct karma_update *u)
{
    int n = c->k->nblocks, ahead = c->p->ahead;
    double end = 0;

    for (int i = n - 2; i > n - 1 - ahead; i--)
        come_back(c, i);
    for (int i = n - 1; i >= 0; i--) {
        const struct pdl_karma_block *b = &c->k->block[i];
        double again = karma_left(b, c->p->choice[i])->again_s;

        come_back(c, i - ahead);
        if (karma_moves(c->p->choice[i]))
            wait_for(c, c->done[i]);
        NOTE(c, again, i, pdl_karma_again(c->p->choice[i]) ? c->now : -1);
        c->s->recompute_s += again;
        c->now += again;
        NOTE(c, backward, i, c->now);
        c->now += b->backward_s;
        if (u->tail[i] >= 0)
            end = fmax(end, c->now + u->tail[i]);
    }
    return fmax(end, c->in + u->in_s);
}

/* ---- both --- */

static bool is_time(double s)
{
    return s >= 0 && s < 1e12;
}

static bool is_size(int64_t n)
{
    return n >= 0 && n < INT64_C(1) << 50;
}

static bool is_block(const struct pdl_karma_block *b)
{
    bool ok = is_time(b->forward_s) && is_time(b->backward_s) &&
              b->left[PDL_KARMA_NOTHING].again_s == 0;

    for (int i = 0; ok && i < PDL_KARMA_AGAINS; i++)
        ok = is_time(b->left[i].again_s) && is_size(b->left[i].bytes) &&
             b->left[i].bytes <= b->left[PDL_KARMA_NOTHING].bytes &&
             is_size(b->left[i].forward_bytes) &&
             is_size(b->left[i].backward_bytes);
    return ok;
}

static bool is_group(const struct pdl_karma *k, int g)
{
    const struct pdl_karma_group *x = &k->group[g];

    return x->block >= 0 && x->block < k->nblocks && is_size(x->state_bytes) &&
           is_size(x->out_bytes) && is_size(x->in_bytes) &&
           is_time(x->device_s) && is_time(x->host_s) &&
           (g == 0 || k->group[g - 1].block >= x->block);
}

static bool is_good(const struct pdl_karma *k)
{
    bool ok = k->nblocks > 0 && k->nblocks <= 1000 && k->ngroups <= 1000 &&
              k->out_bytes_per_s > 0 && k->in_bytes_per_s > 0 && k->slow >= 0 &&
              k->slow <= 1 && k->passes >= 0 && k->passes < 1 << 20 &&
              is_size(k->fixed_bytes) && is_size(k->capacity);

    for (int i = 0; ok && i < k->nblocks; i++)
        ok = is_block(&k->block[i]);
    for (int i = 0; ok && i < k->ngroups; i++)
        ok = is_group(k, i);
    for (int i = 0; ok && i < k->nskips; i++)
        ok = is_size(k->skip[i].forward_bytes) &&
             is_size(k->skip[i].backward_bytes);
    return ok;
}

static void add_passes(struct pdl_karma_step *s, double n)
{
    s->step_s += (n - 1) * s->pass_s;
    s->forward_s *= n;
    s->wait_s *= n;
    s->out_busy_s *= n;
    s->in_busy_s *= n;
    s->recompute_s *= n;
}

enum pdl_status pdl_karma_run(const struct pdl_karma *k,
                              const struct pdl_karma_plan *p,
                              struct pdl_karma_times *times,
                              struct pdl_karma_step *out, struct pdl_err *err)
{
    struct pdl_karma_step s = {.step_s = 0};
    struct clock c = {.k = k, .p = p, .s = &s, .times = times};
    struct karma_update u = {.tail = NULL};
    pdl_arena *a;
    double host;

    if (!is_good(k) || p->ahead < 1 || p->ahead > PDL_KARMA_AHEAD)
        return pdl_fail(err, PDL_EINVAL,
                        "blocks, links or memory are no numbers to plan with");
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    c.done = a ? PDL_NEW(a, double, k->nblocks) : NULL;
    u.tail = a ? PDL_NEW(a, double, k->nblocks) : NULL;
    if (!c.done || !u.tail) {
        pdl_arena_destroy(a);
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    for (int i = 0; i < k->nblocks; i++) {
        NOTE(&c, out, i, -1);
        NOTE(&c, in, i, -1);
    }
    karma_update(k, p->host, &u);
    add_memory(k, p, &u, &s);
    run_forward(&c);
    host = run_backward(&c, &u);
    s.pass_s = c.now;
    s.step_s = fmax(c.now + u.device_s, host);
    add_passes(&s, (double)karma_passes(k));
    s.out_busy_s += u.out_busy_s;
    s.in_busy_s += u.in_s;
    *out = s;
    pdl_arena_destroy(a);
    return PDL_OK;
}
