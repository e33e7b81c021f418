/* Shared inside comm: what is not part of include/paradl/comm.h. */
#ifndef COMM_PRIV_H
#define COMM_PRIV_H

#include "paradl/comm.h"

/* ---- arithmetic on elements (reduce.c) -------------------------------- */

int64_t comm_type_bytes(enum pdl_comm_type type);
const char *comm_type_name(enum pdl_comm_type type);
/* dst[i] = dst[i] op src[i]. The arrays are apart, or the same. PDL_COMM_AVG
 * adds; whoever knows the number of ranks divides at the end (comm_scale). */
void comm_reduce(void *dst, const void *src, int64_t n, enum pdl_comm_type type,
                 enum pdl_comm_op op);
/* dst[i] /= divisor; integers towards zero. */
void comm_scale(void *dst, int64_t n, enum pdl_comm_type type, int divisor);

/* ---- the largest elements (topk.c) ------------------------------------ */

/* x[i] += add[i] first, where add is not NULL. */
void comm_topk_take(pdl_topk *t, float *x, const float *add,
                    struct pdl_sparse *out);

#endif
