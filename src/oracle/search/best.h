/* The best points so far (best.c): as many as there is room for, or a front. */
#ifndef ORACLE_BEST_H
#define ORACLE_BEST_H

#include "oracle/search/point.h"

struct oracle_kept {
    struct oracle_point point;
    struct pdl_projection x;
    double goal;
    int64_t index; /* settles ties */
};

/* Worst first (a heap); or a front, in any order. */
struct oracle_best {
    struct oracle_kept *list;
    int64_t n, cap;
    bool front;
};
void oracle_best_keep(struct oracle_best *b, const struct oracle_kept *x);
/* What a point must not exceed to be among them. */
double oracle_best_bar(const struct oracle_best *b);
/* Can no step of at least so long with this memory be on the front? */
bool oracle_best_beats(const struct oracle_best *b,
                       const struct pdl_projection *x, double least);
/* The best first; nothing is kept after that. */
void oracle_best_sort(struct oracle_best *b);

#endif
