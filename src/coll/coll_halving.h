/* Butterflies that halve and double on a power of two of ranks; see
 * halving.c. */
#ifndef COLL_HALVING_H
#define COLL_HALVING_H

#include "coll_priv.h"

/* Who pairs with whom in round j, and which half member i keeps (bit j of
 * bits); as in struct coll_butterfly. */
struct coll_pairing {
    int64_t (*partner)(const struct coll_butterfly *b, int64_t i, int j);
    uint32_t (*bits)(const struct coll_butterfly *b, int64_t i);
};

enum pdl_status coll_halving_setup(struct pdl_coll_job *job,
                                   struct pdl_err *err);
int64_t coll_halving_nsteps(const struct pdl_coll_job *job, int rank);
void coll_halving_step(const struct pdl_coll_job *job,
                       const struct coll_pairing *pairs, int rank, int64_t s,
                       struct pdl_step *out);
void coll_halving_cost(const struct pdl_coll_job *job,
                       struct pdl_coll_cost *out);

#endif
