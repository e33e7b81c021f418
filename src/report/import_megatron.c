/* SPDX-License-Identifier: Apache-2.0
 *
 * Megatron-LM's command line: a launch script or a file of flags. Scripts are
 * read, not run (import_words.c). Flags that do not change cost are passed
 * over; one that does and has a value we cannot read is an error with its
 * line. */
#include "import.h"

#include <stdio.h>
#include <string.h>

/* ---- flags ------------------------------------------------------------- */

enum kind { COUNT, YES, WORDS };

struct flag {
    const char *name;
    enum kind kind;
    size_t offset;    /* into struct report_setup */
    const char *when; /* WORDS: sets the flag when the value is this */
};

#define AT(field) offsetof(struct report_setup, field)
// clang-format off
static const struct flag flags[] = {
    {"--nproc-per-node", COUNT, AT(per_node), NULL},
    {"--nproc_per_node", COUNT, AT(per_node), NULL},
    {"--nnodes", COUNT, AT(nodes), NULL},
    {"--tensor-model-parallel-size", COUNT, AT(tensor), NULL},
    {"--pipeline-model-parallel-size", COUNT, AT(pipe), NULL},
    {"--num-virtual-stages-per-pipeline-rank", COUNT, AT(virtual_stages), NULL},
    {"--num-layers-per-virtual-pipeline-stage", COUNT, AT(layers_per_virtual),
     NULL},
    {"--context-parallel-size", COUNT, AT(context), NULL},
    {"--expert-model-parallel-size", COUNT, AT(expert), NULL},
    {"--expert-tensor-parallel-size", COUNT, AT(expert_tensor), NULL},
    {"--moe-token-dispatcher-type", WORDS, AT(tokens_once), "flex"},
    {"--sequence-parallel", YES, AT(seq), NULL},
    {"--tp-comm-overlap", YES, AT(async_tensor), NULL},
    {"--decoder-first-pipeline-num-layers", COUNT, AT(first_layers), NULL},
    {"--decoder-last-pipeline-num-layers", COUNT, AT(last_layers), NULL},
    {"--account-for-embedding-in-pipeline-split", YES, AT(count_embedding),
     NULL},
    {"--account-for-loss-in-pipeline-split", YES, AT(count_loss), NULL},
    {"--use-tp-pp-dp-mapping", YES, AT(pipe_before_data), NULL},
    {"--micro-batch-size", COUNT, AT(micro_batch), NULL},
    {"--global-batch-size", COUNT, AT(global_batch), NULL},
    {"--use-distributed-optimizer", YES, AT(zero), NULL},
    {"--overlap-grad-reduce", YES, AT(overlap), NULL},
    {"--recompute-activations", YES, AT(recompute_selective), NULL},
    {"--recompute-granularity", WORDS, AT(recompute_full), "full"},
    {"--recompute-granularity", WORDS, AT(recompute_selective), "selective"},
    {"--checkpoint-activations", YES, AT(recompute_full), NULL},
    {"--recompute-num-layers", COUNT, AT(recompute_layers), NULL},
    {"--recompute-method", WORDS, AT(recompute_block), "block"},
    {"--optimizer", WORDS, AT(sgd), "sgd"},
    {"--attention-backend", WORDS, AT(unfused), "unfused"},
    {"--attention-backend", WORDS, AT(unfused), "local"},
    {"--optimizer-cpu-offload", YES, AT(offload_optimizer), NULL},
    {"--bf16", YES, AT(bf16), NULL},
    {"--fp16", YES, AT(fp16), NULL},
    {"--num-layers", COUNT, AT(layers), NULL},
    {"--hidden-size", COUNT, AT(hidden), NULL},
    {"--ffn-hidden-size", COUNT, AT(ffn), NULL},
    {"--num-attention-heads", COUNT, AT(heads), NULL},
    {"--num-query-groups", COUNT, AT(kv_heads), NULL},
    {"--kv-channels", COUNT, AT(head_dim), NULL},
    {"--seq-length", COUNT, AT(tokens), NULL},
    {"--max-position-embeddings", COUNT, AT(positions), NULL},
    {"--vocab-size", COUNT, AT(vocab), NULL},
    {"--padded-vocab-size", COUNT, AT(padded_vocab), NULL},
    {"--make-vocab-size-divisible-by", COUNT, AT(vocab_multiple), NULL},
    {"--swiglu", YES, AT(swiglu), NULL},
    {"--normalization", WORDS, AT(rms), "RMSNorm"},
    {"--position-embedding-type", WORDS, AT(rope), "rope"},
    {"--use-rotary-position-embeddings", YES, AT(rope), NULL},
    {"--untie-embeddings-and-output-weights", YES, AT(untied), NULL},
    {"--qk-layernorm", YES, AT(qk_norm), NULL},
    {"--add-qkv-bias", YES, AT(qkv_bias), NULL},
    {"--moe-router-enable-expert-bias", YES, AT(correction), NULL},
    {"--multi-latent-attention", YES, AT(latent), NULL},
    {"--q-lora-rank", COUNT, AT(q_lora), NULL},
    {"--kv-lora-rank", COUNT, AT(kv_lora), NULL},
    {"--qk-head-dim", COUNT, AT(nope), NULL},
    {"--qk-pos-emb-head-dim", COUNT, AT(rope_dim), NULL},
    {"--v-head-dim", COUNT, AT(v_dim), NULL},
    {"--moe-shared-expert-intermediate-size", COUNT, AT(shared_ffn), NULL},
    {"--num-experts", COUNT, AT(experts), NULL},
    {"--moe-router-topk", COUNT, AT(topk), NULL},
    {"--moe-ffn-hidden-size", COUNT, AT(moe_ffn), NULL},
};
// clang-format on
#undef AT

/* How many PEs run it may be known to the scheduler only. */
static bool is_world(const struct flag *f)
{
    return f->offset == offsetof(struct report_setup, nodes) ||
           f->offset == offsetof(struct report_setup, per_node);
}

static enum pdl_status set(const struct report_words *s, const struct flag *f,
                           const struct report_word *w, const char *value,
                           struct report_setup *out, struct pdl_err *err)
{
    char *at = (char *)out + f->offset;
    struct pdl_err inner = {"", ""};
    int64_t v;

    if (f->kind == YES) {
        /* zero is a count: 1 for the distributed optimizer */
        if (f->offset == offsetof(struct report_setup, zero))
            out->zero = out->zero > 1 ? out->zero : 1;
        else
            *(bool *)at = true;
        return PDL_OK;
    }
    if (w->closed && !strchr(w->text, '='))
        return PDL_OK; /* --name) is a branch of a script that reads it */
    if (!value)
        return pdl_fail(err, PDL_EPARSE, "%s:%d: %s has no value", s->name,
                        w->line, f->name);
    if (f->kind == WORDS) {
        if (strcmp(value, f->when) == 0)
            *(bool *)at = true;
        return PDL_OK;
    }
    if (pdl_int_parse(value, 1, (int64_t)1 << 48, &v, &inner) != PDL_OK) {
        if (is_world(f) && strchr(value, '$'))
            return PDL_OK; /* --pes says it, or is asked for */
        pdl_fail(err, PDL_EPARSE, "%s:%d: %s: '%.60s' is no number", s->name,
                 w->line, f->name, value);
        if (strchr(value, '$'))
            pdl_hint(err, "the file does not set that variable to a plain "
                          "value; put the number there");
        return PDL_EPARSE;
    }
    *(int64_t *)at = v;
    return PDL_OK;
}

/* "([0]*3+[1]*58)": so many dense layers first. */
static void set_dense(const char *value, struct report_setup *out,
                      struct pdl_launch *launch)
{
    long long dense, rest;
    char end;

    if (value &&
        sscanf(value, "([0]*%lld+[1]*%lld%c", &dense, &rest, &end) == 3 &&
        end == ')' && dense >= 0 && dense < 1 << 20)
        out->dense = dense;
    else if (!value || strcmp(value, "1") != 0)
        report_note(launch, "every layer is taken as one of experts");
}

/* --data-parallel-sharding-strategy and --fp8-format have values of their
 * own; a flag may be written --name=value too. */
static void set_other(const char *name, const char *value,
                      struct report_setup *out, struct pdl_launch *launch)
{
    if (strcmp(name, "--fp8-format") == 0 || strcmp(name, "--fp8-hybrid") == 0)
        out->fp8 = true;
    if (strcmp(name, "--fp4-format") == 0)
        out->fp4 = true;
    if (strcmp(name, "--hidden-dropout") == 0)
        out->dropout = value;
    if (strcmp(name, "--grad-reduce-in-bf16") == 0)
        out->gradient = "bf16";
    if (strcmp(name, "--accumulate-allreduce-grads-in-fp32") == 0)
        out->gradient = "fp32";
    if (strcmp(name, "--pipeline-model-parallel-layout") == 0)
        out->layout = value;
    if (strcmp(name, "--moe-layer-freq") == 0)
        set_dense(value, out, launch);
    if (strcmp(name, "--use-torch-fsdp2") == 0)
        out->zero = 3;
    if (strcmp(name, "--data-parallel-sharding-strategy") != 0 || !value)
        return;
    if (strcmp(value, "optim_grads_params") == 0)
        out->zero = 3;
    else if (strcmp(value, "optim_grads") == 0)
        out->zero = 2;
}

/* What changes the cost and is not priced: said, not passed over. */
static void say(const char *word, struct pdl_launch *out)
{
    static const struct {
        const char *word, *note;
    } notes[] = {
        {"pretrain_bert.py", "BERT is taken as a decoder of the same sizes"},
        {"--rampup-batch-size",
         "--rampup-batch-size is left out: --ramp-up with --tokens prices it"},
        {"--moe-layer-recompute",
         "--moe-layer-recompute is left out: experts' memory is as without"},
        {"--moe-expert-capacity-factor",
         "--moe-expert-capacity-factor is left out: experts are taken as "
         "equally busy"},
        {"--overlap-moe-expert-parallel-comm",
         "--overlap-moe-expert-parallel-comm is left out: exchanges of tokens "
         "are exposed"},
        {"--fine-grained-activation-offloading",
         "--fine-grained-activation-offloading is left out"},
        {"--zero-stage", "--zero-stage (DeepSpeed's) is left out: --strategy "
                         "says it"},
        {"--mtp-num-layers", "layers that predict further tokens are left out"},
        {"--window-size", "attention in windows is taken as full attention"},
        {"--hybrid-override-pattern", "Mamba layers are taken as attention"},
    };
    size_t n = strlen(word);

    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        size_t len = strlen(notes[i].word);

        if (n >= len && strcmp(word + n - len, notes[i].word) == 0)
            report_note(out, notes[i].note);
    }
}

/* --cp-comm-type has one value, or one for each layer: a ring (p2p), heads for
 * positions (a2a), all keys gathered (allgather), or a2a inside nodes and a
 * ring between them (a2a+p2p), which no plan here has. */
static void set_context(const struct report_words *s, int i, const char *value,
                        struct report_setup *out, struct pdl_launch *launch)
{
    static const char *const kinds[] = {"p2p", "a2a", "allgather", "a2a+p2p"};
    bool known = false, differ = false;

    for (size_t k = 0; value && k < sizeof kinds / sizeof kinds[0]; k++)
        known = known || strcmp(value, kinds[k]) == 0;
    if (!known) {
        report_note(launch, "--cp-comm-type is not understood: a ring is "
                            "assumed");
        return;
    }
    for (int k = i + 2; k < s->n && strncmp(s->word[k].text, "-", 1) != 0 &&
                        !strchr(s->word[i].text, '=');
         k++)
        for (size_t j = 0; j < sizeof kinds / sizeof kinds[0]; j++)
            differ = differ || (strcmp(s->word[k].text, kinds[j]) == 0 &&
                                strcmp(s->word[k].text, value) != 0);
    if (differ)
        report_note(launch, "--cp-comm-type differs by layer: the first is "
                            "taken for all");
    if (strcmp(value, "a2a+p2p") == 0)
        report_note(launch, "--cp-comm-type a2a+p2p is taken as a ring");
    out->context_a2a = strcmp(value, "a2a") == 0;
    out->context_gather = strcmp(value, "allgather") == 0;
}

static enum pdl_status apply(const struct report_words *s, int i,
                             struct report_setup *out,
                             struct pdl_launch *launch, struct pdl_err *err)
{
    const struct report_word *w = &s->word[i];
    const char *value = i + 1 < s->n ? s->word[i + 1].text : NULL;
    const char *name = w->text, *eq = strchr(name, '=');

    if (strncmp(name, "--", 2) != 0)
        return PDL_OK;
    if (eq) {
        value = eq + 1;
        name = pdl_arena_strndup(s->arena, name, (size_t)(eq - name));
        if (!name)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    set_other(name, value, out, launch);
    if (strcmp(name, "--cp-comm-type") == 0)
        set_context(s, i, value, out, launch);
    for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++) {
        enum pdl_status st;

        if (strcmp(flags[k].name, name) != 0)
            continue;
        st = set(s, &flags[k], w, value, out, err);
        if (st != PDL_OK)
            return st;
    }
    return PDL_OK;
}

/* Experts lie on tensor ranks first: a plan cuts them over these, whole or not,
 * and has an axis of what is beyond. */
static void settle_experts(struct report_setup *s, struct pdl_launch *out)
{
    int64_t tensor = s->tensor > 0 ? s->tensor : 1, ranks;

    if (s->expert_tensor < 1 || s->expert_tensor == tensor ||
        !pdl_mul64(s->expert > 0 ? s->expert : 1, s->expert_tensor, &ranks))
        return;
    if (ranks % tensor != 0)
        report_note(out, "experts on some of the tensor ranks are taken as "
                         "cut over all of them");
    s->expert = ranks % tensor == 0 ? ranks / tensor : 1;
}

/* What follows from several flags together. */
static void notes(const struct report_setup *s, struct pdl_launch *out)
{
    if (s->recompute_full && s->recompute_layers > 1 && !s->recompute_block)
        report_note(out, "recomputing several layers at a time is taken as "
                         "each by itself");
    if (s->expert > 1 && s->per_node > 0 && !s->tokens_once &&
        s->expert > s->per_node / (s->tensor > 0 ? s->tensor : 1))
        report_note(out, "tokens are taken to travel to a node once, as "
                         "--moe-token-dispatcher-type flex sends them");
    if (s->latent && s->experts == 0)
        report_note(out, "latent attention is taken as ordinary attention");
}

static enum pdl_status read(pdl_arena *a, struct pdl_bytes in, const char *name,
                            int64_t pes, struct pdl_launch *out,
                            struct pdl_err *err)
{
    struct report_words s;
    struct report_setup setup = {.world = 0};
    enum pdl_status st = report_words(a, in, name, &s, err);

    for (int i = 0; st == PDL_OK && i < s.n; i++) {
        st = apply(&s, i, &setup, out, err);
        say(s.word[i].text, out);
    }
    if (st != PDL_OK)
        return st;
    if (setup.nodes == 0 || setup.per_node == 0)
        report_sbatch(in, &setup.nodes, &setup.per_node);
    settle_experts(&setup, out);
    notes(&setup, out);
    setup.tf32 = report_has(in, "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1");
    if (pes > 0)
        setup.world = pes;
    if (setup.layers == 0)
        return pdl_fail(err, PDL_EPARSE, "%s: no --num-layers in it", name);
    if (setup.vocab == 0 && setup.padded_vocab == 0) {
        setup.padded_vocab = 51200;
        report_note(out, "the vocabulary is not in the file: 51200 is assumed");
    }
    return report_setup_finish(a, &setup, name, out, err);
}

const struct pdl_launch_reader report_import_megatron = {
    .name = "megatron-args",
    .summary = "a Megatron-LM launch script or its flags",
    .read = read,
};
