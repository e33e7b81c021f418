/* Shared by the search: strategies are written into a list, space by space. */
#ifndef ORACLE_SPACE_H
#define ORACLE_SPACE_H

#include "oracle/oracle_priv.h"

#include <pthread.h>

struct oracle_space {
    const struct pdl_model *model;
    const struct pdl_system *sys;
    const struct pdl_search_options *opt;
    const struct pdl_framework *framework; /* may be NULL */
    int most_zero;
    pdl_arena *arena;
    const char **list;
    int64_t n, cap;
    bool failed; /* no memory */
};

void oracle_space_add(struct oracle_space *s, const char *text);
/* Is the axis asked for? */
bool oracle_space_wants(const struct oracle_space *s, enum pdl_axis axis);
/* space_pairs.c: every axis alone and every product of two */
void oracle_space_pairs(struct oracle_space *s);
/* space_transformer.c: pipe x data x expert x context x tensor, micro-batches,
 * recomputation, sharded states */
void oracle_space_transformer(struct oracle_space *s);

/* space_axes.c: the most that ZeRO may share, of the framework and as asked */
int oracle_most_zero(const struct pdl_framework *w,
                     const struct pdl_search_options *opt);

/* space_groups.c: on which kind of nodes their axes lie */
void oracle_space_groups(struct oracle_space *s);

/* search.c: emptied arenas, which threads lend each other. Fresh memory would
 * cost as much as what is written into it. */
enum { ORACLE_IDLE = 64 };
struct oracle_idle {
    pdl_arena *arena[ORACLE_IDLE];
    int n;
    pthread_mutex_t lock;
};
pdl_arena *oracle_borrow(struct oracle_idle *x);
void oracle_give_back(struct oracle_idle *x, pdl_arena *a);
void oracle_free_idle(struct oracle_idle *x);

/* search.c: lowers and prices a strategy, whose text is given */
enum pdl_status oracle_price_found(pdl_arena *a, const struct pdl_model *model,
                                   const struct pdl_system *sys,
                                   const struct pdl_oracle_options *oracle,
                                   const struct pdl_search_options *opt,
                                   struct pdl_found *f, struct pdl_err *err);

/* What is counted. */
double oracle_goal(enum pdl_goal goal, const struct pdl_projection *x,
                   const struct pdl_system *sys);
/* Is b no better than a, in time and in memory? */
bool oracle_dominates(const struct pdl_projection *a,
                      const struct pdl_projection *b);

/* space_points.c: every configuration of a transformer of equal blocks. Not
 * found: the model is none. */
struct oracle_family;
enum pdl_status oracle_search_points(pdl_arena *a,
                                     const struct oracle_family *f,
                                     const struct pdl_search_options *opt,
                                     struct pdl_search_result *out,
                                     struct pdl_err *err);

/* offload.c: adds what is decided block by block to what was found. `large`:
 * the space is of points. */
enum pdl_status oracle_offload(pdl_arena *a, const struct pdl_model *model,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *oracle,
                               const struct pdl_search_options *opt, bool large,
                               struct pdl_search_result *out,
                               struct pdl_err *err);

#endif
