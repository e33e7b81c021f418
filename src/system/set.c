/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of a system. A few have names of their own because changing one
 * number means changing others with it: the PE, the PEs of a node, the NICs.
 * What is changed beyond the letter of the parameter is said in notes. */
#include "system_priv.h"

#include <stdio.h>
#include <string.h>

static enum pdl_status place(const char *key, enum pdl_status st,
                             struct pdl_err *err)
{
    struct pdl_err inner;

    if (!err || st == PDL_OK)
        return st;
    inner = *err;
    pdl_say(err, "%.60s: %s", key, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return st;
}

static enum pdl_status set_pe(pdl_arena *a, struct pdl_system *sys,
                              const char *value, struct pdl_err *err)
{
    return pdl_pe_open(a, value, &sys->pe, err);
}

/* The cables among the first n PEs. */
static enum pdl_status keep_pairs(pdl_arena *a, struct pdl_node_links *l,
                                  int64_t n, struct pdl_err *err)
{
    struct pdl_ints *kept = PDL_NEW(a, struct pdl_ints, l->npairs);
    int64_t count = 0;

    if (!kept)
        return system_no_memory(err, "pes_per_node");
    for (int64_t i = 0; i < l->npairs; i++)
        if (l->pairs[i].v[0] < n && l->pairs[i].v[1] < n)
            kept[count++] = l->pairs[i];
    l->pairs = kept;
    l->npairs = count;
    if (count == 0)
        l->shape = PDL_LINKS_SWITCH; /* one PE: no cable is left to draw */
    return PDL_OK;
}

static enum pdl_status set_pes_per_node(pdl_arena *a, struct pdl_system *sys,
                                        const char *value, struct pdl_err *err)
{
    struct pdl_node_links *l = &sys->node.links;
    int64_t n = 0, old = sys->node.pes;
    enum pdl_status st = pdl_int_parse(value, 1, 4096, &n, err);

    if (st != PDL_OK || n == old)
        return st;
    if (l->shape == PDL_LINKS_GRAPH && n > old) {
        pdl_fail(err, PDL_EINVAL,
                 "the node's cables join %lld PEs and cannot be continued",
                 (long long)old);
        pdl_hint(err, "describe the node in a file, or take fewer");
        return PDL_EINVAL;
    }
    if (l->shape == PDL_LINKS_GRAPH)
        st = keep_pairs(a, l, n, err);
    sys->node.pes = n;
    sys->node.nics.npes = 0; /* which NIC is next to which PE is open again */
    l->measured_bytes_per_s = 0;
    l->reduce_bytes_per_s = 0;
    if (st == PDL_OK && l->shape == PDL_LINKS_ALL_TO_ALL && n > old) {
        l->pair_bytes_per_s = 0;
        st = system_add_text(a, &sys->notes, &sys->nnotes, err,
                             "%lld PEs in a node instead of %lld: the links of "
                             "a PE are shared by %lld peers",
                             (long long)n, (long long)old, (long long)n - 1);
    }
    return st;
}

static enum pdl_status set_nic(pdl_arena *a, struct pdl_system *sys,
                               const char *value, struct pdl_err *err)
{
    struct pdl_nics *n = &sys->node.nics;
    const char *x = strchr(value, 'x');
    enum pdl_status st;
    int64_t count = 0;
    double rate = 0;
    char *text;

    if (!x || x == value) {
        pdl_fail(err, PDL_EINVAL, "'%.40s' is not COUNTxRATE", value);
        pdl_hint(err, "write it like 4x25GB/s");
        return PDL_EINVAL;
    }
    text = pdl_arena_strndup(a, value, (size_t)(x - value));
    if (!text)
        return system_no_memory(err, "nic");
    st = pdl_int_parse(text, 0, 1024, &count, err);
    if (st == PDL_OK)
        st = pdl_unit_parse(x + 1, PDL_UNIT_BYTES_S, &rate, err);
    if (st != PDL_OK)
        return st;
    if (!(rate >= 0 && rate <= 1e16))
        return pdl_fail(err, PDL_EINVAL, "'%.40s' is not a rate", x + 1);
    if (rate != n->bytes_per_s)
        n->measured_bytes_per_s = 0; /* that was another NIC */
    if (count != n->count)
        n->npes = 0;
    n->count = count;
    n->bytes_per_s = rate;
    return PDL_OK;
}

/* Links of another rate: of it they reach the same part. */
static enum pdl_status set_links(pdl_arena *a, struct pdl_system *sys,
                                 const char *value, struct pdl_err *err)
{
    struct pdl_node_links *l = &sys->node.links;
    double rate = 0, times;
    enum pdl_status st = pdl_unit_parse(value, PDL_UNIT_BYTES_S, &rate, err);

    if (st != PDL_OK)
        return st;
    if (!(rate > 0 && rate <= 1e16))
        return pdl_fail(err, PDL_EINVAL, "'%.40s' is not a rate", value);
    times = l->bytes_per_s > 0 ? rate / l->bytes_per_s : 1;
    l->bytes_per_s = rate;
    if (times == 1)
        return PDL_OK;
    l->pair_bytes_per_s *= times;
    l->measured_bytes_per_s *= times;
    l->reduce_bytes_per_s *= times;
    if (l->measured_bytes_per_s == 0)
        return PDL_OK;
    return system_add_text(a, &sys->notes, &sys->nnotes, err,
                           "links of %.3g times the rate: of it they reach the "
                           "part that was measured",
                           times);
}

/* bf16_matmul, fp32_peak */
static double *rate_of(struct pdl_pe *pe, const char *key)
{
    for (int p = 0; p < PDL_NPRECISIONS; p++) {
        const char *name = pdl_precision_name((enum pdl_precision)p);
        size_t len = strlen(name);

        if (strncmp(key, name, len) != 0)
            continue;
        if (strcmp(key + len, "_matmul") == 0)
            return &pe->matmul_flop_per_s[p];
        if (strcmp(key + len, "_peak") == 0)
            return &pe->peak_flop_per_s[p];
    }
    return NULL;
}

static enum pdl_status set_rate(double *rate, const char *value,
                                struct pdl_err *err)
{
    double v = 0;
    enum pdl_status st = pdl_unit_parse(value, PDL_UNIT_FLOP_S, &v, err);

    if (st == PDL_OK && !(v >= 1e6 && v <= 1e19))
        st = pdl_fail(err, PDL_EINVAL,
                      "%.40s is outside 1 MFLOP/s to 10 "
                      "EFLOP/s",
                      value);
    if (st == PDL_OK)
        *rate = v;
    return st;
}

static const struct {
    const char *key, *path; /* of a plain field, or */
    enum pdl_status (*set)(pdl_arena *a, struct pdl_system *sys,
                           const char *value, struct pdl_err *err);
} named[] = {
    {"nodes", "nodes", NULL},
    {"pe", NULL, set_pe},
    {"pes_per_node", NULL, set_pes_per_node},
    {"nic", NULL, set_nic},
    {"mem", "pe.memory", NULL},
    {"mem_bw", "pe.memory_bandwidth", NULL},
    {"node.pes", NULL, set_pes_per_node},
    {"node.links.bandwidth", NULL, set_links},
};
enum { NNAMED = sizeof named / sizeof named[0] };

static enum pdl_status unknown(pdl_arena *a, const char *key,
                               struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, key);
    for (int i = 0; i < NNAMED; i++)
        pdl_suggest_try(&s, named[i].key);
    for (int p = 0; p < PDL_NPRECISIONS; p++) {
        const char *name = pdl_precision_name((enum pdl_precision)p);
        const char *matmul = pdl_arena_printf(a, "%s_matmul", name);
        const char *peak = pdl_arena_printf(a, "%s_peak", name);

        if (matmul && peak) {
            pdl_suggest_try(&s, matmul);
            pdl_suggest_try(&s, peak);
        }
    }
    system_suggest(a, &system_root, "", &s);
    pdl_fail(err, PDL_EINVAL, "no parameter '%.60s'", key);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "nodes, pe, pes_per_node, nic, mem, bf16_matmul, or a "
                      "path like node.links.latency");
    return PDL_EINVAL;
}

enum pdl_status pdl_system_set(pdl_arena *a, struct pdl_system *sys,
                               const char *key, const char *value,
                               struct pdl_err *err)
{
    const struct system_field *f;
    const char *path = key;
    void *holder = NULL;
    double *rate;

    for (int i = 0; i < NNAMED; i++) {
        if (strcmp(named[i].key, key) != 0)
            continue;
        if (named[i].set)
            return place(key, named[i].set(a, sys, value, err), err);
        path = named[i].path;
    }
    rate = rate_of(&sys->pe, key);
    if (rate)
        return place(key, set_rate(rate, value, err), err);
    f = system_find(&system_root, sys, path, &holder);
    if (!f)
        return unknown(a, key, err);
    return place(key, system_scalar(a, f, holder, value, err), err);
}
