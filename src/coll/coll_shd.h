/* The shape both forms of shifted halving-doubling work on; see shd.c. */
#ifndef COLL_SHD_H
#define COLL_SHD_H

#include "coll_priv.h"

struct coll_shd {
    int local; /* rank bits inside a switch */
    int bits;  /* rank bits of the switch, */
    int row;   /* of which so many in the first dimension */
    int shift; /* the bit that marks shifted ranks; -1: none */
};

enum pdl_status coll_shd_settle(struct pdl_coll_job *job, struct pdl_err *err);
struct coll_shd coll_shd_shape(const struct pdl_coll_job *job);
bool coll_shd_shifted(const struct coll_shd *n, int64_t rank);
int64_t coll_shd_hop(const struct coll_shd *n, int64_t sw, int k, int by);

// clang-format off
#define COLL_SHD_KEYS                                                       \
    COLL_KEY(p, 1, 20, "2^p ports a switch"),                               \
    COLL_KEY(q, 1, 20, "2^q switches (half of the bits)"),                  \
    COLL_KEY(g, 1, 1 << 20, "ranks per port (1)"),                          \
    COLL_KEY(shift, 1, 20, "rank bit whose ranks are shifted (log2 g)"),    \
    COLL_KEY(y, 1, 20, "bits of q that are a second dimension (none)")
// clang-format on

#endif
