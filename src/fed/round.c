/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of rounds: who takes part, what every model visits, who drops out or
 * is too late. All of it is drawn from the seed, the round and the client, so
 * that every rank writes the same plan, a resumed run too. */
#include "fed/fed_priv.h"

#include <math.h>
#include <string.h>

uint64_t fed_key(const struct fed *f, enum fed_draw why, int64_t round,
                 int64_t i)
{
    uint64_t tag = UINT64_C(0x6665640000000000) | (uint64_t)why << 32;
    struct pdl_rng4 a = pdl_philox(f->job->seed, tag, (uint64_t)round);
    struct pdl_rng4 b =
        pdl_philox((uint64_t)a.v[1] << 32 | a.v[0], tag + 1, (uint64_t)i);

    return (uint64_t)b.v[1] << 32 | b.v[0];
}

double fed_unit(const struct fed *f, enum fed_draw why, int64_t round,
                int64_t i)
{
    return (double)(fed_key(f, why, round, i) >> 11) * 0x1p-53;
}

int64_t fed_samples(const struct fed *f, int64_t client)
{
    const struct pdl_partition *p = &f->job->partition;

    return p->first[client + 1] - p->first[client];
}

double fed_rate(const struct fed *f)
{
    double decay = f->job->lr_decay;

    return f->job->lr * (decay > 0 ? pow(decay, (double)f->plan.is.round) : 1);
}

double fed_value(const struct fed *f, int key)
{
    return f->with.value[key];
}

bool fed_is_there(const struct fed *f, int64_t round, int64_t client)
{
    return fed_samples(f, client) > 0 &&
           (f->job->only < 0 || f->job->only == client) &&
           !(fed_unit(f, FED_DRAW_AWAY, round, client) < f->job->away);
}

int64_t fed_choose(const struct fed *f, struct fed_plan *p, int64_t **clients)
{
    int64_t want = f->job->select > 0 ? f->job->select : f->able, n = 0;
    int64_t round = p->is.round;
    struct pdl_order o;

    *clients = PDL_NEW(p->arena, int64_t, f->job->partition.clients);
    p->failed = p->failed || !*clients;
    if (!*clients)
        return 0;

    pdl_order_begin(&o, pdl_shuffle_find("global", NULL),
                    fed_key(f, FED_DRAW_CHOOSE, round, 0), 0,
                    f->job->partition.clients);
    for (int64_t i = 0; i < o.n && n < want; i++) {
        int64_t c = pdl_order_at(&o, i);

        if (fed_is_there(f, round, c))
            (*clients)[n++] = c;
    }
    return n;
}

int64_t fed_client_of(const struct fed *f, int64_t task)
{
    return f->plan.visit[f->plan.task[task].first].client;
}

/* ---- writing -------------------------------------------------------- */

static bool grow(struct fed_plan *p, void **at, int64_t n, int64_t *room,
                 size_t size)
{
    int64_t more = *room > 0 ? 2 * *room : 64;
    void *to;

    if (n < *room)
        return !p->failed;
    to = pdl_arena_alloc(p->arena, (size_t)more, size);
    if (!to) {
        p->failed = true;
        return false;
    }
    if (n > 0)
        memcpy(to, *at, (size_t)n * size);
    *at = to;
    *room = more;
    return !p->failed;
}

void fed_plan_task(struct fed_plan *p, int64_t start)
{
    void *at = p->task;

    if (!grow(p, &at, p->is.ntasks, &p->tasks, sizeof p->task[0]))
        return;
    p->task = at;
    p->task[p->is.ntasks++] = (struct pdl_fed_task){
        .first = p->is.nvisits, .start = start, .version = p->is.round};
}

void fed_plan_visit(struct fed_plan *p, int64_t client, int64_t epochs)
{
    void *at = p->visit;

    if (p->is.ntasks == 0 ||
        !grow(p, &at, p->is.nvisits, &p->visits, sizeof p->visit[0]))
        return;
    p->visit = at;
    p->visit[p->is.nvisits++] = (struct pdl_fed_visit){client, epochs};
    p->task[p->is.ntasks - 1].nvisits++;
}

/* ---- what becomes of it --------------------------------------------- */

/* Log-normal, around 1. */
static double uneven(const struct fed *f, enum fed_draw why, int64_t c)
{
    double u = 1 - fed_unit(f, why, 0, c), v = fed_unit(f, why, 1, c);

    return exp(f->job->spread * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* Samples a second of a client's device. */
static double pace_of(const struct fed *f, int64_t client)
{
    return (f->job->speed > 0 ? f->job->speed : 100) *
           uneven(f, FED_DRAW_SPEED, client);
}

/* So many samples are trained where there are n. */
static double trained(const struct fed *f, int64_t n, int64_t epochs)
{
    const struct pdl_fed_job *o = f->job;

    return o->steps > 0 ? (double)(o->steps * o->batch)
                        : (double)n * (double)epochs;
}

double fed_trained(const struct fed *f, const struct pdl_fed_visit *v)
{
    return trained(f, fed_samples(f, v->client), v->epochs);
}

/* So much from the server to a client, and so much back. */
static double link_seconds(const struct fed *f, int64_t client, double down,
                           double up)
{
    const struct pdl_fed_job *o = f->job;
    double link = uneven(f, FED_DRAW_LINK, client), sum = 0;

    if (o->down > 0)
        sum += o->latency_s + down / (o->down * link);
    if (o->up > 0)
        sum += o->latency_s + up / (o->up * link);
    return sum;
}

/* A model and what the algorithm adds. */
int64_t fed_down_bytes(const struct fed *f)
{
    return 4 * f->n * (1 + f->alg->down + f->alg->shared);
}

int64_t fed_up_bytes(const struct fed *f)
{
    return 4 * f->n * (1 + f->alg->up);
}

/* Samples in one place are trained by one device, which is always there. */
static double pooled_seconds(const struct fed *f, const struct fed_plan *p,
                             const struct pdl_fed_task *t)
{
    const struct pdl_fed_job *o = f->job;
    int64_t n = 0;

    for (int64_t i = t->first; i < t->first + t->nvisits; i++)
        n += fed_samples(f, p->visit[i].client);
    return trained(f, n, p->visit[t->first].epochs) /
           (o->speed > 0 ? o->speed : 100);
}

/* A model goes from one client to the next. */
static double visits_seconds(const struct fed *f, const struct fed_plan *p,
                             const struct pdl_fed_task *t)
{
    double sum = 0;

    for (int64_t i = t->first; i < t->first + t->nvisits; i++) {
        int64_t c = p->visit[i].client;

        sum += fed_trained(f, &p->visit[i]) / pace_of(f, c) +
               link_seconds(f, c, (double)fed_down_bytes(f),
                            (double)fed_up_bytes(f));
    }
    return sum;
}

/* Parts of a model are on the devices of a cluster's first clients, who get
 * them at the same time, and train at the pace of the slowest of them; half of
 * what an owner exchanges goes either way. */
static double parts_seconds(const struct fed *f, const struct fed_plan *p,
                            const struct pdl_fed_task *t)
{
    int64_t parts = fed_learner_parts(f->learner);
    double n = (double)parts, pace = INFINITY, link = 0, sum = 0;

    for (int64_t i = t->first; i < t->first + parts; i++) {
        int64_t c = p->visit[i].client;

        pace = fmin(pace, pace_of(f, c));
        link = fmax(link, link_seconds(f, c, (double)fed_down_bytes(f) / n,
                                       (double)fed_up_bytes(f) / n));
    }
    for (int64_t i = t->first; i < t->first + t->nvisits; i++) {
        double half = (double)f->alg->exchanged(f, &p->visit[i]) / 2;

        sum += fed_trained(f, &p->visit[i]) / pace +
               link_seconds(f, p->visit[i].client, half, half);
    }
    return sum + link;
}

int64_t fed_turn(const struct fed_plan *p, const struct pdl_fed_task *t)
{
    return p->is.round + (t->attempt << 32);
}

void fed_judge_task(const struct fed *f, const struct fed_plan *p,
                    struct pdl_fed_task *t)
{
    bool drops = false;

    t->seconds = (t->pooled           ? pooled_seconds
                  : f->alg->exchanged ? parts_seconds
                                      : visits_seconds)(f, p, t);
    for (int64_t i = t->first; i < t->first + t->nvisits && !t->pooled; i++)
        drops = drops || fed_unit(f, FED_DRAW_DROP, fed_turn(p, t),
                                  p->visit[i].client) < f->job->drop;
    if (drops)
        t->lost = "dropped";
    else if (!t->pooled && f->job->deadline_s > 0 &&
             t->seconds > f->job->deadline_s)
        t->lost = "late";
}

/* What goes from client to client need not pass the server: the model, or what
 * its parts exchange. */
static int64_t across_bytes(const struct fed *f, const struct fed_plan *p,
                            const struct pdl_fed_task *t)
{
    int64_t sum = 0;

    if (!f->alg->exchanged)
        return (t->nvisits - 1) * fed_up_bytes(f);
    for (int64_t i = t->first; i < t->first + t->nvisits; i++)
        sum += f->alg->exchanged(f, &p->visit[i]);
    return sum;
}

static void add_up(const struct fed *f, struct fed_plan *p,
                   const struct pdl_fed_task *t)
{
    int64_t down = fed_down_bytes(f), up = fed_up_bytes(f);

    p->is.down_bytes += t->pooled ? 0 : down;
    if (t->lost)
        p->is.seconds = f->job->deadline_s > p->is.seconds ? f->job->deadline_s
                                                           : p->is.seconds;
    else
        p->is.seconds = t->seconds > p->is.seconds ? t->seconds : p->is.seconds;
    if (t->lost)
        return;
    p->is.up_bytes += t->pooled ? 0 : up;
    p->is.across_bytes += t->pooled ? 0 : across_bytes(f, p, t);
}

static void plan_each(struct fed *f, struct fed_plan *p)
{
    int64_t *c, n = fed_choose(f, p, &c);

    for (int64_t i = 0; i < n; i++) {
        fed_plan_task(p, PDL_FED_GLOBAL);
        fed_plan_visit(p, c[i], f->job->epochs);
    }
}

enum pdl_status fed_plan_round(struct fed *f, struct pdl_err *err)
{
    struct fed_plan *p = &f->plan;
    int64_t round = f->job->first_round + f->sum_up.rounds;
    double own;

    pdl_arena_reset(f->plans);
    *p = (struct fed_plan){.arena = f->plans, .is = {.round = round}};
    (f->alg->plan ? f->alg->plan : plan_each)(f, p);
    own = p->is.seconds; /* of an algorithm that does not wait for all */
    f->live = PDL_NEW(f->plans, int64_t, p->is.ntasks + 1);
    if (p->failed || !f->live)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a round");
    f->nlive = 0;
    for (int64_t i = 0; i < p->is.ntasks; i++) {
        fed_judge_task(f, p, &p->task[i]);
        add_up(f, p, &p->task[i]);
        if (!p->task[i].lost)
            f->live[f->nlive++] = i;
    }
    p->is.seconds = own > 0 ? own : p->is.seconds;
    p->is.task = p->task;
    p->is.visit = p->visit;
    return PDL_OK;
}

/* ---- text ----------------------------------------------------------- */

static void print_task(struct pdl_json *j, const struct pdl_fed_round *r,
                       const struct pdl_fed_task *t)
{
    pdl_json_object(j);
    if (t->start != PDL_FED_GLOBAL)
        pdl_json_kint(j, "start", t->start);
    pdl_json_key(j, "clients");
    pdl_json_flat(j);
    for (int64_t i = t->first; i < t->first + t->nvisits; i++)
        pdl_json_int(j, r->visit[i].client);
    pdl_json_end(j);
    pdl_json_kint(j, "epochs", r->visit[t->first].epochs);
    if (t->pooled)
        pdl_json_kbool(j, "pooled", true);
    pdl_json_knum(j, "seconds", t->seconds);
    if (t->lost)
        pdl_json_kstr(j, "lost", t->lost);
    pdl_json_end(j);
}

void pdl_fed_round_print(const struct pdl_fed_round *r, struct pdl_sink *out)
{
    struct pdl_json j;

    pdl_json_init(&j, out);
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kint(&j, "round", r->round);
    pdl_json_key(&j, "tasks");
    pdl_json_array(&j);
    for (int64_t i = 0; i < r->ntasks; i++)
        print_task(&j, r, &r->task[i]);
    pdl_json_end(&j);
    pdl_json_kint(&j, "down_bytes", r->down_bytes);
    pdl_json_kint(&j, "up_bytes", r->up_bytes);
    pdl_json_kint(&j, "across_bytes", r->across_bytes);
    pdl_json_knum(&j, "seconds", r->seconds);
    pdl_json_end(&j);
}
