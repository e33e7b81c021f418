/* A ring inside every node around a butterfly between the nodes; hier.c. */
#ifndef COLL_HIER_H
#define COLL_HIER_H

#include "coll_priv.h"

enum pdl_status coll_hier_setup(struct pdl_coll_job *job, bool halve,
                                struct pdl_err *err);
int64_t coll_hier_nsteps(const struct pdl_coll_job *job, bool halve, int rank);
void coll_hier_step(const struct pdl_coll_job *job, bool halve, int rank,
                    int64_t s, struct pdl_step *out);
void coll_hier_cost(const struct pdl_coll_job *job, bool halve,
                    struct pdl_coll_cost *out);

#endif
