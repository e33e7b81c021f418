/* Kernels of one training step, layer by layer: CPU time of each pass of each
 * node of a model on one rank, without the executor around them.
 *
 *   train_layers MODEL BATCH [BACKEND [REPEATS [bf16]]]
 *
 * Prints one line for each kind of operator and pass, the slowest layers, and
 * the sum. Names of implementations show what runs. */
#include "train/backends/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct timing {
    const char *node, *op, *implementation;
    int pass;
    double s;
    int64_t flops;
};

struct bench {
    pdl_arena *arena;
    const struct pdl_model *m;
    const struct train_backend *b;
    void *state;
    int64_t batch;
    int repeats;
    enum pdl_dtype dtype;
    struct timing *t;
    int n;
};

static const char *const passes[] = {"forward", "data", "weights"};

static struct train_array array_of(const struct bench *b, int tensor,
                                   bool activation)
{
    const struct pdl_tensor *t = &b->m->tensors[tensor];
    bool whole = t->dtype >= PDL_I8 && t->dtype <= PDL_U64;
    struct train_array a = {.dtype = whole ? PDL_I32 : b->dtype};

    a.box.ndims = t->rank + activation;
    a.box.hi[0] = b->batch;
    for (int d = 0; d < t->rank; d++)
        a.box.hi[d + activation] = t->dim[d];
    a.channels_last = activation && t->rank >= 3;
    return a;
}

static void *buffer(const struct train_array *a)
{
    int64_t n = train_array_bytes(a);
    float *p = aligned_alloc(64, (size_t)(n + 127) / 64 * 64);

    if (!p || n < 0) {
        fprintf(stderr, "out of memory\n");
        exit(4);
    }
    memset(p, 0, (size_t)n);
    for (int64_t i = 0; a->dtype == PDL_F32 && i < n / 4; i++)
        p[i] = (float)(i * 7919 % 1009) / 1009 - 0.3f;
    for (int64_t i = 0; a->dtype == PDL_BF16 && i < n / 2; i++)
        ((uint16_t *)(void *)p)[i] = (uint16_t)(0x3e00 + i * 7919 % 255);
    return p;
}

struct call {
    struct train_call c;
    struct train_array in[80], out[80];
    void *pin[80], *pout[80];
};

static void add(struct call *k, bool out, const struct train_array *a, void *p)
{
    int *n = out ? &k->c.nout : &k->c.nin;

    (out ? k->out : k->in)[*n] = *a;
    (out ? k->pout : k->pin)[(*n)++] = p;
}

static void measure(struct bench *b, struct call *k, int64_t repeat)
{
    struct train_kernel *kernel;
    struct train_moment when = {.again = true};
    struct pdl_err err = {{0}, {0}};
    void *scratch;
    double best = 1e30;

    if (k->c.nout == 0)
        return;
    k->c.in = k->in;
    k->c.out = k->out;
    if (b->b->make(b->state, &k->c, &kernel, &err) != PDL_OK) {
        fprintf(stderr, "%s\n", err.msg);
        exit(3);
    }
    scratch =
        aligned_alloc(64, (size_t)(kernel->scratch_bytes + 127) / 64 * 64);
    for (int i = 0; i <= b->repeats && scratch; i++) {
        double s = pdl_cpu_s();

        if (kernel->run(kernel, k->pin, k->pout, scratch, &when, &err) !=
            PDL_OK)
            exit(5);
        s = pdl_cpu_s() - s;
        best = s < best && i > 0 ? s : best;
    }
    free(scratch);
    b->t[b->n++] = (struct timing){k->c.node->name,        k->c.node->op->name,
                                   kernel->implementation, (int)k->c.pass,
                                   best * (double)repeat,  0};
}

/* All arrays of a node; gradients are like what they are gradients of. */
struct node_arrays {
    struct train_array x[16], w[8], y[16], aux;
    void *px[16], *pw[8], *py[16], *paux, *pd[16], *pdw[8], *pdy[16];
    bool has_aux;
};

static void put(struct call *k, bool out, const struct train_array *a,
                void *const *p, int n)
{
    for (int i = 0; i < n; i++)
        add(k, out, &a[i], p[i]);
}

static void run_node(struct bench *b, const struct pdl_node *n)
{
    static struct node_arrays v;
    static struct call k;
    int64_t repeat = pdl_node_repeat(b->m, (int)(n - b->m->nodes));
    bool bias = n->nweights > 1 && (!strcmp(n->op->name, "conv") ||
                                    !strcmp(n->op->name, "linear") ||
                                    !strcmp(n->op->name, "conv_transpose"));

    memset(&v, 0, sizeof v);
    for (int i = 0; i < n->nin; i++) {
        v.x[i] = array_of(b, n->in[i], true);
        v.px[i] = buffer(&v.x[i]);
        v.pd[i] = buffer(&v.x[i]);
    }
    for (int i = 0; i < n->nweights; i++) {
        v.w[i] = array_of(b, n->weights[i], false);
        v.pw[i] = buffer(&v.w[i]);
        v.pdw[i] = buffer(&v.w[i]);
    }
    for (int i = 0; i < n->nout; i++) {
        v.y[i] = array_of(b, n->out[i], true);
        v.py[i] = buffer(&v.y[i]);
        v.pdy[i] = buffer(&v.y[i]);
    }
    k = (struct call){.c = {.model = b->m, .node = n}};
    put(&k, false, v.x, v.px, n->nin);
    put(&k, false, v.w, v.pw, n->nweights);
    put(&k, true, v.y, v.py, n->nout);
    k.c.in = k.in;
    k.c.out = k.out;
    v.has_aux = b->b->aux(&k.c, &v.aux) != TRAIN_AUX_NONE;
    if (v.has_aux) {
        v.paux = buffer(&v.aux);
        add(&k, true, &v.aux, v.paux);
    }
    measure(b, &k, repeat);

    k = (struct call){
        .c = {.model = b->m, .node = n, .pass = PDL_BACKWARD_WEIGHTS}};
    put(&k, false, v.x, v.px, n->nin);
    put(&k, false, v.y, v.pdy, n->nout);
    put(&k, false, &v.aux, &v.paux, v.has_aux);
    for (int i = 0; i < n->nweights; i++)
        if (b->m->tensors[n->weights[i]].kind == PDL_TENSOR_WEIGHT)
            add(&k, true, &v.w[i], v.pdw[i]);
    measure(b, &k, repeat);

    k = (struct call){
        .c = {.model = b->m, .node = n, .pass = PDL_BACKWARD_DATA}};
    put(&k, false, v.y, v.pdy, n->nout);
    put(&k, false, v.w, v.pw, bias ? 1 : n->nweights);
    if (n->op->flags & PDL_OP_SAVES_X)
        put(&k, false, v.x, v.px, n->nin);
    if (n->op->flags & (PDL_OP_SAVES_Y | PDL_OP_SAVES_MASK))
        put(&k, false, v.y, v.py, n->nout);
    put(&k, false, &v.aux, &v.paux, v.has_aux);
    for (int i = 0; i < n->nin; i++)
        if (train_wants_grad(b->m, n->in[i]))
            add(&k, true, &v.x[i], v.pd[i]);
    if (strcmp(n->op->name, "add") != 0) /* the plan hands dy on */
        measure(b, &k, repeat);
    for (int i = 0; i < 16; i++) {
        free(v.px[i]);
        free(v.pd[i]);
        free(v.py[i]);
        free(v.pdy[i]);
    }
    for (int i = 0; i < 8; i++) {
        free(v.pw[i]);
        free(v.pdw[i]);
    }
    free(v.paux);
}

static int slower(const void *a, const void *b)
{
    double d = ((const struct timing *)b)->s - ((const struct timing *)a)->s;

    return d > 0 ? 1 : d < 0 ? -1 : 0;
}

static void report(struct bench *b, int most)
{
    double total = 0, sum[3] = {0};

    qsort(b->t, (size_t)b->n, sizeof *b->t, slower);
    for (int i = 0; i < b->n; i++) {
        total += b->t[i].s;
        sum[b->t[i].pass] += b->t[i].s;
    }
    for (int i = 0; i < b->n && i < most; i++)
        printf("%8.3f ms  %-28s %-14s %-8s %s\n", 1e3 * b->t[i].s, b->t[i].node,
               b->t[i].op, passes[b->t[i].pass], b->t[i].implementation);
    for (int i = 0; i < b->n; i++) { /* by operator */
        double s = 0;

        if (!b->t[i].op)
            continue;
        for (int j = b->n - 1; j >= i; j--)
            if (b->t[j].op && strcmp(b->t[j].op, b->t[i].op) == 0) {
                s += b->t[j].s;
                if (j > i)
                    b->t[j].op = NULL;
            }
        printf("%8.3f ms  %5.1f %%  %s\n", 1e3 * s, 100 * s / total,
               b->t[i].op);
    }
    printf("%8.3f ms  forward %.1f, data %.1f, weights %.1f; %.2f samples/s\n",
           1e3 * total, 1e3 * sum[0], 1e3 * sum[1], 1e3 * sum[2],
           (double)b->batch / total);
}

int main(int argc, char **argv)
{
    struct pdl_err err = {{0}, {0}};
    struct bench b = {.arena = pdl_arena_create((size_t)8 << 30),
                      .batch = argc > 2 ? strtol(argv[2], NULL, 10) : 1,
                      .repeats = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 3};

    if (argc < 3) {
        fprintf(stderr, "usage: train_layers MODEL BATCH [BACKEND [N]]\n");
        return 2;
    }
    b.dtype = argc > 5 && !strcmp(argv[5], "bf16") ? PDL_BF16 : PDL_F32;
    b.b = train_backend_find(argc > 3 ? argv[3] : "cpu");
    if (!b.b || pdl_model_load(b.arena, argv[1], NULL, &b.m, &err) != PDL_OK ||
        b.b->open(b.arena, &b.state, &err) != PDL_OK) {
        fprintf(stderr, "%s\n", b.b ? err.msg : "no such backend");
        return 3;
    }
    b.t = PDL_NEW(b.arena, struct timing, 3 * b.m->nnodes + 1);
    for (int i = 0; b.t && i < b.m->nnodes; i++)
        run_node(&b, &b.m->nodes[i]);
    report(&b, 25);
    b.b->close(b.state);
    pdl_arena_destroy(b.arena);
    return 0;
}
