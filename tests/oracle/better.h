/* Machines that are better in one thing: none of them may be slower. */
#ifndef TEST_ORACLE_BETTER_H
#define TEST_ORACLE_BETTER_H

#include "paradl/system.h"

static void more_links(struct pdl_system *s)
{
    struct pdl_node_links *l = &s->node.links;

    l->bytes_per_s *= 2;
    l->pair_bytes_per_s *= 2;
    l->link_bytes_per_s *= 2;
    l->measured_bytes_per_s *= 2;
    l->reduce_bytes_per_s *= 2;
}

static void more_adapters(struct pdl_system *s)
{
    s->node.nics.bytes_per_s *= 2;
    s->node.nics.measured_bytes_per_s *= 2;
}

static void less_latency(struct pdl_system *s)
{
    s->node.links.latency_s /= 2;
    s->node.nics.latency_s /= 2;
    s->network.layer_step_s /= 2;
}

static void quicker_memory(struct pdl_system *s)
{
    s->pe.memory_bytes_per_s *= 2;
}

static void quicker_products(struct pdl_system *s)
{
    for (int p = 0; p < PDL_NPRECISIONS; p++) {
        s->pe.peak_flop_per_s[p] *= 2;
        s->pe.matmul_flop_per_s[p] *= 2;
    }
}

static void more_memory(struct pdl_system *s)
{
    s->pe.memory_bytes *= 2;
}

static const struct {
    const char *name;
    void (*make)(struct pdl_system *s);
} better[] = {
    {"links", more_links},          {"adapters", more_adapters},
    {"latency", less_latency},      {"memory bandwidth", quicker_memory},
    {"products", quicker_products}, {"memory", more_memory},
};
enum { NBETTER = sizeof better / sizeof better[0] };

#endif
