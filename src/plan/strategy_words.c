/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of the strategy notation: one table of axes, one of options;
 * parser, printer, messages and hints read them. */
#include "strategy.h"

static const char *const axis_names[] = {
#define X(name, text, what) text,
    PDL_AXIS_LIST(X)
#undef X
};

const char *pdl_axis_name(enum pdl_axis axis)
{
    return axis_names[axis];
}

/* Words of a choice, in the order of its enum; the first is the default. */
const char *const plan_schedules[] = {
    "1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "dualpipe", "zb-v", NULL};

const char *pdl_schedule_name(enum pdl_schedule s)
{
    return plan_schedules[s];
}

const char *const plan_recomputes[] = {"none", "selective", "selective-op",
                                       "full", NULL};
static const char *const bns[] = {"spatial", "local", "sync", NULL};
static const char *const saves[] = {"sharded", "gathered", NULL};
static const char *const memories[] = {"reuse", "paper", NULL};
static const char *const exchanges[] = {"auto", "paper", NULL};
static const char *const swaps[] = {"none", "auto", "karma", NULL};
static const char *const overlaps[] = {"on", "off", NULL};
const char *const plan_context_kinds[] = {"ring", "a2a", "gather", NULL};
const char *const plan_context_orders[] = {"zigzag", "plain", NULL};

const struct plan_option plan_options[] = {
#define AT(field) offsetof(struct pdl_strategy, field)
    // clang-format off
    {"zero",       PLAN_OPT_ZERO,    AT(zero),              NULL,       "zero=1 or zero=3:8"},
    {"recompute",  PLAN_OPT_CHOICE,  AT(recompute),         plan_recomputes, NULL},
    {"save",       PLAN_OPT_FLAG,    AT(save_gathered),     saves,      NULL},
    {"memory",     PLAN_OPT_FLAG,    AT(memory_paper),      memories,   NULL},
    {"swap",       PLAN_OPT_CHOICE,  AT(swap),              swaps,      NULL},
    {"offload",    PLAN_OPT_OFFLOAD, AT(offload_optimizer), NULL,       "offload=optimizer or offload=activations"},
    {"prefetch",   PLAN_OPT_COUNT,   AT(prefetch),          NULL,       "prefetch=2"},
    {"accumulate", PLAN_OPT_COUNT,   AT(accumulate),        NULL,       "accumulate=4"},
    {"bucket",     PLAN_OPT_BYTES,   AT(bucket_bytes),      NULL,       "bucket=25MiB"},
    {"overlap",    PLAN_OPT_FLAG,    AT(no_overlap),        overlaps,   NULL},
    {"allreduce",  PLAN_OPT_TEXT,    AT(allreduce),         NULL,       "allreduce=ring"},
    {"compress",   PLAN_OPT_COMPRESS, AT(compress),         NULL,       "compress=topk:0.01"},
    {"exchange",   PLAN_OPT_FLAG,    AT(exchange_paper),    exchanges,  NULL},
    {"bn",         PLAN_OPT_CHOICE,  AT(bn),                bns,        NULL},
    {"bn-groups",  PLAN_OPT_COUNT,   AT(bn_groups),         NULL,       "bn-groups=64"},
// clang-format on
#undef AT
};
const int plan_noptions = sizeof plan_options / sizeof plan_options[0];
