"""Round trips with models of the shape of Hugging Face's: config.json and
model.safetensors written here with torch go into paradl train; the first loss is
torch's to 1e-5 and ten of them to 1e-4; what --save wrote goes back into the
module with all its keys (strict), and its weights are torch's after the same
steps. Files sharded, tied, in half precision, of the bare model, of Meta, timm
and torchvision; what is refused, and how. Usage: hf_torch.py PARADL"""
import json, os, struct, subprocess, sys, tempfile
import torch
import torch.nn.functional as F
from hf_nets import Bert, Bloom, Fused, GPT2, Llama, Roberta, ViT

paradl = sys.argv[1]
torch.manual_seed(3)
torch.set_num_threads(1)
env = dict(os.environ, OMP_NUM_THREADS="1")
bad = 0
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}
BACK = {v: k for k, v in TYPES.items()}


def put(path, tensors):
    head, data, at = {}, [], 0
    for name, t in tensors.items():
        raw = t.contiguous().view(torch.int16 if t.element_size() == 2 else t.dtype).numpy().tobytes()
        head[name] = {"dtype": TYPES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def get(path):
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = torch.frombuffer(bytearray(raw[8 + n + a:8 + n + b]), dtype=BACK[t["dtype"]]).reshape(t["shape"])
    return out


def shard(d, tensors):
    names, half = list(tensors), len(tensors) // 2
    where = {}
    for k, part in enumerate((names[:half], names[half:])):
        file = f"model-{k + 1:05}-of-00002.safetensors"
        put(f"{d}/{file}", {n: tensors[n] for n in part})
        where.update({n: file for n in part})
    json.dump({"metadata": {}, "weight_map": where}, open(d + "/model.safetensors.index.json", "w"))


def run(*args, fails=False):
    p = subprocess.run([paradl, "train", *args, "--json", "--threads", "1"], capture_output=True, text=True, env=env)
    if fails:
        return p.returncode, p.stderr
    if p.returncode:
        sys.exit(f"train {' '.join(args)}: {p.stderr}")
    lines = [json.loads(x) for x in p.stdout.splitlines()]
    return [x["loss"] for x in lines if "step" in x and not x.get("epoch_ended")], p.stderr


def check(name, what, err, bound):
    global bad
    good = err <= bound
    print(f"{name}: {what}: {err:.1e} (bound {bound:g}){'' if good else '  FAILED'}")
    bad |= not good


def far(a, b):
    return max(abs(p - q) / abs(q) for p, q in zip(a, b))


def philox(key, counter, rounds=10):
    """Philox 4x32 (Salmon et al., SC 2011)."""
    c, k = [counter[0] & 0xffffffff, counter[0] >> 32, counter[1] & 0xffffffff, counter[1] >> 32], [key & 0xffffffff, key >> 32]
    for _ in range(rounds):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xffffffff, a >> 32 ^ c[3] ^ k[1], a & 0xffffffff]
        k = [k[0] + 0x9E3779B9 & 0xffffffff, k[1] + 0xBB67AE85 & 0xffffffff]
    return c


def mask(x, epoch, token, vocabulary, seed=0):
    """What the encoder sees and is asked for in an epoch (src/train/exec/masking.c)."""
    seen, label = x.clone(), torch.full_like(x, -100)
    t, (low, high, _, _) = x.shape[1], philox(seed, (epoch, 0x6461746100000006))
    for s in range(len(x)):
        draws = sorted((philox(high << 32 | low, (i, s)), i) for i in range(t))
        for r, i in draws[:int(.15 * t + .5)]:
            label[s, i] = x[s, i]
            kind = r[1] % 10
            seen[s, i] = token if kind < 8 else r[2] % vocabulary if kind == 8 else x[s, i]
    return seen, label


def steps(net, batch, lr, n):
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    losses = []
    for k in range(n):
        x, y = batch(k)
        opt.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        opt.step()
        losses.append(float(loss))
    return losses


def round_trip(name, net, config, data, batch, samples, lr, dtype=torch.float32, how="one", extra=(), strip="",
               tells=""):
    """One batch is all samples, so that every step sees all of them."""
    with tempfile.TemporaryDirectory() as d:
        json.dump(config, open(d + "/config.json", "w"))
        first = {k: v.detach().to(dtype) for k, v in net.state_dict().items()}
        tied = {k for k in first if k.startswith(("lm_head.decoder.", "lm_head.weight", "cls.predictions.decoder."))}
        if config.get("tie_word_embeddings") or config["model_type"] in ("gpt2", "bert", "falcon", "roberta", "bloom", "mpt"):
            stored = {k: v for k, v in first.items() if k not in tied}  # as save_pretrained does
        else:
            stored = first
        stored = {k[len(strip):] if k.startswith(strip) else k: v for k, v in stored.items()}
        net.load_state_dict({k: v.float() for k, v in first.items()})
        shard(d, stored) if how == "shards" else put(d + "/model.safetensors", stored)
        base = [d + "/config.json", "--data", data, "--batch", str(samples), "--lr", repr(lr), "--optimizer",
                "sgd:momentum=0.9", "--raw", "--load", d, "--no-test", *extra]
        ours, said = run(*base, "--steps", "10", "--save", d + "/out.safetensors")
        theirs = steps(net, batch, lr, 10)
        check(name, "first loss", abs(ours[0] - theirs[0]) / theirs[0], 1e-5)
        check(name, "ten losses", far(ours, theirs), 1e-4)
        if tells not in said or (said and not tells):
            print(f"{name}: unexpected: {said}")
            check(name, "messages", 1, 0)
        back, trained = get(d + "/out.safetensors"), {k: v.clone() for k, v in net.state_dict().items()}
        print(f"{name}: {len(back)} keys back, strict: {net.load_state_dict(back, strict=True)}")
        check(name, "weights after ten steps", max(float((back[k] - v).abs().max()) for k, v in trained.items()), 1e-4)
        return back


def tokens(d, n, t, vocab):
    ids = torch.randint(0, vocab, (n * t + 1,))
    for part in ("train.bin", "val.bin"):
        open(d + "/" + part, "wb").write(ids.to(torch.int16).numpy().tobytes())
    return ids[:-1].view(n, t), ids[1:].view(n, t)


def npy(path, t, kind):
    shape = ", ".join(map(str, t.shape)) + ("," if t.dim() == 1 else "")
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + t.numpy().tobytes())


LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 61,
         "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
         "tie_word_embeddings": False, "torch_dtype": "float32"}
STRETCHED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 32}
GPT = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4,
       "n_positions": 16, "vocab_size": 61, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
BERT = {"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 61, "max_position_embeddings": 20,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
NEOX = {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 48, "vocab_size": 61, "max_position_embeddings": 16,
        "rotary_pct": 0.25, "rotary_emb_base": 10000, "layer_norm_eps": 1e-5, "hidden_act": "gelu",
        "use_parallel_residual": True, "tie_word_embeddings": False}
FALCON = {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 32, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": True, "vocab_size": 61, "bias": False,
          "alibi": False, "parallel_attn": True, "multi_query": True, "layer_norm_epsilon": 1e-5,
          "max_position_embeddings": 16}
BLOOM = {"architectures": ["BloomForCausalLM"], "model_type": "bloom", "hidden_size": 32, "n_layer": 2, "n_head": 4,
         "vocab_size": 61, "seq_length": 16, "layer_norm_epsilon": 1e-5}
MPT = {"architectures": ["MptForCausalLM"], "model_type": "mpt", "d_model": 32, "n_heads": 4, "n_layers": 2,
       "expansion_ratio": 4, "max_seq_len": 16, "vocab_size": 61, "no_bias": True, "learned_pos_emb": True,
       "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_type": "multihead_attention"}}
ROBERTA = {**BERT, "architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "max_position_embeddings": 22,
           "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
PAIRS = {**BERT, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}
VIT = {"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 32, "num_hidden_layers": 2,
       "num_attention_heads": 4, "intermediate_size": 64, "image_size": 16, "patch_size": 4, "num_channels": 3,
       "layer_norm_eps": 1e-12, "hidden_act": "gelu", "qkv_bias": True, "id2label": {str(i): "x" for i in range(7)}}


def main():
    N, T = 6, 16
    with tempfile.TemporaryDirectory() as d:
        x, y = tokens(d, N, T, 61)
        plain = lambda k: (x, y)
        round_trip("llama", Llama(LLAMA), LLAMA, d, plain, N, 0.05)
        round_trip("llama tied, sharded, bfloat16", Llama({**LLAMA, "tie_word_embeddings": True}),
                   {**LLAMA, "tie_word_embeddings": True}, d, plain, N, 0.05, torch.bfloat16, "shards")
        round_trip("llama 3.1 positions, float16", Llama({**LLAMA, "rope_scaling": STRETCHED, "rope_theta": 50.0}),
                   {**LLAMA, "rope_scaling": STRETCHED, "rope_theta": 50.0}, d, plain, N, 0.05, torch.float16)
        for kind in ("qwen2", "qwen3", "phi3"):
            c = {**LLAMA, "model_type": kind, "architectures": [kind.capitalize() + "ForCausalLM"]}
            if kind == "qwen3":
                c["head_dim"] = 8
            round_trip(kind, Llama(c), c, d, plain, N, 0.05)
        round_trip("gpt2", GPT2(GPT), GPT, d, plain, N, 0.05)
        round_trip("gpt2, names without transformer.", GPT2(GPT), GPT, d, plain, N, 0.05, strip="transformer.")
        round_trip("gpt_neox", Fused(NEOX), NEOX, d, plain, N, 0.05)
        round_trip("falcon, norms for each half", Fused(FALCON), FALCON, d, plain, N, 0.05)
        old = {**FALCON, "new_decoder_architecture": False}
        round_trip("falcon, one norm and one key", Fused(old), old, d, plain, N, 0.05)
        for heads in (4, 6):  # a power of two, and none
            round_trip(f"bloom, {heads} heads", Bloom({**BLOOM, "hidden_size": 48, "n_head": heads}),
                       {**BLOOM, "hidden_size": 48, "n_head": heads}, d, plain, N, 0.05)
        round_trip("mpt", Bloom(MPT), MPT, d, plain, N, 0.05)
        alibi = {**old, "alibi": True}
        round_trip("falcon with distances", Fused(alibi), alibi, d, plain, N, 0.05, tells="rounded to bfloat16")
        masked = lambda k: mask(x, k, 60, 60)
        x.clamp_(max=59)
        for part in ("train.bin", "val.bin"):
            open(d + "/" + part, "wb").write(torch.cat([x.flatten(), x[0, :1]]).to(torch.int16).numpy().tobytes())
        round_trip("bert", Bert(BERT), BERT, d, masked, N, 0.02, extra=("--dim", f"head=1,seq={T}", "--mask-token", "60"))
        round_trip("roberta", Roberta(ROBERTA), ROBERTA, d, masked, N, 0.02,
                   extra=("--dim", f"head=1,seq={T}", "--mask-token", "60"))
    with tempfile.TemporaryDirectory() as d:
        x, y = torch.randint(0, 61, (N, 20), dtype=torch.int32), torch.randint(0, 3, (N,), dtype=torch.int32)
        npy(d + "/x_train.npy", x, "<i4")
        npy(d + "/y_train.npy", y, "<i4")
        batch = lambda k: (x.long(), y.long())
        round_trip("bert classifier", Bert(PAIRS), PAIRS, d, batch, N, 0.05)
        told = {**ROBERTA, "architectures": ["RobertaForSequenceClassification"], "id2label": PAIRS["id2label"]}
        round_trip("roberta classifier", Roberta(told), told, d, batch, N, 0.05)
    with tempfile.TemporaryDirectory() as d:
        x, y = torch.randn(N, 3, 16, 16), torch.randint(0, 7, (N,), dtype=torch.int32)
        y[0] = 6
        npy(d + "/x_train.npy", x, "<f4")
        npy(d + "/y_train.npy", y, "<i4")
        batch = lambda k: (x, y.long())
        back = round_trip("vit", ViT(VIT), VIT, d, batch, N, 0.02)
        # another number of classes: the classifier stays as it was made, and that is said
        five = {**VIT, "id2label": {str(i): "x" for i in range(9)}}
        json.dump(five, open(d + "/config.json", "w"))
        put(d + "/model.safetensors", back)
        base = (d + "/config.json", "--data", d, "--batch", str(N), "--steps", "1", "--raw", "--no-test", "--load", d)
        code, said = run(*base, fails=True)
        print("vit, 9 classes:", said.strip())
        check("vit, 9 classes", "refused", 0 if code == 3 and "classifier" in said and "--partial" in said else 1, 0)
        _, said = run(*base, "--partial", "--freeze", "embed.*,layers.*", "--save", d + "/out.safetensors")
        print("vit, 9 classes:", said.strip())
        check("vit, 9 classes", "said", 0 if said.count("left as initialised") == 2 else 1, 0)
        after = get(d + "/out.safetensors")
        moved = sorted(k for k in after if k not in back or after[k].shape != back[k].shape or not torch.equal(after[k], back[k]))
        check("frozen", "only these moved: " + ", ".join(moved), 0 if moved == [
            "classifier.bias", "classifier.weight", "vit.layernorm.bias", "vit.layernorm.weight"] else 1, 0)
    sys.exit(bad)


if __name__ == "__main__":
    main()
