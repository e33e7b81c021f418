/* SPDX-License-Identifier: Apache-2.0
 *
 * Which prices a design asks for. Nodes have a price of their own where the
 * design has them as they are sold, else that of their parts. */
#include "design_priv.h"

#include <stdio.h>
#include <string.h>

// clang-format off
static const struct {
    const char *name; /* "rent." takes a name */
    bool rent, buy;   /* asked for by those who do */
} items[DESIGN_NITEMS] = {
    [DESIGN_RENT] = {"rent.", true, false},
    [DESIGN_NODE] = {"node.", false, false}, /* or its parts: see node() */
    [DESIGN_PE] = {"pe.", false, false},
    [DESIGN_HOST] = {"host", false, false},
    [DESIGN_NIC] = {"nic", false, false},
    [DESIGN_SWITCH] = {"switch", false, true},
    [DESIGN_OPTIC] = {"optic", false, true},
    [DESIGN_COPPER] = {"copper", false, true},
    [DESIGN_FIBRE] = {"fibre", false, true},
    [DESIGN_RACK] = {"rack", false, true},
    [DESIGN_FACILITY] = {"facility", false, true},
    [DESIGN_ELECTRICITY] = {"electricity", false, true},
    [DESIGN_SWITCH_W] = {"power.switch", true, true},
    [DESIGN_OPTIC_W] = {"power.optic", true, true},
    [DESIGN_PUE] = {"pue", true, true},
    [DESIGN_CARBON] = {"carbon.", true, true},
    [DESIGN_MTBF] = {"mtbf", true, true},
    [DESIGN_RESTART] = {"restart", true, true},
    [DESIGN_STORAGE] = {"storage", true, true},
};
// clang-format on

static int find(const struct pdl_prices *p, const char *item)
{
    const struct pdl_price_item *x = pdl_price_find(p, item);

    return x ? (int)(x - p->item) : -1;
}

static void name_of(enum design_item i, const struct pdl_question *q,
                    const struct pdl_system *s, char *buf, size_t size)
{
    const char *more = i == DESIGN_RENT || i == DESIGN_PE ? s->pe.name
                       : i == DESIGN_NODE                 ? s->name
                       : i == DESIGN_CARBON               ? q->region
                                                          : "";

    snprintf(buf, size, "%s%.80s", items[i].name, more);
}

static enum pdl_status missing(const struct pdl_prices *p, const char *item,
                               const char *other, const struct pdl_system *s,
                               struct pdl_err *err)
{
    pdl_fail(err, PDL_EINVAL, "prices '%.60s' have no '%.60s'%s%.60s%s for %s",
             p->name, item, *other ? " and no '" : "", other, *other ? "'" : "",
             s->name);
    pdl_hint(err, "put it into a file of your own: --prices FILE.yaml");
    return PDL_EINVAL;
}

/* Is the node as its name says: no parameter changed what is sold? */
static bool as_sold(const char *system)
{
    static const char *const parts[] = {":pe",  ",pe",  ":nic",   ",nic",
                                        ":mem", ",mem", ":node.", ",node."};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(system, parts[i]))
            return false;
    return true;
}

/* Parameters of a system that the bill has: by PEs, adapters and links. */
static bool is_priced(const char *key, size_t n)
{
    static const char *const keys[] = {"nodes", "nic", "pes_per_node", "pe",
                                       "price"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i]) == n && strncmp(keys[i], key, n) == 0)
            return true;
    return false;
}

/* Is the key a whole item of "mem_bw, mem"? */
static bool lists(const char *known, const char *key)
{
    size_t n = strlen(key);

    for (const char *at = known; (at = strstr(at, key)) != NULL; at += n)
        if ((at == known || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return true;
    return false;
}

/* Adds those of "dgx-h100:mem=120GiB,nic=..." that are not, each once. */
const char *design_unpriced(pdl_arena *a, const char *system, const char *known)
{
    const char *at = strchr(system, ':');

    while (at && known) {
        size_t n = strcspn(++at, "=");
        char key[64];

        snprintf(key, sizeof key, "%.*s", n < 60 ? (int)n : 60, at);
        if (!is_priced(key, strlen(key)) && !lists(known, key))
            known =
                pdl_arena_printf(a, "%s%s%s", known, *known ? ", " : "", key);
        at = strchr(at, ',');
    }
    return known;
}

/* Nodes as they are sold, or their parts. */
static enum pdl_status node(const struct pdl_question *q,
                            const struct pdl_prices *prices,
                            const struct pdl_system *s, bool sold,
                            struct design_kind *out, struct pdl_err *err)
{
    static const enum design_item parts[] = {DESIGN_PE, DESIGN_HOST,
                                             DESIGN_NIC};
    char whole[128], item[128];

    name_of(DESIGN_NODE, q, s, whole, sizeof whole);
    if (sold) {
        out->at[DESIGN_NODE] = find(prices, whole);
        if (out->at[DESIGN_NODE] >= 0)
            return PDL_OK;
    }
    for (int i = 0; i < 3; i++) {
        name_of(parts[i], q, s, item, sizeof item);
        out->at[parts[i]] = find(prices, item);
        if (out->at[parts[i]] < 0)
            return missing(prices, item, sold && i == 0 ? whole : "", s, err);
    }
    return PDL_OK;
}

/* So many nodes of a system. */
static enum pdl_status kind(const struct pdl_question *q,
                            const struct pdl_prices *prices,
                            const struct pdl_system *s, int64_t nodes,
                            bool sold, struct design_kind *out,
                            struct pdl_err *err)
{
    char item[128];

    for (int i = 0; i < DESIGN_KINDS; i++)
        out->at[i] = -1;
    out->nodes = nodes;
    out->pes = s->node.pes;
    out->nic_gb = (double)s->node.nics.count * s->node.nics.bytes_per_s / 1e9;
    if (!q->rent)
        return node(q, prices, s, sold, out, err);
    name_of(DESIGN_RENT, q, s, item, sizeof item);
    out->at[DESIGN_RENT] = find(prices, item);
    return out->at[DESIGN_RENT] < 0 ? missing(prices, item, "", s, err)
                                    : PDL_OK;
}

static enum pdl_status kinds(pdl_arena *a, const struct pdl_question *q,
                             const struct pdl_prices *prices,
                             const struct pdl_design_point *p,
                             struct design_items *out, struct pdl_err *err)
{
    const struct pdl_system *s = &p->sys;
    enum pdl_status st = PDL_OK;

    out->nkinds = s->ngroups > 0 ? (int)s->ngroups : 1;
    if (s->ngroups == 0 && s->npe_groups > 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s has PEs of several kinds, which are not priced; "
                        "'groups' of systems are",
                        s->name);
    out->kind = PDL_NEW(a, struct design_kind, out->nkinds);
    if (!out->kind)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    if (s->ngroups == 0)
        return kind(q, prices, s, s->nodes, as_sold(p->text->system), out->kind,
                    err);
    for (int i = 0; i < out->nkinds && st == PDL_OK; i++)
        st = kind(q, prices, s->groups[i].whole, s->groups[i].nodes, true,
                  &out->kind[i], err);
    return st;
}

enum pdl_status design_items(pdl_arena *a, const struct pdl_question *q,
                             const struct pdl_prices *prices,
                             const struct pdl_design_point *p,
                             struct design_items *out, struct pdl_err *err)
{
    char item[128];

    for (int i = 0; i < DESIGN_NITEMS; i++) {
        out->at[i] = -1;
        if (!(q->rent ? items[i].rent : items[i].buy) || i < DESIGN_KINDS)
            continue;
        name_of((enum design_item)i, q, &p->sys, item, sizeof item);
        out->at[i] = find(prices, item);
        if (out->at[i] < 0)
            return missing(prices, item, "", &p->sys, err);
    }
    return kinds(a, q, prices, p, out, err);
}
