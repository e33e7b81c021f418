/* The time of a whole training, as options of a command that projects. */
#ifndef CLI_GOODPUT_H
#define CLI_GOODPUT_H

#include "projection.h"

struct cli_training {
    const char *samples, *tokens, *ramp;
    double mtbf_s, checkpoint_s, restart_s, every_s, jitter;
};

/* In a table whose struct has it as member training. */
// clang-format off
#define CLI_TRAINING_OPTS \
    {"samples", 0, PDL_OPT_TEXT, offsetof(struct options, training.samples), "N", NULL, \
     "project a training on so many samples (1e9)"}, \
    {"tokens", 0, PDL_OPT_TEXT, offsetof(struct options, training.tokens), "N", NULL, \
     "project a training on so many tokens (300e9)"}, \
    {"mtbf", 0, PDL_OPT_TIME, offsetof(struct options, training.mtbf_s), "TIME", NULL, \
     "a node fails this often on average"}, \
    {"checkpoint-time", 0, PDL_OPT_TIME, offsetof(struct options, training.checkpoint_s), "TIME", NULL, \
     "the job stands still while one is written (default: by the storage)"}, \
    {"checkpoint-every", 0, PDL_OPT_TIME, offsetof(struct options, training.every_s), "TIME", NULL, \
     "how often one is written (default: Daly's optimum)"}, \
    {"restart-time", 0, PDL_OPT_TIME, offsetof(struct options, training.restart_s), "TIME", NULL, \
     "from a failure to the next step (default: the checkpoint's time)"}, \
    {"stragglers", 0, PDL_OPT_NUM, offsetof(struct options, training.jitter), "X", NULL, \
     "relative standard deviation of a PE's time for a step"}, \
    {"ramp", 0, PDL_OPT_TEXT, offsetof(struct options, training.ramp), "FIRST:BY:SAMPLES", NULL, \
     "batches that grow up to the batch, over so many samples"}
// clang-format on

/* train_s 0: nobody asks. */
enum pdl_status cli_training(pdl_arena *a, const struct cli_question *q,
                             const struct cli_job *j,
                             const struct cli_training *t,
                             struct pdl_goodput *out, struct pdl_err *err);
void cli_training_json(struct pdl_json *w, const struct pdl_goodput *g);
void cli_training_text(const struct pdl_goodput *g);

#endif
