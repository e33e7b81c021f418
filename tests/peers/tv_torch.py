"""Networks of images against torchvision: parameters counted, its state_dict into
paradl train, losses and running statistics of a few steps, and the weights back
into its module with all keys. ViT of torchvision and of timm's names, Llama of
Meta's. Usage: tv_torch.py PARADL"""
import json, os, subprocess, sys, tempfile
import torch
import torchvision.models as tv

from hf_torch import LLAMA, check, far, get, npy, put, run, paradl, steps, tokens
from hf_nets import Llama
import hf_torch

LONG = os.environ.get("PDL_LONG")


def parameters(name):
    p = subprocess.run([paradl, "model", "show", name, "--json"], capture_output=True, text=True)
    return json.loads(p.stdout)["parameters"]


COUNTS = {
    "alexnet": "alexnet", "vgg16": "vgg16", "vgg19": "vgg19", "resnet18": "resnet18", "resnet50": "resnet50",
    "densenet121": "densenet121", "mobilenet-v2": "mobilenet_v2", "mobilenet-v3-large": "mobilenet_v3_large",
    "mobilenet-v3-small": "mobilenet_v3_small", "efficientnet-b0": "efficientnet_b0", "googlenet": "googlenet",
    "squeezenet1.0": "squeezenet1_0", "squeezenet1.1": "squeezenet1_1", "vit-b16": "vit_b_16",
    **{f"regnet-{k}-{s}": f"regnet_{k}_{s.replace('.', '_')}"
       for k in "xy" for s in ("400mf", "800mf", "1.6gf", "3.2gf", "8gf")}}


def count(name):
    extra = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return sum(p.numel() for p in getattr(tv, name)(**extra).parameters())


def still(net):
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.
    return net


def trip(name, model, net, size, lr, batch=8, n=3, loose=1e-4, extra=()):
    torch.manual_seed(5)
    still(net).train()
    with tempfile.TemporaryDirectory() as d:
        x, y = torch.randn(batch, 3, size, size), torch.arange(batch, dtype=torch.int32) % 10
        y[0] = 9
        npy(d + "/x_train.npy", x, "<f4")
        npy(d + "/y_train.npy", y, "<i4")
        put(d + "/first.safetensors", {k: v.detach() for k, v in net.state_dict().items()})
        ours, said = run(model, "--data", d, "--batch", str(batch), "--lr", repr(lr), "--raw", "--no-test", "--steps",
                         str(n), "--load", d + "/first.safetensors", "--no-dropout", "--save", d + "/out.safetensors", *extra)
        theirs = steps(net, lambda k: (x, y.long()), lr, n)
        check(name, "first loss", abs(ours[0] - theirs[0]) / theirs[0], 1e-5)
        check(name, f"{n} losses", far(ours, theirs), loose)
        check(name, "messages: " + said, len(said), 0)
        back, trained = get(d + "/out.safetensors"), {k: v.clone() for k, v in net.state_dict().items()}
        net.load_state_dict(back, strict=True)
        stats = [k for k in trained if "running" in k]
        if stats:
            check(name, "running statistics", max(float((back[k] - trained[k]).abs().max() / (1 + trained[k].abs().max()))
                                                  for k in stats), 1e-3)
        print(f"{name}: {len(back)} keys back, all matched")


for ours, theirs in COUNTS.items():
    if parameters(ours) != count(theirs):
        check(ours, f"parameters {parameters(ours)}, torchvision's {count(theirs)}", 1, 0)
print(f"parameters of {len(COUNTS)} networks are torchvision's")
small = dict(num_classes=10)
# a rectifier that falls the other way by a rounding changes what follows at
# once; deep networks of small images are compared where steps are small
trip("resnet18", "resnet18:input=64,classes=10", tv.resnet18(**small), 64, 1e-5)
trip("densenet121", "densenet121:input=64,classes=10", tv.densenet121(**small), 64, 1e-5)
trip("mobilenet-v2", "mobilenet-v2:input=64,classes=10", tv.mobilenet_v2(**small), 64, 1e-6)
trip("mobilenet-v3-small", "mobilenet-v3-small:input=64,classes=10",
     tv.mobilenet_v3_small(**small), 64, 1e-5)
trip("mobilenet-v3-large", "mobilenet-v3-large:input=64,classes=10",
     tv.mobilenet_v3_large(**small), 64, 1e-5)
trip("efficientnet-b0", "efficientnet-b0:input=64,classes=10",
     tv.efficientnet_b0(stochastic_depth_prob=0., **small), 64, 1e-5)
trip("googlenet", "googlenet:input=64,classes=10",
     tv.googlenet(aux_logits=False, init_weights=False, **small), 64, 1e-5)
for v, net in (("1.0", tv.squeezenet1_0), ("1.1", tv.squeezenet1_1)):
    trip("squeezenet" + v, f"squeezenet{v}:input=64,classes=10", net(**small), 64, 1e-3)
trip("regnet-x-400mf", "regnet-x-400mf:input=64,classes=10", tv.regnet_x_400mf(**small), 64, 1e-7)
trip("regnet-y-400mf", "regnet-y-400mf:input=64,classes=10", tv.regnet_y_400mf(**small), 64, 1e-7)
vit = tv.VisionTransformer(image_size=16, patch_size=4, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64,
                           num_classes=10)
torch.nn.init.normal_(vit.heads.head.weight)
VIT = "vit:input=16,patch=4,layers=2,heads=4,hidden=32,ffn=64,classes=10"
trip("vit", VIT, vit, 16, 0.02)
if LONG:
    trip("alexnet", "alexnet:classes=10", tv.alexnet(**small), 224, 1e-3, 2)
    trip("vgg16", "vgg16:classes=10", tv.vgg16(**small), 224, 1e-4, 2)
# the same ViT under timm's names, and a Llama under Meta's: rows of a head in their order
with tempfile.TemporaryDirectory() as d:
    x, y = torch.randn(8, 3, 16, 16), torch.arange(8, dtype=torch.int32) + 2
    npy(d + "/x_train.npy", x, "<f4")
    npy(d + "/y_train.npy", y, "<i4")
    names = {"class_token": "cls_token", "encoder.pos_embedding": "pos_embed", "conv_proj": "patch_embed.proj",
             "encoder.layers.encoder_layer_": "blocks.", ".ln_1": ".norm1", ".ln_2": ".norm2",
             "self_attention.in_proj_": "attn.qkv.", "self_attention.out_proj": "attn.proj", "mlp.0": "mlp.fc1",
             "mlp.3": "mlp.fc2", "encoder.ln.": "norm.", "heads.head": "head"}
    state = {}
    for k, v in vit.state_dict().items():
        for a, b in names.items():
            k = k.replace(a, b)
        state[k] = v
    put(d + "/timm.safetensors", state)
    ours, _ = run(VIT, "--data", d, "--batch", "8", "--raw", "--no-test", "--steps", "1", "--load", d + "/timm.safetensors")
    theirs = float(torch.nn.functional.cross_entropy(vit(x), y.long()))
    check("vit of timm", "loss", abs(ours[0] - theirs) / theirs, 1e-5)
with tempfile.TemporaryDirectory() as d:
    x, y = tokens(d, 6, 16, 61)
    net, heads = Llama(LLAMA), {"q": 4, "k": 2}
    json.dump(LLAMA, open(d + "/config.json", "w"))
    names = {"model.embed_tokens": "tok_embeddings", "model.layers": "layers", "model.norm": "norm",
             "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
             "self_attn.o_proj": "attention.wo", "input_layernorm": "attention_norm", "lm_head": "output",
             "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "feed_forward.w1",
             "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"}
    state = {}
    for k, v in net.state_dict().items():
        for h, n in heads.items():
            if f"self_attn.{h}_proj" in k:  # the two of a pair beside each other
                v = v.view(n, 2, v.shape[0] // n // 2, -1).transpose(1, 2).reshape(v.shape)
        for a, b in names.items():
            k = k.replace(a, b)
        state[k] = v
    put(d + "/meta.safetensors", state)
    ours, _ = run(d + "/config.json", "--data", d, "--batch", "6", "--no-test", "--steps", "1", "--load",
                  d + "/meta.safetensors")
    out = net(x)
    theirs = float(torch.nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()))
    check("llama of Meta", "loss", abs(ours[0] - theirs) / theirs, 1e-5)
sys.exit(hf_torch.bad)
