/* Shared inside the oracle room. */
#ifndef ORACLE_PRIV_H
#define ORACLE_PRIV_H

#include "oracle/step/pipeline.h"
#include "oracle/wire/wire.h"

/* When things happened, for the timeline: start and seconds of each operation
 * by the clock of its stage's first micro-batch, and the end of each task of
 * the pipeline, [forward, backward][stage][micro-batch]. */
struct oracle_record {
    double *start, *seconds, *done;
    bool alone;        /* the exchange of gradients slows nothing */
    double copy_slows; /* habit.h says of what */
};

/* Ranks that show every local shape, and for each the first of them that does
 * the same work (like) and sends the same messages (twin). */
enum { ORACLE_MAX_RANKS = 81 };
struct oracle_ranks {
    int n, stage;
    int64_t rank[ORACLE_MAX_RANKS];
    int like[ORACLE_MAX_RANKS], twin[ORACLE_MAX_RANKS];
};

/* lowering.c: a strategy as text (NULL: out of memory); without its axes of one
 * rank, which lie nowhere; the first node that a stage computes */
const char *oracle_strategy_text(pdl_arena *a, const struct pdl_strategy *s);
void oracle_drop_ones(struct pdl_clause *c);
int oracle_first_node(const struct pdl_plan *p, int stage);
/* project.c: the PE at the job's precision, effects left out */
void oracle_settle(struct oracle *o, struct oracle_changed *c);
/* project.c: pdl_project, and what happened when (record may be NULL) */
enum pdl_status oracle_project(const struct pdl_plan *plan,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *opt,
                               struct oracle_record *record,
                               struct pdl_projection *out, struct pdl_err *err);

/* price.c: seconds of all forward operations of a plan with one stage, one
 * after the other; < 0: no memory */
double oracle_forward_s(const struct pdl_plan *plan,
                        const struct pdl_system *sys,
                        const struct pdl_oracle_options *opt);

/* ranks.c: ranks of a stage that between them have every local shape the
 * splits produce: both ends and the middle of each factor. */
int oracle_ranks(const struct pdl_plan *p, int stage, int64_t *ranks);
/* ranks of one group beside the representatives, for messages of an uneven
 * split; larger groups: none */
enum { ORACLE_MORE = 64 };
int oracle_more_ranks(const struct oracle *o, int op, const int64_t *ranks,
                      int n, int64_t *more);
void oracle_find_ranks(const struct oracle *o, int stage,
                       struct oracle_ranks *out);
/* ranks of the first stage; those of others differ in the stage alone */
bool oracle_find_alike(struct oracle *o);
/* op_price.c: does it use the network; the slowest rank's seconds, the most
 * flows and the highest level (for compute: -1) */
bool oracle_is_comm(enum pdl_plan_op_kind kind);
const struct oracle_price *oracle_slowest(const struct oracle *o, int op,
                                          const struct oracle_ranks *r,
                                          bool gradient);
/* price.c: pdl_price_ops, of collectives alone where that is enough */
enum pdl_status oracle_price_ops(const struct pdl_plan *plan,
                                 const struct pdl_system *sys,
                                 const struct pdl_oracle_options *opt,
                                 bool comm_only, struct pdl_op_price *out,
                                 struct pdl_err *err);
/* what it remembers */
struct oracle_seen; /* prices and sizes; plans that are priced one at a time,
                       and forget before they begin, may share them */
struct oracle_seen *oracle_seen_make(pdl_arena *a);
bool oracle_memo_make(struct oracle *o, struct oracle_seen *seen);
/* that, what is known of wires and allreduces, and the ranks; in its arena */
bool oracle_prepare(struct oracle *o);
/* of the same plan with other sizes, or (ranks) on another mesh */
void oracle_memo_forget(struct oracle *o, bool ranks);
/* numbers for operations from `first` on, `count` are known (op: the first of
 * each number); returns how many there are */
int oracle_number_ops(const struct oracle *o, int first, int n, int *number,
                      int *op, int count, int *table, int nslots);
bool oracle_same_attr(const struct pdl_attr *a, const struct pdl_attr *b);
/* project.c: how many rounds one that is written stands for (rolled plans) */
int64_t oracle_times(const struct oracle *o, int round);
/* io.c: seconds of opening files, and of reading and staging a step's samples
 * (proportional to its micro-batches) */
struct oracle_loading {
    double open_s, load_s;
};
struct oracle_loading oracle_loading(const struct oracle *o);
/* pe_kinds.c: the oracle as a stage's PEs make it (o itself where all are of
 * one kind); mean peak rate; memory of the smallest PE */
struct oracle_lane {
    struct oracle o;
    struct pdl_system sys;
    struct oracle_changed changed;
};
const struct oracle *oracle_on_stage(const struct oracle *o, int stage,
                                     struct oracle_lane *own);
/* which kind of PE a rank has */
int64_t oracle_kind(const struct oracle *o, int64_t rank);
double oracle_peak(const struct oracle *o);
int64_t oracle_capacity(const struct oracle *o);
/* memory.c: layers that are computed again, where blocks choose; false: no
 * memory */
bool oracle_find_again(struct oracle *o);

#endif
