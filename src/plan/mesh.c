/* SPDX-License-Identifier: Apache-2.0
 *
 * The mesh: anonymous factors fine enough that every axis of every clause is
 * a run of them. Read from the right (closest PEs first), an axis ends at
 * some suffix product; the mesh's own suffix products are the union of all of
 * them, and each must divide the next. So "conv*: data=4; fc*: filter=4" is
 * one factor of 4 with two roles, and "a: data=2,filter=3; b: data=3,filter=2"
 * cannot be refined (2 does not divide 3) and is refused. A tensor axis wider
 * than the groups of heads that share keys ends a factor there. */
#include "plan_priv.h"

enum { MAX_CUTS = 256 };

/* Suffix products, sorted, without doubles; 1 is always there. */
struct cuts {
    int64_t at[MAX_CUTS];
    int n;
};

static bool cut_add(struct cuts *c, int64_t v)
{
    int i = 0;

    while (i < c->n && c->at[i] < v)
        i++;
    if (i < c->n && c->at[i] == v)
        return true;
    if (c->n == MAX_CUTS)
        return false;
    memmove(&c->at[i + 1], &c->at[i], (size_t)(c->n - i) * sizeof c->at[0]);
    c->at[i] = v;
    c->n++;
    return true;
}

static bool is_star(const struct pdl_clause *c)
{
    return strcmp(c->layers, "*") == 0;
}

static void list_terms(const struct pdl_clause *c, struct pdl_mesh *m, int i)
{
    for (int t = 0; t < c->nterms; t++)
        for (int k = 0; k < c->term[t].nsizes; k++)
            m->term[i][m->nterms[i]++] = (struct pdl_mesh_term){
                .axis = c->term[t].axis, .dim = k, .size = c->term[t].size[k]};
}

/* The terms of "*" in front, then the clause's own. An axis named twice would
 * cut the same index twice. */
static enum pdl_status collect(const struct pdl_strategy *s, int i,
                               struct pdl_mesh *m, struct pdl_err *err)
{
    const struct pdl_clause *c = &s->clause[i];

    m->nterms[i] = 0;
    if (!is_star(c))
        for (int k = 0; k < s->nclauses; k++)
            if (is_star(&s->clause[k]))
                list_terms(&s->clause[k], m, i);
    list_terms(c, m, i);
    for (int a = 0; a < m->nterms[i]; a++)
        for (int b = 0; b < a; b++)
            if (m->term[i][a].axis == m->term[i][b].axis &&
                m->term[i][a].dim == m->term[i][b].dim)
                return pdl_fail(err, PDL_EINVAL,
                                "strategy: '%s' is given twice for %s",
                                pdl_axis_name(m->term[i][a].axis), c->layers);
    return PDL_OK;
}

/* Ranks of a tensor axis that have the same keys, for each number of groups. */
static bool cut_groups(const struct pdl_model *model, int64_t inside,
                       int64_t size, struct cuts *cuts)
{
    int64_t part;

    for (int i = 0; model && i < model->nnodes; i++) {
        int64_t groups = plan_key_groups(&model->nodes[i]);

        if (groups > 0 && size > groups && size % groups == 0 &&
            (!pdl_mul64(inside, size / groups, &part) || !cut_add(cuts, part)))
            return false;
    }
    return true;
}

static enum pdl_status product(const struct pdl_strategy *s,
                               const struct pdl_model *model, int i,
                               struct pdl_mesh *m, struct cuts *cuts,
                               struct pdl_err *err)
{
    int64_t p = 1;

    for (int t = m->nterms[i] - 1; t >= 0; t--) {
        int64_t group = s->zero_group, part;

        /* zero=3:8 cuts a data axis at its groups of 8 */
        if (m->term[i][t].axis == PDL_AXIS_DATA && group > 1 &&
            m->term[i][t].size % group == 0 &&
            (!pdl_mul64(p, group, &part) || !cut_add(cuts, part)))
            return pdl_fail(err, PDL_EINVAL, "strategy: too many PEs");
        if (m->term[i][t].axis == PDL_AXIS_TENSOR &&
            !cut_groups(model, p, m->term[i][t].size, cuts))
            return pdl_fail(err, PDL_EINVAL, "strategy: too many PEs");
        if (!pdl_mul64(p, m->term[i][t].size, &p) || !cut_add(cuts, p))
            return pdl_fail(err, PDL_EINVAL, "strategy: too many PEs");
    }
    if (m->pes == 0)
        m->pes = p;
    if (p == m->pes)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "strategy: %s uses %lld PEs, %s uses %lld",
             s->clause[i].layers, (long long)p, s->clause[0].layers,
             (long long)m->pes);
    pdl_hint(err, "every clause, with the axes of '*', must multiply to the "
                  "same number");
    return PDL_EINVAL;
}

static enum pdl_status refine(const struct cuts *cuts, struct pdl_mesh *m,
                              struct pdl_err *err)
{
    m->nfactors = cuts->n - 1;
    if (m->nfactors > PDL_MAX_FACTORS)
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: needs more than %d mesh factors",
                        PDL_MAX_FACTORS);
    for (int i = 1; i < cuts->n; i++) {
        if (cuts->at[i] % cuts->at[i - 1] != 0)
            return pdl_fail(err, PDL_EINVAL,
                            "strategy: axes do not nest: groups of %lld and "
                            "of %lld PEs cut each other",
                            (long long)cuts->at[i - 1], (long long)cuts->at[i]);
        m->factor[m->nfactors - i] = cuts->at[i] / cuts->at[i - 1];
    }
    return PDL_OK;
}

/* Gives each term its factors, walking from the closest PEs outwards. */
static void assign(struct pdl_mesh *m, int i)
{
    int f = m->nfactors;

    for (int t = m->nterms[i] - 1; t >= 0; t--) {
        struct pdl_mesh_term *x = &m->term[i][t];
        int64_t have = 1;
        int end = f;

        while (have < x->size)
            have *= m->factor[--f];
        x->first = f;
        x->count = end - f;
    }
}

/* ---- uneven shares ------------------------------------------------------ */

static bool are_uneven(const struct pdl_term *t)
{
    for (int i = 1; i < t->nparts; i++)
        if (t->part[i].share != t->part[0].share)
            return true;
    return false;
}

/* Shares of the ranks before rank c along the axis, and its own. */
static int64_t shares_before(const struct pdl_mesh *m, int64_t c, int64_t *own)
{
    int64_t sum = 0;

    *own = 0;
    for (int i = 0; i < m->nparts; i++) {
        const struct pdl_term_part *p = &m->part[i];

        if (c < p->count) {
            *own = p->share;
            return sum + c * p->share;
        }
        sum += p->count * p->share;
        c -= p->count;
    }
    return sum;
}

/* The shares of a data axis; they hold for the whole model. */
static enum pdl_status deal_shares(const struct pdl_strategy *s,
                                   struct pdl_mesh *m, struct pdl_err *err)
{
    const struct pdl_clause *c = &s->clause[0];
    const struct pdl_mesh_term *at = m->term[0];

    for (int t = 0; t < c->nterms; t++) {
        const struct pdl_term *x = &c->term[t];

        if (x->axis != PDL_AXIS_DATA || !are_uneven(x))
            continue;
        while (at->axis != PDL_AXIS_DATA)
            at++;
        if (at->count != 1 || s->nclauses > 1)
            return pdl_fail(err, PDL_EINVAL,
                            "strategy: uneven shares of samples hold for a "
                            "data axis in one piece, and for all layers");
        m->dealt = at->first;
        m->nparts = x->nparts;
        m->part = x->part;
    }
    return PDL_OK;
}

/* floor(w m / all) for w <= all < 2^62, bit by bit where the product of what m
 * leaves is too large. */
static int64_t share_start(int64_t m, int64_t w, int64_t all)
{
    int64_t start = m / all * w, left = m % all, product, whole = 0, rest = 0;

    if (pdl_mul64(left, w, &product))
        return start + product / all;
    for (int bit = 61; bit >= 0; bit--) {
        whole *= 2;
        rest *= 2;
        for (int k = 0; k < 2; k++) {
            rest += k && (w >> bit & 1) ? left : 0;
            whole += rest >= all;
            rest -= rest >= all ? all : 0;
        }
    }
    return start + whole;
}

void pdl_mesh_split(const struct pdl_mesh *m, uint32_t factors, int64_t n,
                    int64_t unit, int64_t parts, int64_t i, int64_t *lo,
                    int64_t *hi)
{
    int64_t inner = 1, all, own, before, units, at[2];

    if (m->nparts == 0 || !(factors >> m->dealt & 1)) {
        pdl_split(n, unit, parts, i, lo, hi);
        return;
    }
    for (int f = m->dealt + 1; f < m->nfactors; f++)
        inner *= factors >> f & 1 ? m->factor[f] : 1;
    all = shares_before(m, m->factor[m->dealt], &own) * inner;
    units = (n + unit - 1) / unit;
    for (int k = 0; k < 2; k++) {
        int64_t row = (i + k) / inner, outer = row / m->factor[m->dealt];

        before = shares_before(m, row % m->factor[m->dealt], &own);
        at[k] = outer * all + before * inner + own * ((i + k) % inner);
    }
    all *= parts / (m->factor[m->dealt] * inner);
    *lo = unit * share_start(units, at[0], all);
    *hi = unit * share_start(units, at[1], all);
    *lo = *lo < n ? *lo : n;
    *hi = *hi < n ? *hi : n;
}

enum pdl_status pdl_mesh_make(const struct pdl_strategy *s,
                              struct pdl_mesh *out, struct pdl_err *err)
{
    return pdl_mesh_for(s, NULL, out, err);
}

enum pdl_status pdl_mesh_for(const struct pdl_strategy *s,
                             const struct pdl_model *model,
                             struct pdl_mesh *out, struct pdl_err *err)
{
    struct cuts cuts = {.at = {1}, .n = 1};
    struct pdl_mesh m = {.pes = 0};
    enum pdl_status st = PDL_OK;
    bool only_star = true;

    for (int i = 0; i < s->nclauses; i++)
        only_star = only_star && is_star(&s->clause[i]);
    for (int i = 0; i < s->nclauses && st == PDL_OK; i++)
        st = collect(s, i, &m, err);
    for (int i = 0; i < s->nclauses && st == PDL_OK; i++)
        if (only_star || !is_star(&s->clause[i]))
            st = product(s, model, i, &m, &cuts, err);
    if (st == PDL_OK)
        st = refine(&cuts, &m, err);
    if (st != PDL_OK)
        return st;
    for (int i = 0; i < s->nclauses; i++)
        if (only_star || !is_star(&s->clause[i]))
            assign(&m, i);
    /* Beside other clauses "*" is the beginning of each of them; a layer that
     * only "*" names is replicated over the rest of the mesh. */
    if (!only_star && is_star(&s->clause[0]))
        memcpy(m.term[0], m.term[1], (size_t)m.nterms[0] * sizeof m.term[0][0]);
    st = deal_shares(s, &m, err);
    if (st == PDL_OK)
        *out = m;
    return st;
}

int64_t pdl_mesh_coord(const struct pdl_mesh *m, int64_t rank, int f)
{
    for (int i = m->nfactors - 1; i > f; i--)
        rank /= m->factor[i];
    return rank % m->factor[f];
}

int64_t pdl_mesh_group(const struct pdl_mesh *m, int64_t rank, uint32_t factors,
                       int64_t *ranks, int64_t max)
{
    int64_t n = 1, base = rank, stride = 1;

    for (int f = m->nfactors - 1; f >= 0; f--) {
        if (factors >> f & 1)
            base -= pdl_mesh_coord(m, rank, f) * stride;
        stride *= m->factor[f];
    }
    if (max > 0)
        ranks[0] = base;
    stride = 1;
    for (int f = m->nfactors - 1; f >= 0; f--) {
        if (factors >> f & 1) { /* those so far, further and further on */
            for (int64_t i = n; i < n * m->factor[f] && i < max; i++)
                ranks[i] = ranks[i - n] + stride;
            n *= m->factor[f];
        }
        stride *= m->factor[f];
    }
    return n;
}
