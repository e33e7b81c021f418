/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine can do under a communicator: how long a word takes from one
 * core to another and back, and how fast memory is copied by one rank and by
 * all at once. Numbers of a collective mean little without them: two cores
 * that share a cache answer in a tenth of the time of two that do not. */
#include "comm_core.h"

#include <math.h>

enum {
    ROUNDS = 2000,
    BATCHES = 10,
    LOOKS = 4096,
    COPY_BYTES = 32 << 20,
    COPIES = 5
};

static void say(const pdl_comm *c, struct comm_seat *mine, uint64_t number)
{
    atomic_store_explicit(&mine->ping, number, memory_order_release);
    comm_ring(c, 1 - c->node_rank);
}

/* Waits for the other's number: looks for a while first, so that two cores are
 * measured and not how ranks that share one are scheduled. */
static enum pdl_status hear(pdl_comm *c, struct comm_seat *other,
                            uint64_t number, struct comm_patience *patience,
                            struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int k = 0; k < LOOKS; k++)
        if (atomic_load_explicit(&other->ping, memory_order_acquire) >= number)
            return PDL_OK;
    while (st == PDL_OK &&
           atomic_load_explicit(&other->ping, memory_order_acquire) < number)
        st = comm_wait_turn(c, patience, "probe", err);
    return st;
}

/* Ranks on seats 0 and 1 pass a number back and forth; the best of some
 * hundreds of times. */
static enum pdl_status round_trip(pdl_comm *c, double *out, struct pdl_err *err)
{
    struct comm_seat *mine = comm_area_seat(c->area, c->node_rank);
    struct comm_seat *other = comm_area_seat(c->area, 1 - c->node_rank);
    struct comm_patience patience = {.turns = 0};
    uint64_t i = atomic_load(&mine->ping);
    enum pdl_status st = PDL_OK;
    double best = INFINITY;

    for (int batch = 0; st == PDL_OK && batch < BATCHES; batch++) {
        double start = pdl_clock_s();

        for (int k = 0; st == PDL_OK && k < ROUNDS / BATCHES; k++) {
            i++;
            if (c->node_rank == 0)
                say(c, mine, i);
            st = hear(c, other, i, &patience, err);
            c->moves++;
            if (c->node_rank == 1)
                say(c, mine, i);
        }
        best = fmin(best, (pdl_clock_s() - start) * BATCHES / ROUNDS);
    }
    *out = best;
    return st;
}

static double copy_rate(char *to, const char *from)
{
    double best = INFINITY;

    for (int i = 0; i < COPIES; i++) {
        double start = pdl_clock_s(), took;

        memcpy(to, from, COPY_BYTES);
        took = pdl_clock_s() - start;
        best = took < best ? took : best;
    }
    return COPY_BYTES / best;
}

static enum pdl_status copy_rates(pdl_comm *c, struct pdl_comm_probe *out,
                                  struct pdl_err *err)
{
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    enum pdl_status st = PDL_OK;
    double mine = 0;

    if (!from || !to) {
        st = pdl_fail(err, PDL_ENOMEM, "no memory to measure memory");
    } else {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
    }
    if (st == PDL_OK)
        st = pdl_comm_barrier(c, err);
    if (st == PDL_OK && c->rank == 0)
        out->copy_bytes_per_s = copy_rate(to, from);
    if (st == PDL_OK)
        st = pdl_comm_barrier(c, err);
    if (st == PDL_OK) {
        mine = copy_rate(to, from);
        st = pdl_comm_allreduce(c, &mine, &out->copy_all_bytes_per_s, 1,
                                PDL_COMM_F64, PDL_COMM_SUM, err);
    }
    free(from);
    free(to);
    return st;
}

enum pdl_status pdl_comm_measure(pdl_comm *c, struct pdl_comm_probe *out,
                                 struct pdl_err *err)
{
    struct pdl_comm_probe p = {0, 0, 0};
    enum pdl_status st = pdl_comm_barrier(c, err);

    if (st == PDL_OK && c->area && c->node_size > 1 && c->node_rank < 2)
        st = round_trip(c, &p.round_trip_s, err);
    if (st == PDL_OK)
        st = copy_rates(c, &p, err);
    if (st == PDL_OK)
        st =
            pdl_comm_broadcast(c, &p.copy_bytes_per_s, 1, PDL_COMM_F64, 0, err);
    if (st == PDL_OK)
        *out = p;
    return st;
}
