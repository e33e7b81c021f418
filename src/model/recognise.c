/* SPDX-License-Identifier: Apache-2.0
 *
 * Which family of the zoo a graph is. Exporters write a transformer as a
 * thousand small operators: attention as products, masks and a softmax, or as
 * one of several fused operators, q, k and v as one product or as three. What
 * tells the family are its norms and what lies between two of them: the widths
 * of products, one softmax (or attention), the activation. A graph is taken for
 * a family only if all its blocks are alike and the family's network has as
 * many parameters and FLOPs, to the last one; then tensor, sequence and context
 * axes apply as to any transformer.
 *
 * Limits: decoders of equal blocks whose norms come first, with learned
 * positions, or rotary ones and gated layers. */
#include "model_priv.h"

#include <string.h>

enum { MOST_LINEAR = 8, MOST_SEGMENTS = 1024 };

/* What lies between two norms. */
struct stretch {
    int64_t linear[MOST_LINEAR];
    int n, attends;
    bool gelu, silu, masked, residual; /* residual: adds what the norm made */
};

struct seen {
    const struct pdl_model *m;
    struct stretch s[MOST_SEGMENTS];
    int n;    /* the first is before all norms */
    int made; /* by the last norm */
    int64_t hidden, vocab, positions, heads;
    int embeddings, table; /* weights of the first embedding */
    bool rms, tied, other;
};

static bool is_op(const struct pdl_node *n, const char *name)
{
    return strcmp(n->op->name, name) == 0;
}

static void see_embedding(struct seen *x, const struct pdl_node *n)
{
    if (x->embeddings == 0) {
        x->hidden = n->attr.features;
        x->vocab = n->attr.vocab;
        x->table = n->nweights > 0 ? n->weights[0] : -1;
    } else {
        x->positions = n->attr.vocab;
    }
    x->embeddings++;
    x->other = x->other || x->n > 1 || n->attr.features != x->hidden;
}

static void see_norm(struct seen *x, const struct pdl_node *n)
{
    int64_t width = n->attr.features;

    if (width != x->hidden) { /* of heads: counted by the parameters */
        x->other = true;
        return;
    }
    x->rms = x->rms || pdl_op_id(n->op) == PDL_ID_RMS_NORM;
    x->made = n->out[0];
    x->n++;
}

static void see_linear(struct seen *x, const struct pdl_node *n)
{
    struct stretch *s = &x->s[x->n - 1];

    if (s->n == MOST_LINEAR) {
        x->other = true;
        return;
    }
    s->linear[s->n++] = n->attr.features;
    if (n->nweights > 0 && n->weights[0] == x->table)
        x->tied = true;
}

/* Scores are heads x positions x positions. */
static void see_softmax(struct seen *x, const struct pdl_node *n)
{
    const struct pdl_tensor *t = &x->m->tensors[n->out[0]];
    int64_t heads = t->rank == 3 ? t->dim[0] : 0;

    x->s[x->n - 1].attends++;
    x->other = x->other || heads < 1 || t->dim[1] != x->m->tokens ||
               t->dim[2] != x->m->tokens || (x->heads && x->heads != heads);
    x->heads = heads;
}

static void see_attention(struct seen *x, const struct pdl_node *n)
{
    struct stretch *s = &x->s[x->n - 1];

    s->attends++;
    s->masked = s->masked || n->attr.causal;
    x->other = x->other || (x->heads && x->heads != n->attr.heads);
    x->heads = n->attr.heads;
}

static void see_add(struct seen *x, const struct pdl_node *n)
{
    struct stretch *s = &x->s[x->n - 1];

    for (int i = 0; i < n->nin; i++)
        s->residual = s->residual || n->in[i] == x->made;
    for (int i = 0; i < n->nweights; i++)
        s->masked =
            s->masked || x->m->tensors[n->weights[i]].kind == PDL_TENSOR_BUFFER;
}

static void see(struct seen *x, const struct pdl_node *n)
{
    enum pdl_op_id id = pdl_op_id(n->op);
    struct stretch *s = &x->s[x->n - 1];

    if (is_op(n, "embedding") || is_op(n, "position_embedding"))
        see_embedding(x, n);
    else if (id == PDL_ID_LAYER_NORM || id == PDL_ID_RMS_NORM)
        see_norm(x, n);
    else if (id == PDL_ID_LINEAR)
        see_linear(x, n);
    else if (is_op(n, "softmax"))
        see_softmax(x, n);
    else if (id == PDL_ID_ATTENTION)
        see_attention(x, n);
    else if (id == PDL_ID_ADD)
        see_add(x, n);
    else if (is_op(n, "where"))
        s->masked = true;
    else if (id == PDL_ID_CONV || id == PDL_ID_EXPERTS)
        x->other = true;
    s = &x->s[x->n - 1];
    s->gelu = s->gelu || id == PDL_ID_GELU;
    s->silu = s->silu || id == PDL_ID_SILU;
}

static bool same_work(const struct stretch *a, const struct stretch *b)
{
    return a->n == b->n && a->attends == b->attends && a->gelu == b->gelu &&
           a->silu == b->silu && a->masked == b->masked &&
           a->residual == b->residual &&
           memcmp(a->linear, b->linear, (size_t)a->n * sizeof a->linear[0]) ==
               0;
}

/* Attention and a feed-forward layer in turn, all alike; how many. */
static int64_t blocks_of(const struct seen *x)
{
    int norms = x->n - 1;
    int64_t layers = (norms - 1) / 2;

    if (x->other || norms < 3 || norms % 2 == 0 || x->s[0].n > 0 ||
        x->s[1].attends != 1 || x->s[2].attends != 0 || x->heads < 1 ||
        x->hidden % x->heads != 0)
        return 0;
    for (int i = 3; i <= 2 * layers; i++)
        if (!same_work(&x->s[i], &x->s[i - 2]))
            return 0;
    return layers;
}

/* Keys have fewer heads where their products are narrower. */
static int64_t key_heads(const struct seen *x)
{
    const struct stretch *s = &x->s[1];
    int64_t head = x->hidden / x->heads;

    if (s->n == 2) /* q, k and v at once */
        return (s->linear[0] / head - x->heads) / 2;
    return s->n == 4 ? s->linear[1] / head : 0;
}

/* The family as text; NULL: none that is known here. */
static const char *text_of(pdl_arena *a, const struct seen *x)
{
    const struct stretch *ffn = &x->s[2], *last = &x->s[x->n - 1];
    int64_t layers = blocks_of(x), seq = x->m->tokens, keys;
    bool head = last->n == 1 && last->linear[0] == x->vocab;

    if (layers == 0 || ffn->n < 2 || seq < 1)
        return NULL;
    keys = key_heads(x);
    if (!head || x->s[1].residual || !x->s[1].masked || keys < 1)
        return NULL;
    if (!x->rms && x->embeddings == 2 && ffn->n == 2 && ffn->gelu)
        return pdl_arena_printf(
            a,
            "gpt:layers=%lld,hidden=%lld,heads=%lld,ffn=%lld,vocab=%lld,"
            "seq=%lld,positions=%lld,tied=%d",
            (long long)layers, (long long)x->hidden, (long long)x->heads,
            (long long)ffn->linear[0], (long long)x->vocab, (long long)seq,
            (long long)x->positions, x->tied);
    if (x->rms && x->embeddings == 1 && ffn->n == 3 && ffn->silu)
        return pdl_arena_printf(
            a,
            "llama:layers=%lld,hidden=%lld,heads=%lld,kv_heads=%lld,ffn=%lld,"
            "gated=1,vocab=%lld,seq=%lld,tied=%d",
            (long long)layers, (long long)x->hidden, (long long)x->heads,
            (long long)keys, (long long)ffn->linear[0], (long long)x->vocab,
            (long long)seq, x->tied);
    return NULL;
}

static bool same_totals(const struct pdl_model *a, const struct pdl_model *b)
{
    struct pdl_model_totals x, y;

    return pdl_model_totals(a, &x, NULL) == PDL_OK &&
           pdl_model_totals(b, &y, NULL) == PDL_OK &&
           x.parameters == y.parameters && x.forward_flops == y.forward_flops;
}

enum pdl_status pdl_model_family(pdl_arena *a, const struct pdl_model *m,
                                 const struct pdl_model **out,
                                 struct pdl_err *err)
{
    struct seen *x = PDL_NEW(a, struct seen, 1);
    const struct pdl_model *family = NULL;
    const char *text;

    *out = NULL;
    if (!x)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (m->nsegments > 1 || m->nunbound > 0 || m->nunknown > 0 || !m->tokens)
        return PDL_OK;
    *x = (struct seen){.m = m, .n = 1, .made = -1, .table = -1};
    for (int i = 0; i < m->nnodes && !x->other; i++) {
        see(x, &m->nodes[i]);
        x->other = x->other || x->n == MOST_SEGMENTS;
    }
    text = x->other ? NULL : text_of(a, x);
    if (text && pdl_zoo_build(a, text, &family, NULL) == PDL_OK &&
        same_totals(m, family))
        *out = family;
    return PDL_OK;
}
