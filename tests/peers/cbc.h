/* The question of tests/peers/layers_cbc.sh to both programs that write it as a
 * linear program: MODEL PES BATCH on one system. */
#ifndef PEERS_CBC_H
#define PEERS_CBC_H

#include "oracle/bylayer/bylayer.h"

struct question {
    pdl_arena *arena;
    struct pdl_oracle_options oracle;
    struct pdl_search_options opt;
    const struct pdl_model *model;
    struct pdl_system sys;
    struct pdl_err err;
};

static inline enum pdl_status ask(char **argv, struct question *q)
{
    *q = (struct question){
        .arena = pdl_arena_create(PDL_ARENA_DEFAULT),
        .oracle = {.precision = PDL_PREC_FP32, .optimizer_slots = 1}};
    if (!q->arena)
        return PDL_ENOMEM;
    if (pdl_int_parse(argv[2], 1, 1 << 20, &q->opt.pes, &q->err) != PDL_OK ||
        pdl_int_parse(argv[3], 1, 1 << 20, &q->opt.batch, &q->err) != PDL_OK)
        return PDL_EINVAL;
    if (pdl_model_load(q->arena, argv[1], NULL, &q->model, &q->err) != PDL_OK)
        return PDL_EPARSE;
    return pdl_system_open(q->arena, "abci-v100", &q->sys, &q->err);
}

#endif
