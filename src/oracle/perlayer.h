/* Shared by the per-layer search: units of layers, what they cost, and the
 * choice of one candidate for each. */
#ifndef ORACLE_PERLAYER_H
#define ORACLE_PERLAYER_H

#include "oracle_priv.h"

/* ---- choice.c: one of k for each of n ------------------------------------- */

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

/* ---- perlayer_units.c: what decides together -------------------------------- */

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
};
enum pdl_status oracle_units_make(pdl_arena *a, const struct pdl_model *model,
                                  struct oracle_units *out,
                                  struct pdl_err *err);

/* ---- perlayer_cost.c: what they cost ------------------------------------------ */

struct oracle_layers {
    pdl_arena *arena;
    const struct pdl_system *sys;
    const struct pdl_oracle_options *oracle;
    const struct pdl_search_options *opt;
    struct oracle_units units;
    int k;                         /* candidates, all of the mesh */
    struct pdl_strategy *strategy; /* [k] */
    struct pdl_mesh mesh;          /* fine enough for all of them */
    /* [unit][k] seconds: computing and exchanges of layers; exchange of
     * gradients, as a part of full buckets; bytes at the worst operation */
    double *step, *exchange, *bytes;
    bool *falls_back; /* [unit][k]: an axis finds nothing to cut there */
    bool *spare;      /* [unit][k]: so, and others do not */
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

/* perlayer_moves.c: fills the pairs; false: no memory */
bool oracle_layers_move(struct oracle_layers *x,
                        const struct oracle_priced *priced);
/* Fills everything from step on. */
enum pdl_status oracle_layers_price(struct oracle_layers *x,
                                    struct pdl_err *err);

/* ---- perlayer.c ---------------------------------------------------------------- */

/* perlayer_space.c: the candidates of the model on the options' PEs whose axes
 * nest in one chain of divisors, the which-th; *more false: there is none. */
enum pdl_status oracle_layers_space(struct oracle_layers *x, int which,
                                    bool *more, struct pdl_err *err);
/* The strategy that gives unit u candidate pick[u]: NULL: it needs more than
 * PDL_MAX_CLAUSES clauses, or no memory. */
const char *oracle_layers_write(const struct oracle_layers *x, const int *pick);
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
