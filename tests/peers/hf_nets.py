"""Tiny models with the keys, shapes and arithmetic of transformers' classes, as
plain torch modules: LlamaForCausalLM, GPT2LMHeadModel, BertForMaskedLM,
BertForSequenceClassification, ViTForImageClassification, GPTNeoXForCausalLM,
FalconForCausalLM, RobertaForMaskedLM, RobertaForSequenceClassification,
BloomForCausalLM, MptForCausalLM.
Attribute names are chosen so that state_dict() has the published keys."""
import math
import torch
import torch.nn.functional as F
from torch import nn


def group(**parts):
    m = nn.Module()
    for k, v in parts.items():
        setattr(m, k, v)
    return m


def attend(q, k, v, heads, kv_heads, causal):
    n, t, _ = q.shape
    q, k, v = (x.view(n, t, h, -1).transpose(1, 2) for x, h in ((q, heads), (k, kv_heads), (v, kv_heads)))
    return q, k.repeat_interleave(heads // kv_heads, 1), v.repeat_interleave(heads // kv_heads, 1), causal


def slopes(heads, most=8):
    """ALiBi: of a power of two of heads 2^(-8/n), 2^(-16/n) ...; the others take every second of twice as many."""
    n = 2 ** math.floor(math.log2(heads))
    some = [2 ** (-most * (i + 1) / n) for i in range(n)]
    more = [2 ** (-most * (i + 1) / (2 * n)) for i in range(0, 2 * n, 2)]
    return torch.tensor((some + more)[:heads])


def mix(q, k, v, causal, slope=None):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if slope is not None:  # by the position of the key alone: a query's own is the same for all its keys
        s = s + slope.view(-1, 1, 1) * torch.arange(s.shape[-1])
    if causal:
        s = s + torch.full(s.shape[-2:], -math.inf, dtype=s.dtype).triu(1)
    return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)


class RMS(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def frequencies(c, d):
    f = c["rope_theta"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    s = c.get("rope_scaling")
    if s:  # llama3: transformers' modeling_rope_utils
        low = s["original_max_position_embeddings"] / s["low_freq_factor"]
        high = s["original_max_position_embeddings"] / s["high_freq_factor"]
        wave = 2 * math.pi / f
        smooth = (s["original_max_position_embeddings"] / wave - s["low_freq_factor"]) / (
            s["high_freq_factor"] - s["low_freq_factor"])
        between = (1 - smooth) * f / s["factor"] + smooth * f
        f = torch.where(wave > low, f / s["factor"], torch.where(wave < high, f, between))
    return f


def turn(x, f):
    angle = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), f).to(x.dtype)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Llama(nn.Module):
    """Also Qwen (biases, norms of heads), and Phi-3 with fused projections."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        h, d = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"]
        q, kv, f, eps = c["num_attention_heads"] * d, c["num_key_value_heads"] * d, c["intermediate_size"], c["rms_norm_eps"]
        bias = c["model_type"] == "qwen2"
        layers = []
        for _ in range(c["num_hidden_layers"]):
            if c["model_type"] == "phi3":
                a = group(qkv_proj=nn.Linear(h, q + 2 * kv, False), o_proj=nn.Linear(q, h, False))
                m = group(gate_up_proj=nn.Linear(h, 2 * f, False), down_proj=nn.Linear(f, h, False))
            else:
                a = group(q_proj=nn.Linear(h, q, bias), k_proj=nn.Linear(h, kv, bias), v_proj=nn.Linear(h, kv, bias),
                          o_proj=nn.Linear(q, h, False))
                m = group(gate_proj=nn.Linear(h, f, False), up_proj=nn.Linear(h, f, False),
                          down_proj=nn.Linear(f, h, False))
            if c["model_type"] == "qwen3":
                a.q_norm, a.k_norm = RMS(d, eps), RMS(d, eps)
            layers.append(group(self_attn=a, mlp=m, input_layernorm=RMS(h, eps), post_attention_layernorm=RMS(h, eps)))
        self.model = group(embed_tokens=nn.Embedding(c["vocab_size"], h), layers=nn.ModuleList(layers), norm=RMS(h, eps))
        self.lm_head = nn.Linear(h, c["vocab_size"], False)
        if c.get("tie_word_embeddings"):
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, ids):
        c, x = self.c, self.model.embed_tokens(ids)
        heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
        d = c["hidden_size"] // heads
        f = frequencies(c, d)
        for l in self.model.layers:
            h, a, m = l.input_layernorm(x), l.self_attn, l.mlp
            if c["model_type"] == "phi3":
                q, k, v = a.qkv_proj(h).split([heads * d, kv * d, kv * d], -1)
            else:
                q, k, v = a.q_proj(h), a.k_proj(h), a.v_proj(h)
            if c["model_type"] == "qwen3":
                q, k = (norm(y.view(*y.shape[:2], -1, d)).flatten(2) for norm, y in ((a.q_norm, q), (a.k_norm, k)))
            q, k, v, _ = attend(q, k, v, heads, kv, True)
            x = x + a.o_proj(mix(turn(q, f), turn(k, f), v, True))
            h = l.post_attention_layernorm(x)
            if c["model_type"] == "phi3":
                g, u = m.gate_up_proj(h).chunk(2, -1)
            else:
                g, u = m.gate_proj(h), m.up_proj(h)
            x = x + m.down_proj(F.silu(g) * u)
        return self.lm_head(self.model.norm(x))


class Conv1D(nn.Module):
    """transformers': weight [in, out]."""

    def __init__(self, nout, nin):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(nin, nout) * .1), nn.Parameter(torch.randn(nout) * .1)

    def forward(self, x):
        return x @ self.weight + self.bias


class GPT2(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        h, eps = c["n_embd"], c["layer_norm_epsilon"]
        layers = [group(ln_1=nn.LayerNorm(h, eps), ln_2=nn.LayerNorm(h, eps),
                        attn=group(c_attn=Conv1D(3 * h, h), c_proj=Conv1D(h, h)),
                        mlp=group(c_fc=Conv1D(4 * h, h), c_proj=Conv1D(h, 4 * h))) for _ in range(c["n_layer"])]
        self.transformer = group(wte=nn.Embedding(c["vocab_size"], h), wpe=nn.Embedding(c["n_positions"], h),
                                 h=nn.ModuleList(layers), ln_f=nn.LayerNorm(h, eps))
        self.lm_head = nn.Linear(h, c["vocab_size"], False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, ids):
        t, n = self.transformer, self.c["n_head"]
        x = t.wte(ids) + t.wpe.weight[:ids.shape[1]]
        for l in t.h:
            q, k, v, _ = attend(*l.attn.c_attn(l.ln_1(x)).chunk(3, -1), n, n, True)
            x = x + l.attn.c_proj(mix(q, k, v, True))
            x = x + l.mlp.c_proj(F.gelu(l.mlp.c_fc(l.ln_2(x)), approximate="tanh"))
        return self.lm_head(t.ln_f(x))


class Fused(nn.Module):
    """GPT-NeoX (a part of each head is rotated) and Falcon (with new_decoder_architecture a norm for each half):
    queries, keys and values of a group of heads lie together in one weight."""

    def __init__(self, c):
        super().__init__()
        self.c, self.neox = c, c["model_type"] == "gpt_neox"
        h, n, v = c["hidden_size"], c["num_attention_heads"], c["vocab_size"]
        eps, b, d = c.get("layer_norm_eps", 1e-5), self.neox, h // n
        self.kv = n if self.neox else c["num_kv_heads"] if c["new_decoder_architecture"] else 1
        f = c["intermediate_size"] if self.neox else 4 * h
        layers = []
        for _ in range(c["num_hidden_layers"]):
            a = group(query_key_value=nn.Linear(h, (n + 2 * self.kv) * d, b), dense=nn.Linear(h, h, b))
            l = group(mlp=group(dense_h_to_4h=nn.Linear(h, f, b), dense_4h_to_h=nn.Linear(f, h, b)))
            setattr(l, "attention" if self.neox else "self_attention", a)
            norms = ("input_layernorm", "post_attention_layernorm") if self.neox else \
                ("ln_attn", "ln_mlp") if c["new_decoder_architecture"] else ("input_layernorm",)
            for name in norms:
                setattr(l, name, nn.LayerNorm(h, eps))
            l.names = norms
            layers.append(l)
        for_all = nn.ModuleList(layers)
        if self.neox:
            self.gpt_neox = group(embed_in=nn.Embedding(v, h), layers=for_all, final_layer_norm=nn.LayerNorm(h, eps))
            self.embed_out = nn.Linear(h, v, False)
        else:
            self.transformer = group(word_embeddings=nn.Embedding(v, h), h=for_all, ln_f=nn.LayerNorm(h, eps))
            self.lm_head = nn.Linear(h, v, False)
            self.lm_head.weight = self.transformer.word_embeddings.weight

    def attention(self, a, x):
        n, kv, (b, t, h) = self.c["num_attention_heads"], self.kv, x.shape
        d = h // n
        qkv = a.query_key_value(x).view(b, t, kv, n // kv + 2, d)
        q, k, v = qkv[..., :-2, :].flatten(2), qkv[..., -2, :].flatten(2), qkv[..., -1, :].flatten(2)
        q, k, v, _ = attend(q, k, v, n, kv, True)
        if self.c.get("alibi"):  # before scores are divided
            return a.dense(mix(q, k, v, True, slopes(n) / math.sqrt(d)))
        r = int(d * self.c["rotary_pct"]) if self.neox else d
        f = frequencies({"rope_theta": 10000.0}, r)
        q, k = (torch.cat([turn(y[..., :r], f), y[..., r:]], -1) for y in (q, k))
        return a.dense(mix(q, k, v, True))

    def forward(self, ids):
        m = self.gpt_neox if self.neox else self.transformer
        x = (m.embed_in if self.neox else m.word_embeddings)(ids)
        for l in m.layers if self.neox else m.h:
            first, last = getattr(l, l.names[0]), getattr(l, l.names[-1])
            y = self.attention(l.attention if self.neox else l.self_attention, first(x))
            x = x + y + l.mlp.dense_4h_to_h(F.gelu(l.mlp.dense_h_to_4h(last(x))))
        return self.embed_out(m.final_layer_norm(x)) if self.neox else self.lm_head(m.ln_f(x))


class Bloom(nn.Module):
    """And MPT: no biases, weights of the three projections one after the other."""

    def __init__(self, c):
        super().__init__()
        self.c, self.mpt = c, c["model_type"] == "mpt"
        h, v = (c["d_model"] if self.mpt else c["hidden_size"]), c["vocab_size"]
        self.heads = c["n_heads"] if self.mpt else c["n_head"]
        layers = []
        for _ in range(c["n_layers"] if self.mpt else c["n_layer"]):
            if self.mpt:
                layers.append(group(norm_1=nn.LayerNorm(h), norm_2=nn.LayerNorm(h),
                                    attn=group(Wqkv=nn.Linear(h, 3 * h, False), out_proj=nn.Linear(h, h, False)),
                                    ffn=group(up_proj=nn.Linear(h, 4 * h, False), down_proj=nn.Linear(4 * h, h, False))))
                layers[-1].norm_1.bias = layers[-1].norm_2.bias = None
            else:
                layers.append(group(input_layernorm=nn.LayerNorm(h), post_attention_layernorm=nn.LayerNorm(h),
                                    self_attention=group(query_key_value=nn.Linear(h, 3 * h), dense=nn.Linear(h, h)),
                                    mlp=group(dense_h_to_4h=nn.Linear(h, 4 * h), dense_4h_to_h=nn.Linear(4 * h, h))))
        if self.mpt:
            self.transformer = group(wte=nn.Embedding(v, h), blocks=nn.ModuleList(layers), norm_f=nn.LayerNorm(h))
            self.transformer.norm_f.bias = None
        else:
            self.transformer = group(word_embeddings=nn.Embedding(v, h), word_embeddings_layernorm=nn.LayerNorm(h),
                                     h=nn.ModuleList(layers), ln_f=nn.LayerNorm(h))
        self.lm_head = nn.Linear(h, v, False)
        self.lm_head.weight = (self.transformer.wte if self.mpt else self.transformer.word_embeddings).weight

    def forward(self, ids):
        t, n = self.transformer, self.heads
        x = t.wte(ids) if self.mpt else t.word_embeddings_layernorm(t.word_embeddings(ids))
        for l in t.blocks if self.mpt else t.h:
            if self.mpt:
                qkv = l.attn.Wqkv(l.norm_1(x)).chunk(3, -1)
            else:
                y = l.self_attention.query_key_value(l.input_layernorm(x))
                y = y.view(*y.shape[:2], n, 3, -1)
                qkv = (y[..., i, :].flatten(2) for i in range(3))
            q, k, v, _ = attend(*qkv, n, n, True)
            y = mix(q, k, v, True, slopes(n))
            if self.mpt:
                x = x + l.attn.out_proj(y)
                x = x + l.ffn.down_proj(F.gelu(l.ffn.up_proj(l.norm_2(x))))
            else:
                x = x + l.self_attention.dense(y)
                m = l.mlp
                x = x + m.dense_4h_to_h(F.gelu(m.dense_h_to_4h(l.post_attention_layernorm(x)), approximate="tanh"))
        return self.lm_head((t.norm_f if self.mpt else t.ln_f)(x))


def encoder_layer(h, f, eps, inner):
    three = dict(query=nn.Linear(h, h), key=nn.Linear(h, h), value=nn.Linear(h, h))
    return group(attention=group(**{inner: group(**three)}, output=group(dense=nn.Linear(h, h))),
                 intermediate=group(dense=nn.Linear(h, f)), output=group(dense=nn.Linear(f, h)))


class Bert(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        h, eps, v = c["hidden_size"], c["layer_norm_eps"], c["vocab_size"]
        layers = []
        for _ in range(c["num_hidden_layers"]):
            l = encoder_layer(h, c["intermediate_size"], eps, "self")
            l.attention.output.LayerNorm, l.output.LayerNorm = nn.LayerNorm(h, eps), nn.LayerNorm(h, eps)
            layers.append(l)
        self.bert = group(embeddings=group(word_embeddings=nn.Embedding(v, h),
                                           position_embeddings=nn.Embedding(c["max_position_embeddings"], h),
                                           token_type_embeddings=nn.Embedding(2, h), LayerNorm=nn.LayerNorm(h, eps)),
                          encoder=group(layer=nn.ModuleList(layers)))
        self.masked = c["architectures"][0] == "BertForMaskedLM"
        if self.masked:
            p = group(transform=group(dense=nn.Linear(h, h), LayerNorm=nn.LayerNorm(h, eps)), decoder=nn.Linear(h, v))
            p.bias = p.decoder.bias
            p.decoder.weight = self.bert.embeddings.word_embeddings.weight
            self.cls = group(predictions=p)
        else:
            self.bert.pooler = group(dense=nn.Linear(h, h))
            self.classifier = nn.Linear(h, len(c["id2label"]))

    def forward(self, ids):
        e, n = self.bert.embeddings, self.c["num_attention_heads"]
        x = e.word_embeddings(ids) + e.position_embeddings.weight[:ids.shape[1]] + e.token_type_embeddings.weight[0]
        x = e.LayerNorm(x)
        for l in self.bert.encoder.layer:
            s = l.attention.self
            q, k, v, _ = attend(s.query(x), s.key(x), s.value(x), n, n, False)
            x = l.attention.output.LayerNorm(x + l.attention.output.dense(mix(q, k, v, False)))
            x = l.output.LayerNorm(x + l.output.dense(F.gelu(l.intermediate.dense(x))))
        if not self.masked:
            return self.classifier(torch.tanh(self.bert.pooler.dense(x[:, 0])))
        p = self.cls.predictions
        return p.decoder(p.transform.LayerNorm(F.gelu(p.transform.dense(x))))


class Roberta(nn.Module):
    """BERT whose positions begin with row 2, with heads of its own."""

    def __init__(self, c):
        super().__init__()
        b = Bert({**c, "architectures": ["BertForMaskedLM"]})
        h, v, self.c = c["hidden_size"], c["vocab_size"], c
        b.bert.embeddings.token_type_embeddings = nn.Embedding(1, h)
        self.roberta, self.masked = b.bert, c["architectures"][0] == "RobertaForMaskedLM"
        if self.masked:
            self.lm_head = group(dense=nn.Linear(h, h), layer_norm=nn.LayerNorm(h, c["layer_norm_eps"]), decoder=nn.Linear(h, v))
            self.lm_head.bias = self.lm_head.decoder.bias
            self.lm_head.decoder.weight = self.roberta.embeddings.word_embeddings.weight
        else:
            self.classifier = group(dense=nn.Linear(h, h), out_proj=nn.Linear(h, len(c["id2label"])))

    def forward(self, ids):
        e, n = self.roberta.embeddings, self.c["num_attention_heads"]
        x = e.word_embeddings(ids) + e.position_embeddings.weight[2:2 + ids.shape[1]] + e.token_type_embeddings.weight[0]
        x = e.LayerNorm(x)
        for l in self.roberta.encoder.layer:
            s = l.attention.self
            q, k, v, _ = attend(s.query(x), s.key(x), s.value(x), n, n, False)
            x = l.attention.output.LayerNorm(x + l.attention.output.dense(mix(q, k, v, False)))
            x = l.output.LayerNorm(x + l.output.dense(F.gelu(l.intermediate.dense(x))))
        if not self.masked:
            return self.classifier.out_proj(torch.tanh(self.classifier.dense(x[:, 0])))
        p = self.lm_head
        return p.decoder(p.layer_norm(F.gelu(p.dense(x))))


class ViT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        h, eps, p = c["hidden_size"], c["layer_norm_eps"], c["patch_size"]
        layers = []
        for _ in range(c["num_hidden_layers"]):
            l = encoder_layer(h, c["intermediate_size"], eps, "attention")
            l.layernorm_before, l.layernorm_after = nn.LayerNorm(h, eps), nn.LayerNorm(h, eps)
            layers.append(l)
        t = (c["image_size"] // p) ** 2 + 1
        e = group(patch_embeddings=group(projection=nn.Conv2d(c["num_channels"], h, p, p)))
        e.cls_token, e.position_embeddings = nn.Parameter(torch.randn(1, 1, h)), nn.Parameter(torch.randn(1, t, h))
        self.vit = group(embeddings=e, encoder=group(layer=nn.ModuleList(layers)), layernorm=nn.LayerNorm(h, eps))
        self.classifier = nn.Linear(h, len(c["id2label"]))

    def forward(self, image):
        e, n = self.vit.embeddings, self.c["num_attention_heads"]
        x = e.patch_embeddings.projection(image).flatten(2).transpose(1, 2)
        x = torch.cat([e.cls_token.expand(len(x), -1, -1), x], 1) + e.position_embeddings
        for l in self.vit.encoder.layer:
            h, s = l.layernorm_before(x), l.attention.attention
            q, k, v, _ = attend(s.query(h), s.key(h), s.value(h), n, n, False)
            x = x + l.attention.output.dense(mix(q, k, v, False))
            x = x + l.output.dense(F.gelu(l.intermediate.dense(l.layernorm_after(x))))
        return self.classifier(self.vit.layernorm(x)[:, 0])
