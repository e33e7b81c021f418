/* Sums in the order of ranks (ordered.c). */
#ifndef COLL_ORDERED_H
#define COLL_ORDERED_H

#include "coll_priv.h"

/* cut: rank r sums chunk r of P (else every rank sums all of it); gather: the
 * sums then go to all ranks. */
struct coll_ordered {
    bool cut, gather;
};

enum pdl_status coll_ordered_setup(struct pdl_coll_job *job,
                                   const struct coll_ordered *o);
int64_t coll_ordered_nsteps(const struct pdl_coll_job *job,
                            const struct coll_ordered *o);
void coll_ordered_step(const struct pdl_coll_job *job,
                       const struct coll_ordered *o, int rank, int64_t s,
                       struct pdl_step *out);

#endif
