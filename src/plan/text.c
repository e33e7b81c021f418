/* SPDX-License-Identifier: Apache-2.0
 *
 * Names in plan files. A node or tensor of the model is named as the model
 * names it; where two bear one name, or a name could be read as something
 * else, its number stands instead. */
#include "text.h"

#include <string.h>

const char *const plan_text_passes[3] = {"forward", "backward-data",
                                         "backward-weights"};
const char *const plan_text_phases[3] = {"forward", "backward", "update"};
const char *const plan_text_kinds[] = {
#define X(name, text) text,
    PDL_PLAN_KIND_LIST(X)
#undef X
};
const int plan_text_nkinds = sizeof plan_text_kinds / sizeof plan_text_kinds[0];

/* ---- names ------------------------------------------------------------ */

/* FNV-1a, 64 bit. */
static uint64_t hash(const char *s)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    return h;
}

static bool index_names(pdl_arena *a, struct plan_names *n)
{
    n->nslots = 2 * n->count + 1;
    n->slot = PDL_NEW(a, int, n->nslots);
    if (!n->slot)
        return false;
    for (int i = 0; i < n->nslots; i++)
        n->slot[i] = -1;
    for (int i = 0; i < n->count; i++) {
        int s = (int)(hash(n->name[i]) % (uint64_t)n->nslots);

        while (n->slot[s] >= 0 && strcmp(n->name[n->slot[s]], n->name[i]) != 0)
            s = (s + 1) % n->nslots;
        if (n->slot[s] < 0)
            n->slot[s] = i;
    }
    return true;
}

bool plan_names_nodes(pdl_arena *a, const struct pdl_model *m,
                      struct plan_names *n)
{
    n->count = m->nnodes;
    n->name = PDL_NEW(a, const char *, m->nnodes + 1);
    for (int i = 0; n->name && i < m->nnodes; i++)
        n->name[i] = m->nodes[i].name;
    return n->name && index_names(a, n);
}

bool plan_names_tensors(pdl_arena *a, const struct pdl_model *m,
                        struct plan_names *n)
{
    n->count = m->ntensors;
    n->name = PDL_NEW(a, const char *, m->ntensors + 1);
    for (int i = 0; n->name && i < m->ntensors; i++)
        n->name[i] = m->tensors[i].name;
    return n->name && index_names(a, n);
}

int plan_names_find(const struct plan_names *n, const char *name)
{
    int s = (int)(hash(name) % (uint64_t)n->nslots);

    while (n->slot[s] >= 0 && strcmp(n->name[n->slot[s]], name) != 0)
        s = (s + 1) % n->nslots;
    return n->slot[s];
}

void plan_names_put(const struct plan_names *n, int i, struct pdl_sink *out)
{
    const char *name = n->name[i];

    if (plan_names_find(n, name) != i || name[0] == '#' || name[0] == '\0' ||
        strcmp(name, "loss") == 0)
        pdl_printf(out, "#%d", i);
    else
        plan_text_quote(name, false, out);
}

/* ---- words ------------------------------------------------------------ */

static bool is_plain(const char *s, bool blanks)
{
    size_t n = strlen(s);

    if (n == 0 || s[0] == '"' || s[0] == ' ' || s[n - 1] == ' ')
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 32 || s[i] == 127 || (s[i] == ' ' && !blanks))
            return false;
    return pdl_is_utf8(s);
}

void plan_text_quote(const char *s, bool blanks, struct pdl_sink *out)
{
    if (is_plain(s, blanks)) {
        pdl_puts(out, s);
        return;
    }
    pdl_puts(out, "\"");
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            pdl_printf(out, "\\%c", *s);
        else if ((unsigned char)*s < 32 || (unsigned char)*s >= 127)
            pdl_printf(out, "\\x%02x", (unsigned char)*s);
        else
            pdl_put(out, s, 1);
    pdl_puts(out, "\"");
}

/* ---- dimensions ------------------------------------------------------- */

/* Weights and what has their shape have no N. */
static bool is_weight(const struct pdl_plan *p, const struct pdl_plan_tensor *t)
{
    return t->model_tensor >= 0 &&
           p->model->tensors[t->model_tensor].rank == t->ndims;
}

void plan_text_dim(const struct pdl_plan *p, const struct pdl_plan_tensor *t,
                   int d, char *name)
{
    static const char *const images[] = {"N", "NC", "NCW", "NCHW", "NCDHW"};
    static const char *const tokens[] = {"N", "NE", "NTE"};
    static const char *const weights[] = {"F", "FC", "FCX", "FCYX", "FCZYX"};
    bool text = strcmp(p->model->kind, "transformer") == 0;
    const char *letters = NULL;

    if (t->kind == PDL_PLAN_STATISTIC && t->ndims == 3)
        letters = "SMC";
    else if (is_weight(p, t) && t->ndims >= 1 && t->ndims <= 5)
        letters = weights[t->ndims - 1];
    else if (!is_weight(p, t) && text && t->ndims >= 1 && t->ndims <= 3)
        letters = tokens[t->ndims - 1];
    else if (!is_weight(p, t) && !text && t->ndims >= 1 && t->ndims <= 5)
        letters = images[t->ndims - 1];
    name[0] = letters ? letters[d] : 'D';
    name[1] = letters ? '\0' : (char)('0' + d);
    name[2] = '\0';
}

void plan_text_factors(const struct pdl_plan *p, uint32_t set,
                       struct pdl_sink *out)
{
    const char *sign = "";

    for (int f = 0; f < p->mesh->nfactors; f++)
        if (set >> f & 1) {
            pdl_printf(out, "%sa%d", sign, f);
            sign = "*";
        }
}

/* ---- programs --------------------------------------------------------- */

void plan_text_items(const struct pdl_plan_stage *s, int phase, int *first,
                     int *count)
{
    *first = phase == 0   ? s->first_forward
             : phase == 1 ? s->first_backward
                          : s->first_update;
    *count = phase == 0 ? s->nforward : phase == 1 ? s->nbackward : s->nupdate;
}

bool plan_text_program(int nstages, int k, int *phase, int *stage)
{
    *phase = k / nstages;
    *stage = k % nstages;
    if (*phase == 1)
        *stage = nstages - 1 - *stage;
    return *phase < 3;
}

int64_t plan_text_rank(const struct pdl_plan *p, int stage)
{
    return pdl_plan_lane_rank(p, pdl_plan_lane(p, stage));
}
