/* The exchange of gradients of the best plan (plan --collectives). */
#ifndef CLI_TUNED_H
#define CLI_TUNED_H

#include "cli/questions/projection.h"

#include "paradl/tune.h"

struct cli_tuned {
    bool known;
    double step_s; /* as the search found it */
    struct pdl_tune_result r;
    struct pdl_err why; /* where there is nothing to choose */
};

/* What is known of the accuracy of a compression (NULL: none). */
const char *cli_loss_name(const char *compress);
enum pdl_status cli_tune_best(pdl_arena *a, const struct cli_question *q,
                              const char *strategy, struct cli_job *j,
                              struct cli_tuned *out, struct pdl_err *err);
void cli_tuned_text(const struct cli_tuned *x);
void cli_tuned_json(struct pdl_json *w, const struct cli_tuned *x);

#endif
