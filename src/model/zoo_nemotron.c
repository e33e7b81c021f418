/* SPDX-License-Identifier: Apache-2.0
 *
 * Nemotron 3 (NVIDIA 2025): Mamba-2, attention and mixtures of experts, each a
 * residual branch of its own. A Mamba branch and the mixture after it are one
 * layer here, as are attention and the mixture after it; before attention
 * stands a Mamba branch alone. The published order has four pairs after the
 * last attention and nearly as many before each: here they are dealt evenly,
 * which changes no total. Experts of the larger ones work on a narrower, latent
 * width; depth and latent width of Ultra follow from its published totals (550
 * and 55 G). Without the layers that predict further tokens. */
#include "zoo_decoder.h"

static const char source[] =
    "NVIDIA 2025 (arXiv 2512.20848); Megatron-Bridge, nemotron_h_provider.py";

enum {
    MAMBA,
    ATTENTION,
    HIDDEN,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    SSM_HEADS,
    SSM_HEAD_DIM,
    SSM_GROUPS,
    STATE,
    EXPERTS,
    TOPK,
    FFN,
    SHARED_FFN,
    LATENT,
    VOCAB,
    SEQ,
    NPARAMS
};

// clang-format off
static const struct model_param params[NPARAMS] = {
    [MAMBA] = {"mamba", "Mamba branches, and as many mixtures", NULL, 23, 5, ZOO_LAYERS},
    [ATTENTION] = {"attention", "attention branches", NULL, 6, 1, ZOO_LAYERS},
    [HIDDEN] = {"hidden", "width", NULL, 2688, 1, ZOO_BIG},
    [HEADS] = {"heads", "attention heads", NULL, 32, 1, ZOO_BIG},
    [KV_HEADS] = {"kv_heads", "heads of keys and values", NULL, 2, 1, ZOO_BIG},
    [HEAD_DIM] = {"head_dim", "width of a head", NULL, 128, 1, ZOO_BIG},
    [SSM_HEADS] = {"ssm_heads", "heads of a Mamba branch", NULL, 64, 1, ZOO_BIG},
    [SSM_HEAD_DIM] = {"ssm_head_dim", "width of one", NULL, 64, 1, ZOO_BIG},
    [SSM_GROUPS] = {"ssm_groups", "groups that share B and C", NULL, 8, 1, ZOO_BIG},
    [STATE] = {"state", "width of the state", NULL, 128, 1, ZOO_BIG},
    [EXPERTS] = {"experts", "routed experts of a layer", NULL, 128, 1, ZOO_BIG},
    [TOPK] = {"topk", "experts a token visits", NULL, 6, 1, ZOO_BIG},
    [FFN] = {"ffn", "width of an expert", NULL, 1856, 1, ZOO_BIG},
    [SHARED_FFN] = {"shared_ffn", "width of the expert every token visits", NULL, 3712, 0, ZOO_BIG},
    [LATENT] = {"latent", "width that experts work on; 0: hidden", NULL, 0, 0, ZOO_BIG},
    [VOCAB] = {"vocab", "vocabulary", NULL, 131072, 1, ZOO_BIG},
    [SEQ] = {"seq", "tokens of a sample", NULL, 8192, 1, ZOO_BIG},
};

static const struct pdl_zoo_entry entries[] = {
    {"nemotron-3-nano", "nemotron", "mamba=23", "Nemotron 3 Nano, 30B-A3B"},
    {"nemotron-3-5-lightning", "nemotron", "mamba=23",
     "Nemotron 3.5 Lightning, 30B-A3B"},
    {"nemotron-3-super", "nemotron",
     "mamba=40,attention=8,hidden=4096,ssm_heads=128,experts=512,topk=22,ffn=2688,shared_ffn=5376,latent=1024",
     "Nemotron 3 Super, 120B-A12B"},
    {"nemotron-3-ultra", "nemotron",
     "mamba=48,attention=12,hidden=8192,heads=64,ssm_heads=256,experts=512,topk=22,ffn=5120,shared_ffn=10240,latent=2048",
     "Nemotron 3 Ultra, 550B-A55B"},
};
// clang-format on

/* Pairs after the last attention. */
enum { TAIL = 4 };

static struct model_tf_layer mixture_of(const int64_t *v)
{
    return (struct model_tf_layer){
        .norm = TF_RMS,
        .act = TF_RELU,
        .experts = v[EXPERTS],
        .topk = v[TOPK],
        .moe_ffn = v[FFN],
        .shared_ffn = v[SHARED_FFN],
        .moe_latent = v[LATENT],
        .correction = 1,
    };
}

static void to_mamba(const int64_t *v, struct model_tf_layer *l)
{
    l->mixer = TF_MAMBA2;
    l->heads = v[SSM_HEADS];
    l->head_dim = v[SSM_HEAD_DIM];
    l->inner = v[SSM_HEADS] * v[SSM_HEAD_DIM];
    l->state = v[STATE];
    l->groups = v[SSM_GROUPS];
    l->conv = 4;
    l->conv_bias = 1;
    l->ssm_norms = 1;
}

static void to_attention(const int64_t *v, struct model_tf_layer *l)
{
    l->mixer = TF_ATTENTION;
    l->heads = v[HEADS];
    l->kv_heads = v[KV_HEADS];
    l->head_dim = l->v_head_dim = v[HEAD_DIM];
    l->causal = 1;
}

/* For each attention: pairs, a Mamba branch alone, attention and its mixture;
 * then the tail. */
static int order(const int64_t *v, struct model_tf_run *runs)
{
    int64_t pairs = v[MAMBA] - v[ATTENTION] - TAIL;
    struct model_tf_layer pair = mixture_of(v), alone = {.norm = TF_RMS};
    struct model_tf_layer attention = mixture_of(v);
    int n = 0;

    to_mamba(v, &pair);
    to_mamba(v, &alone);
    to_attention(v, &attention);
    for (int64_t k = 0; k < v[ATTENTION]; k++) {
        runs[n++] = (struct model_tf_run){
            pair, pairs * (k + 1) / v[ATTENTION] - pairs * k / v[ATTENTION]};
        runs[n++] = (struct model_tf_run){alone, 1};
        runs[n++] = (struct model_tf_run){attention, 1};
    }
    runs[n++] = (struct model_tf_run){pair, TAIL};
    return n;
}

static void build(pdl_build *b, const int64_t *v)
{
    enum { MOST = 64 };
    struct model_tf_run runs[3 * MOST + 1];
    struct model_tf tf = {
        .source = source, .tokens = v[SEQ], .nstacks = 1, .head = v[VOCAB]};

    if (v[ATTENTION] > MOST || v[MAMBA] < v[ATTENTION] + TAIL) {
        pdl_build_fail(b, PDL_EINVAL,
                       "attention must be at most %d and %d below mamba", MOST,
                       TAIL);
        return;
    }
    tf.stack[0] = (struct model_tf_stack){
        .prefix = "",
        .hidden = v[HIDDEN],
        .tokens = v[SEQ],
        .norm = TF_RMS,
        .vocab = v[VOCAB],
        .embed_dim = v[HIDDEN],
        .runs = runs,
        .nruns = order(v, runs),
        .final_norm = 1,
    };
    model_tf_emit(b, &tf);
}

const struct model_family model_zoo_nemotron = {
    .self = {"nemotron", NULL, NULL, "Mamba-2, attention and experts"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
