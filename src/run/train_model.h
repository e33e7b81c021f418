/* What samples the model of a run takes. */
#ifndef RUN_TRAIN_MODEL_H
#define RUN_TRAIN_MODEL_H

#include "paradl/data.h"
#include "paradl/plan.h"

/* What the model takes, for samples that are made up; numbers: targets are
 * numbers to meet, not classes. */
bool train_like_model(const struct pdl_plan *p, int64_t samples, bool numbers,
                      struct pdl_dataset *d);

#endif
