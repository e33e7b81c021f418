/* Plans that designs share: share.c and what finds one, search.c. */
#ifndef DESIGN_SHARE_H
#define DESIGN_SHARE_H

#include "design_priv.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KEPT = 24 };

/* A workload on a machine. */
struct cell {
    bool done, searched, remembered; /* searched: before, too */
    const char *plan[KEPT];          /* the best ones found by a search */
    double step_s[KEPT];
    int nplans;
    uint64_t key;
    struct pdl_design_run run;
};

struct task {
    int machine, workload;
};

struct sharing {
    struct design_work *w;
    struct design_rates *rates; /* of the machines */
    int *first;                 /* design -> the first with the same machine */
    pdl_job **job;              /* one a workload, its model loaded */
    struct cell *cell;          /* [machine * nworkloads + workload] */
    struct design_memo *memo;
    double saved_s; /* when, by the clock */
    struct task *task;
    int ntasks;
    bool alone; /* one task: it may use all threads */
    pthread_mutex_t lock;
    atomic_bool stop;
    atomic_llong ndone, priced;
    enum pdl_status st; /* the first failure */
    struct pdl_err err;
};

static inline struct cell *cell_of(const struct sharing *s, int machine, int k)
{
    return &s->cell[(size_t)machine * (size_t)s->w->q->nworkloads + (size_t)k];
}

/* search.c. The first failure is kept, and all ends. */
void design_failed(struct sharing *s, enum pdl_status st,
                   const struct pdl_err *err);
/* So many more plans are settled; false: stop. */
bool design_report(struct sharing *s, int64_t more);
/* Prices a plan; false: it does not run or does not fit there. */
bool design_price(struct sharing *s, pdl_job *j, const char *strategy,
                  struct pdl_projection *out);
/* The plan is the machine's. */
void design_settle(struct sharing *s, pdl_job *j, struct cell *c,
                   const char *strategy, enum pdl_design_how how);
pdl_job *design_job_of(struct sharing *s, const struct task *t);
/* Searches the space of plans of a workload on a machine. */
void design_search(struct sharing *s, const struct task *t);

#endif
