/* Operations of all ranks of one node at once: shared by direct.c (allreduce)
 * and direct_move.c (the other collectives). */
#ifndef COMM_DIRECT_H
#define COMM_DIRECT_H

#include "comm_core.h"

enum {
    COMM_DIRECT_RANKS = 64,     /* at most */
    COMM_DIRECT_BLOCK = 32768,  /* summed while it stays in the first cache */
    COMM_DIRECT_TURN = 4 << 20, /* bytes summed before others get a turn */
};

enum comm_way {
    COMM_WAY_UNDECIDED,
    COMM_WAY_FLAT,
    COMM_WAY_POINTER,
    COMM_WAY_CMA,
    COMM_WAY_STAGED
};
enum comm_phase {
    COMM_PHASE_BEGIN,
    COMM_PHASE_GATHERING,
    COMM_PHASE_WORKING,
    COMM_PHASE_LEAVING,
    COMM_PHASE_STAGE_IN,
    COMM_PHASE_STAGE_SUM,
    COMM_PHASE_STAGE_OUT
};

struct comm_direct {
    pdl_comm_request head;
    struct comm_call call;
    const struct comm_move *move; /* what moves where; NULL: allreduce */
    enum comm_way way;
    enum comm_phase phase;
    uint64_t number;
    uint64_t tag;        /* what is asked for, shortened */
    int odd;             /* a seat that asks for something else; -1: none */
    int next;            /* seats before it have been seen */
    int64_t size;        /* of an element */
    int64_t at, end;     /* elements (moves: ranks) still to be done */
    int64_t part, parts; /* staged: which of how many */
    int64_t each;        /* staged moves: elements of a piece in a part */
    char *aside;         /* a copy of an input that the output overlaps */
    bool streams;        /* copies for others go past the cache */
    bool out_streams;    /* and what comes from them, too */
    double start_s;
    double way_s; /* when there was a choice of ways; 0: none */
};

/* ---- meeting (direct_meet.c) ------------------------------------------ */

struct comm_seat *comm_direct_seat(const struct comm_direct *d, int i);
/* This rank reads or writes so many bytes. */
void comm_direct_worked(struct comm_direct *d, int64_t bytes);
/* Takes the next number. */
void comm_direct_next(struct comm_direct *d);
void comm_direct_arrive(struct comm_direct *d);
bool comm_direct_all_arrived(struct comm_direct *d);
void comm_direct_finish(struct comm_direct *d);
bool comm_direct_all_finished(struct comm_direct *d);
enum pdl_status comm_direct_unequal(struct comm_direct *d, int other,
                                    struct pdl_err *err);
/* Shows the others where this rank's buffers are; then, when everyone has
 * arrived: do all ask for the same, and which way is taken? */
void comm_direct_post(struct comm_direct *d, int64_t in_bytes,
                      int64_t out_bytes);
enum pdl_status comm_direct_decide(struct comm_direct *d, struct pdl_err *err);
/* What the way is called. */
const char *comm_direct_way(const struct comm_direct *d);
char *comm_direct_reach(const struct comm_direct *d, struct comm_place at);
void comm_direct_fill(struct comm_direct *d, pdl_comm *c,
                      const struct comm_call *call, bool flat);

/* ---- copies and sums (direct_meet.c) ---------------------------------- */

int64_t comm_direct_begin(int64_t count, int p, int r);
/* to = from[0] op from[1] ..., in this order; `to` is none of them but may be
 * one of the first two. */
void comm_direct_sum(const struct comm_direct *d, void *to,
                     const char *const *from, int64_t n);
/* Sums n elements `off` bytes into everyone's input, by the kernel; to may be
 * this rank's input there. */
enum pdl_status comm_direct_sum_cma(struct comm_direct *d, char *to,
                                    int64_t off, int64_t n,
                                    struct pdl_err *err);
/* The first time: the stages' pages are there. */
void comm_direct_stages(const struct comm_direct *d);
void comm_direct_copy(bool streams, void *to, const void *from, int64_t bytes);
void comm_direct_learn(const struct comm_direct *d, enum comm_habits what,
                       bool second);
/* The rank that chooses for all where there is a choice. */
int comm_direct_decider(const struct comm_direct *d);
void comm_direct_learn_way(const struct comm_direct *d);
/* Which habit says whether the kernel is the better way. */
enum comm_habits comm_direct_kernel(const struct comm_direct *d);

/* ---- moves (direct_move.c) -------------------------------------------- */

/* NULL: not one of them. */
const struct comm_move *comm_move_find(const char *collective);
unsigned comm_move_kind(const struct comm_move *m); /* 1 and up */
enum pdl_status comm_move_advance(pdl_comm_request *r, bool *done,
                                  struct pdl_err *err);

#endif
