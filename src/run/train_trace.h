/* What a run did, as files: a Chrome trace of the last step of every rank,
 * and the mean time of every operation of the plan. */
#ifndef RUN_TRAIN_TRACE_H
#define RUN_TRAIN_TRACE_H

#include "paradl/train.h"

struct train_trace {
    const struct pdl_plan *plan;
    struct pdl_buf text;
    struct pdl_json json;
    double *seconds; /* of each operation; NULL: not measured */
};

void train_trace_begin(struct train_trace *t, const struct pdl_plan *p);
void train_trace_rank(struct train_trace *t, int rank,
                      const struct pdl_train_event *events, int64_t n);
/* Ends the trace and writes it; path NULL: only ends it. */
enum pdl_status train_trace_end(struct train_trace *t, const char *path,
                                struct pdl_err *err);
enum pdl_status train_timings_write(const struct train_trace *t,
                                    const struct pdl_train_summary *s,
                                    const char *path, struct pdl_err *err);

#endif
