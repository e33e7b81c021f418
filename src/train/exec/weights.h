/* Between the files that bring weights in and out: from rows of ours to those
 * of a tensor of others (paradl/model.h, pdl_weight_place). */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "paradl/train.h"

/* Can its elements be read as numbers? */
bool train_weights_type(enum pdl_dtype t);

/* The rows of a part of ours that a place has, and the box of theirs that
 * they are in. */
struct train_weights_run {
    int64_t lo, hi;               /* rows of ours, counted from place->to */
    struct pdl_train_part theirs; /* dtype and data: the caller's */
};
/* False: none. */
bool train_weights_run(const struct pdl_weight_place *p,
                       const struct pdl_train_part *ours,
                       struct train_weights_run *out);
/* Copies the rows, from theirs or (in false) to theirs. */
void train_weights_copy(const struct pdl_weight_place *p,
                        const struct train_weights_run *run,
                        const struct pdl_train_part *ours, bool in);

#endif
