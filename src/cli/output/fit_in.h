/* What fits: what is asked and tried, and how it is printed. */
#ifndef CLI_FIT_IN_H
#define CLI_FIT_IN_H

#include "cli/output/projection.h"
#include "cli/questions/framework.h"

struct options {
    struct cli_question q;
    int64_t train;
    double tokens;
    double deadline_s, budget;
    const char *offload, *report;
};

/* One search: model, PEs and batch, and its best plan. */
struct cli_fit_trial {
    int64_t pes, batch, tokens, layers;
    bool fits;
    bool most;            /* that is tried: more may fit */
    const char *strategy; /* of the best; NULL: nothing could be priced */
    struct pdl_projection x;
    struct pdl_bill bill;
};

struct cli_fit {
    pdl_arena *arena; /* of what is printed */
    const struct options *o;
    const char *model;
    const char *dim; /* of the next search; NULL: as asked */
    struct cli_job *j;
    int64_t searches;
    struct cli_for whose;
    struct pdl_progress progress;
    char what[40]; /* of the progress */
};

/* methods.c: samples a second, 0 where it does not fit. */
enum { CLI_METHODS = 16, CLI_METHOD_BATCHES = 6 };
struct cli_methods {
    int n, nmethods;
    int64_t batch[CLI_METHOD_BATCHES];
    const char *name[CLI_METHODS];
    double rate[CLI_METHODS][CLI_METHOD_BATCHES];
};
/* Of batches that double; none of a strategy with stages. */
void cli_methods(const struct cli_job *j, const char *strategy, int64_t from,
                 int64_t to, struct cli_methods *out);
void cli_methods_text(const struct cli_methods *m);
void cli_methods_json(struct pdl_json *w, const struct cli_methods *m);

struct cli_fit_answers {
    struct cli_fit_trial as_asked, batch, pes, sequence, layers, deadline,
        budget;
    struct cli_methods methods; /* with --offload auto */
};

/* Layers that the model has. */
int64_t cli_fit_layers(const char *model);
/* Seconds and cost of the whole training by a plan. */
double cli_fit_train_s(const struct cli_fit *k, const struct cli_fit_trial *t);
double cli_fit_train_cost(const struct cli_fit *k,
                          const struct cli_fit_trial *t);
void cli_fit_json(struct pdl_json *w, const struct cli_fit *k,
                  const struct cli_fit_answers *x);
void cli_fit_text(const struct cli_fit *k, const struct cli_fit_answers *x);

#endif
