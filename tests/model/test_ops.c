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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_agree_with_values_worked_out_by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
