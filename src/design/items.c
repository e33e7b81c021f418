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

static enum pdl_status node(const struct pdl_question *q,
                            const struct pdl_prices *prices,
                            const struct pdl_design_point *p,
                            struct design_items *out, struct pdl_err *err)
{
    static const enum design_item parts[] = {DESIGN_PE, DESIGN_HOST,
                                             DESIGN_NIC};
    char whole[128], item[128];

    name_of(DESIGN_NODE, q, &p->sys, whole, sizeof whole);
    if (as_sold(p->text->system)) {
        out->at[DESIGN_NODE] = find(prices, whole);
        if (out->at[DESIGN_NODE] >= 0)
            return PDL_OK;
    }
    for (int i = 0; i < 3; i++) {
        name_of(parts[i], q, &p->sys, item, sizeof item);
        out->at[parts[i]] = find(prices, item);
        if (out->at[parts[i]] < 0)
            return missing(prices, item,
                           as_sold(p->text->system) && i == 0 ? whole : "",
                           &p->sys, err);
    }
    return PDL_OK;
}

enum pdl_status design_items(const struct pdl_question *q,
                             const struct pdl_prices *prices,
                             const struct pdl_design_point *p,
                             struct design_items *out, struct pdl_err *err)
{
    char item[128];

    for (int i = 0; i < DESIGN_NITEMS; i++) {
        out->at[i] = -1;
        if (!(q->rent ? items[i].rent : items[i].buy))
            continue;
        name_of((enum design_item)i, q, &p->sys, item, sizeof item);
        out->at[i] = find(prices, item);
        if (out->at[i] < 0)
            return missing(prices, item, "", &p->sys, err);
    }
    return q->rent ? PDL_OK : node(q, prices, p, out, err);
}
