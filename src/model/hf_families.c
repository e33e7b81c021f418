/* SPDX-License-Identifier: Apache-2.0
 *
 * The families of HF models, in the language of family.h: model_type, the
 * family it resembles, and what differs. Field names are the members of
 * struct model_tf_layer and struct model_tf_stack (transformer.h), with the
 * prefixes of hf.c for layers of another kind (dense_, full_, lin_, mamba_)
 * and for other stacks (dec_, vis_).
 *
 * Source: the configuration and modelling files of the transformers library
 * (2026-08) and the published checkpoints; the first row is Llama's naming,
 * which later families follow, with the older names as alternatives. To add a
 * family: one row, and one line in the table of totals of its test. */
#include "hf.h"

#include <stddef.h>

#define LAYERNORM "norm=:LAYER "
#define BIASED    "qkv_bias out_bias ffn_bias "
#define GPT \
    LAYERNORM BIASED "gated=0 rope=0 ffn=n_inner|intermediate_size?4*hidden "
#define ATTN_BIAS "qkv_bias=attention_bias?0 out_bias=attention_bias?0 "
#define TIED      "tied=tie_word_embeddings|^tie_word_embeddings?1 "
#define QWEN_MOE                                                     \
    "experts=num_experts|num_local_experts?60 "                      \
    "topk=num_experts_per_tok?4 moe_ffn=moe_intermediate_size?1408 " \
    "moe_freq=decoder_sparse_step?1 moe_shift=1 "
#define ENCODER                                                                \
    LAYERNORM BIASED                                                           \
        "gated=0 rope=0 causal=0 order=:POST head=0 encoder "                  \
        "positions=:max_pos max_pos=max_position_embeddings?512 "              \
        "types=type_vocab_size?2 embed_norm final_norm=0 pool pooler=:hidden " \
        "vocab?30522 hidden?768 layers?12 heads?12 ffn?3072 "
#define VISION                                                                \
    LAYERNORM BIASED                                                          \
        "gated=0 rope=0 causal=0 head=0 vision vocab=0 image=image_size?224 " \
        "patch=patch_size?16 channels=num_channels?3 patch_bias "             \
        "class_tokens=1 positions=:1 pool hidden?768 layers?12 heads?12 "     \
        "ffn?3072 "
#define SEQ2SEQ                                                                \
    LAYERNORM BIASED                                                           \
        "encdec gated=0 rope=0 order=:POST causal=0 dec_causal=1 dec_cross=1 " \
        "tied=1 hidden=d_model layers=encoder_layers "                         \
        "dec_layers=decoder_layers "                                           \
        "heads=encoder_attention_heads dec_heads=decoder_attention_heads "     \
        "ffn=encoder_ffn_dim dec_ffn=decoder_ffn_dim "                         \
        "max_pos=max_position_embeddings?1024 dec_same_table "                 \
        "head_dim=:hidden/heads dec_head_dim=:hidden/dec_heads "               \
        "kv_heads=:heads dec_kv_heads=:dec_heads "

// clang-format off
const struct model_row model_hf_families[] = {
    {"", NULL,
     "RMS=0 LAYER=1 LAYER_NB=2 PLAIN=3 "
     "PRE=0 POST=1 SANDWICH=2 BRANCH=3 PARALLEL=4 PARALLEL2=5 "
     "ATTN=0 MLA=1 MAMBA=2 MAMBA2=3 CONV=4 DELTA=5 CROSS=6 "
     "HEAD=1 FULL=2 "
     "hidden=hidden_size|d_model|n_embd|n_embed|embed_dim|hidden_dim|dim "
     "layers=num_hidden_layers|n_layer|num_layers|n_layers|decoder_layers "
     "heads=num_attention_heads|n_head|n_heads|num_heads "
     "kv_heads=num_key_value_heads|num_kv_heads|n_head_kv?heads "
     "head_dim=head_dim|d_kv|kv_channels|attention_head_dim?hidden/heads "
     "v_head_dim=:head_dim "
     "ffn=intermediate_size|n_inner|ffn_dim|d_ff|ffn_hidden_size "
     "vocab=vocab_size|padded_vocab_size "
     "max_pos=max_position_embeddings|n_positions|max_seq_len|"
       "max_sequence_length|context_length|seq_length|n_ctx?2048 "
     "gated rope causal embed_dim=:hidden final_norm head=:vocab "
     "q_bias=:qkv_bias k_bias=:qkv_bias v_bias=:qkv_bias qk_norm_kind=:norm "
     "tied=tie_word_embeddings|^tie_word_embeddings?0 "
     "window=use_sliding_window{win,0}|sliding_window?0 "
     "win=sliding_window?0 "
     "moe_ffn=moe_intermediate_size?ffn moe_freq=1 dense_experts=0 "
     "labels=#id2label|num_labels?2 "},
    /* a type nobody told us of: Llama, with the usual keys of mixtures and of
     * latent attention */
    {"unknown", "llama", "qkv_bias=attention_bias|qkv_bias?0 "
     "experts=num_local_experts|num_experts|n_routed_experts|moe_num_experts?0 "
     "topk=num_experts_per_tok|num_experts_per_token|moe_topk|top_k_experts|"
       "moe_top_k|moe_k?2 "
     "n_shared=n_shared_experts|num_shared_experts|num_shared_expert?0 "
     "shared_ffn=shared_expert_intermediate_size|shared_intermediate_size?"
       "n_shared*moe_ffn "
     "dense_first=first_k_dense_replace?0 "
     "moe_freq=moe_layer_freq|decoder_sparse_step?1 "
     "moe_shift=decoder_sparse_step{1,0}?0 "
     "qk_norm=use_qk_norm{HEAD,0}|qk_norm{HEAD,0}?0 "
     "mixer=kv_lora_rank{MLA,ATTN}?ATTN q_lora=q_lora_rank?0 "
     "kv_lora=kv_lora_rank?0 qk_nope=qk_nope_head_dim?0 "
     "qk_rope=qk_rope_head_dim?0 lora_bias=attention_bias?0 "
     "head_dim=kv_lora_rank{both,one}?one both=:qk_nope+qk_rope "
     "one=head_dim|attention_head_dim?hidden/heads "
     "v_head_dim=v_head_dim?head_dim"},
    /* Llama and those that differ from it in sizes and biases */
    {"llama", "", ATTN_BIAS "ffn_bias=mlp_bias?0 hidden?4096 layers?32 "
     "heads?32 "
     "ffn?11008 vocab?32000"},
    {"mistral", "", "kv_heads=num_key_value_heads?8 hidden?4096 layers?32 "
     "heads?32 ffn?14336 vocab?32000"},
    {"ministral", "mistral", ""}, {"ministral3", "mistral", ""},
    {"mixtral", "mistral", "experts=num_local_experts?8 "
     "topk=num_experts_per_tok?2"},
    {"minimax_m2", "", "experts=num_local_experts topk=num_experts_per_tok "
     "qk_norm=:FULL correction"},
    {"yi", "llama", ""}, {"aquila", "llama", ""}, {"internlm", "llama",
     "qkv_bias=bias?1 out_bias=bias?1"},
    {"internlm2", "llama", "qkv_bias=bias?0 out_bias=bias?0"},
    {"internlm3", "llama", "qkv_bias=qkv_bias?0 out_bias=bias?0 "
     "ffn_bias=bias?0"},
    {"baichuan", "llama",
     "max_pos=model_max_length|max_position_embeddings?4096"},
    {"smollm3", "llama", TIED},
    {"seed_oss", "llama", "qkv_bias=attention_bias?1 "
     "out_bias=attention_out_bias?0"},
    {"arcee", "llama", "gated=0"},
    {"helium", "llama", "out_bias=0"},
    {"exaone", "llama", "ffn=intermediate_size?4*hidden qkv_bias=0 out_bias=0"},
    {"exaone4", "llama", "order=:BRANCH qk_norm=:HEAD"},
    {"granite", "llama", ""},
    {"granitemoe", "llama", "experts=num_local_experts?8 "
     "topk=num_experts_per_tok?2"},
    {"granitemoeshared", "granitemoe",
     "shared_ffn=shared_intermediate_size?0"},
    {"ernie4_5", "llama", TIED "qkv_bias=use_bias?0 out_bias=use_bias?0 "
     "ffn_bias=use_bias?0 "},
    {"hunyuan_v1_dense", "llama", "qk_norm=:HEAD"},
    {"nanochat", "llama", "gated=0 norm=:PLAIN"},
    {"mimo", "qwen2", ""},
    {"qwen", "", "ffn=:raw_ffn/2 raw_ffn=intermediate_size qkv_bias "
     "kv_heads=:heads"},
    {"qwen2", "", "window=use_sliding_window{win,0}?0 qkv_bias hidden?4096 "
     "layers?32 heads?32 ffn?22016 "
     "vocab?151936 max_pos=max_position_embeddings?32768"},
    {"qwen2_moe", "qwen2", QWEN_MOE
     "qkv_bias=qkv_bias?1 shared_ffn=shared_expert_intermediate_size?5632 "
     "shared_gate"},
    {"qwen2_vl", "qwen2", "hidden?8192 layers?80 heads?64 ffn?29568 "
     "vocab?152064 kv_heads=num_key_value_heads?8"},
    {"qwen2_vl_text", "qwen2_vl", ""}, {"qwen2_5_vl", "qwen2_vl", ""},
    {"qwen2_5_vl_text", "qwen2_vl", ""},
    {"qwen2_audio", "qwen2", ""},
    {"qwen3", "", "window=use_sliding_window{win,0}?0 qk_norm=:HEAD "
     "head_dim=head_dim?128 hidden?4096 layers?32 "
     "heads?32 ffn?22016 vocab?151936 " ATTN_BIAS},
    {"qwen3_moe", "qwen3", "head_dim=head_dim?hidden/heads "
     "experts=num_experts|num_local_experts?128 "
     "topk=num_experts_per_tok?8 moe_ffn=moe_intermediate_size?768 "
     "moe_freq=decoder_sparse_step?1 moe_shift=1"},
    {"qwen3_vl_text", "qwen3", ""}, {"qwen3_vl", "qwen3", ""},
    {"qwen3_vl_moe_text", "qwen3_moe", ""},
    {"qwen3_next", "qwen3_moe", "experts=num_experts?512 "
     "topk=num_experts_per_tok?10 moe_ffn=moe_intermediate_size?512 "
     "shared_ffn=shared_expert_intermediate_size?512 shared_gate "
      "ffn=intermediate_size?0 "
     "kv_heads=num_key_value_heads?2 head_dim=head_dim?256 gate "
     "lin_every=full_attention_interval?4 lin_mixer=:DELTA "
     "lin_heads=linear_num_value_heads?32 "
     "lin_v_head_dim=linear_value_head_dim?128 "
     "lin_head_dim=linear_key_head_dim?128 "
     "lin_k_heads=linear_num_key_heads?16 lin_conv=linear_conv_kernel_dim?4"},
    {"qwen3_5_text", "qwen3_next", "experts=0 ffn=intermediate_size "
     "shared_ffn=0 lin_heads=linear_num_value_heads?32"},
    {"qwen3_5_moe_text", "qwen3_next", ""},
    {"qwen3_5", "qwen3_5_text", ""}, {"qwen3_5_moe", "qwen3_next", ""},
    /* Gemma: tied, heads of 256, norms before and after from the second on */
    {"gemma", "", TIED ATTN_BIAS "head_dim=head_dim?256 "
     "kv_heads=num_key_value_heads?16 hidden?3072 layers?28 heads?16 ffn?24576 "
     "vocab?256000"},
    {"gemma2", "gemma", "order=:SANDWICH kv_heads=num_key_value_heads?4 "
     "window=sliding_window?4096 window_every=2 hidden?2304 layers?26 heads?8 "
     "ffn?9216"},
    {"vaultgemma", "gemma2", "order=:PRE"},
    {"gemma3_text", "gemma2", "qk_norm=:HEAD "
     "window_every=sliding_window_pattern|_sliding_window_pattern?6 "
     "vocab=vocab_size|^vocab_size?262208"},
    {"gemma3", "gemma3_text", ""},
    {"gemma4_text", "gemma3_text", "full_head_dim=global_head_dim?512 "
     "full_v_head_dim=:full_head_dim "
     "full_kv_heads=attention_k_eq_v{gkv,kv_heads}?kv_heads "
     "gkv=num_global_key_value_heads?kv_heads full_v_is_k=attention_k_eq_v?0 "
     "qkv_bias=attention_bias?0 out_bias=attention_bias?0 "
     "vocab=vocab_size?262144 per_vocab=vocab_size_per_layer_input?262144 "
     "per_layer=hidden_size_per_layer_input?256 per_width=:layers*per_layer "
     "beside=enable_moe_block?0 experts=enable_moe_block{n_experts,0}?0 "
     "n_experts=num_experts topk=top_k_experts|num_experts_per_tok?8 "
     "moe_ffn=moe_intermediate_size|expert_intermediate_size?0 "
     "kv_shared=num_kv_shared_layers?0 double_wide=use_double_wide_mlp?0 "
     "window=sliding_window?512"},
    {"gemma4", "gemma4_text", ""},
    {"gemma4_unified_text", "gemma4_text", "per_layer=0 per_width=0"},
    /* Phi */
    {"phi", "", LAYERNORM BIASED "gated=0 order=:PARALLEL head_bias "
     "qk_norm=qk_layernorm{HEAD,0}?0 hidden?2048 layers?24 heads?32 ffn?8192 "
     "vocab?51200"},
    {"phi-msft", "phi", "ffn=n_inner?4*hidden"},
    {"mixformer-sequential", "phi-msft", ""},
    {"phi3", "", "hidden?3072 layers?32 heads?32 ffn?8192 vocab?32064"},
    {"phi3_v", "phi3", ""}, {"phi3small", "phi3", ""},
    {"phi4_multimodal", "phi3", ""}, {"phi4mm", "phi3", ""},
    {"phimoe", "", LAYERNORM ATTN_BIAS "head_bias=lm_head_bias?0 "
     "experts=num_local_experts?16 topk=num_experts_per_tok?2"},
    /* GPT-2 and its time: LayerNorm, biases, learned or rotary positions */
    {"gpt2", "", GPT TIED "positions=:max_pos hidden?768 layers?12 heads?12 "
     "vocab?50257 max_pos=n_positions|n_ctx|max_position_embeddings?1024"},
    {"openai-gpt", "gpt2", "order=:POST final_norm=0 max_pos=n_positions?512"},
    {"gpt_bigcode", "gpt2",
     "kv_heads=multi_query{1,heads}|num_key_value_heads?1"},
    {"gpt_neo", "", GPT TIED "positions=:max_pos qkv_bias=0 "
     "window=0 hidden?2048 layers?24 heads?16 vocab?50257"},
    {"gptj", "", GPT "qkv_bias=0 out_bias=0 order=:PARALLEL head_bias "
     "hidden?4096 layers?28 heads?16 vocab?50400"},
    {"codegen", "gptj", ""},
    {"gpt_neox", "", LAYERNORM BIASED "gated=0 "
     "order=use_parallel_residual{PARALLEL2,PRE}?PARALLEL2 "
     "qkv_bias=attention_bias?1 out_bias=attention_bias?1 hidden?6144 "
     "layers?44 heads?64 ffn?24576 vocab?50432"},
    {"opt", "", LAYERNORM "gated=0 rope=0 " TIED "qkv_bias=enable_bias?1 "
     "out_bias=enable_bias?1 ffn_bias=enable_bias?1 ffn=ffn_dim?4*hidden "
     "max_pos=max_position_embeddings?2048 positions=:max_pos+2 "
     "embed_dim=word_embed_proj_dim?hidden "
     "order=do_layer_norm_before{PRE,POST}?PRE "
     "final_norm=_remove_final_layer_norm{0,has_norm}|"
       "do_layer_norm_before?1 has_norm=do_layer_norm_before?1 "
     "norm=layer_norm_elementwise_affine{LAYER,PLAIN}?LAYER "
     "hidden?768 layers?12 heads?12 vocab?50272"},
    {"bloom", "", LAYERNORM BIASED TIED "gated=0 rope=0 "
     "hidden=hidden_size|n_embed|n_embd kv_heads=:heads "
     "layers=num_hidden_layers|n_layer heads=num_attention_heads|n_head "
     "ffn=:4*hidden embed_norm max_pos=seq_length?2048 vocab?250880"},
    {"falcon", "", LAYERNORM TIED "gated=0 "
     "qkv_bias=bias?0 out_bias=bias?0 ffn_bias=bias?0 "
     "ffn=ffn_hidden_size?4*hidden rope=!alibi?1 "
     "kv_heads=new_decoder_architecture{kv_new,kv_old}?kv_old "
     "kv_new=num_kv_heads|n_head_kv?heads kv_old=multi_query{1,kv_mha}?1 "
     "kv_mha=num_kv_heads?heads "
     "order=new_decoder_architecture{order_new,order_old}?order_old "
     "order_new=:two_ln+3 two_ln=num_ln_in_parallel_attn?2 "
     "order_old=parallel_attn{PARALLEL,PRE}?PARALLEL "
     "hidden?4544 layers?32 heads?71 vocab?65024"},
    {"RefinedWebModel", "falcon", ""}, {"RefinedWeb", "falcon",
     "kv_heads=n_head_kv?heads order=:PARALLEL2"},
    {"mpt", "", "gated=0 rope=0 " TIED "norm=:LAYER_NB "
     "ffn=:expand*hidden expand=expansion_ratio?4 "
     "kv_heads=attn_config.kv_n_heads?heads "
     "positions=attn_config.alibi{0,learned}?learned "
     "learned=learned_pos_emb{max_pos,0}?max_pos max_pos=max_seq_len?2048"},
    {"starcoder2", "", LAYERNORM TIED "gated=0 qkv_bias=use_bias?1 "
     "out_bias=use_bias?1 ffn_bias=use_bias?1 kv_heads=num_key_value_heads?2 "
     "hidden?3072 layers?30 heads?24 ffn?12288 vocab?49152"},
    {"stablelm", "", LAYERNORM "qkv_bias=use_qkv_bias?0 "
     "order=use_parallel_residual{PARALLEL,PRE}?PRE "
     "qk_norm=qk_layernorm{FULL,0}?0 qk_norm_kind=:LAYER_NB "
     "hidden?2560 layers?32 heads?32 ffn?6912 vocab?50304"},
    {"stablelm_epoch", "stablelm", ""},
    {"persimmon", "", LAYERNORM BIASED "gated=0 "
     "qk_norm=qk_layernorm{HEAD,0}?1 kv_heads=:heads"},
    {"xglm", "", LAYERNORM BIASED TIED "gated=0 rope=0 hidden=d_model "
     "heads=attention_heads layers=num_layers ffn=ffn_dim kv_heads=:heads"},
    {"biogpt", "", LAYERNORM BIASED TIED "gated=0 rope=0 "
     "max_pos=max_position_embeddings?1024 positions=:max_pos+2"},
    {"ctrl", "", LAYERNORM BIASED TIED "gated=0 rope=0 ffn=dff "
     "head_bias"},
    /* Cohere, OLMo, Nemotron, GLM and others with habits of their own */
    {"cohere", "", TIED ATTN_BIAS "norm=:LAYER_NB order=:PARALLEL "
     "qk_norm=use_qk_norm{FULL,0}?0 hidden?8192 layers?40 heads?64 ffn?22528 "
     "vocab?256000"},
    {"cohere2", "cohere", "qk_norm=0 window=sliding_window?4096 "
     "window_every=sliding_window_pattern|_sliding_window_pattern?4"},
    {"olmo", "llama", "norm=:PLAIN ffn_bias=0"},
    {"olmo2", "llama", "order=:BRANCH qk_norm=:FULL ffn_bias=0"},
    {"olmo3", "olmo2", "window=sliding_window?4096 window_every=4"},
    {"olmoe", "llama", "qk_norm=:FULL ffn_bias=0 experts=num_experts?64 "
     "topk=num_experts_per_tok?8"},
    {"nemotron", "", LAYERNORM ATTN_BIAS "gated=0 ffn_bias=mlp_bias?0 "
     "hidden?6144 layers?32 heads?48 ffn?24576 vocab?256000"},
    {"glm", "", "qkv_bias=attention_bias?1 kv_heads=num_key_value_heads?2 "
     "head_dim=head_dim?128 hidden?4096 layers?40 heads?32 ffn?13696 "
     "vocab?151552"},
    {"glm4", "glm", "order=:SANDWICH qkv_bias=attention_bias?0"},
    {"glm4v_text", "glm4", "qkv_bias=attention_bias?1 "
     "head_dim=head_dim?hidden/heads"},
    {"glm4_moe", "glm", "qkv_bias=attention_bias?0 "
     "kv_heads=num_key_value_heads?8 "
     "qk_norm=use_qk_norm{HEAD,0}?0 experts=n_routed_experts?128 "
     "topk=num_experts_per_tok?8 moe_ffn=moe_intermediate_size?1408 "
     "shared_ffn=:n_shared*moe_ffn n_shared=n_shared_experts?1 correction "
     "dense_first=first_k_dense_replace?1"},
    {"dots1", "glm4_moe", "qk_norm=:HEAD head_dim=head_dim?hidden/heads "
     "out_bias=attention_bias?0 kv_heads=num_key_value_heads?32"},
    {"chatglm", "", "hidden=hidden_size layers=num_layers "
     "vocab=padded_vocab_size|vocab_size heads=num_attention_heads "
     "ffn=ffn_hidden_size head_dim=kv_channels?hidden/heads "
     "kv_heads=multi_query_attention{groups,heads}?heads "
     "groups=multi_query_group_num?1 "
     "norm=rmsnorm{RMS,LAYER}?RMS "
     "q_bias=add_qkv_bias?0 k_bias=add_qkv_bias?0 v_bias=add_qkv_bias?0 "
     "out_bias=add_bias_linear?0 ffn_bias=add_bias_linear?0 "
     "final_norm=post_layer_norm?1 max_pos=seq_length?8192 always_head"},
    {"dbrx", "", "norm=:LAYER_NB hidden=d_model heads=n_heads layers=n_layers "
     "kv_heads=attn_config.kv_n_heads?heads "
     "max_pos=max_seq_len?2048 ffn=ffn_config.ffn_hidden_size?3584 "
     "experts=ffn_config.moe_num_experts?4 topk=ffn_config.moe_top_k?1 "
     "moe_ffn=:ffn"},
    {"gpt_oss", "", "qkv_bias=attention_bias?1 out_bias=attention_bias?1 "
     "head_dim=head_dim?64 kv_heads=num_key_value_heads?8 sinks "
     "experts=num_local_experts|num_experts?128 "
     "topk=num_experts_per_tok|experts_per_token?4 router_bias expert_bias "
     "moe_ffn=:ffn window=sliding_window?128 window_every=2 hidden?2880 "
     "layers?36 heads?64 ffn?2880 vocab?201088"},
    {"llama4_text", "llama", "ffn_bias=0 head_dim=head_dim?128 "
     "kv_heads=num_key_value_heads?8 experts=num_local_experts?16 "
     "topk=num_experts_per_tok?1 moe_ffn=:ffn shared_ffn=:ffn "
     "moe_freq=interleave_moe_layer_step?1 moe_shift=1 "
     "dense_ffn=intermediate_size_mlp?16384 hidden?5120 layers?48 heads?40 "
     "ffn?8192 vocab?202048"},
    {"llama4", "llama4_text", ""},
    {"ernie4_5_moe", "ernie4_5", "head_bias=use_bias?0 "
     "experts=moe_num_experts?64 topk=moe_k?6 "
     "moe_ffn=moe_intermediate_size?1536 n_shared=moe_num_shared_experts?2 "
     "shared_ffn=:n_shared*moe_ffn correction "
     "moe_freq=moe_layer_interval?1 moe_shift=1 "
     "dense_first=moe_layer_start_index?1"},
    {"hunyuan_v1_moe", "llama", "qk_norm=:HEAD experts=num_experts?1 "
     "topk=moe_topk?1 moe_ffn=:ffn shared_ffn=:ffn"},
    {"mllama_text_model", "llama", "cross_mixer=:CROSS cross_qk_norm=:HEAD "
     "cross_gates cross_rope=0 vocab=:real+8 real=vocab_size head=:real "
     "tied=0"},
    {"mllama", "mllama_text_model", ""},
    /* latent attention */
    {"deepseek_v2", "", "mixer=:MLA q_lora=q_lora_rank?0 "
     "kv_lora=kv_lora_rank?512 qk_nope=qk_nope_head_dim?128 "
     "qk_rope=qk_rope_head_dim?64 v_head_dim=v_head_dim?128 "
     "head_dim=:qk_nope+qk_rope lora_bias=attention_bias?0 "
     "out_bias=attention_bias?0 ffn_bias=mlp_bias?0 "
     "experts=n_routed_experts?0 topk=num_experts_per_tok?8 "
     "moe_ffn=moe_intermediate_size?1407 n_shared=n_shared_experts?0 "
     "shared_ffn=:n_shared*moe_ffn dense_first=first_k_dense_replace?0 "
     "moe_freq=moe_layer_freq?1"},
    {"deepseek_v3", "deepseek_v2", "correction ffn_bias=0 "
     "moe_ffn=moe_intermediate_size?2048 experts=n_routed_experts?256 "
     "n_shared=n_shared_experts?1 dense_first=first_k_dense_replace?3"},
    {"deepseek_v32", "deepseek_v3", "index_heads=index_n_heads?64 "
     "index_dim=index_head_dim?128"},
    {"glm_moe_dsa", "deepseek_v32", "index_heads=index_n_heads?32"},
    {"kimi_k2", "deepseek_v3", ""}, {"kimi_k25", "deepseek_v3", ""},
    {"glm4_moe_lite", "deepseek_v3", "correction"},
    {"youtu", "deepseek_v3", "experts=0"},
    {"deepseek", "llama", "experts=n_routed_experts?0 "
     "topk=num_experts_per_tok?6 moe_ffn=moe_intermediate_size?1407 "
     "n_shared=n_shared_experts?0 shared_ffn=:n_shared*moe_ffn "
     "dense_first=first_k_dense_replace?0 moe_freq=moe_layer_freq?1"},
    {"minicpm3", "", "mixer=:MLA q_lora=q_lora_rank kv_lora=kv_lora_rank "
     "qk_nope=qk_nope_head_dim qk_rope=qk_rope_head_dim "
     "v_head_dim=v_head_dim?hidden/heads head_dim=:qk_nope+qk_rope " TIED
     "lora_bias=attention_bias?0 out_bias=attention_bias?0 "
      "ffn_bias=mlp_bias?0"},
    {"minicpm", "llama", TIED},
    /* state spaces and hybrids */
    {"jamba", "", "mamba_mixer=:MAMBA mamba_ssm_norms "
     "attn_every=attn_layer_period?8 "
     "attn_offset=attn_layer_offset?4 experts=num_experts?16 "
     "topk=num_experts_per_tok?2 moe_ffn=:ffn moe_freq=expert_layer_period?2 "
     "moe_shift=:moe_freq-moe_off moe_off=expert_layer_offset?1 rope=0 "
     "mamba_inner=:expand*hidden expand=mamba_expand?2 "
     "mamba_state=mamba_d_state?16 mamba_conv=mamba_d_conv?4 "
     "mamba_dt_rank=mamba_dt_rank?0 mamba_in_bias=mamba_proj_bias?0 "
     "mamba_ssm_out=mamba_proj_bias?0 mamba_conv_bias=mamba_conv_bias?1 "
     "kv_heads=num_key_value_heads?8"},
    {"mamba", "", TIED "mixer=:MAMBA heads=0 kv_heads=0 head_dim=0 "
     "v_head_dim=0 ffn=0 inner=intermediate_size?wide wide=:expand*hidden "
     "expand=expand?2 state=state_size?16 "
     "conv=conv_kernel?4 dt_rank=time_step_rank?0 in_bias=use_bias?0 "
     "ssm_out=use_bias?0 conv_bias=use_conv_bias?1 rope=0 "
     "max_pos=max_position_embeddings?2048"},
    {"falcon_mamba", "mamba", ""},
    {"mamba2", "", "mixer=:MAMBA2 heads=num_heads?128 kv_heads=0 "
     "head_dim=head_dim?64 v_head_dim=0 ffn=0 inner=:expand*hidden "
     "expand=expand?2 state=state_size?128 groups=n_groups?8 "
     "conv=conv_kernel?4 in_bias=use_bias?0 ssm_out=use_bias?0 "
     "conv_bias=use_conv_bias?1 ssm_norms rope=0"},
    {"lfm2", "", TIED "qk_norm=:HEAD kv_heads=num_key_value_heads?8 "
     "conv_mixer=:CONV conv_conv=conv_L_cache?3 conv_conv_bias=conv_bias?0 "
     "conv_in_bias=conv_bias?0 qkv_bias=0 "
     "ffn=block_ff_dim|intermediate_size?12288 "
     "two_thirds=block_auto_adjust_ff_dim?1 multiple=block_multiple_of?256"},
    {"bamba", "", "ffn_bias=mlp_bias?0 mamba_mixer=:MAMBA2 mamba_ssm_norms "
     "all_mamba "
     "mamba_heads=mamba_n_heads?128 mamba_head_dim=mamba_d_head?64 "
     "mamba_state=mamba_d_state?256 mamba_groups=mamba_n_groups?1 "
     "mamba_conv=mamba_d_conv?4 mamba_inner=:expand*hidden "
     "expand=mamba_expand?2 mamba_in_bias=mamba_proj_bias?0 "
     "mamba_ssm_out=mamba_proj_bias?0 mamba_conv_bias=mamba_conv_bias?1 "
     "kv_heads=num_key_value_heads?8"},
    {"granitemoehybrid", "bamba", ATTN_BIAS "experts=num_local_experts?0 "
     "topk=num_experts_per_tok?0 moe_ffn=:raw_ffn raw_ffn=intermediate_size "
     "shared_ffn=shared_intermediate_size?1024 "
     "ffn=shared_intermediate_size?1024 " TIED},
    /* encoders */
    {"bert", "", ENCODER},
    {"roberta", "bert", "pos_lost=2 vocab?50265"},
    {"xlm-roberta", "roberta", "vocab?250002"},
    {"xlm-roberta-xl", "roberta", "order=:PRE embed_norm=0 final_norm"},
    {"big_bird", "bert", ""}, {"camembert", "roberta", ""}, {"ernie", "bert",
      "types=use_task_id{types_tasks,kinds}?kinds kinds=type_vocab_size?2 "
      "types_tasks=:kinds+tasks tasks=task_type_vocab_size?3"},
    {"megatron-bert", "bert", "order=:PRE embed_norm=0 final_norm"},
    {"distilbert", "bert", "hidden=dim layers=n_layers heads=n_heads "
     "ffn=hidden_dim types=0 pooler=0 cls_pooler"},
    {"albert", "bert", "embed_dim=embedding_size?128 project_last "
     "shared_layers hidden?4096 heads?64 ffn?16384 vocab?30000"},
    {"electra", "bert", "embed_dim=embedding_size?128 project_last pooler=0 "
     "cls_pooler"},
    {"mpnet", "bert", "types=0 rel_buckets=relative_attention_num_buckets?32 "
     "rel_heads=:heads pos_lost=2"},
    {"nomic_bert", "bert", "rope positions=0 qkv_bias=0 out_bias=0 "
     "ffn_bias=0 gated "
     "hidden=hidden_size|n_embd ffn=intermediate_size|n_inner pooler=0"},
    {"deberta-v2", "bert", "types=type_vocab_size?0 pooler=0 cls_pooler "
     "positions=position_biased_input{max_pos,0}?max_pos "
     "rel_rows=relative_attention{rel2,0}?0 rel2=:2*rel_span "
     "rel_span=position_buckets?max_pos rel_norm=norm_rel_ebd~layer_norm?0 "
     "kv_heads=:heads head_dim=:hidden/heads"},
    {"modernbert", "", "norm=norm_bias{LAYER,LAYER_NB}?LAYER_NB causal=0 "
     "head=0 "
      "encoder embed_norm "
     "qkv_bias=attention_bias?0 out_bias=attention_bias?0 ffn_bias=mlp_bias?0 "
     "first_plain"},
    /* encoder and decoder */
    {"t5", "", "encdec causal=0 dec_causal=1 dec_cross=1 rope=0 hidden=d_model "
     "layers=num_layers dec_layers=num_decoder_layers?layers heads=num_heads "
     "kv_heads=:heads head_dim=d_kv?64 ffn=d_ff "
     "gated=feed_forward_proj~gated?0 dec_same_table "
     "rel_buckets=relative_attention_num_buckets?32 rel_heads=:heads "
     "unscaled max_pos=n_positions?512 " TIED "vocab?32128"},
    {"mt5", "t5", "tied=tie_word_embeddings?0 gated=feed_forward_proj~gated?1 "
     "vocab?250112"},
    {"bart", "", SEQ2SEQ "positions=:max_pos+2 embed_norm final_norm=0"},
    {"mbart", "bart", "order=:PRE final_norm"},
    {"plbart", "bart", ""},
    {"blenderbot-small", "bart", "positions=:max_pos"},
    {"blenderbot", "bart", "positions=:max_pos order=:PRE embed_norm=0 "
     "final_norm"},
    {"pegasus", "bart", "positions=:max_pos order=:PRE embed_norm=0 "
     "final_norm"},
    {"marian", "bart", "positions=:max_pos embed_norm=0"},
    {"m2m_100", "bart", "positions=0 order=:PRE embed_norm=0 final_norm"},
    {"whisper", "", SEQ2SEQ "order=:PRE final_norm k_bias=0 vocab=0 "
     "dec_vocab=vocab_size dec_same_table=0 mels=num_mel_bins?80 dec_mels=0 "
     "positions=max_source_positions?1500 "
     "max_pos=max_target_positions?448 dec_positions=:max_pos head=:dec_vocab"},
    /* images */
    {"vit", "", VISION "qkv_bias=qkv_bias?1"},
    {"deit", "vit", "class_tokens=2"},
    {"vit_msn", "vit", ""}, {"vit_mae", "vit", ""},
    {"ijepa", "vit", "class_tokens=0 pool=0"},
    {"clip_vision_model", "vit", "patch_bias=0 patch=patch_size?32 pre_norm "
     "qkv_bias=1"},
    {"clip_text_model", "", LAYERNORM BIASED "gated=0 rope=0 head=0 encoder "
     "max_pos=max_position_embeddings?77 positions=:max_pos hidden?512 "
     "layers?12 heads?8 ffn?2048 vocab?49408"},
    {"clip", "clip_text_model", "clip "
     "vis_hidden=^vision_config.hidden_size?768 "
     "vis_layers=^vision_config.num_hidden_layers?12 "
     "vis_heads=^vision_config.num_attention_heads?12 "
     "vis_ffn=^vision_config.intermediate_size?3072 vis_pool "
     "vis_image=^vision_config.image_size?224 vis_vocab=0 vis_causal=0 "
     "vis_patch=^vision_config.patch_size?32 vis_channels=3 vis_patch_bias=0 "
     "vis_class_tokens=1 vis_positions=1 vis_pre_norm "
     "vis_kv_heads=:vis_heads vis_head_dim=:vis_hidden/vis_heads "
     "vis_v_head_dim=:vis_head_dim vis_embed_dim=:vis_hidden "
     "feature=^projection_dim?512 pool"},
    /* towers of images beside a language model; the size of the image is
     * free where the file names none */
    {"qwen2_5_vl_vision", "", "qkv_bias out_bias ffn_bias causal=0 vision "
     "vocab=0 "
     "hidden=hidden_size?1280 layers=depth?32 heads=num_heads?16 "
     "ffn=intermediate_size?3420 kv_heads=:heads head_dim=:hidden/heads "
     "patch=patch_size|spatial_patch_size?14 image=:32*patch "
     "channels=in_channels|in_chans?3 frames=temporal_patch_size?2 "
     "final_norm=0 "
     "merge=spatial_merge_size?2 adapter_norm adapter_norm_kind=:norm "
     "square=:merge*merge adapter_hidden=:square*hidden adapter_bias "
     "adapter_out=out_hidden_size?3584"},
    {"qwen2_vl_vision", "qwen2_5_vl_vision", LAYERNORM "gated=0 "
     "hidden=embed_dim?1280 ffn=:ratio*hidden ratio=mlp_ratio?4 "
     "adapter_out=hidden_size?3584"},
    {"gemma3_vision", "vit", "class_tokens=0 pool=0 qkv_bias=1 "
     "image=image_size?896 patch=patch_size?14 merge=4 mean adapter_norm "
     "adapter_norm_kind=:RMS hidden?1152 layers?27 heads?16 ffn?4304"},
    {"paligemma_vision", "gemma3_vision", "merge=0 adapter_norm=0 adapter_bias "
     "image=image_size?224"},
    {"llava_vision", "clip_vision_model", "pool=0 adapter_two adapter_bias "
     "image=image_size?336 patch=patch_size?14 hidden?1024 layers?24 heads?16 "
     "ffn?4096"},
    {"mllama_vision", "", LAYERNORM "ffn_bias gated=0 rope=0 causal=0 vision "
     "vocab=0 layers=:locals+globals locals=num_hidden_layers?32 "
     "globals=num_global_layers?8 global_gates heads=attention_heads?16 "
     "kv_heads=:heads image=image_size?560 patch=patch_size?14 channels=3 "
     "class_tokens=1 positions=1 pre_norm tiles=max_num_tiles?4 "
     "aspects=:ratios+1 ratios=#supported_aspect_ratios?8 "
     "adapter_in=vision_output_dim?7680 adapter_bias not_inserted "
     "hidden?1280 ffn?5120"},
    {"gemma4_vision", "", "order=:SANDWICH qk_norm=:HEAD causal=0 vision "
     "vocab=0 "
     "head_dim=head_dim?64 patch=patch_size?16 image=:48*patch channels=3 "
     "positions=:2*rows rows=position_embedding_size?10240 final_norm=0 "
     "merge=pooling_kernel_size?3 mean hidden?768 layers?16 heads?12 ffn?3072"},
    {NULL, NULL, NULL},
};
// clang-format on
