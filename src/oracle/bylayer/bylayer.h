/* Shared by the per-layer search: units of layers, what they cost, and the
 * choice of one candidate for each. */
#ifndef ORACLE_BYLAYER_H
#define ORACLE_BYLAYER_H

#include "oracle/oracle_priv.h"

/* ---- unit_choice.c: one of k for each of n ---------------------------- */

/* The cost of two neighbours, [choice of u][choice of v]; several of a pair
 * add up. INFINITY: not together. */
struct oracle_pair {
    int u, v;
    const double *cost;
};
struct oracle_choice {
    int n, k;
    const double *own; /* [n][k]; INFINITY: not this one */
    int npairs;
    const struct oracle_pair *pair;
};
double oracle_choice_cost(const struct oracle_choice *c, const int *pick);
/* The cheapest picks; INFINITY: there are none, or no memory. Exact where the
 * pairs are a series-parallel graph; *exact false: elsewhere some neighbours
 * were made to pick alike. Of equals the first pick. */
double oracle_choice_solve(pdl_arena *a, const struct oracle_choice *c,
                           int *pick, bool *exact);

/* ---- units.c: what decides together -------------------------------- */

/* A read of a tensor that another unit makes. */
struct oracle_port {
    int node, operand; /* of the part */
    int tensor;        /* of the part */
    int from;          /* unit that makes it */
    int from_tensor;   /* there */
};
/* A weighted layer and what follows it, as a model of its own. */
struct oracle_unit {
    int class; /* the first unit that is equal to it */
    int nnodes;
    int *node; /* of the whole model */
    const struct pdl_model *part;
    const bool *gradients; /* inputs of the part that need one */
    bool last;             /* it makes what no layer reads: the loss */
    int nports;
    struct oracle_port *port;
};
struct oracle_units {
    const struct pdl_model *model; /* repeated blocks written out */
    int n;
    struct oracle_unit *unit;
    int *unit_of; /* of each node */
    bool *narrow; /* of each node: one tensor passes to it and what follows */
};
enum pdl_status oracle_units_make(pdl_arena *a, const struct pdl_model *model,
                                  struct oracle_units *out,
                                  struct pdl_err *err);

/* ---- unit_prices.c: what they cost ------------------------------------ */

/* A unit under a candidate. */
struct oracle_unit_cost {
    /* seconds: computing and exchanges of layers (INFINITY: it cannot);
     * exchange of gradients, as a part of full buckets; of step: the update,
     * once a step */
    double step, exchange, once;
    /* bytes: at the worst operation; kept for backward of a micro-batch; held
     * all the time */
    double bytes, keep, state;
    bool falls_back; /* an axis finds nothing to cut there */
    bool spare;      /* so, and others do not */
};
struct oracle_layers {
    pdl_arena *arena;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *oracle;
    const struct pdl_search_options *opt;
    struct oracle_units units;
    int k;                         /* candidates, all of the mesh */
    struct pdl_strategy *strategy; /* [k] */
    struct pdl_mesh mesh;          /* fine enough for all of them */
    struct oracle_unit_cost *cost; /* [unit][k] */
    struct oracle_priced *priced;  /* [unit][k], of first units of classes */
    bool prune; /* leave out what no best choice can have (unit_moves.c) */
    int npairs;
    struct oracle_pair *pair;
    int64_t lowered, moves; /* plans lowered, redistributions priced */
};
struct oracle_layout {
    struct pdl_place place; /* on the common mesh */
    int64_t unit[PDL_BOX_DIMS];
};

/* A unit of one class under one candidate. */
struct oracle_priced {
    bool ok;
    /* of each tensor of the part that it makes: as made, and as its gradient
     * is needed; of each port: as needed, and as the gradient is made */
    struct oracle_layout *made, *wants, *need, *grad;
};

/* unit_moves.c: fills the pairs; alike: only those of candidates whose
 * numbers are equal modulo so many, the others are INFINITY; 0: all. False: no
 * memory */
bool oracle_layers_move(struct oracle_layers *x, int alike);
/* Shares of the gradient exchange that a choice is made for. */
enum { ORACLE_SHARES = 4 };
extern const double oracle_shares[ORACLE_SHARES];
/* unit_prices.c: fills costs; and (unit_moves.c) the pairs. */
enum pdl_status oracle_layers_price_units(struct oracle_layers *x,
                                          struct pdl_err *err);
enum pdl_status oracle_layers_price(struct oracle_layers *x,
                                    struct pdl_err *err);

/* The lists of candidates above, once more for each way to save memory: with
 * what a block makes again, and with what waits on the host. */
struct oracle_saving {
    enum pdl_recompute recompute;
    bool offload;
};

/* ---- bylayer.c -------------------------------------------------------- */

/* candidates.c: the candidates of the model on the options' PEs whose axes
 * nest in one chain of divisors, the which-th; *more false: there is none. */
enum pdl_status oracle_layers_space(struct oracle_layers *x, int which,
                                    bool *more, struct pdl_err *err);
/* The strategy that gives unit u candidate pick[u]: NULL: it needs more than
 * PDL_MAX_CLAUSES clauses, or no memory. */
const char *oracle_layers_write(const struct oracle_layers *x, const int *pick);
/* The same of a pipeline: candidate pick[u] % (k / savings) of the unit, and
 * the saving pick[u] / (k / savings); options and the pipeline are those of
 * `base`; cuts: nodes that begin stages, ncuts of them. */
struct oracle_written {
    const struct pdl_strategy *base;
    const struct oracle_saving *saving;
    int nsavings;
    const int *cut;
    int ncuts;
};
const char *oracle_layers_write_stages(const struct oracle_layers *x,
                                       const struct oracle_written *w,
                                       const int *pick);
/* pipelines.c: pipelines as `base` has them, but for where they are cut,
 * with a strategy and a saving for each layer. Calls `note` with the strategies
 * that are worth a price. */
struct segments;
struct oracle_chain;
struct oracle_stages {
    struct oracle_layers x; /* of a stage's PEs and a micro-batch */
    struct pdl_search_options opt;
    const struct pdl_strategy *base;
    int64_t lanes, stages, micro; /* micro-batches */
    const int *cut; /* nodes where stages begin, stages - 1 of them; NULL: they
                       are chosen */
    double room;    /* bytes of a stage */
    void (*note)(void *ctx, const char *text);
    void *ctx;
    struct segments *priced[2];       /* without savings, with all: once */
    const struct oracle_chain *chain; /* that the last answers are of */
    bool saves;                       /* the last answers needed savings */
    bool exact;
};
enum pdl_status oracle_layers_stages(struct oracle_stages *s,
                                     struct pdl_err *err);
/* which_pipelines.c: strategies with stages, or with none, of the best plans;
 * room for one more than ORACLE_MOST_PIPES */
enum { ORACLE_MOST_PIPES = 3 };
enum pdl_status oracle_layers_pipes(pdl_arena *a,
                                    const struct pdl_search_result *all,
                                    bool stages, struct pdl_strategy *out,
                                    int *n, struct pdl_err *err);
enum pdl_status oracle_stages_cut(struct oracle_stages *s,
                                  const struct pdl_model *model,
                                  const struct pdl_search_options *opt,
                                  struct pdl_err *err);
bool oracle_stages_of(struct oracle_stages *s,
                      const struct pdl_search_options *opt,
                      const struct pdl_strategy *base);
/* What a problem counts: the share of gradient exchange that shows, seconds
 * for a byte and for a switch of candidates; and may layers follow? */
struct oracle_weights {
    double exposed, s_per_byte, s_per_switch;
    bool spare;
};
enum pdl_status oracle_layers_problem(const struct oracle_layers *x,
                                      const struct oracle_weights *w,
                                      struct oracle_choice *out,
                                      struct pdl_err *err);

#endif
