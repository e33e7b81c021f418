/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a machine a plan's time depends on. Machines with the same text have
 * the same plans; where two differ in rates only and one is nowhere slower, no
 * plan is faster on the other (tests/design/test_share.c tries it). Levels are
 * compared by what blocks of 1, 2, 4, ... PEs have, so that networks of
 * different shapes can be. Names, sources, prices and power are left out. */
#include "design_priv.h"

#include <string.h>

enum { MAX_RATES = 256, MAX_BLOCKS = 26 };

static double effective(double nominal, double measured)
{
    return measured > 0 ? measured : nominal;
}

static void add(struct design_rates *r, double v)
{
    if (r->n < MAX_RATES)
        r->rate[r->n++] = v;
}

static void rates_of(const struct pdl_system *s, struct design_rates *r)
{
    const struct pdl_node_links *l = &s->node.links;
    const struct pdl_nics *n = &s->node.nics;
    const struct pdl_host *h = &s->node.host;
    double nic = effective(n->bytes_per_s, n->measured_bytes_per_s);

    for (int p = 0; p < PDL_NPRECISIONS; p++) {
        add(r, s->pe.peak_flop_per_s[p]);
        add(r, s->pe.matmul_flop_per_s[p]);
    }
    add(r, (double)s->pe.memory_bytes);
    add(r, s->pe.memory_bytes_per_s);
    add(r, effective(l->bytes_per_s, l->measured_bytes_per_s));
    add(r, l->pair_bytes_per_s);
    add(r, l->reduce_bytes_per_s);
    add(r, nic);
    add(r, (double)n->count * nic);
    add(r, (double)h->memory_bytes);
    add(r, h->memory_bytes_per_s);
    add(r, h->pcie_bytes_per_s);
}

static void levels_of(const struct pdl_system *s, struct design_rates *r)
{
    int64_t pes = pdl_system_pes(s);

    for (int i = 0; i < MAX_BLOCKS && 1LL << i < 2 * pes; i++) {
        int64_t block = (int64_t)1 << i < pes ? (int64_t)1 << i : pes;
        const struct pdl_level *k = &s->levels[pdl_system_level_of(s, block)];

        add(r, effective(k->bytes_per_s, k->measured_bytes_per_s));
        add(r, k->flow_bytes_per_s);
        add(r, -k->oversubscription);
    }
    r->without_latency = r->n;
    add(r, -s->node.links.latency_s);
    add(r, -s->node.links.measured_latency_s);
    add(r, -s->node.nics.latency_s);
    add(r, -s->node.host.pcie_latency_s);
    for (int i = 0; i < MAX_BLOCKS && 1LL << i < 2 * pes; i++) {
        int64_t block = (int64_t)1 << i < pes ? (int64_t)1 << i : pes;
        const struct pdl_level *k = &s->levels[pdl_system_level_of(s, block)];

        add(r, -k->latency_s);
        add(r, -k->measured_latency_s);
    }
}

/* A copy without what no plan asks for. */
static struct pdl_system bare(const struct pdl_system *s)
{
    struct pdl_system b = *s;

    b.name = "machine";
    b.title = NULL;
    b.currency = NULL;
    b.built_nodes = 0;
    b.grown = false;
    b.nsources = b.nunverified = b.nnotes = b.nmeasured = 0;
    b.pe.nsources = b.pe.nunverified = 0;
    b.pe.price_per_hour = 0;
    b.pe.idle_w = b.pe.peak_w = 0;
    b.node.idle_w = b.node.peak_w = 0;
    b.storage = (struct pdl_storage){.type = NULL}; /* of checkpoints only */
    b.network.topology = NULL;
    b.network.nparams = 0;
    return b;
}

/* The same without its rates. */
static void without_rates(struct pdl_system *b)
{
    struct pdl_node_links *l = &b->node.links;
    struct pdl_host *h = &b->node.host;

    memset(b->pe.peak_flop_per_s, 0, sizeof b->pe.peak_flop_per_s);
    memset(b->pe.matmul_flop_per_s, 0, sizeof b->pe.matmul_flop_per_s);
    b->pe.memory_bytes = 0;
    b->pe.memory_bytes_per_s = 0;
    l->bytes_per_s = l->measured_bytes_per_s = l->pair_bytes_per_s = 0;
    l->reduce_bytes_per_s = l->latency_s = l->measured_latency_s = 0;
    b->node.nics.bytes_per_s = b->node.nics.measured_bytes_per_s = 0;
    b->node.nics.latency_s = 0;
    b->node.nics.count = b->node.nics.npes = 0;
    h->memory_bytes = 0;
    h->memory_bytes_per_s = h->pcie_bytes_per_s = h->pcie_latency_s = 0;
    b->network.ntiers = 0;
}

static const char *text_of(pdl_arena *a, const struct pdl_system *s)
{
    struct pdl_buf b;
    char *text;

    pdl_buf_init(&b);
    pdl_system_write(s, &b.sink);
    text = b.sink.failed ? NULL : pdl_arena_strdup(a, b.text);
    pdl_buf_free(&b);
    return text;
}

enum pdl_status design_rates(pdl_arena *a, const struct pdl_system *sys,
                             struct design_rates *out, struct pdl_err *err)
{
    struct pdl_system b = bare(sys);

    *out = (struct design_rates){.rate = PDL_NEW(a, double, MAX_RATES)};
    out->same = text_of(a, &b);
    without_rates(&b);
    out->shape = text_of(a, &b);
    if (!out->rate || !out->same || !out->shape)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    rates_of(sys, out);
    levels_of(sys, out);
    return PDL_OK;
}

bool design_dominates(const struct design_rates *a,
                      const struct design_rates *b, bool latency)
{
    if (a->n != b->n ||
        (a->shape != b->shape && strcmp(a->shape, b->shape) != 0))
        return false;
    for (int i = 0; i < (latency ? a->n : a->without_latency); i++)
        if (a->rate[i] < b->rate[i])
            return false;
    return true;
}
