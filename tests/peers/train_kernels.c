/* Writes operands and results of every kernel case of every backend, and runs
 * of the optimizers, as lines of JSON for tests/peers/train_torch.py. */
#include "../train/cases.h"
#include "train/optim/optim.h"

static bool to_stdout(void *ctx, const char *data, size_t len)
{
    (void)ctx;
    return fwrite(data, 1, len, stdout) == len;
}

/* In logical order (N,C,H,W), whatever the storage. */
static void write_value(struct pdl_json *j, const struct value *v)
{
    int64_t i[PDL_BOX_DIMS];

    pdl_json_object(j);
    pdl_json_key(j, "shape");
    pdl_json_flat(j);
    for (int d = 0; d < v->a.box.ndims; d++)
        pdl_json_int(j, v->a.box.hi[d]);
    pdl_json_end(j);
    pdl_json_key(j, "data");
    pdl_json_flat(j);
    memcpy(i, v->a.box.lo, sizeof i);
    if (v->n > 0)
        do
            pdl_json_num(j, get(v, at_index(v, i)));
        while (next_index(&v->a.box, i));
    pdl_json_end(j);
    pdl_json_end(j);
}

static void write_values(struct pdl_json *j, const char *key,
                         const struct value *v, int n)
{
    pdl_json_key(j, key);
    pdl_json_array(j);
    for (int i = 0; i < n; i++)
        write_value(j, &v[i]);
    pdl_json_end(j);
}

static void write_ints(struct pdl_json *j, const char *key, const int64_t *v,
                       int n)
{
    pdl_json_key(j, key);
    pdl_json_flat(j);
    for (int i = 0; i < n; i++)
        pdl_json_int(j, v[i]);
    pdl_json_end(j);
}

static void write_attr(struct pdl_json *j, const struct pdl_node *n)
{
    const struct pdl_attr *a = &n->attr;
    double alpha = a->alpha > 0 ? a->alpha : 1e-4;
    double beta = a->beta > 0 ? a->beta : 0.75;

    (void)pdl_function_numbers(n, &alpha, &beta);
    write_ints(j, "kernel", a->kernel, 3);
    write_ints(j, "stride", a->stride, 3);
    write_ints(j, "dilation", a->dilation, 3);
    write_ints(j, "pad", a->pad, 3);
    write_ints(j, "pad_end", a->pad_end, 3);
    write_ints(j, "output_pad", a->output_pad, 3);
    write_ints(j, "dims", a->dims, a->ndims);
    pdl_json_kint(j, "groups", a->groups > 0 ? a->groups : 1);
    pdl_json_kint(j, "axis", a->axis);
    pdl_json_kint(j, "topk", a->topk);
    pdl_json_kint(j, "heads", a->heads);
    pdl_json_kint(j, "head_dim", a->head_dim);
    pdl_json_kint(j, "kv_heads", a->kv_heads ? a->kv_heads : a->heads);
    pdl_json_kint(j, "features", a->features);
    pdl_json_kint(j, "window", a->window);
    pdl_json_knum(j, "scale", a->scale);
    pdl_json_knum(j, "alpha", alpha);
    pdl_json_knum(j, "given_alpha", a->alpha);
    pdl_json_knum(j, "given_beta", a->beta);
    pdl_json_knum(j, "offset", (double)a->offset);
    pdl_json_knum(j, "beta", beta);
    pdl_json_knum(j, "epsilon", a->epsilon);
    pdl_json_knum(j, "theta", a->theta > 0 ? a->theta : 10000);
    pdl_json_knum(j, "offset", a->offset);
    pdl_json_kbool(j, "by_tanh", a->by_tanh);
    pdl_json_kbool(j, "causal", a->causal);
    pdl_json_kbool(j, "count_pad", a->count_pad);
    pdl_json_kbool(j, "keep_dims", a->keep_dims);
}

static void write_case(struct backend *b, const struct op_case *c,
                       struct pdl_sink *sink)
{
    struct pdl_json j;
    struct one_op o;
    struct operands p;

    one_op_open(&o, c);
    operands_open(&p, &o, PDL_F32);
    add_aux(b, &p, &o);
    for (int pass = 0; pass < 3; pass++)
        run_pass(b, &p, &o, (enum pdl_pass)pass);
    pdl_json_init(&j, sink);
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kstr(&j, "backend", b->b->name);
    pdl_json_kstr(&j, "name", c->name);
    pdl_json_kstr(&j, "op", c->op);
    pdl_json_kint(&j, "apart", c->apart > 0 ? c->apart : 1);
    write_attr(&j, o.node);
    write_values(&j, "x", p.x, p.nx);
    write_values(&j, "w", p.w, p.nw);
    write_values(&j, "y", p.y, p.ny);
    write_values(&j, "dy", p.dy, p.ny);
    write_values(&j, "dx", p.dx, p.learns_x ? p.nx : 0);
    write_values(&j, "dw", p.dw, p.nw);
    pdl_json_end(&j);
    operands_close(&p);
    one_op_close(&o);
}

/* Ten steps on 50 numbers; gradient t of element i is cos(i * t) + w / 2. */
static void write_optimizer(const struct train_optimizer *o, int variant,
                            struct pdl_sink *sink)
{
    struct train_hyper h = o->defaults;
    float w[50], g[50], s0[50] = {0}, s1[50] = {0};
    struct train_shard x = {.n = 50,
                            .dtype = PDL_F32,
                            .grad_dtype = PDL_F32,
                            .w = w,
                            .g = g,
                            .state = {s0, s1}};
    struct pdl_json j;

    h.weight_decay = variant > 0 ? 0.05 : 0;
    h.nesterov = variant == 2;
    for (int i = 0; i < 50; i++)
        w[i] = (float)sin(i);
    for (int t = 1; t <= 10; t++) {
        struct train_step step = {t, 0.03, 1};
        double sums[TRAIN_NORMS] = {0};

        for (int i = 0; i < 50; i++)
            g[i] = (float)(cos(i * t) + (double)w[i] / 2);
        if (o->norms)
            o->norms(&h, &step, &x, sums);
        o->apply(&h, &step, &x, sums);
    }
    pdl_json_init(&j, sink);
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kstr(&j, "optimizer", o->name);
    pdl_json_kint(&j, "variant", variant);
    pdl_json_key(&j, "w");
    pdl_json_flat(&j);
    for (int i = 0; i < 50; i++)
        pdl_json_num(&j, (double)w[i]);
    pdl_json_end(&j);
    pdl_json_end(&j);
}

int main(void)
{
    struct pdl_sink sink = {.write = to_stdout};

    for (int k = 0; train_backend_at(k); k++) {
        struct backend b;

        backend_open(&b, train_backend_at(k));
        for (int i = 0; i < NCASES; i++)
            write_case(&b, &op_cases[i], &sink);
        backend_close(&b);
    }
    for (int i = 0; train_optimizer_at(i); i++)
        for (int v = 0; v < 3; v++)
            write_optimizer(train_optimizer_at(i), v, &sink);
    return sink.failed ? 1 : 0;
}
