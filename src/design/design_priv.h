/* Shared inside design. */
#ifndef DESIGN_PRIV_H
#define DESIGN_PRIV_H

#include "paradl/design.h"

extern const struct pdl_builtin design_prices[];

/* Which prices a design asks for: their numbers in the file; -1: none. */
enum design_item {
    DESIGN_RENT, /* these five of every kind of node */
    DESIGN_NODE,
    DESIGN_PE,
    DESIGN_HOST,
    DESIGN_NIC,
    DESIGN_KINDS,
    DESIGN_SWITCH = DESIGN_KINDS,
    DESIGN_OPTIC,
    DESIGN_COPPER,
    DESIGN_FIBRE,
    DESIGN_RACK,
    DESIGN_FACILITY,
    DESIGN_ELECTRICITY,
    DESIGN_SWITCH_W,
    DESIGN_OPTIC_W,
    DESIGN_PUE,
    DESIGN_CARBON,
    DESIGN_MTBF,
    DESIGN_RESTART,
    DESIGN_STORAGE,
    DESIGN_NITEMS
};
struct design_kind {
    int at[DESIGN_KINDS];
    int64_t nodes, pes; /* of a job; of a node */
    double nic_gb;      /* GB/s of a node's adapters */
};
struct design_items {
    int at[DESIGN_NITEMS];
    struct design_kind *kind;
    int nkinds;
};

/* A question being answered. */
struct design_work {
    pdl_arena *arena;
    const struct pdl_question *q;
    const struct pdl_design_options *opt;
    struct pdl_designs *d;
    struct design_items *items; /* one a design */
    double *value;              /* of every price */
    /* Factors on the steps, a row a machine, a column a workload; NULL: 1. */
    double *step;
    struct pdl_design_run *runs; /* of one machine, to write into */
    double *train; /* seconds of each workload by itself, of a design; scratch
                      behind them */
};

/* items.c: which prices a design needs; one that is missing is named. */
enum pdl_status design_items(pdl_arena *a, const struct pdl_question *q,
                             const struct pdl_prices *prices,
                             const struct pdl_design_point *p,
                             struct design_items *out, struct pdl_err *err);
const char *design_unpriced(pdl_arena *a, const char *system,
                            const char *known);
static inline double design_value(const int *at, enum design_item i,
                                  const double *value)
{
    return at[i] < 0 ? 0 : value[at[i]];
}

/* machine.c: the system of a design with its network. */
enum pdl_status design_machine(pdl_arena *a, const struct pdl_question *q,
                               struct pdl_design_point *p, struct pdl_err *err);

/* Puts the design before a message. */
enum pdl_status design_place(const struct pdl_design_text *t,
                             enum pdl_status st, struct pdl_err *err);

/* bill.c: how many of what; then what that costs and draws. */
enum pdl_status design_count(const struct pdl_question *q,
                             struct pdl_design_point *p, struct pdl_err *err);
void design_bill(const struct pdl_question *q, const struct design_items *n,
                 const double *value, struct pdl_materials *m);

/* account.c: one run of a workload, and the mix, on a machine and on what it
 * grows to. */
struct design_totals {
    double time_s, cost, kwh, co2_kg;
    double capital, facility_w, node_w, racks, pes; /* most of its stages */
};
/* Of a machine that stays as it is; runs and bill are written. */
void design_account(const struct design_work *w, int i, const double *value,
                    struct pdl_design_run *runs, struct pdl_materials *bill,
                    struct design_totals *out);
/* Of a design; w->train is written. settle: its points keep what they come
 * to. */
struct design_totals design_total(const struct design_work *w, int i,
                                  const double *value, bool settle);
void design_compare_rent(const struct design_work *w, int i);
/* The machine that it is after this one; -1: it stays. */
static inline int design_next(const struct design_work *w, int i)
{
    return w->q->design[i].then > 0 ? w->q->design[i].then : -1;
}
double design_goal_of(const struct pdl_question *q,
                      const struct design_totals *t);

/* share.c: the best plan of every workload on every machine. */
enum pdl_status design_plans(struct design_work *w, struct pdl_err *err);

/* workload.c: a job of the workload on a machine, to be destroyed, whatever is
 * returned; which of a search is set, strategy and PEs are not. */
enum pdl_status design_job(const struct pdl_workload *w,
                           const struct pdl_system *sys, pdl_job **out,
                           struct pdl_err *err);
/* Its PEs, and where sites train by themselves its part of the batch. */
enum pdl_status design_job_size(const struct pdl_workload *w,
                                const struct pdl_design_point *p, pdl_job *j,
                                struct pdl_err *err);
/* Does the framework run what a search found? */
bool design_runs(pdl_arena *a, const pdl_job *j, const struct pdl_found *x);
/* Steps, tokens and the bytes of a checkpoint. */
enum pdl_status design_measure(const struct pdl_workload *w, const pdl_job *j,
                               struct pdl_design_run *out, struct pdl_err *err);
double design_between_sites(const struct pdl_question *q,
                            const struct pdl_design_point *p, const pdl_job *j);

/* rates.c: do all rates of a reach those of b, and is all else equal? */
struct design_rates {
    const char *same;  /* all that counts, as text */
    const char *shape; /* all but the rates below */
    double *rate;      /* more is better */
    int n, without_latency;
};
enum pdl_status design_rates(pdl_arena *a, const struct pdl_system *sys,
                             struct design_rates *out, struct pdl_err *err);
bool design_dominates(const struct design_rates *a,
                      const struct design_rates *b, bool latency);

/* memo.c: the best plans of searches before, by a hash of workload and
 * machine. */
struct design_memo;
struct design_memo_entry {
    uint64_t key;
    const char *strategy;
    double step_s;
};
enum pdl_status design_memo_open(const char *path, struct design_memo **out,
                                 struct pdl_err *err);
void design_memo_close(struct design_memo *m); /* NULL is allowed */
/* Those of a search, best first: how many, of the first `most`. */
int design_memo_find(const struct design_memo *m, uint64_t key,
                     struct design_memo_entry *out, int most);
/* In the place of what was known. */
void design_memo_put(struct design_memo *m, uint64_t key,
                     const char *const *strategy, const double *step_s, int n);
enum pdl_status design_memo_save(const struct design_memo *m, const char *path,
                                 struct pdl_err *err);

/* limits.c: which constraints a design breaks, and by how much; are they kept
 * where it comes to this? Both after design_total. */
enum pdl_status design_limits_open(struct design_work *w, struct pdl_err *err);
void design_limits(struct design_work *w, int i, const struct design_totals *t);
bool design_keeps(const struct design_work *w, const struct design_totals *t);

/* rank.c: order, front, who wins with which probability. */
enum pdl_status design_rank(struct design_work *w, struct pdl_err *err);
/* vary.c: what changes would do, and where the answer flips. */
enum pdl_status design_vary(struct design_work *w, struct pdl_err *err);

#endif
