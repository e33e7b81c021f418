/* Shared inside the karma room. */
#ifndef KARMA_PRIV_H
#define KARMA_PRIV_H

#include "paradl/karma.h"

static inline bool karma_moves(enum pdl_karma_choice c)
{
    return c == PDL_KARMA_SWAP || c == PDL_KARMA_BOTH || c == PDL_KARMA_REST;
}

static inline int64_t karma_passes(const struct pdl_karma *k)
{
    return k->passes > 1 ? k->passes : 1;
}

/* What a block leaves for its backward: on the device, or on the host. */
static inline const struct pdl_karma_left *
karma_left(const struct pdl_karma_block *b, enum pdl_karma_choice c)
{
    return &b->left[pdl_karma_again(c)];
}

/* May the block choose so? What the last one left is wanted at once. */
bool karma_may(const struct pdl_karma *k, int block, enum pdl_karma_choice c);
/* Bytes of tensors that pass by. */
int64_t karma_passing(const struct pdl_karma *k, int block, bool back);
/* Bytes of states on the device and on the host, and the update of a step. */
struct karma_update {
    int64_t device_bytes, host_bytes;
    double device_s; /* after backward */
    double in_s;     /* weights, after activations */
    double *tail;    /* of each block: from the end of its backward to the
                              end of the step, through the host; -1: nothing */
    double out_busy_s;
};
void karma_update(const struct pdl_karma *k, const bool *host,
                  struct karma_update *u);

/* search.c: the best block decisions for one distance and given groups; better
 * than *limit, or out is left alone. Lowers bound to what it has proved. */
struct karma_bound;
struct karma_search {
    const struct pdl_karma *k;
    const struct karma_bound *missing; /* bound.c */
    struct karma_update update;
    int ahead;
    int64_t width; /* partial decisions kept at each block */
    double limit;  /* the best so far */
    double bound;  /* proved */
    int64_t looked;
};
enum pdl_status karma_search(struct karma_search *s,
                             enum pdl_karma_choice *choice, bool *found,
                             struct pdl_err *err);

/* bound.c: what memory that is missing costs at least */
struct karma_bound *karma_bound_make(pdl_arena *a, const struct pdl_karma *k);
/* Clocks: computing all along; computing, then copies in; copies out, then
 * computing; copies out, then in. */
enum { KARMA_COMPUTING, KARMA_IN, KARMA_OUT, KARMA_BOTH, KARMA_CLOCKS };
/* Blocks [from, n) still choose and must give `need` bytes; until now the
 * clocks stand at t. */
double karma_bound_at(const struct karma_bound *b, int from, int64_t need,
                      const double *t);
/* The same where every byte that is there when the last block computes has a
 * price, in seconds. */
struct karma_price;
struct karma_price *karma_price_make(pdl_arena *a, const struct pdl_karma *k,
                                     int ahead, double per_byte);
double karma_price_at(const struct karma_price *p, int from, const double *t);
int64_t karma_there(const struct pdl_karma *k, int ahead, int block,
                    enum pdl_karma_choice c);

#endif
