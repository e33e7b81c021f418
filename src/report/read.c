/* SPDX-License-Identifier: Apache-2.0
 *
 * Values out of a result's document. The first that is missing or wrong
 * stops the reading, with its place in the file. */
#include "report_priv.h"

static const struct pdl_doc *find(struct report_reader *r,
                                  const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *d = NULL;

    if (r->st != PDL_OK)
        return NULL;
    if (map->kind != PDL_DOC_MAP)
        r->st = pdl_doc_fail(map, r->err, "not an object with '%s'", key);
    else if ((d = pdl_doc_get(map, key)) == NULL)
        r->st = pdl_doc_fail(map, r->err, "there is no '%s'", key);
    return d;
}

double report_get_num(struct report_reader *r, const struct pdl_doc *map,
                      const char *key)
{
    const struct pdl_doc *d = find(r, map, key);
    double v = 0;

    if (d)
        r->st = pdl_doc_num(d, PDL_UNIT_NONE, 0, 1e30, &v, r->err);
    return r->st == PDL_OK ? v : 0;
}

int64_t report_get_int(struct report_reader *r, const struct pdl_doc *map,
                       const char *key)
{
    const struct pdl_doc *d = find(r, map, key);
    int64_t v = 0;

    if (d)
        r->st = pdl_doc_int(d, 0, INT64_MAX, &v, r->err);
    return r->st == PDL_OK ? v : 0;
}

const char *report_get_str(struct report_reader *r, const struct pdl_doc *map,
                           const char *key)
{
    const struct pdl_doc *d = find(r, map, key);
    const char *s = "";

    if (d)
        r->st = pdl_doc_str(d, &s, r->err);
    return r->st == PDL_OK ? s : "";
}

bool report_get_bool(struct report_reader *r, const struct pdl_doc *map,
                     const char *key)
{
    const struct pdl_doc *d = find(r, map, key);
    bool v = false;

    if (d)
        r->st = pdl_doc_bool(d, &v, r->err);
    return r->st == PDL_OK && v;
}

static const struct pdl_doc *of_kind(struct report_reader *r,
                                     const struct pdl_doc *map, const char *key,
                                     enum pdl_doc_kind kind, const char *what)
{
    const struct pdl_doc *d = find(r, map, key);

    if (d && d->kind != kind)
        r->st = pdl_doc_fail(d, r->err, "%s: not %s", key, what);
    return r->st == PDL_OK ? d : NULL;
}

const struct pdl_doc *report_get_list(struct report_reader *r,
                                      const struct pdl_doc *map,
                                      const char *key)
{
    return of_kind(r, map, key, PDL_DOC_LIST, "a list");
}

const struct pdl_doc *report_get_map(struct report_reader *r,
                                     const struct pdl_doc *map, const char *key)
{
    return of_kind(r, map, key, PDL_DOC_MAP, "an object");
}

const char *report_opt_str(const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *d =
        map->kind == PDL_DOC_MAP ? pdl_doc_get(map, key) : NULL;

    return d && d->kind == PDL_DOC_SCALAR ? d->text : NULL;
}
