/* A run of train or evaluate on one rank, and what rank 0 tells of it. */
#ifndef RUN_TRAIN_SESSION_H
#define RUN_TRAIN_SESSION_H

#include "options/train_options.h"
#include "options/train_sites.h"
#include "run_priv.h"
#include "train_plan.h"
#include "train_trace.h"
#include "paradl/train.h"

#include <mpi.h>

struct session {
    const struct pdl_args *args;
    struct train_options o;
    pdl_arena *arena;
    struct train_plan from;
    const struct pdl_plan *plan; /* the same */
    pdl_io *io;
    struct pdl_train_job job;
    struct pdl_train_summary summary;
    pdl_metrics *log;
    enum pdl_status log_status; /* a log that fails does not stop a run: */
    struct pdl_err log_err;     /* it is said at the end */
    int rank, ranks;
    struct train_site_options sites;
    MPI_Comm end; /* for run_end_together */
    double start_s, last_s;
    int64_t resumed_at;
    bool line_shown;
    bool evaluate;     /* the command is evaluate */
    char on_host[512]; /* --size: operators that the host runs for a device */
    struct train_trace trace;
    double copy_rate, update_rate; /* --size: of the device, of its host */
    int64_t host_left;             /* --size: bytes */
    double loss_scale;
    int64_t loss_scale_steps;
};

void train_erase(struct session *s); /* the progress line */
void train_tell_line(void *ctx, const struct pdl_train_line *l);
void train_summary(struct session *s);
enum pdl_status train_open_log(struct session *s, struct pdl_err *err);
enum pdl_status train_close_log(struct session *s, enum pdl_status st,
                                struct pdl_err *err);

#endif
