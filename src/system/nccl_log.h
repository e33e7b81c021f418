/* A log of nccl-tests while it is read: shared by the text and the JSON
 * reader, which fill the same times. */
#ifndef NCCL_LOG_H
#define NCCL_LOG_H

#include "system_priv.h"

struct system_nccl_row {
    int root;     /* 1 when there is such a column */
    int time[2];  /* column of the time, out of place and in place */
    int bus[2];   /* of the bus bandwidth */
    int wrong[2]; /* of the number of wrong results */
};

struct system_nccl_log {
    pdl_arena *a;
    const char *name;
    const struct pdl_import *how;
    struct pdl_system *sys;
    struct pdl_err *err;
    int line;
    struct system_nccl_row format;
    struct system_times times;
    int64_t ranks, hosts, wrong;
    bool ranks_closed; /* rows came: the next Rank line starts a new list */
    const char *host_names[512];
    const char *model;
    int runs;
};

/* "all_reduce_perf", "AllReduce" -> "allreduce"; NULL when unknown. */
const char *system_nccl_op(const char *text);
/* Ends a run: fits its line and adds it to the system. */
enum pdl_status system_nccl_finish(struct system_nccl_log *log);
enum pdl_status system_nccl_json(struct system_nccl_log *log,
                                 struct pdl_bytes in);

#endif
