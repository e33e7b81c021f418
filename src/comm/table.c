/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of choices: which algorithm a collective of so many bytes on so
 * many ranks runs. Measured (paradl bench --learn), kept in a profile file that
 * people can read and change:
 *
 *   schema: paradl.profile/1
 *   allreduce:
 *     - {ranks: 2, up_to: 8KiB, algorithm: flat}
 *     - {ranks: 2, algorithm: ordered}
 *   broadcast:
 *     - {ranks: 2, algorithm: binomial}
 *
 * The rules of a number of ranks go by size, the last one without a limit. A
 * number that was not measured takes the rules of the nearest one below, or
 * the smallest. */
#include "comm_core.h"

#include <inttypes.h>

enum { MAX_RULES = 4096, MAX_FILE = 1 << 20 };

static const char *const top_keys[] = {
    "schema",    "allreduce", "reduce-scatter", "allgather", "alltoall",
    "broadcast", NULL};
static const char *const rule_keys[] = {"ranks", "up_to", "algorithm", NULL};

static enum pdl_status read_limit(const struct pdl_doc *d, int64_t *out,
                                  struct pdl_err *err)
{
    enum pdl_status st;
    double v;

    *out = INT64_MAX;
    if (!d)
        return PDL_OK;
    st = pdl_doc_num(d, PDL_UNIT_BYTES, 0, 0x1p62, &v, err);
    if (st == PDL_OK)
        *out = (int64_t)v;
    return st;
}

static enum pdl_status read_rule(const struct pdl_doc *d,
                                 const char *collective,
                                 struct pdl_comm_rule *out, struct pdl_err *err)
{
    const struct pdl_doc *ranks, *name;
    struct pdl_coll_job job = {.alg = NULL};
    struct pdl_err why = {"", ""};
    const char *text;
    int64_t n;
    enum pdl_status st;

    if (d->kind != PDL_DOC_MAP)
        return pdl_doc_fail(d, err, "a rule is {ranks, up_to, algorithm}");
    st = pdl_doc_only(d, rule_keys, err);
    ranks = pdl_doc_get(d, "ranks");
    name = pdl_doc_get(d, "algorithm");
    if (st == PDL_OK && (!ranks || !name))
        st = pdl_doc_fail(d, err, "a rule needs ranks and algorithm");
    if (st == PDL_OK)
        st = pdl_doc_int(ranks, 1, 1 << 22, &n, err);
    if (st == PDL_OK)
        st = read_limit(pdl_doc_get(d, "up_to"), &out->up_to, err);
    if (st == PDL_OK)
        st = pdl_doc_str(name, &text, err);
    if (st != PDL_OK)
        return st;
    if (strlen(text) >= sizeof out->algorithm ||
        pdl_alg_parse(collective, text, &job, &why) != PDL_OK)
        return pdl_doc_fail(name, err, "%s", why.msg);
    out->collective = collective;
    out->ranks = (int)n;
    memcpy(out->algorithm, text, strlen(text) + 1);
    return PDL_OK;
}

/* The rules of one collective, behind those that are there. */
static enum pdl_status read_rules(pdl_arena *a, const struct pdl_doc *list,
                                  const char *collective,
                                  struct pdl_comm_table *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    struct pdl_comm_rule *all;

    if (list->kind != PDL_DOC_LIST || list->count > MAX_RULES)
        return pdl_doc_fail(list, err, "a list of at most %d rules", MAX_RULES);
    all = PDL_NEW(a, struct pdl_comm_rule, t->n + list->count + 1);
    if (!all)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a table");
    if (t->n > 0)
        memcpy(all, t->rule, (size_t)t->n * sizeof *all);
    t->rule = all;
    for (const struct pdl_doc *d = list->child; st == PDL_OK && d; d = d->next)
        st = read_rule(d, collective, &t->rule[t->n++], err);
    return st;
}

enum pdl_status comm_table_parse(pdl_arena *a, struct pdl_bytes bytes,
                                 const char *name, struct pdl_comm_table *out,
                                 struct pdl_err *err)
{
    struct pdl_comm_table t = {NULL, 0};
    const struct pdl_doc *doc, *schema, *list;
    enum pdl_status st = pdl_doc_yaml(a, bytes, name, &doc, err);

    if (st != PDL_OK)
        return st;
    if (doc->kind != PDL_DOC_MAP)
        return pdl_doc_fail(doc, err, "not a profile");
    st = pdl_doc_only(doc, top_keys, err);
    schema = pdl_doc_get(doc, "schema");
    if (st == PDL_OK && (!schema || schema->kind != PDL_DOC_SCALAR ||
                         strcmp(schema->text, "paradl.profile/1") != 0))
        st = pdl_doc_fail(schema ? schema : doc, err,
                          "schema: paradl.profile/1 is what is read here");
    for (const char *const *p = comm_collectives; st == PDL_OK && *p; p++) {
        list = pdl_doc_get(doc, *p);
        if (list)
            st = read_rules(a, list, *p, &t, err);
    }
    if (st == PDL_OK)
        *out = t;
    return st;
}

enum pdl_status pdl_comm_table_read(pdl_arena *a, const char *path,
                                    struct pdl_comm_table *out,
                                    struct pdl_err *err)
{
    struct pdl_bytes bytes;
    enum pdl_status st = pdl_file_read(a, path, MAX_FILE, &bytes, err);

    return st == PDL_OK ? comm_table_parse(a, bytes, path, out, err) : st;
}

static void print_rule(const struct pdl_comm_rule *r, struct pdl_sink *out)
{
    char buf[64];

    pdl_printf(out, "  - {ranks: %d, ", r->ranks);
    if (r->up_to != INT64_MAX)
        pdl_printf(
            out, "up_to: %s, ",
            pdl_unit_print((double)r->up_to, PDL_UNIT_BYTES, buf, sizeof buf));
    pdl_printf(out, "algorithm: \"%s\"}\n", r->algorithm);
}

void pdl_comm_table_print(const struct pdl_comm_table *t, struct pdl_sink *out)
{
    pdl_puts(out, "schema: paradl.profile/1\n");
    for (const char *const *p = comm_collectives; *p; p++) {
        bool any = false;

        for (int i = 0; i < t->n; i++) {
            if (strcmp(t->rule[i].collective, *p) != 0)
                continue;
            if (!any)
                pdl_printf(out, "%s:\n", *p);
            any = true;
            print_rule(&t->rule[i], out);
        }
    }
}

/* Is a number of ranks a better stand-in for `size` than another (0: none)? */
static bool nearer(int ranks, int than, int size)
{
    if (than == 0)
        return true;
    if ((ranks <= size) != (than <= size))
        return ranks <= size;
    return ranks <= size ? ranks > than : ranks < than;
}

const char *comm_table_find(const struct pdl_comm_table *t,
                            const char *collective, int size, int64_t bytes)
{
    const struct pdl_comm_rule *best = NULL;

    for (int i = 0; i < t->n; i++) {
        const struct pdl_comm_rule *r = &t->rule[i];

        if (bytes > r->up_to || strcmp(r->collective, collective) != 0)
            continue;
        if (!best ||
            (r->ranks != best->ranks && nearer(r->ranks, best->ranks, size)) ||
            (r->ranks == best->ranks && r->up_to < best->up_to))
            best = r;
    }
    return best ? best->algorithm : NULL;
}

static uint64_t mark_text(uint64_t h, const char *text)
{
    for (const char *p = text; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
    return h;
}

uint64_t comm_table_mark(const struct pdl_comm_table *t)
{
    uint64_t h = UINT64_C(1469598103934665603); /* FNV-1a */

    for (int i = 0; i < t->n; i++) {
        const struct pdl_comm_rule *r = &t->rule[i];

        h = (h ^ (uint64_t)r->ranks) * UINT64_C(1099511628211);
        h = (h ^ (uint64_t)r->up_to) * UINT64_C(1099511628211);
        h = mark_text(mark_text(h, r->collective), r->algorithm);
    }
    return h;
}
