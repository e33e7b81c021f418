/* Operators: shapes, weights and FLOPs against values worked out by hand and
 * against loops that count. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

/* One node on inputs of the given shapes; what came out. */
struct result {
    enum pdl_status st;
    struct pdl_err err;
    const struct pdl_model *m;
    struct pdl_model_totals t;
};

struct shape {
    int rank;
    int64_t d[PDL_MAX_RANK];
};

static struct result apply(pdl_arena *a, const char *op,
                           const struct pdl_attr *attr, const struct shape *in,
                           int nin)
{
    struct result r = {.st = PDL_OK};
    pdl_build *b = pdl_build_begin(a, "one");
    int ids[8];

    for (int i = 0; i < nin; i++)
        ids[i] = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, in[i].rank,
                                  in[i].d);
    pdl_build_op(b, op, "n", attr, ids, nin);
    r.st = pdl_build_end(b, &r.m, &r.err);
    if (r.st == PDL_OK) {
        r.st = pdl_model_check(r.m, &r.err);
        if (r.st == PDL_OK)
            r.st = pdl_model_totals(r.m, &r.t, &r.err);
    }
    return r;
}

static const struct pdl_tensor *output(const struct result *r, int i)
{
    return &r->m->tensors[r->m->nodes[0].out[i]];
}

struct hand {
    const char *op;
    struct pdl_attr attr;
    int nin;
    struct shape in[3], out;
    int64_t parameters, buffers, flops;
};

// clang-format off
static const struct hand hands[] = {
    {"conv", {.features = 64, .kernel = {7, 7}, .stride = {2, 2},
              .pad = {3, 3}, .pad_end = {3, 3}, .no_bias = true}, 1,
     {{3, {3, 224, 224}}}, {3, {64, 112, 112}}, 9408, 0, 236027904},
    {"conv", {.features = 8, .kernel = {3}, .pad = {1}}, 1, {{2, {4, 10}}},
     {2, {8, 9}}, 104, 0, 2 * 8 * 9 * 4 * 3},
    {"conv", {.features = 32, .kernel = {3, 3}, .pad = {1, 1},
              .pad_end = {1, 1}, .groups = 32, .no_bias = true}, 1,
     {{3, {32, 8, 8}}}, {3, {32, 8, 8}}, 288, 0, 2 * 32 * 64 * 9},
    {"conv", {.features = 4, .kernel = {3, 3, 3}, .dilation = {2, 1, 1}}, 1,
     {{4, {2, 6, 5, 5}}}, {4, {4, 2, 3, 3}}, 220, 0, 2 * 4 * 18 * 2 * 27},
    {"conv_transpose", {.features = 5, .kernel = {2, 2}, .stride = {2, 2}}, 1,
     {{3, {3, 4, 4}}}, {3, {5, 8, 8}}, 65, 0, 2 * 3 * 16 * 5 * 4},
    {"conv_transpose", {.features = 6, .kernel = {3}, .stride = {2},
                        .pad = {1}, .pad_end = {1}, .output_pad = {1},
                        .groups = 2}, 1,
     {{2, {4, 5}}}, {2, {6, 10}}, 42, 0, 2 * 4 * 5 * 3 * 3},
    {"linear", {.features = 1000}, 1, {{1, {2048}}}, {1, {1000}}, 2049000, 0,
     4096000},
    {"linear", {.features = 7, .no_bias = true}, 1, {{2, {5, 3}}},
     {2, {5, 7}}, 21, 0, 210},
    {"matmul", {.groups = 0}, 2, {{3, {4, 5, 6}}, {3, {4, 6, 7}}}, {3, {4, 5, 7}}, 0, 0,
     2 * 4 * 5 * 6 * 7},
    {"matmul", {.groups = 0}, 2, {{2, {5, 6}}, {3, {4, 6, 7}}}, {3, {4, 5, 7}}, 0, 0,
     2 * 4 * 5 * 6 * 7},
    {"attention", {.heads = 8, .kv_heads = 2, .head_dim = 16}, 3,
     {{2, {10, 128}}, {2, {10, 32}}, {2, {10, 32}}}, {2, {10, 128}}, 0, 0,
     2 * 2 * 8 * 10 * 10 * 16},
    {"attention", {.heads = 4, .head_dim = 6, .v_head_dim = 5}, 3,
     {{2, {3, 24}}, {2, {7, 24}}, {2, {7, 20}}}, {2, {3, 20}}, 0, 0,
     2 * 4 * 3 * 7 * 11},
    {"embedding", {.vocab = 50257, .features = 768}, 1, {{1, {1024}}},
     {2, {1024, 768}}, 38597376, 0, 0},
    {"position_embedding", {.vocab = 1024, .features = 768}, 1, {{1, {512}}},
     {2, {512, 768}}, 786432, 0, 0},
    {"class_token", {.groups = 0}, 1, {{2, {196, 768}}}, {2, {197, 768}}, 768, 0, 0},
    {"experts", {.experts = 8, .topk = 2, .ffn = 30, .gated = true,
                 .no_bias = true}, 1, {{2, {5, 10}}}, {2, {5, 10}},
     8 * 3 * 300, 0, 2 * 5 * 2 * 3 * 300},
    {"experts", {.experts = 4, .topk = 1, .ffn = 6}, 1, {{2, {5, 3}}},
     {2, {5, 3}}, 4 * (36 + 9), 0, 2 * 5 * 36},
    {"batch_norm", {.groups = 0}, 1, {{3, {64, 7, 7}}}, {3, {64, 7, 7}}, 128, 128, 0},
    {"layer_norm", {.groups = 0}, 1, {{2, {9, 768}}}, {2, {9, 768}}, 1536, 0, 0},
    {"layer_norm", {.no_bias = true}, 1, {{2, {9, 8}}}, {2, {9, 8}}, 8, 0, 0},
    {"rms_norm", {.groups = 0}, 1, {{2, {9, 768}}}, {2, {9, 768}}, 768, 0, 0},
    {"rms_norm", {.features = 64}, 1, {{2, {9, 768}}}, {2, {9, 768}}, 64, 0, 0},
    {"group_norm", {.groups = 4}, 1, {{3, {8, 3, 3}}}, {3, {8, 3, 3}}, 16, 0, 0},
    {"instance_norm", {.groups = 0}, 1, {{4, {8, 3, 3, 3}}}, {4, {8, 3, 3, 3}}, 16, 0, 0},
    {"lrn", {.groups = 0}, 1, {{3, {8, 3, 3}}}, {3, {8, 3, 3}}, 0, 0, 0},
    {"prelu", {.groups = 0}, 1, {{3, {8, 3, 3}}}, {3, {8, 3, 3}}, 8, 0, 0},
    {"scale", {.groups = 0}, 1, {{2, {3, 768}}}, {2, {3, 768}}, 768, 0, 0},
    {"relu", {.groups = 0}, 1, {{3, {8, 3, 3}}}, {3, {8, 3, 3}}, 0, 0, 0},
    {"softmax", {.axis = 1}, 1, {{2, {8, 3}}}, {2, {8, 3}}, 0, 0, 0},
    {"add", {.groups = 0}, 2, {{3, {8, 3, 3}}, {3, {8, 1, 1}}}, {3, {8, 3, 3}}, 0, 0, 0},
    {"mul", {.groups = 0}, 2, {{1, {3}}, {3, {8, 2, 1}}}, {3, {8, 2, 3}}, 0, 0, 0},
    {"concat", {.axis = 0}, 3, {{2, {8, 3}}, {2, {1, 3}}, {2, {4, 3}}},
     {2, {13, 3}}, 0, 0, 0},
    {"split", {.axis = 1, .ndims = 2, .dims = {2, 5}}, 1, {{2, {3, 7}}},
     {2, {3, 2}}, 0, 0, 0},
    {"slice", {.axis = 1, .ndims = 3, .dims = {1, 6, 2}}, 1, {{2, {3, 7}}},
     {2, {3, 3}}, 0, 0, 0},
    {"reshape", {.ndims = 3, .dims = {4, -1, 2}}, 1, {{2, {8, 3}}},
     {3, {4, 3, 2}}, 0, 0, 0},
    {"flatten", {.groups = 0}, 1, {{3, {512, 7, 7}}}, {1, {25088}}, 0, 0, 0},
    {"flatten", {.axis = 1}, 1, {{3, {768, 14, 14}}}, {2, {768, 196}}, 0, 0, 0},
    {"transpose", {.ndims = 3, .dims = {2, 0, 1}}, 1, {{3, {5, 6, 7}}},
     {3, {7, 5, 6}}, 0, 0, 0},
    {"squeeze", {.ndims = 1, .dims = {2}}, 1, {{3, {1, 6, 1}}}, {2, {1, 6}},
     0, 0, 0},
    {"unsqueeze", {.ndims = 2, .dims = {0, 2}}, 1, {{1, {6}}}, {3, {1, 6, 1}},
     0, 0, 0},
    {"max_pool", {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1},
                  .pad_end = {1, 1}}, 1, {{3, {64, 112, 112}}},
     {3, {64, 56, 56}}, 0, 0, 0},
    {"max_pool", {.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = true}, 1,
     {{3, {1, 5, 4}}}, {3, {1, 3, 2}}, 0, 0, 0},
    {"avg_pool", {.kernel = {2}, .stride = {2}}, 1, {{2, {1, 5}}},
     {2, {1, 2}}, 0, 0, 0},
    {"global_avg_pool", {.groups = 0}, 1, {{3, {9, 7, 7}}}, {3, {9, 1, 1}}, 0, 0, 0},
    {"global_max_pool", {.groups = 0}, 1, {{2, {9, 7}}}, {2, {9, 1}}, 0, 0, 0},
    {"adaptive_avg_pool", {.ndims = 2, .dims = {6, 6}}, 1, {{3, {9, 7, 7}}},
     {3, {9, 6, 6}}, 0, 0, 0},
    {"resize", {.scale = 2}, 1, {{3, {9, 7, 5}}}, {3, {9, 14, 10}}, 0, 0, 0},
    {"resize", {.ndims = 2, .dims = {3, 4}}, 1, {{3, {9, 7, 5}}},
     {3, {9, 3, 4}}, 0, 0, 0},
    {"pad", {.pad = {1, 2}, .pad_end = {0, -1}}, 1, {{3, {9, 7, 5}}},
     {3, {9, 8, 6}}, 0, 0, 0},
    {"reduce_mean", {.ndims = 1, .dims = {1}}, 1, {{3, {9, 7, 5}}},
     {2, {9, 5}}, 0, 0, 0},
    {"reduce_sum", {.ndims = 2, .dims = {0, 2}, .keep_dims = true}, 1,
     {{3, {9, 7, 5}}}, {3, {1, 7, 1}}, 0, 0, 0},
    {"gather", {.axis = 1}, 2, {{3, {9, 7, 5}}, {2, {2, 3}}},
     {4, {9, 2, 3, 5}}, 0, 0, 0},
    {"gather", {.axis = 0}, 1, {{2, {9, 7}}}, {1, {7}}, 0, 0, 0},
    {"constant", {.ndims = 2, .dims = {3, 4}}, 0, {{0, {0}}}, {2, {3, 4}},
     0, 0, 0},
};
// clang-format on
enum { NHANDS = sizeof hands / sizeof hands[0] };

static void operators_agree_with_values_worked_out_by_hand(void **state)
{
    (void)state;
    for (int i = 0; i < NHANDS; i++) {
        const struct hand *h = &hands[i];
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct result r = apply(a, h->op, &h->attr, h->in, h->nin);

        if (r.st != PDL_OK)
            fail_msg("%s: %s", h->op, r.err.msg);
        assert_int_equal(output(&r, 0)->rank, h->out.rank);
        for (int d = 0; d < h->out.rank; d++)
            if (output(&r, 0)->dim[d] != h->out.d[d])
                fail_msg("%s (row %d): dim %d is %lld", h->op, i, d,
                         (long long)output(&r, 0)->dim[d]);
        if (r.t.parameters != h->parameters || r.t.buffers != h->buffers ||
            r.t.forward_flops != h->flops)
            fail_msg("%s (row %d): %lld parameters, %lld buffers, %lld flops",
                     h->op, i, (long long)r.t.parameters,
                     (long long)r.t.buffers, (long long)r.t.forward_flops);
        pdl_arena_destroy(a);
    }
}

/* ---- counted, not calculated ------------------------------------------ */

static int64_t pick(struct pdl_rng *r, int64_t low, int64_t high)
{
    return low + (int64_t)pdl_rng_below(r, (uint64_t)(high - low + 1));
}

/* Windows along one dimension, placed one after the other. */
static int64_t place_windows(const struct pdl_attr *a, int i, int64_t x)
{
    int64_t n = 0, span = (a->kernel[i] - 1) * a->dilation[i] + 1;

    for (int64_t p = -a->pad[i];; p += a->stride[i], n++) {
        bool whole = p + span <= x + a->pad_end[i];
        bool starts = a->ceil_mode && n > 0 && p < x &&
                      p - a->stride[i] + span < x + a->pad_end[i];

        if (!whole && !starts)
            return n;
        if (!whole)
            return n + 1;
    }
}

static struct pdl_attr random_window(struct pdl_rng *r, int spatial)
{
    struct pdl_attr a = {.groups = pick(r, 1, 3)};

    for (int i = 0; i < spatial; i++) {
        a.kernel[i] = pick(r, 1, 3);
        a.stride[i] = pick(r, 1, 3);
        a.dilation[i] = pick(r, 1, 2);
        a.pad[i] = pick(r, 0, 2);
        a.pad_end[i] = pick(r, 0, 2);
    }
    return a;
}

/* One multiply-add after the other: outputs x channels of a group x kernel. */
static int64_t count_conv(const struct pdl_attr *a, const struct pdl_tensor *y,
                          int64_t channels)
{
    int64_t n = 0, k = 1, s = 1;

    for (int i = 1; i < y->rank; i++) {
        k *= a->kernel[i - 1];
        s *= y->dim[i];
    }
    for (int64_t f = 0; f < y->dim[0]; f++)
        for (int64_t c = 0; c < channels / a->groups; c++)
            for (int64_t at = 0; at < s; at++)
                for (int64_t tap = 0; tap < k; tap++)
                    n += 2;
    return n;
}

static void convolutions_agree_with_counting(void **state)
{
    struct pdl_rng r = {.key = 7};
    int done = 0;

    (void)state;
    while (done < 400) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        int spatial = (int)pick(&r, 1, 3);
        struct pdl_attr attr = random_window(&r, spatial);
        struct shape in = {.rank = spatial + 1};
        struct result one;
        int64_t want[3];
        bool fits = true;

        in.d[0] = attr.groups * pick(&r, 1, 3);
        attr.features = attr.groups * pick(&r, 1, 3);
        for (int i = 0; i < spatial; i++) {
            in.d[i + 1] = pick(&r, 1, 7);
            want[i] = place_windows(&attr, i, in.d[i + 1]);
            fits = fits && want[i] > 0;
        }
        one = apply(a, "conv", &attr, &in, 1);
        assert_true((one.st == PDL_OK) == fits);
        if (fits) {
            for (int i = 0; i < spatial; i++)
                assert_int_equal(output(&one, 0)->dim[i + 1], want[i]);
            assert_int_equal(one.t.forward_flops,
                             count_conv(&attr, output(&one, 0), in.d[0]));
            done++;
        }
        pdl_arena_destroy(a);
    }
}

static void pools_agree_with_counting(void **state)
{
    struct pdl_rng r = {.key = 8};

    (void)state;
    for (int n = 0; n < 2000; n++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_attr attr = random_window(&r, 1);
        struct shape in = {.rank = 2, .d = {3, pick(&r, 1, 9)}};
        struct result one;
        int64_t want;

        attr.groups = 0;
        attr.ceil_mode = n % 2;
        want = place_windows(&attr, 0, in.d[1]);
        one = apply(a, n % 3 ? "max_pool" : "avg_pool", &attr, &in, 1);
        assert_true((one.st == PDL_OK) == (want > 0));
        if (one.st == PDL_OK && output(&one, 0)->dim[1] != want)
            fail_msg("x %lld k %lld s %lld d %lld p %lld,%lld ceil %d: %lld, "
                     "counted %lld",
                     (long long)in.d[1], (long long)attr.kernel[0],
                     (long long)attr.stride[0], (long long)attr.dilation[0],
                     (long long)attr.pad[0], (long long)attr.pad_end[0],
                     attr.ceil_mode, (long long)output(&one, 0)->dim[1],
                     (long long)want);
        pdl_arena_destroy(a);
    }
}

/* A transposed convolution scatters: the last place anything lands, and one
 * multiply-add for every tap of every input. */
static void transposed_convolutions_agree_with_counting(void **state)
{
    struct pdl_rng r = {.key = 9};

    (void)state;
    for (int n = 0; n < 1000; n++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_attr attr = random_window(&r, 1);
        struct shape in = {.rank = 2};
        int64_t last = 0, flops = 0, want;
        struct result one;

        in.d[0] = attr.groups * pick(&r, 1, 2);
        in.d[1] = pick(&r, 1, 6);
        attr.features = attr.groups * pick(&r, 1, 2);
        attr.output_pad[0] = pick(&r, 0, 1);
        for (int64_t c = 0; c < in.d[0]; c++)
            for (int64_t x = 0; x < in.d[1]; x++)
                for (int64_t f = 0; f < attr.features / attr.groups; f++)
                    for (int64_t k = 0; k < attr.kernel[0]; k++) {
                        int64_t at = x * attr.stride[0] + k * attr.dilation[0];

                        last = at > last ? at : last;
                        flops += 2;
                    }
        want = last + 1 + attr.output_pad[0] - attr.pad[0] - attr.pad_end[0];
        one = apply(a, "conv_transpose", &attr, &in, 1);
        assert_true((one.st == PDL_OK) == (want >= 0));
        if (one.st == PDL_OK) {
            assert_int_equal(output(&one, 0)->dim[1], want);
            assert_int_equal(one.t.forward_flops, flops);
        }
        pdl_arena_destroy(a);
    }
}

static int64_t count_attention(const struct pdl_attr *a, int64_t t, int64_t s)
{
    int64_t n = 0;

    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t i = 0; i < t; i++)
            for (int64_t j = 0; j < s; j++) {
                for (int64_t d = 0; d < a->head_dim; d++)
                    n += 2; /* score */
                for (int64_t d = 0; d < a->v_head_dim; d++)
                    n += 2; /* weighted value */
            }
    return n;
}

static int64_t count_experts(const struct pdl_attr *a, int64_t t, int64_t h)
{
    int64_t n = 0;

    for (int64_t token = 0; token < t; token++)
        for (int64_t e = 0; e < a->topk; e++)
            for (int64_t f = 0; f < a->ffn; f++)
                for (int64_t i = 0; i < h; i++)
                    n += 2 * (a->gated ? 3 : 2);
    return n;
}

static void attention_and_experts_agree_with_counting(void **state)
{
    struct pdl_rng r = {.key = 10};

    (void)state;
    for (int n = 0; n < 200; n++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        int64_t kv = pick(&r, 1, 3), t = pick(&r, 1, 5), s = pick(&r, 1, 5);
        struct pdl_attr attr = {.heads = kv * pick(&r, 1, 3),
                                .kv_heads = kv,
                                .head_dim = pick(&r, 1, 4),
                                .v_head_dim = pick(&r, 1, 4),
                                .causal = n % 2,
                                .window = n % 3};
        struct pdl_attr moe = {.experts = 5,
                               .topk = pick(&r, 1, 5),
                               .ffn = pick(&r, 1, 6),
                               .gated = n % 2};
        struct shape in[3] = {{2, {t, attr.heads * attr.head_dim}},
                              {2, {s, kv * attr.head_dim}},
                              {2, {s, kv * attr.v_head_dim}}};
        struct result one = apply(a, "attention", &attr, in, 3);

        assert_int_equal(one.st, PDL_OK);
        assert_int_equal(one.t.forward_flops, count_attention(&attr, t, s));
        one = apply(a, "experts", &moe, in, 1);
        assert_int_equal(one.st, PDL_OK);
        assert_int_equal(one.t.forward_flops,
                         count_experts(&moe, t, in[0].d[1]));
        pdl_arena_destroy(a);
    }
}

/* ---- what must be refused --------------------------------------------- */

static const struct {
    const char *op;
    struct pdl_attr attr;
    int nin;
    struct shape in[3];
    const char *msg;
} nonsense[] = {
    {"conv",
     {.features = 4, .kernel = {3, 3}},
     1,
     {{4, {1, 8, 8, 8}}},
     "n (conv): the kernel must be at least 1 in each of 3 dimensions"},
    {"conv",
     {.features = 4, .kernel = {3, 3}},
     1,
     {{2, {1, 8}}},
     "n (conv): the kernel has more dimensions than the input"},
    {"conv",
     {.features = 4, .kernel = {3}, .groups = 3},
     1,
     {{2, {3, 8}}},
     "n (conv): 3 groups do not divide 3 input and 4 output channels"},
    {"conv",
     {.kernel = {3}},
     1,
     {{2, {3, 8}}},
     "n (conv): needs features (output channels)"},
    {"linear",
     {.features = 3},
     1,
     {{0, {0}}},
     "n (linear): needs an input of rank 1 or more"},
    {"matmul",
     {.groups = 0},
     2,
     {{2, {3, 4}}, {2, {5, 6}}},
     "n (matmul): cannot multiply [3,4] by [5,6]"},
    {"matmul",
     {.groups = 0},
     1,
     {{2, {3, 4}}},
     "n (matmul): takes 2 to 2 inputs, found 1"},
    {"attention",
     {.heads = 2, .kv_heads = 3, .head_dim = 1},
     3,
     {{2, {3, 2}}, {2, {3, 3}}, {2, {3, 3}}},
     "n (attention): 3 kv_heads do not divide 2 heads"},
    {"add",
     {.groups = 0},
     2,
     {{2, {3, 4}}, {2, {3, 5}}},
     "n (add): shapes [3,4] and [3,5] do not fit"},
    {"concat",
     {.axis = 0},
     2,
     {{2, {3, 4}}, {2, {3, 5}}},
     "n (concat): cannot join [3,4] and [3,5] at axis 0"},
    {"concat",
     {.axis = 2},
     2,
     {{2, {3, 4}}, {2, {3, 4}}},
     "n (concat): axis 2 is outside rank 2"},
    {"split",
     {.axis = 0, .ndims = 3, .dims = {3, 1, 0}},
     1,
     {{1, {3}}},
     "n (split): the parts do not add up to the 3 along axis 0"},
    {"slice",
     {.axis = 0, .ndims = 2, .dims = {0, 4}},
     1,
     {{1, {3}}},
     "n (slice): dims must be start, end and step within the 3 along axis "
     "0"},
    {"reshape",
     {.ndims = 2, .dims = {-1, 5}},
     1,
     {{2, {3, 4}}},
     "n (reshape): 12 elements cannot be cut into pieces of 5"},
    {"transpose",
     {.ndims = 2, .dims = {0, 0}},
     1,
     {{2, {3, 4}}},
     "n (transpose): dims is not a permutation"},
    {"squeeze",
     {.ndims = 1, .dims = {0}},
     1,
     {{2, {3, 4}}},
     "n (squeeze): axis 0 is 3, not 1"},
    {"experts",
     {.experts = 2, .topk = 3, .ffn = 4},
     1,
     {{2, {3, 4}}},
     "n (experts): topk must be between 1 and 2, the experts"},
    {"position_embedding",
     {.vocab = 2, .features = 4},
     1,
     {{1, {3}}},
     "n (position_embedding): 3 positions, but the table has 2 rows"},
    {"other",
     {.groups = 0},
     1,
     {{1, {3}}},
     "n (other): needs its output shapes spelled out"},
    {"embedding",
     {.vocab = (int64_t)1 << 40, .features = 1 << 30},
     1,
     {{1, {3}}},
     "n.weight: [1099511627776,1073741824] is no shape, or too large"},
    {"batch_norm",
     {.groups = 0},
     1,
     {{0, {0}}},
     "n (batch_norm): needs an input [C,...]"},
};

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct result r = apply(a, nonsense[i].op, &nonsense[i].attr,
                                nonsense[i].in, nonsense[i].nin);

        assert_int_equal(r.st, PDL_EINVAL);
        assert_string_equal(r.err.msg, nonsense[i].msg);
        pdl_arena_destroy(a);
    }
}

/* Every operator on shapes and attributes from the edges of the numbers:
 * refused, or sound and counted. The sanitizers look on. */
static void numbers_at_the_edge_are_refused_or_right(void **state)
{
    static const int64_t edges[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    -1,
                                    (int64_t)1 << 31,
                                    ((int64_t)1 << 31) + 1,
                                    (int64_t)1 << 62,
                                    INT64_MAX,
                                    INT64_MIN};
    enum { N = sizeof edges / sizeof edges[0] };
    struct pdl_rng r = {.key = 11};
    const struct pdl_op *op;
    int sound = 0;

    (void)state;
    for (int round = 0; round < 400; round++)
        for (int k = 0; (op = pdl_op_at(k)) != NULL; k++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            int nin = (int)pick(&r, op->min_in, op->min_in + 1);
            int top = round % 4 ? 5 : N;
            struct pdl_attr attr = {.no_bias = round % 2};
            struct shape in[8];
            struct result one;
#define EDGE edges[pdl_rng_below(&r, (uint64_t)top)]
            for (int i = 0; i < PDL_MAX_SPATIAL; i++) {
                attr.kernel[i] = EDGE;
                attr.stride[i] = EDGE;
                attr.dilation[i] = EDGE;
                attr.pad[i] = EDGE;
                attr.pad_end[i] = EDGE;
                attr.output_pad[i] = EDGE;
            }
            attr.features = EDGE;
            attr.groups = EDGE;
            attr.vocab = EDGE;
            attr.heads = EDGE;
            attr.kv_heads = EDGE;
            attr.head_dim = EDGE;
            attr.experts = EDGE;
            attr.topk = EDGE;
            attr.ffn = EDGE;
            attr.axis = EDGE;
            attr.scale = (double)EDGE;
            attr.ceil_mode = round % 3 == 0;
            attr.gated = round % 5 == 0;
            attr.ndims = (int)pick(&r, 0, PDL_MAX_RANK);
            for (int i = 0; i < PDL_MAX_RANK; i++)
                attr.dims[i] = EDGE;
            for (int i = 0; i < nin; i++) {
                in[i].rank = (int)pick(&r, 0, round % 2 ? 4 : PDL_MAX_RANK);
                for (int d = 0; d < in[i].rank; d++)
                    in[i].d[d] = EDGE;
            }
#undef EDGE
            one = apply(a, op->name, &attr, in, nin);
            if (one.st == PDL_OK) {
                assert_true(one.t.parameters >= 0 && one.t.forward_flops >= 0);
                sound++;
            } else {
                assert_int_equal(one.st, PDL_EINVAL);
                assert_true(*one.err.msg);
            }
            pdl_arena_destroy(a);
        }
    assert_true(sound > 2000);
}

static void the_table_is_well_formed(void **state)
{
    const struct pdl_op *op;
    int n = 0;

    (void)state;
    for (; (op = pdl_op_at(n)) != NULL; n++) {
        assert_true(*op->name && *op->summary);
        assert_true(op->min_in >= 0 && op->max_in >= op->min_in);
        assert_ptr_equal(pdl_op_find(op->name), op);
    }
    assert_true(n > 80);
    assert_null(pdl_op_find("nothing"));
    assert_null(pdl_op_at(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_well_formed),
        cmocka_unit_test(operators_agree_with_values_worked_out_by_hand),
        cmocka_unit_test(convolutions_agree_with_counting),
        cmocka_unit_test(pools_agree_with_counting),
        cmocka_unit_test(transposed_convolutions_agree_with_counting),
        cmocka_unit_test(attention_and_experts_agree_with_counting),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(numbers_at_the_edge_are_refused_or_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
