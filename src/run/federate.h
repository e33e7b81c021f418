/* A federated run on one rank, and what rank 0 tells of it. */
#ifndef RUN_FEDERATE_H
#define RUN_FEDERATE_H

#include "options/federate_options.h"
#include "run_priv.h"
#include "paradl/fed.h"

#include <mpi.h>

struct federation {
    const struct pdl_args *args;
    struct federate_options o;
    pdl_arena *arena;
    const struct pdl_model *model;
    pdl_io *io;
    struct pdl_fed_job job;
    struct pdl_fed_summary summary;
    int rank;
    bool threads; /* of this process; else MPI ranks */
    MPI_Comm end; /* for run_end_together */
    double start_s, last_s;
    int64_t round;
    bool line_shown;
    struct federate_point *history; /* a row a round */
    int64_t nhistory, room;
    double *groups; /* accuracies, a row a round */
    double *client; /* of the last test; NULL: there was none */
    /* at the end: how many, of each client, and between all pairs where a page
     * can show them */
    int64_t clusters;
    int32_t *cluster;
    float *similarity;
};

struct federate_point {
    int64_t round, trained, lost, down, up, across;
    double train_loss, loss, accuracy, seconds;
};

/* Model, data and partition. */
enum pdl_status federate_prepare(struct federation *s, struct pdl_err *err);
void federate_erase(struct federation *s); /* the progress line */
void federate_tell(void *ctx, const struct pdl_fed_line *l);
void federate_progress(void *ctx, int64_t done, int64_t of);
void federate_summary(struct federation *s);
/* The result as one document, for `paradl report`. */
void federate_result(const struct federation *s, struct pdl_sink *out);
void federate_show(struct federation *s); /* the partition */
void federate_projection(const struct federation *s,
                         const struct pdl_fed_projection *x);

#endif
