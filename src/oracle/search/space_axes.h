/* What the search over configurations of transformers chooses from. */
#ifndef ORACLE_SPACE_AXES_H
#define ORACLE_SPACE_AXES_H

#include "oracle/search/point.h"
#include "oracle/search/space.h"

enum { ORACLE_VALUES = 512, ORACLE_CHOICES = 64, ORACLE_RECOMPUTES = 3 };

struct oracle_values {
    int64_t v[ORACLE_VALUES];
    int n;
};

struct oracle_axes {
    const struct oracle_family *f;
    const struct pdl_search_options *opt;
    const struct pdl_space_axis *words; /* the same in words */
    int nwords;
    int64_t queries; /* heads of queries, and of keys */
    int64_t heads;
    int64_t experts; /* 1: none */
    int64_t positions;
    bool even;        /* the framework wants as many blocks in every stage */
    bool experts_seq; /* it has experts beside tensor ranks that share seq */
    bool overlap;     /* it may overlap */
    bool offload;     /* the rates of copies to the host are known */
    int most_zero;    /* that the framework has */
    const struct pdl_abilities *runs; /* and all else */
    enum pdl_recompute recompute[ORACLE_RECOMPUTES];
};

void oracle_axes_make(const struct oracle_family *f,
                      const struct pdl_search_options *opt,
                      struct oracle_axes *out);
/* Every mesh; at most so many. */
int64_t oracle_axes_meshes(const struct oracle_axes *x,
                           struct oracle_point *out, int64_t most);
/* Of a mesh: samples of a micro-batch; with them, stages of a lane; with
 * those, zero-bubble schedules. */
struct oracle_values oracle_axes_micro(const struct oracle_axes *x,
                                       const struct oracle_point *p);
struct oracle_values oracle_axes_chunks(const struct oracle_axes *x,
                                        const struct oracle_point *p);
int oracle_axes_bubbles(const struct oracle_axes *x,
                        const struct oracle_point *p);
/* All points of one micro-batch, schedule and recomputation: sharded states,
 * overlap, what is on the host, as far as the framework runs them. A few:
 * nothing is, and weights do not travel. */
int oracle_axes_choices(const struct oracle_axes *x,
                        const struct oracle_point *p, bool few,
                        struct oracle_point *out);
/* Points of a mesh. */
int64_t oracle_axes_count(const struct oracle_axes *x, struct oracle_point p);
/* Choices that are many and seldom good: no search starts from them. */
bool oracle_axes_further(const struct oracle_axes *x,
                         const struct oracle_point *p);
/* Are points like this one asked whether they fit even when they are too slow,
 * so that those that fit are counted? */
bool oracle_axes_counted(const struct oracle_axes *x,
                         const struct oracle_point *p);

#endif
