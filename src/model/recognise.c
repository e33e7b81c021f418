/* SPDX-License-Identifier: Apache-2.0
 *
 * Which family of the zoo a graph is. Exporters write a transformer as a
 * thousand small operators: attention as products, masks and a softmax, or as
 * one of several fused operators, q, k and v as one product or as three. What
 * tells the family are its norms and what lies between two of them: the widths
 * of products, one softmax (or attention), the activation. A graph is taken for
 * a family only if all its blocks are alike and the family's network has as
 * many parameters and FLOPs, to the last one (of the file, what its layers
 * read: exporters leave the frequencies of rotary positions beside them); then
 * tensor, sequence and context axes apply as to any transformer.
 *
 * Limits: decoders of equal blocks whose norms come first, with learned
 * positions, or rotary ones and gated layers; BERT, whose norms come last. */
#include "model_priv.h"

#include <stdio.h>
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
    int64_t hidden, vocab, heads;
    int64_t rows[3];       /* of all embeddings: vocabulary, positions, types */
    int embeddings, table; /* weights of the first embedding */
    int placed;            /* the embedding of positions, where one says so */
    bool rms, tied, other;
};

static bool is_op(const struct pdl_node *n, enum pdl_op_id id)
{
    return pdl_op_id(n->op) == id;
}

static void see_embedding(struct seen *x, const struct pdl_node *n)
{
    if (x->embeddings == 0) {
        x->hidden = n->attr.features;
        x->vocab = n->attr.vocab;
        x->table = n->nweights > 0 ? n->weights[0] : -1;
    }
    if (x->embeddings == 3) {
        x->other = true;
        return;
    }
    if (is_op(n, PDL_ID_POSITION_EMBEDDING))
        x->placed = x->embeddings;
    x->rows[x->embeddings++] = n->attr.vocab;
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

/* One number for each pair of positions: a mask that is made as it is read. */
static bool is_square(const struct seen *x, int id)
{
    const struct pdl_tensor *t = &x->m->tensors[id];
    int64_t n = x->m->tokens;

    return n > 1 && t->rank >= 2 && t->dim[t->rank - 1] == n &&
           t->dim[t->rank - 2] == n && pdl_tensor_elements(t) == n * n;
}

static void see_add(struct seen *x, const struct pdl_node *n)
{
    struct stretch *s = &x->s[x->n - 1];

    for (int i = 0; i < n->nin; i++)
        s->residual = s->residual || n->in[i] == x->made;
    for (int i = 0; i < n->nin && n->nin == 2; i++)
        s->masked = s->masked || is_square(x, n->in[i]);
    for (int i = 0; i < n->nweights; i++)
        s->masked =
            s->masked || x->m->tensors[n->weights[i]].kind == PDL_TENSOR_BUFFER;
}

static void see(struct seen *x, const struct pdl_node *n)
{
    enum pdl_op_id id = pdl_op_id(n->op);
    struct stretch *s = &x->s[x->n - 1];

    if (is_op(n, PDL_ID_EMBEDDING) || is_op(n, PDL_ID_POSITION_EMBEDDING))
        see_embedding(x, n);
    else if (id == PDL_ID_LAYER_NORM || id == PDL_ID_RMS_NORM)
        see_norm(x, n);
    else if (id == PDL_ID_LINEAR)
        see_linear(x, n);
    else if (is_op(n, PDL_ID_SOFTMAX))
        see_softmax(x, n);
    else if (id == PDL_ID_ATTENTION)
        see_attention(x, n);
    else if (id == PDL_ID_ADD)
        see_add(x, n);
    else if (is_op(n, PDL_ID_WHERE))
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

/* Attention and a feed-forward layer in turn, all alike; how many. Of the
 * norms, one that belongs to no block may be first or last, or first. */
static int64_t blocks_of(const struct seen *x, int norms)
{
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

/* Of three embeddings, the second or third is of positions: the one that says
 * so, else the longer. */
static int place_of(const struct seen *x)
{
    return x->placed > 0 ? x->placed : x->rows[1] > x->rows[2] ? 1 : 2;
}

/* BERT: norms after what they read is added to what they wrote, one more after
 * the embeddings; then the pooler, a classifier on it, or the head that fills
 * in tokens, which has a norm of its own. */
static const char *bert_of(pdl_arena *a, const struct seen *x)
{
    bool fills = x->n % 2 != 0;
    int64_t layers = blocks_of(x, x->n - 1 - fills);
    const struct stretch *ffn = &x->s[2], *end = &x->s[2 * layers + 1];
    int place = place_of(x);
    char tail[40] = "";

    if (layers == 0 || x->embeddings != 3 || x->rms || !x->s[1].residual ||
        !ffn->residual || ffn->n != 2 || !ffn->gelu || end->n < 1 ||
        end->n > 2 || end->linear[0] != x->hidden || x->m->tokens < 1 ||
        (fills &&
         (end->n != 1 || end[1].n != 1 || end[1].linear[0] != x->vocab)))
        return NULL;
    if (fills)
        snprintf(tail, sizeof tail, ",head=1,tied=%d", x->tied);
    else if (end->n == 2)
        snprintf(tail, sizeof tail, ",classes=%lld", (long long)end->linear[1]);
    return pdl_arena_printf(
        a,
        "bert:layers=%lld,hidden=%lld,heads=%lld,ffn=%lld,vocab=%lld,seq=%lld,"
        "positions=%lld,types=%lld%s",
        (long long)layers, (long long)x->hidden, (long long)x->heads,
        (long long)ffn->linear[0], (long long)x->vocab, (long long)x->m->tokens,
        (long long)x->rows[place], (long long)x->rows[3 - place], tail);
}

/* The family as text; NULL: none that is known here. */
static const char *text_of(pdl_arena *a, const struct seen *x)
{
    const struct stretch *ffn = &x->s[2], *last = &x->s[x->n - 1];
    int64_t layers = blocks_of(x, x->n - 1), seq = x->m->tokens, keys;
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
            (long long)x->rows[1], x->tied);
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

/* Elements of the weights that nodes read, each tensor once; -1: no memory. */
static int64_t weights_read(pdl_arena *a, const struct pdl_model *m)
{
    bool *seen = PDL_NEW(a, bool, m->ntensors + 1);
    int64_t sum = 0;

    for (int i = 0; seen && i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nweights; k++) {
            int id = m->nodes[i].weights[k];

            if (!seen[id] && m->tensors[id].kind == PDL_TENSOR_WEIGHT)
                sum += pdl_tensor_elements(&m->tensors[id]);
            seen[id] = true;
        }
    return seen ? sum : -1;
}

static bool reads_any(const struct pdl_model *m, const struct pdl_node *n,
                      const bool *made)
{
    for (int i = 0; i < n->nin; i++)
        if (made[n->in[i]])
            return true;
    for (int i = 0; i < n->nweights; i++)
        if (m->tensors[n->weights[i]].kind == PDL_TENSOR_WEIGHT)
            return true;
    return false;
}

/* The same without nodes that read neither a sample nor what is learnt: tables
 * of sines that an exporter did not compute are no work of a step. */
static bool of_samples(pdl_arena *a, const struct pdl_model *m,
                       struct pdl_model *out, struct pdl_segment *one)
{
    bool *made = PDL_NEW(a, bool, m->ntensors + 1);
    struct pdl_node *nodes = PDL_NEW(a, struct pdl_node, m->nnodes + 1);
    int n = 0;

    if (!made || !nodes)
        return false;
    for (int i = 0; i < m->ntensors; i++)
        made[i] = m->tensors[i].kind == PDL_TENSOR_INPUT;
    for (int i = 0; i < m->nnodes; i++) {
        if (!reads_any(m, &m->nodes[i], made))
            continue;
        for (int k = 0; k < m->nodes[i].nout; k++)
            made[m->nodes[i].out[k]] = true;
        nodes[n++] = m->nodes[i];
    }
    *one = (struct pdl_segment){
        .nnodes = n, .repeat = 1, .carry_in = -1, .carry_out = -1};
    if (m->nsegments == 1) {
        *one = m->segments[0];
        one->nnodes = n;
    }
    *out = *m;
    out->nodes = nodes;
    out->nnodes = n;
    out->segments = one;
    out->nsegments = 1;
    return true;
}

/* m has its nodes once each. */
static bool same_totals(pdl_arena *a, const struct pdl_model *m,
                        const struct pdl_model *family)
{
    struct pdl_model_totals x, y;
    struct pdl_model own;
    struct pdl_segment one;

    return of_samples(a, m, &own, &one) &&
           pdl_model_totals(&own, &x, NULL) == PDL_OK &&
           pdl_model_totals(family, &y, NULL) == PDL_OK &&
           weights_read(a, &own) == y.parameters &&
           x.forward_flops == y.forward_flops;
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
    if (!text && !x->other)
        text = bert_of(a, x);
    if (text && pdl_zoo_build(a, text, &family, NULL) == PDL_OK &&
        same_totals(a, m, family))
        *out = family;
    return PDL_OK;
}
