/* All-to-all on the 2-D fully connected network; see full2d.c. */
#ifndef COLL_FULL2D_H
#define COLL_FULL2D_H

#include "coll_priv.h"

struct coll_full2d {
    bool orders[2]; /* x first, y first */
    bool halves;    /* each order carries one half of every block */
    bool parity;    /* the order of a block is the parity of coordinates */
    bool direct;    /* blocks for neighbours go whole in the first round */
};

enum pdl_status coll_full2d_setup(struct pdl_coll_job *job,
                                  const struct coll_full2d *f,
                                  struct pdl_err *err);
int64_t coll_full2d_nsteps(const struct pdl_coll_job *job,
                           const struct coll_full2d *f);
void coll_full2d_step(const struct pdl_coll_job *job,
                      const struct coll_full2d *f, int rank, int64_t s,
                      struct pdl_step *out);

// clang-format off
#define COLL_FULL2D_KEYS                                   \
    COLL_KEY(x, 1, 1 << 20, "columns of the network"),     \
    COLL_KEY(y, 1, 1 << 20, "rows of the network")
// clang-format on

#endif
