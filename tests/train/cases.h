/* The operators the runtime has, each in a few small shapes. */
#ifndef TESTS_TRAIN_CASES_H
#define TESTS_TRAIN_CASES_H

#include "calls.h"

// clang-format off
#define K(...) .kernel = {__VA_ARGS__}
#define Q(...) .stride = {__VA_ARGS__}
#define P(...) .pad = {__VA_ARGS__}, .pad_end = {__VA_ARGS__}
#define X(...) .nin = 1, .rank = {sizeof((int64_t[]){__VA_ARGS__}) / 8}, .dim = {{__VA_ARGS__}}
#define XX(r, ...) .nin = 2, .rank = {r, r}, .dim = {__VA_ARGS__}

static const struct op_case op_cases[] = {
    {"conv 3x3", "conv", X(3, 6, 5), {K(3, 3), P(1, 1), .features = 4}},
    {"conv 1x1 without bias", "conv", X(5, 4, 4), {K(1, 1), .features = 3, .no_bias = true}},
    {"conv stride 2", "conv", X(3, 7, 9), {K(3, 3), Q(2, 2), P(1, 1), .features = 4, .no_bias = true}},
    {"conv 5x3 unequal", "conv", X(2, 9, 8), {K(5, 3), Q(2, 1), P(2, 0), .features = 3}},
    {"conv even kernel, asymmetric pad", "conv", X(2, 7, 6), {K(2, 4), Q(2, 1), .pad = {0, 1}, .pad_end = {1, 2}, .features = 3}},
    {"conv stride beyond kernel", "conv", X(3, 9, 9), {K(1, 1), Q(2, 3), .features = 4, .no_bias = true}},
    {"conv dilated", "conv", X(2, 9, 9), {K(3, 3), P(2, 2), .dilation = {2, 2}, .features = 3, .no_bias = true}},
    {"conv grouped", "conv", X(4, 5, 5), {K(3, 3), P(1, 1), .groups = 2, .features = 6}},
    {"conv depthwise", "conv", X(6, 5, 5), {K(3, 3), P(1, 1), .groups = 6, .features = 6, .no_bias = true}},
    {"conv 1-D", "conv", X(3, 11), {K(3), Q(2), P(1), .features = 4}},
    {"conv 3-D", "conv", X(2, 4, 5, 4), {K(3, 2, 3), Q(1, 1, 2), P(1, 0, 1), .features = 3}},
    {"conv_transpose 2x2", "conv_transpose", X(3, 4, 3), {K(2, 2), Q(2, 2), .features = 2}},
    {"conv_transpose 3x3 overlapping", "conv_transpose", X(2, 4, 5), {K(3, 3), Q(2, 2), P(1, 1), .output_pad = {1, 1}, .features = 3, .no_bias = true}},
    {"conv_transpose grouped", "conv_transpose", X(4, 3, 3), {K(3, 3), Q(1, 1), P(1, 1), .groups = 2, .features = 4}},
    {"linear", "linear", X(7), {.features = 5}, .batch = 3},
    {"linear over tokens", "linear", X(4, 6), {.features = 3, .no_bias = true}},
    {"matmul", "matmul", XX(2, {3, 4}, {4, 5}), {.groups = 0}},
    {"matmul of batches", "matmul", XX(3, {2, 3, 4}, {2, 4, 2}), {.groups = 0}},
    {"batch_norm", "batch_norm", X(3, 4, 3), {.groups = 0}, .batch = 3},
    {"batch_norm of features", "batch_norm", X(4), {.groups = 0}, .batch = 5},
    {"batch_norm 3-D", "batch_norm", X(2, 3, 2, 2), {.groups = 0}},
    {"group_norm", "group_norm", X(4, 3, 3), {.groups = 2}},
    {"instance_norm", "instance_norm", X(3, 3, 3), {.groups = 0}},
    {"lrn", "lrn", X(7, 3, 3), {.window = 5, .alpha = 0.3}},
    {"lrn, even window", "lrn", X(5, 2, 2), {.window = 4, .beta = 0.5}},
    {"layer_norm", "layer_norm", X(4, 8), {.groups = 0}},
    {"layer_norm without bias", "layer_norm", X(4, 8), {.no_bias = true}},
    {"rms_norm", "rms_norm", X(4, 8), {.groups = 0}},
    {"rms_norm by head", "rms_norm", X(4, 8), {.features = 4}},
    {"max_pool", "max_pool", X(3, 6, 6), {K(2, 2), Q(2, 2)}},
    {"max_pool overlapping", "max_pool", X(2, 7, 7), {K(3, 3), Q(2, 2), P(1, 1)}},
    {"max_pool 3-D", "max_pool", X(2, 4, 4, 5), {K(2, 2, 2), Q(2, 2, 2)}},
    {"avg_pool", "avg_pool", X(3, 6, 6), {K(2, 2), Q(2, 2)}},
    {"avg_pool padded", "avg_pool", X(2, 7, 7), {K(3, 3), Q(2, 2), P(1, 1)}},
    {"avg_pool padded, counted", "avg_pool", X(2, 7, 7), {K(3, 3), Q(2, 2), P(1, 1), .count_pad = true}},
    {"global_avg_pool", "global_avg_pool", X(3, 4, 5), {.groups = 0}},
    {"global_max_pool", "global_max_pool", X(3, 4, 5), {.groups = 0}},
    {"adaptive_avg_pool", "adaptive_avg_pool", X(2, 7, 5), {.ndims = 2, .dims = {3, 2}}},
    {"flatten", "flatten", X(3, 2, 4), {.groups = 0}},
    {"reshape", "reshape", X(3, 2, 4), {.ndims = 2, .dims = {4, 6}}},
    {"squeeze", "squeeze", X(3, 1, 4), {.ndims = 1, .dims = {1}}},
    {"unsqueeze", "unsqueeze", X(3, 4), {.ndims = 1, .dims = {1}}},
    {"transpose", "transpose", X(3, 2, 4), {.ndims = 3, .dims = {2, 0, 1}}},
    {"transpose reversed", "transpose", X(3, 4), {.groups = 0}},
    {"concat", "concat", XX(3, {2, 3, 3}, {4, 3, 3}), {.axis = 0}},
    {"concat of features", "concat", XX(2, {3, 2}, {3, 5}), {.axis = 1}},
    {"split", "split", X(6, 3, 2), {.axis = 0, .ndims = 2, .dims = {2, 4}}},
    {"slice", "slice", X(3, 8), {.axis = 1, .ndims = 3, .dims = {1, 7, 2}}},
    {"pad", "pad", X(2, 4, 4), {.pad = {1, 2}, .pad_end = {0, 1}}},
    {"crop", "pad", X(2, 5, 5), {.pad = {-1, -1}, .pad_end = {-2, -1}}},
    {"resize", "resize", X(2, 2, 3), {.ndims = 2, .dims = {4, 7}}},
    {"class_token", "class_token", X(4, 3), {.groups = 0}},
    {"reduce_mean", "reduce_mean", X(3, 2, 4), {.ndims = 1, .dims = {1}}},
    {"reduce_sum", "reduce_sum", X(3, 4), {.ndims = 1, .dims = {0}, .keep_dims = true}},
    {"relu", "relu", X(3, 4, 4), {.groups = 0}},           {"relu6", "relu6", X(9), {.groups = 0}},
    {"gelu", "gelu", X(4, 6), {.groups = 0}},              {"silu", "silu", X(4, 6), {.groups = 0}},
    {"mish", "mish", X(9), {.groups = 0}},                 {"hard_swish", "hard_swish", X(9), {.groups = 0}},
    {"hard_sigmoid", "hard_sigmoid", X(9), {.groups = 0}}, {"sigmoid", "sigmoid", X(9), {.groups = 0}},
    {"tanh", "tanh", X(3, 3, 3), {.groups = 0}},           {"leaky_relu", "leaky_relu", X(9), {.groups = 0}},
    {"elu", "elu", X(9), {.groups = 0}},                   {"selu", "selu", X(9), {.groups = 0}},
    {"softplus", "softplus", X(9), {.groups = 0}},         {"softsign", "softsign", X(9), {.groups = 0}},
    {"exp", "exp", X(9), {.groups = 0}},                   {"log", "log", X(9), {.groups = 0}, .positive = true},
    {"sqrt", "sqrt", X(9), {.groups = 0}, .positive = true},
    {"reciprocal", "reciprocal", X(9), {.groups = 0}, .positive = true},
    {"erf", "erf", X(9), {.groups = 0}},                   {"sin", "sin", X(9), {.groups = 0}},
    {"cos", "cos", X(9), {.groups = 0}},                   {"abs", "abs", X(9), {.groups = 0}},
    {"neg", "neg", X(9), {.groups = 0}},                   {"identity", "identity", X(3, 2, 2), {.groups = 0}},
    {"cast", "cast", X(9), {.groups = 0}},                 {"dropout", "dropout", X(4, 9), {.groups = 0}},
    {"prelu", "prelu", X(3, 3, 3), {.groups = 0}},         {"scale", "scale", X(3, 3, 3), {.groups = 0}},
    {"scale by feature", "scale", X(3, 4), {.groups = 0}},
    {"softmax", "softmax", X(3, 5), {.axis = 1}},
    {"softmax of channels", "softmax", X(4, 2, 3), {.axis = 0}},
    {"log_softmax", "log_softmax", X(3, 5), {.axis = 1}},
    {"add", "add", XX(3, {3, 2, 2}, {3, 2, 2}), {.groups = 0}},
    {"add stretched", "add", XX(3, {3, 2, 4}, {3, 1, 1}), {.groups = 0}},
    {"add a weight", "add", X(3, 4), {.groups = 0}, .weight = 4},
    {"sub", "sub", XX(2, {3, 4}, {3, 4}), {.groups = 0}},
    {"mul", "mul", XX(2, {3, 4}, {3, 4}), {.groups = 0}},
    {"mul stretched", "mul", XX(3, {3, 2, 4}, {3, 1, 1}), {.groups = 0}},
    {"mul stretched, the other way round", "mul", XX(3, {3, 1, 1}, {3, 2, 4}), {.groups = 0}},
    {"mul a weight", "mul", X(3, 4), {.groups = 0}, .weight = 4},
    {"div", "div", XX(2, {3, 4}, {3, 4}), {.groups = 0}, .positive = true},
    {"max", "max", XX(2, {3, 4}, {3, 4}), {.groups = 0}},
    {"min", "min", XX(2, {3, 4}, {3, 4}), {.groups = 0}},
    {"mean", "mean", XX(2, {3, 4}, {3, 4}), {.groups = 0}},
    {"embedding", "embedding", X(5), {.vocab = 7, .features = 4}, .tokens = 7},
    {"position_embedding", "position_embedding", X(5, 4), {.vocab = 7, .features = 4}},
    {"rope", "rope", X(5, 8), {.groups = 0}},
    {"rope of a part of each head", "rope", X(5, 12), {.head_dim = 6, .features = 4}},
    {"slice_heads", "slice_heads", X(4, 15), {.heads = 3, .ndims = 2, .dims = {1, 4}}},
    {"join_heads", "join_heads", XX(2, {4, 6}, {4, 2}), {.heads = 3}},
    {"experts", "experts", XX(2, {5, 6}, {5, 4}), {.experts = 4, .topk = 2, .ffn = 3, .gated = true, .no_bias = true}},
    {"attention", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{5, 6}, {5, 6}, {5, 6}}, {.heads = 2, .head_dim = 3}},
    {"attention causal", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{6, 8}, {6, 8}, {6, 8}}, {.heads = 2, .head_dim = 4, .causal = true}},
    {"attention grouped", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{4, 8}, {4, 4}, {4, 6}}, {.heads = 4, .kv_heads = 2, .head_dim = 2, .v_head_dim = 3, .causal = true}},
    {"attention in a window", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{6, 4}, {6, 4}, {6, 4}}, {.heads = 1, .head_dim = 4, .causal = true, .window = 2}},
    {"attention across", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{3, 4}, {5, 4}, {5, 4}}, {.heads = 2, .head_dim = 2}},
    {"attention by distances", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{7, 6}, {7, 6}, {7, 6}}, {.heads = 3, .head_dim = 2, .scale = 1}, .weight = 8, .columns = 3},
    {"attention by distances, causal", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{9, 8}, {9, 4}, {9, 4}}, {.heads = 4, .kv_heads = 2, .head_dim = 2, .causal = true}, .weight = 4, .columns = 4},
};
#undef K
#undef Q
#undef P
#undef X
#undef XX
// clang-format on

enum { NCASES = sizeof op_cases / sizeof op_cases[0] };

#endif
