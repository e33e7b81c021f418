/* SPDX-License-Identifier: Apache-2.0
 *
 * What operations took: every one of the last step, and of the fastest one,
 * which neither touched its memory for the first time nor had to share the
 * processor with something else. A device is looked at in the last steps alone:
 * those before run as they always do, and the middle one of them counts, for
 * under load its clock is not the one it began with. Operations have the plan's
 * numbers, so that measured and projected join line by line. */
#include "train/train_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 4, /* of an event in a message */ PACES = 512 };

enum pdl_status train_clock_open(struct train_clock *c, pdl_arena *a,
                                 const struct pdl_plan *p, struct pdl_err *err)
{
    *c = (struct train_clock){.plan = p,
                              .most = p->nops * (p->micro_batches + 2)};
    c->events = PDL_NEW(a, struct pdl_train_event, c->most + 1);
    c->seconds = PDL_NEW(a, double, p->nops + 1);
    c->paces = PDL_NEW(a, double, PACES);
    if (!c->events || !c->seconds || !c->paces)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the trace");
    return PDL_OK;
}

/* The step that ends: is it the fastest? */
static void keep_fastest(struct train_clock *c)
{
    double took = pdl_clock_s() - c->base_s;

    if (c->own_times)
        took = 0;
    for (int64_t i = 0; c->own_times && i < c->nevents; i++)
        took += c->events[i].seconds;
    if (c->nevents == 0 || (c->fastest_s > 0 && took >= c->fastest_s))
        return;
    c->fastest_s = took;
    memset(c->seconds, 0, (size_t)c->plan->nops * sizeof *c->seconds);
    for (int64_t i = 0; i < c->nevents; i++)
        if (c->events[i].micro != PDL_TRAIN_BEHIND)
            c->seconds[c->events[i].op] += c->events[i].seconds;
}

void train_clock_step(struct train_clock *c)
{
    keep_fastest(c);
    c->nevents = 0;
    c->steps++;
    c->base_s = pdl_clock_s();
}

void train_clock_pace(struct train_clock *c, double seconds)
{
    c->paces[c->npaces++ % PACES] = seconds;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double train_clock_median(const struct train_clock *c)
{
    int64_t n = c->npaces / 2 + c->npaces % 2;
    double last[PACES] = {0};

    n = n > PACES ? PACES : n;
    for (int64_t i = 0; i < n; i++)
        last[i] = c->paces[(c->npaces - n + i) % PACES];
    qsort(last, (size_t)n, sizeof *last, ascending);
    return n > 0 ? last[n / 2] : 0;
}

void train_clock_timed(void *ctx, int op, int64_t micro, double start_s,
                       double end_s)
{
    struct train_clock *c = ctx;

    if (c->nevents < c->most)
        c->events[c->nevents++] = (struct pdl_train_event){
            op, micro, start_s - c->base_s, end_s - start_s};
}

static enum pdl_status send_events(const struct train_clock *c, double *room,
                                   pdl_comm *comm, struct pdl_err *err)
{
    double n = (double)c->nevents;
    struct pdl_comm_message m[2] = {
        {.peer = 0, .tag = 2, .data = &n, .bytes = sizeof n},
        {.peer = 0,
         .tag = 3,
         .data = room,
         .bytes = NUMBERS * c->nevents * (int64_t)sizeof room[0]}};
    pdl_comm_request *req;
    enum pdl_status st;

    for (int64_t i = 0; i < c->nevents; i++) {
        room[NUMBERS * i] = c->events[i].op;
        room[NUMBERS * i + 1] = (double)c->events[i].micro;
        room[NUMBERS * i + 2] = c->events[i].start_s;
        room[NUMBERS * i + 3] = c->events[i].seconds;
    }
    st = pdl_comm_start_exchange(comm, n > 0 ? 2 : 1, m, 0, NULL, &req, err);
    return st == PDL_OK ? pdl_comm_wait(req, err) : st;
}

static enum pdl_status receive(pdl_comm *comm, struct pdl_comm_message m,
                               struct pdl_err *err)
{
    pdl_comm_request *req;
    enum pdl_status st =
        pdl_comm_start_exchange(comm, 0, NULL, 1, &m, &req, err);

    return st == PDL_OK ? pdl_comm_wait(req, err) : st;
}

static enum pdl_status receive_events(struct train_clock *c, int rank,
                                      double *room, pdl_comm *comm,
                                      struct pdl_err *err)
{
    double n = 0;
    struct pdl_comm_message m = {
        .peer = rank, .tag = 2, .data = &n, .bytes = sizeof n};
    enum pdl_status st = receive(comm, m, err);

    c->nevents = (int64_t)n;
    m.tag = 3;
    m.data = room;
    m.bytes = NUMBERS * c->nevents * (int64_t)sizeof room[0];
    if (st == PDL_OK && m.bytes > 0)
        st = receive(comm, m, err);
    for (int64_t i = 0; i < c->nevents && st == PDL_OK; i++)
        c->events[i] = (struct pdl_train_event){
            (int)room[NUMBERS * i], (int64_t)room[NUMBERS * i + 1],
            room[NUMBERS * i + 2], room[NUMBERS * i + 3]};
    return st;
}

static enum pdl_status report_events(struct train_clock *c,
                                     const struct pdl_train_job *job,
                                     double *room, pdl_comm *comm,
                                     struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (pdl_comm_rank(comm) > 0)
        return send_events(c, room, comm, err);
    for (int r = 0; r < pdl_comm_size(comm) && st == PDL_OK; r++) {
        if (r > 0)
            st = receive_events(c, r, room, comm, err);
        if (st == PDL_OK && job->traced)
            job->traced(job->ctx, r, c->events, c->nevents);
    }
    return st;
}

/* Of ranks that meet in a collective those that come early wait for the last,
 * which has the shortest time: that is the exchange's own. Everything else
 * takes as long as on the slowest rank. */
static bool is_meeting(enum pdl_plan_op_kind k)
{
    return k >= PDL_PLAN_OP_ALLREDUCE && k <= PDL_PLAN_OP_ROTATE;
}

static enum pdl_status over_ranks(struct train_clock *c, pdl_comm *comm,
                                  struct pdl_err *err)
{
    enum pdl_status st;

    for (int i = 0; i < c->plan->nops; i++)
        if (is_meeting(c->plan->ops[i].kind))
            c->seconds[i] = c->seconds[i] > 0 ? -c->seconds[i] : -INFINITY;
    st = pdl_comm_allreduce(comm, c->seconds, c->seconds, c->plan->nops,
                            PDL_COMM_F64, PDL_COMM_MAX, err);
    for (int i = 0; i < c->plan->nops; i++)
        if (is_meeting(c->plan->ops[i].kind))
            c->seconds[i] = isfinite(c->seconds[i]) ? -c->seconds[i] : 0;
    return st;
}

/* Stopped before the steps that are looked at: of all others there is a
 * pace. */
static void tell_none(const struct train_clock *c,
                      const struct pdl_train_job *job)
{
    struct pdl_train_line l = {
        .note = "the operations of a device are timed in the last steps alone, "
                "and the run stopped before them: no times of operations"};

    if (c->steps > 0 && c->npaces == c->steps && job->tell)
        job->tell(job->ctx, &l);
}

enum pdl_status train_clock_report(struct train_clock *c,
                                   const struct pdl_train_job *job,
                                   pdl_comm *comm, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    double *room = a ? PDL_NEW(a, double, NUMBERS * c->most + 1) : NULL;
    enum pdl_status st = PDL_OK;

    if (!room)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for the trace");
    if (st == PDL_OK && pdl_comm_size(comm) > 1)
        st = over_ranks(c, comm, err);
    if (st == PDL_OK && pdl_comm_rank(comm) == 0)
        tell_none(c, job);
    if (st == PDL_OK && pdl_comm_rank(comm) == 0 && job->measured)
        job->measured(job->ctx, c->seconds);
    if (st == PDL_OK)
        st = report_events(c, job, room, comm, err);
    pdl_arena_destroy(a);
    return st;
}
