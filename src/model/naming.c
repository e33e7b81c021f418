/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the elements of our weights are in a file that names them otherwise
 * (naming_tables.c). A weight is one or several runs of rows, and a run is one
 * tensor of theirs, perhaps transposed, perhaps between others (a fused
 * projection), perhaps with the rows of a head in another order. The same
 * place says how to read and how to write. */
#include "naming.h"
#include "model_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 160 };

const struct pdl_naming *pdl_naming_at(int i)
{
    return i >= 0 && model_namings[i].name ? &model_namings[i] : NULL;
}

const char *pdl_naming_name(const struct pdl_naming *n)
{
    return n ? n->name : "paradl";
}

/* ---- patterns --------------------------------------------------------- */

struct caught {
    int64_t layer;
    const char *word;
};

static bool matches(const char *pattern, const char *name, struct caught *c)
{
    char *end;

    c->layer = -1;
    c->word = "";
    for (; *pattern; pattern++) {
        if (*pattern == '@') {
            c->word = name;
            return *name && !strchr(name, '.');
        }
        if (*pattern == '*') {
            if (*name < '0' || *name > '9')
                return false;
            c->layer = strtoll(name, &end, 10);
            name = end;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    return *name == '\0';
}

static void fill_in(const char *pattern, const struct caught *c, int64_t expert,
                    char *to, size_t size)
{
    size_t n = 0;

    for (; *pattern && n + 24 < size; pattern++) {
        if (*pattern == '@')
            n += (size_t)snprintf(to + n, size - n, "%.40s", c->word);
        else if (*pattern == '*' || *pattern == '#')
            n += (size_t)snprintf(
                to + n, size - n, "%lld",
                (long long)(*pattern == '*' ? c->layer : expert));
        else
            to[n++] = *pattern;
        if (n >= size)
            n = size - 1;
    }
    to[n] = '\0';
}

/* ---- the model -------------------------------------------------------- */

static const struct pdl_tensor *tensor_of(const struct pdl_model *m,
                                          const char *name)
{
    for (int i = 0; i < m->ntensors; i++)
        if ((m->tensors[i].kind == PDL_TENSOR_WEIGHT ||
             m->tensors[i].kind == PDL_TENSOR_BUFFER) &&
            strcmp(m->tensors[i].name, name) == 0)
            return &m->tensors[i];
    return NULL;
}

static bool has_node(const struct pdl_model *m, const char *name)
{
    for (int i = m->nnodes - 1; i >= 0; i--)
        if (strcmp(m->nodes[i].name, name) == 0)
            return true;
    return false;
}

static const struct pdl_attr *first(const struct pdl_model *m, const char *op)
{
    static const struct pdl_attr none = {0};

    for (int i = 0; i < m->nnodes; i++)
        if (strcmp(m->nodes[i].op->name, op) == 0)
            return &m->nodes[i].attr;
    return &none;
}

static int64_t head_width(const struct pdl_model *m)
{
    return first(m, "attention")->head_dim;
}

/* ---- places ----------------------------------------------------------- */

int64_t pdl_weight_row(const struct pdl_weight_place *p, int64_t i)
{
    int64_t e;

    if (p->roll > 0)
        i += (i % p->block + p->roll) % p->block - i % p->block;
    if (p->group > 0)
        return p->from + i / p->group * p->stride + i % p->group;
    if (p->pair <= 0)
        return p->from + i;
    e = i % p->pair; /* ours: all first ones, then all second ones */
    e = e < p->pair / 2 ? 2 * e : 2 * (e - p->pair / 2) + 1;
    return p->from + i / p->pair * p->pair + e;
}

struct finder {
    pdl_arena *arena;
    const struct pdl_naming *naming;
    const struct pdl_model *model;
    const struct pdl_tensor *t;
    struct pdl_weight_place *out;
    int n, cap;
};

static bool flag(const char *how, char c)
{
    return strchr(how, c) != NULL;
}

/* Rows before part k of a fused tensor, and of all parts: those of the
 * weights that other rows of the table put there. False: one is missing. */
static bool fused_rows(const struct finder *f,
                       const struct model_naming_row *rows,
                       const struct model_naming_row *row,
                       const struct caught *c, int64_t *before, int64_t *all)
{
    *before = *all = 0;
    for (const struct model_naming_row *r = rows; r->ours; r++) {
        const struct pdl_tensor *part;
        char name[NAME];

        if (strcmp(r->theirs, row->theirs) != 0)
            continue;
        fill_in(r->ours, c, 0, name, sizeof name);
        part = tensor_of(f->model, name);
        if (!part)
            return false;
        if (r < row)
            *before += part->dim[0];
        *all += part->dim[0];
    }
    return true;
}

/* Rows in another order than ours. */
static void order(const struct finder *f, const struct model_naming_row *row,
                  struct pdl_weight_place *p, int64_t all)
{
    const struct pdl_attr *a = first(f->model, "attention");
    int64_t turning = first(f->model, "rope")->features;

    if (flag(row->how, 'p'))
        p->pair = head_width(f->model);
    if (flag(row->how, 'r') && turning < head_width(f->model)) {
        p->block = head_width(f->model);
        p->roll = turning;
    }
    if (flag(row->how, '>')) {
        p->block = p->n;
        p->roll = 2 % p->n;
    }
    if (flag(row->how, 'g')) {
        int64_t groups = a->kv_heads > 0 ? a->kv_heads : a->heads;

        groups = groups > 0 && p->n % groups == 0 ? groups : 1;
        p->group = p->n / groups;
        p->stride = all / groups;
        p->from /= groups;
    }
}

/* Of experts' halves: gate first, then up. */
static void half(const char *how, int64_t rows, struct pdl_weight_place *p)
{
    bool second = strstr(how, "1/2") != NULL;

    p->n = strstr(how, "/2") ? rows / 2 : rows;
    p->to = second ? rows / 2 : 0;
}

static bool add(struct finder *f, const struct model_naming_row *rows,
                const struct model_naming_row *row, const struct caught *c,
                int64_t expert)
{
    const struct pdl_tensor *t = f->t;
    int skip = expert >= 0 ? 1 : 0, lead = flag(row->how, '^') ? 1 : 0;
    struct pdl_weight_place p = {.expert = expert, .copy = flag(row->how, '+')};
    char name[NAME], *full;
    int64_t all = 0;

    p.rank = t->rank - skip + lead;
    p.dim[0] = 1;
    memcpy(p.dim + lead, t->dim + skip,
           (size_t)(t->rank - skip) * sizeof p.dim[0]);
    p.lead = lead;
    p.n = t->rank > skip ? t->dim[skip] : 1;
    p.transposed = flag(row->how, 't') && t->rank == 2;
    if (skip) {
        half(row->how, p.n, &p);
        p.dim[0] = p.n;
    } else if (flag(row->how, '/')) {
        if (!fused_rows(f, rows, row, c, &p.from, &all))
            return true;
        p.dim[lead] = all;
    }
    if (p.transposed) {
        int64_t d = p.dim[0];

        p.dim[0] = p.dim[1];
        p.dim[1] = d;
    }
    order(f, row, &p, all);
    fill_in(row->theirs, c, expert, name, sizeof name);
    full = pdl_arena_printf(f->arena, "%s%s",
                            *name == '/' ? "" : f->naming->prefix,
                            name + (*name == '/'));
    if (!full)
        return false;
    p.name = full;
    p.bare = *name == '/' ? full : full + strlen(f->naming->prefix);
    if (f->n == f->cap) {
        void *grown = pdl_arena_grow(f->arena, f->out, (size_t)f->n,
                                     2 * (size_t)f->n + 4, sizeof *f->out);

        if (!grown)
            return false;
        f->out = grown;
        f->cap = 2 * f->n + 4;
    }
    f->out[f->n++] = p;
    return true;
}

static bool add_rows(struct finder *f, const struct model_naming_row *rows)
{
    struct caught c;

    for (const struct model_naming_row *r = rows; r && r->ours; r++) {
        bool each = flag(r->how, 'e');

        if (!matches(r->ours, f->t->name, &c) ||
            (flag(r->how, '+') && !has_node(f->model, "head")) ||
            (flag(r->how, '+') && strcmp(r->ours, "embed.tokens.weight") == 0 &&
             tensor_of(f->model, "head.weight")))
            continue;
        for (int64_t e = 0; e < (each ? f->t->dim[0] : 1); e++)
            if (!add(f, rows, r, &c, each ? e : -1))
                return false;
    }
    return true;
}

/* Of a graph that multiplies by [inputs, outputs]. */
static bool lies_turned(const struct pdl_model *m, int tensor)
{
    for (int i = 0; i < m->nnodes; i++) {
        const struct pdl_node *n = &m->nodes[i];

        if (pdl_op_id(n->op) == PDL_ID_LINEAR && n->attr.axis == 1 &&
            n->nweights > 0 && n->weights[0] == tensor)
            return m->tensors[tensor].rank == 2;
    }
    return false;
}

enum pdl_status pdl_weight_places(pdl_arena *a, const struct pdl_naming *naming,
                                  const struct pdl_model *m, int tensor,
                                  const struct pdl_weight_place **out, int *n,
                                  struct pdl_err *err)
{
    const struct pdl_tensor *t = &m->tensors[tensor];
    struct finder f = {
        .arena = a, .naming = naming, .model = m, .t = t, .out = NULL};
    bool ok = true;

    if (!naming) { /* ours */
        f.out = PDL_NEW(a, struct pdl_weight_place, 1);
        ok = f.out != NULL;
        if (ok) {
            f.out[0] = (struct pdl_weight_place){
                .name = t->name, .bare = t->name, .expert = -1};
            f.out[0].rank = t->rank;
            memcpy(f.out[0].dim, t->dim, sizeof t->dim);
            f.out[0].n = t->rank > 0 ? t->dim[0] : 1;
            f.out[0].transposed = lies_turned(m, tensor);
            if (f.out[0].transposed) {
                f.out[0].dim[0] = t->dim[1];
                f.out[0].dim[1] = t->dim[0];
            }
            f.n = 1;
        }
    } else {
        ok = add_rows(&f, naming->rows);
        if (ok && f.n == 0)
            ok = add_rows(&f, naming->more);
    }
    if (!ok)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for names of weights");
    *out = f.out;
    *n = f.n;
    return PDL_OK;
}

/* ---- which one -------------------------------------------------------- */

static bool covers(pdl_arena *a, const struct pdl_naming *naming,
                   const struct pdl_model *m)
{
    const struct pdl_weight_place *p;
    int n = 1, seen = 0;

    for (int i = 0; i < m->ntensors && n > 0; i++)
        if (m->tensors[i].kind == PDL_TENSOR_WEIGHT) {
            n = 0;
            seen++;
            (void)pdl_weight_places(a, naming, m, i, &p, &n, NULL);
        }
    return seen > 0 && n > 0;
}

static bool lists(const char *types, const char *type)
{
    size_t n = strlen(type);

    for (const char *p = types; n && (p = strstr(p, type)) != NULL; p += n)
        if ((p == types || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

const struct pdl_naming *pdl_naming_for(pdl_arena *a, const char *style,
                                        const struct pdl_model *m)
{
    for (const struct pdl_naming *n = model_namings; m->type && n->name; n++)
        if (strcmp(n->style, style) == 0 && lists(n->types, m->type) &&
            covers(a, n, m))
            return n;
    for (const struct pdl_naming *n = model_namings; n->name; n++)
        if (strcmp(n->style, style) == 0 && covers(a, n, m))
            return n;
    return NULL;
}
