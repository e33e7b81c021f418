/* What a framework adds to a plan and what it can run, as its file says it
 * (frameworks/NAME.yaml; doc/formats/framework.md). */
#ifndef ORACLE_HABIT_FRAMEWORK_H
#define ORACLE_HABIT_FRAMEWORK_H

#include "paradl/oracle.h"

/* The keys of `adds` are the members' names without their units; what they
 * mean is in the table of framework_keys.c. 0 and false: no such habit. */
struct pdl_framework {
    const char *name, *title;
    bool no_overlap, convolutions_only, staged_halo, leaders, folded_filter;
    bool copies, bias_passes, by_tensor, one_channel, fused_norm;
    bool torch, steps, steps_if_missing, graph, channels_first;
    double host_call_s, part_s, cycle_s, issue_s, collective_s, pipe_step_s;
    /* eager kernels: cycles of an element, parts of rates, bytes */
    double pool_output, pool_tap, pool_input, pool_window, bias_add, bias_sum;
    double autocast_bytes, broadcast, turn_copy, turn_add;
    double heads, heads_back, head_copy, token_streams, token_streams16;
    double kernel_s;
    /* transformers */
    bool fused, flash2, scatters_sends, scatter_casts, token_copies;
    bool node_tokens, experts_span, sharded_overlap;
    enum pdl_split split;
    double dropout, eager, loss_bytes, update_bytes, exchange_bytes;
    double add_bytes, add_bytes32;
    double attention_forward, attention_backward;
    double cast_bytes, cast_weight_bytes;
    double zero_adapters, zero_step_s;
    double gather_copies, scatter_copies, scatter_scales;
    /* memory */
    bool dummy_gradients;
    double zero_bytes;
    double gradient_bytes, gradient_bytes32, logit_bytes, cut_logit_bytes;
    double context_bytes, fragments;
    int64_t opens, most_zero, halo_calls, pads_vocabulary;

    struct pdl_abilities runs;
    struct pdl_abilities exports; /* known: less than it runs */
    /* what its file gives, for people: of `adds`, of `runs` */
    const struct pdl_habit *habit, *ability;
    int nhabits, nabilities;
};

/* ---- the keys of a file -------------------------------------------------- */

enum framework_kind {
    FRAMEWORK_FLAG,
    FRAMEWORK_NUM,
    FRAMEWORK_COUNT,
    FRAMEWORK_SPLIT
};

struct framework_key {
    const char *name;
    enum framework_kind kind;
    enum pdl_unit unit;
    size_t at;
    double max; /* of a number, from 0 on */
    const char *what;
};
const struct framework_key *oracle_framework_key(int i); /* NULL past the end */

extern const struct pdl_builtin oracle_frameworks[]; /* made while building */

/* ---- what it can run -------------------------------------------------- */

/* What a strategy, or a point of a space, asks of a framework. */
struct framework_asked {
    uint32_t axes; /* larger than 1 */
    int64_t zero;
    bool group, optimizer, activations, no_overlap, by_layer;
    enum pdl_schedule schedule;
    enum pdl_context_kind context;
    enum pdl_recompute recompute;
};
enum framework_lack {
    FRAMEWORK_PRODUCT,
    FRAMEWORK_ZERO,
    FRAMEWORK_GROUP,
    FRAMEWORK_SCHEDULE,
    FRAMEWORK_CONTEXT,
    FRAMEWORK_RECOMPUTE,
    FRAMEWORK_OPTIMIZER,
    FRAMEWORK_ACTIVATIONS,
    FRAMEWORK_OVERLAP,
    FRAMEWORK_BY_LAYER,
    FRAMEWORK_ALL /* nothing is lacking */
};
enum framework_lack oracle_framework_lacks(const struct pdl_abilities *r,
                                           const struct framework_asked *x);
/* What plans are searched among: what it runs and its launch file can say. */
const struct pdl_abilities *
oracle_framework_plans(const struct pdl_framework *f);

#endif
