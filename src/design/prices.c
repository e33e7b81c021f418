/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a file of prices. Every item says its kind, its date and its source; an
 * item that no design asks for, one given twice and one without them are
 * refused with their place, so that a slip of the pen is no silent default. */
#include "design_priv.h"

#include <string.h>

enum { MAX_FILE = 1 << 20, MAX_ITEMS = 4096 };

static const struct pdl_price_key keys[] = {
    {"rent.", "per PE and hour", true, 0},
    {"node.", "per node of that system, with PEs and adapters", true, 0},
    {"pe.", "per PE", true, 0},
    {"host", "per node without PEs and adapters", true, 0},
    {"nic", "per GB/s of an adapter", true, 0},
    {"switch", "per GB/s of a switch port", true, 0},
    {"optic", "per GB/s of a transceiver", true, 0},
    {"copper", "per GB/s of a copper cable", true, 0},
    {"fibre", "per metre of fibre", true, 0},
    {"rack", "per rack", true, 0},
    {"facility", "per kW of critical power and year", true, 0},
    {"electricity", "per kWh", true, 0},
    {"power.switch", "W per GB/s of a switch port", false, 0},
    {"power.optic", "W per GB/s of a transceiver", false, 0},
    {"pue", "energy of the facility over that of its machines", false, 1},
    {"carbon.", "kg of CO2 per kWh", false, 0},
    {"mtbf", "hours of one PE between interruptions of a job", false, 1e-3},
    {"restart", "seconds from an interruption to going on", false, 0},
    {"storage", "GB/s that a node writes to the file system", false, 1e-6},
};
enum { NKEYS = sizeof keys / sizeof keys[0] };

const struct pdl_price_key *pdl_price_key_at(int i)
{
    return i >= 0 && i < NKEYS ? &keys[i] : NULL;
}

const struct pdl_builtin *pdl_prices_builtin(int i)
{
    for (int k = 0; k <= i; k++)
        if (!design_prices[k].name)
            return NULL;
    return i < 0 ? NULL : &design_prices[i];
}

const struct pdl_price_item *pdl_price_find(const struct pdl_prices *p,
                                            const char *item)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->item[i].item, item) == 0)
            return &p->item[i];
    return NULL;
}

static const struct pdl_price_key *key_of(const char *item)
{
    for (int i = 0; i < NKEYS; i++) {
        size_t n = strlen(keys[i].name);

        if (keys[i].name[n - 1] == '.'
                ? strncmp(item, keys[i].name, n) == 0 && item[n]
                : strcmp(item, keys[i].name) == 0)
            return &keys[i];
    }
    return NULL;
}

static enum pdl_status no_key(const struct pdl_doc *d, const char *item,
                              struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, item);
    for (int i = 0; i < NKEYS; i++)
        pdl_suggest_try(&s, keys[i].name);
    pdl_doc_fail(d, err, "item: no design asks for '%.60s'", item);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "rent.PE, node.SYSTEM, pe.PE, host, nic, switch, ...");
    return PDL_EPARSE;
}

static enum pdl_status need_str(const struct pdl_doc *map, const char *key,
                                const char **out, struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);
    enum pdl_status st;

    if (!d)
        return pdl_doc_fail(map, err, "'%s' is missing", key);
    st = pdl_doc_str(d, out, err);
    if (st == PDL_OK && !**out)
        return pdl_doc_fail(d, err, "%s: empty", key);
    return st;
}

static enum pdl_status read_kind(const struct pdl_doc *map, const char **out,
                                 struct pdl_err *err)
{
    static const char *const kinds[] = {"list", "spot", "assumed", "published"};
    enum pdl_status st = need_str(map, "kind", out, err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < 4; i++)
        if (strcmp(*out, kinds[i]) == 0)
            return PDL_OK;
    pdl_doc_fail(pdl_doc_get(map, "kind"), err, "kind: '%.40s' is none", *out);
    pdl_hint(err, "list, spot, assumed or published");
    return PDL_EPARSE;
}

/* A bound of the value that may be left out. */
static enum pdl_status bound(const struct pdl_doc *map, const char *key,
                             double min, double max, double *out,
                             struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    return d ? pdl_doc_num(d, PDL_UNIT_NONE, min, max, out, err) : PDL_OK;
}

static enum pdl_status read_item(const struct pdl_doc *map,
                                 struct pdl_price_item *out,
                                 struct pdl_err *err)
{
    static const char *const known[] = {"item", "value", "low",    "high",
                                        "kind", "date",  "source", NULL};
    const struct pdl_doc *value;
    const struct pdl_price_key *key;
    struct pdl_price_item p = {.item = ""};
    enum pdl_status st;

    if (map->kind != PDL_DOC_MAP)
        return pdl_doc_fail(map, err, "items: expected a map");
    st = pdl_doc_only(map, known, err);
    if (st == PDL_OK)
        st = need_str(map, "item", &p.item, err);
    key = st == PDL_OK ? key_of(p.item) : NULL;
    if (st == PDL_OK && !key)
        st = no_key(pdl_doc_get(map, "item"), p.item, err);
    value = pdl_doc_get(map, "value");
    if (st == PDL_OK && !value)
        st = pdl_doc_fail(map, err, "'value' is missing");
    if (st == PDL_OK)
        st = pdl_doc_num(value, PDL_UNIT_NONE, key->least, 1e15, &p.value, err);
    p.low = p.high = p.value;
    if (st == PDL_OK)
        st = bound(map, "low", key->least, p.value, &p.low, err);
    if (st == PDL_OK)
        st = bound(map, "high", p.value, 1e15, &p.high, err);
    if (st == PDL_OK)
        st = read_kind(map, &p.kind, err);
    if (st == PDL_OK)
        st = need_str(map, "date", &p.date, err);
    if (st == PDL_OK)
        st = need_str(map, "source", &p.source, err);
    if (st == PDL_OK)
        *out = p;
    return st;
}

static enum pdl_status read_items(pdl_arena *a, const struct pdl_doc *list,
                                  struct pdl_prices *out, struct pdl_err *err)
{
    struct pdl_price_item *item;
    enum pdl_status st = PDL_OK;

    if (list->kind != PDL_DOC_LIST)
        return pdl_doc_fail(list, err, "items: expected a list");
    if (list->count > MAX_ITEMS)
        return pdl_doc_fail(list, err, "items: %d are more than %d",
                            list->count, MAX_ITEMS);
    item = PDL_NEW(a, struct pdl_price_item, list->count ? list->count : 1);
    if (!item)
        return pdl_fail(err, PDL_ENOMEM, "prices: out of memory");
    out->item = item;
    for (const struct pdl_doc *d = list->child; d && st == PDL_OK;
         d = d->next) {
        st = read_item(d, &item[out->n], err);
        if (st == PDL_OK && pdl_price_find(out, item[out->n].item))
            st = pdl_doc_fail(d, err, "%s: given twice", item[out->n].item);
        out->n++;
    }
    return st;
}

enum pdl_status pdl_prices_read(pdl_arena *a, struct pdl_bytes in,
                                const char *name, struct pdl_prices *out,
                                struct pdl_err *err)
{
    static const char *const known[] = {"name", "title", "currency", "items",
                                        NULL};
    const struct pdl_doc *root = NULL, *items;
    struct pdl_prices p = {.name = NULL};
    enum pdl_status st = pdl_doc_yaml(a, in, name, &root, err);

    if (st != PDL_OK)
        return st;
    if (root->kind != PDL_DOC_MAP)
        return pdl_doc_fail(root, err, "prices: expected a map");
    st = pdl_doc_only(root, known, err);
    if (st == PDL_OK)
        st = need_str(root, "name", &p.name, err);
    if (st == PDL_OK)
        st = need_str(root, "currency", &p.currency, err);
    p.title = p.name;
    if (st == PDL_OK && pdl_doc_get(root, "title"))
        st = pdl_doc_str(pdl_doc_get(root, "title"), &p.title, err);
    items = pdl_doc_get(root, "items");
    if (st != PDL_OK)
        return st;
    if (!items)
        return pdl_doc_fail(root, err, "'items' is missing");
    st = read_items(a, items, &p, err);
    if (st == PDL_OK)
        *out = p;
    return st;
}

static bool is_file(const char *s)
{
    size_t n = strlen(s);

    return (n > 5 && strcmp(s + n - 5, ".yaml") == 0) ||
           (n > 4 && strcmp(s + n - 4, ".yml") == 0);
}

enum pdl_status pdl_prices_open(pdl_arena *a, const char *name,
                                struct pdl_prices *out, struct pdl_err *err)
{
    struct pdl_bytes in = {NULL, 0};
    enum pdl_status st;

    if (is_file(name)) {
        st = pdl_file_read(a, name, MAX_FILE, &in, err);
        return st == PDL_OK ? pdl_prices_read(a, in, name, out, err) : st;
    }
    for (const struct pdl_builtin *b = design_prices; b->name; b++)
        if (strcmp(b->name, name) == 0)
            return pdl_prices_read(a, (struct pdl_bytes){b->text, b->len},
                                   b->name, out, err);
    pdl_fail(err, PDL_EINVAL, "no prices '%.60s'", name);
    pdl_hint(err, "'public' is built in; a file ends in .yaml");
    return PDL_EINVAL;
}
