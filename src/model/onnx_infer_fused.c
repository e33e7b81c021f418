/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused and quantised operators (com.microsoft and the QDQ family), and
 * operators that carry a subgraph. Operand orders are those of the operator
 * documentation of ONNX Runtime. */
#include "onnx_priv.h"

#define IN  model_onnx_in
#define OUT model_onnx_out

void model_onnx_infer_quantize(struct onnx_call *c)
{
    model_onnx_infer_same(c);
    OUT(c, 0)->type =
        model_onnx_has(c, 2)
            ? IN(c, 2)->type
            : (int)model_onnx_int(c->n, "output_dtype", ONNX_UINT8);
}

void model_onnx_infer_dequantize(struct onnx_call *c)
{
    model_onnx_infer_same(c);
    OUT(c, 0)->type = IN(c, 1)->type ? IN(c, 1)->type : ONNX_FLOAT;
}

void model_onnx_infer_dynamic_quantize(struct onnx_call *c)
{
    model_onnx_infer_same(c);
    OUT(c, 0)->type = ONNX_UINT8;
    for (int i = 1; i < 3 && i < c->n->nout; i++) {
        OUT(c, i)->type = i == 1 ? ONNX_FLOAT : ONNX_UINT8;
        model_onnx_set(OUT(c, i), 0, NULL);
    }
}

/* One input with scale and zero point, output like it. */
void model_onnx_infer_qlinear_same(struct onnx_call *c)
{
    bool pool = strstr(c->n->type, "Pool") != NULL;

    if (pool && strstr(c->n->type, "Global"))
        model_onnx_infer_global_pool(c);
    else if (pool)
        model_onnx_infer_pool(c);
    else
        model_onnx_infer_same(c);
    OUT(c, 0)->type = IN(c, 0)->type;
}

/* a, scale, zero, b, scale, zero, scale, zero */
void model_onnx_infer_qlinear_binary(struct onnx_call *c)
{
    const struct onnx_shape *a = IN(c, 0), *b = IN(c, 3);
    const struct onnx_shape *big = a->rank >= b->rank ? a : b;

    if (a->rank == b->rank && model_onnx_elements(b) > model_onnx_elements(a))
        big = b;
    OUT(c, 0)->type = a->type;
    model_onnx_set(OUT(c, 0), big->rank, big->dim);
}

void model_onnx_infer_skip_norm(struct onnx_call *c)
{
    model_onnx_infer_same(c);
    if (c->n->nout > 3)
        *OUT(c, 3) = *OUT(c, 0);
}

void model_onnx_infer_embed_norm(struct onnx_call *c)
{
    const struct onnx_shape *ids = IN(c, 0), *words = IN(c, 2);
    int64_t dim[3];

    OUT(c, 0)->type = words->type;
    if (ids->rank != 2 || words->rank != 2)
        return;
    dim[0] = ids->dim[0];
    dim[1] = ids->dim[1];
    dim[2] = words->dim[1];
    model_onnx_set(OUT(c, 0), 3, dim);
    OUT(c, 1)->type = ONNX_INT32;
    model_onnx_set(OUT(c, 1), 1, dim);
}

/* com.microsoft Attention: x [N, T, E], weight [E, 3H] -> [N, T, H]. */
static void fused_attention(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *w = IN(c, 1);
    int64_t sizes[3];
    struct onnx_shape *y = OUT(c, 0);

    y->type = x->type;
    if (x->rank != 3)
        return;
    model_onnx_set(y, 3, x->dim);
    y->dim[2] = w->rank == 2 && w->dim[1] >= 0 ? w->dim[1] / 3 : -1;
    if (model_onnx_ints(c->n, "qkv_hidden_sizes", sizes, 3) == 3)
        y->dim[2] = sizes[2];
}

/* The standard one (opset 23): Q, K, V of rank 4 or 3. */
static void plain_attention(struct onnx_call *c)
{
    const struct onnx_shape *q = IN(c, 0), *v = IN(c, 2);
    struct onnx_shape *y = OUT(c, 0);
    int64_t heads = model_onnx_int(c->n, "q_num_heads", 0),
            kv = model_onnx_int(c->n, "kv_num_heads", 0);

    y->type = q->type;
    if (q->rank < 3)
        return;
    model_onnx_set(y, q->rank, q->dim);
    if (q->rank == 4 && v->rank == 4)
        y->dim[3] = v->dim[3];
    else if (v->rank == 3 && v->dim[2] >= 0 && kv > 0 && heads > 0 &&
             heads < INT32_MAX)
        y->dim[2] = v->dim[2] / kv * heads;
}

void model_onnx_infer_attention(struct onnx_call *c)
{
    if (c->n->op->domain[0])
        fused_attention(c);
    else
        plain_attention(c);
}

/* MultiHeadAttention: query [N, T, H], value [N, S, Hv]. */
void model_onnx_infer_mha(struct onnx_call *c)
{
    const struct onnx_shape *q = IN(c, 0), *v = IN(c, 2);

    model_onnx_infer_same(c);
    if (q->rank == 3 && v->rank == 3)
        OUT(c, 0)->dim[2] = v->dim[2];
}

/* GroupQueryAttention: query [N, T, H]; with packed q, k, v the width is
 * (heads + 2 kv_heads) head_dim. */
void model_onnx_infer_gqa(struct onnx_call *c)
{
    const struct onnx_shape *q = IN(c, 0);
    int64_t heads = model_onnx_int(c->n, "num_heads", 0),
            kv = model_onnx_int(c->n, "kv_num_heads", 0);

    model_onnx_infer_same(c);
    if (q->rank == 3 && !model_onnx_has(c, 1) && q->dim[2] >= 0 && heads > 0 &&
        kv > 0 && heads < 65536 && kv < 65536)
        OUT(c, 0)->dim[2] = q->dim[2] / (heads + 2 * kv) * heads;
    for (int i = 1; i < 3 && i < c->n->nout; i++) {
        OUT(c, i)->type = q->type;
        model_onnx_set(OUT(c, i), IN(c, 2 + i)->rank, IN(c, 2 + i)->dim);
    }
}

/* If: what both branches agree on. */
void model_onnx_infer_branch(struct onnx_call *c)
{
    for (int k = 0; k < c->n->nout; k++) {
        struct onnx_shape *y = OUT(c, k);
        bool first = true;

        for (int b = 0; b < c->n->nbodies; b++) {
            const struct onnx_body *body = &c->n->bodies[b];
            const struct onnx_shape *s;

            if (k >= body->nout)
                continue;
            s = &c->all[body->out[k]];
            if (first) {
                y->type = s->type;
                model_onnx_set(y, s->rank, s->dim);
            } else if (s->rank != y->rank) {
                y->rank = -1;
            }
            for (int i = 0; i < y->rank && !first; i++)
                if (y->dim[i] != s->dim[i])
                    y->dim[i] = -1;
            first = false;
        }
    }
}

/* Loop and Scan: what goes round keeps its rank; what is collected has one
 * dimension more. Their lengths are known only at run time. */
void model_onnx_infer_loop(struct onnx_call *c)
{
    bool loop = strcmp(c->n->type, "Loop") == 0;
    int64_t scans = model_onnx_int(c->n, "num_scan_inputs", 0);
    int64_t carried = loop ? c->n->nin - 2 : c->n->nin - scans;

    if (!loop && c->n->opset < 9) /* an older Scan, with a batch in front */
        return;
    for (int k = 0; k < c->n->nout && c->n->nbodies == 1; k++) {
        const struct onnx_body *body = &c->n->bodies[0];
        int from = k + (loop ? 1 : 0);
        const struct onnx_shape *s;

        if (from >= body->nout)
            continue;
        s = &c->all[body->out[from]];
        OUT(c, k)->type = s->type;
        if (k < carried)
            model_onnx_set(OUT(c, k), s->rank, s->dim);
        else if (s->rank >= 0)
            model_onnx_set(OUT(c, k), s->rank + 1, NULL);
    }
}

/* Sequences, optionals, strings: outputs are not dense tensors we follow. */
void model_onnx_infer_sequence(struct onnx_call *c)
{
    (void)c;
}
