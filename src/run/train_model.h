/* The model that a run trains, and what samples it takes. */
#ifndef RUN_TRAIN_MODEL_H
#define RUN_TRAIN_MODEL_H

#include "paradl/data.h"
#include "paradl/plan.h"

/* The model up to a softmax at its end; NULL: out of memory. */
const struct pdl_model *train_without_softmax(pdl_arena *a,
                                              const struct pdl_model *m);
/* What the model takes, for samples that are made up; numbers: targets are
 * numbers to meet, not classes. */
bool train_like_model(const struct pdl_plan *p, int64_t samples, bool numbers,
                      struct pdl_dataset *d);

#endif
