#!/usr/bin/env python3
"""wrong_inputs.py PARADL: what the runtime reads and is told may be wrong.

Every kind of file (data sets, weights, checkpoints, plans, models, systems,
profiles, measured runs) is given truncated, damaged, empty, with a huge claim,
as something else, as a folder, missing and unreadable; every option that takes
a number is given what is none or too much; every file that is written meets a
full disk. Each time there is one line that names the file or the option, the
right exit code, nothing on standard output, nothing left behind, an end within
150 s and at most 6 GiB of address space.
"""
import concurrent.futures
import gzip
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

paradl = os.path.realpath(sys.argv[1])
source = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
NOBODY = 65534
LIMIT_S, LIMIT_BYTES = 150, 6 << 30
USAGE, INPUT = 2, 3

__file__ = os.path.realpath(__file__)
work = tempfile.mkdtemp(prefix="paradl-wrong-")
os.chmod(work, 0o755)
os.chdir(work)

MODEL = """format: paradl-model/1
name: tiny
kind: cnn
inputs:
  - {name: input, shape: [%s]}
layers:
  - {op: flatten, name: flatten}
  - {op: linear, name: fc, features: 10}
"""
GPT = "gpt:layers=1,hidden=8,heads=1,ffn=8,vocab=256,seq=8"
QUICK = "--steps 1 --batch 4 --backend ref --test-samples 4 --threads 1".split()


# ---- running ----------------------------------------------------------------

def limits(user, blocks):
    def apply():
        if not os.environ.get("PDL_SANITIZED"): # they take terabytes
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if blocks is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (blocks, blocks))
        if user:
            os.setgid(user)
            os.setuid(user)
    return apply


def run(args, user=None, blocks=None, cwd=None):
    env = dict(os.environ, NO_COLOR="1", LC_ALL="C.UTF-8", COLUMNS="80")
    if env.get("PDL_SANITIZED"):
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + \
            ":allocator_may_return_null=1"
    program = [paradl]
    if blocks is not None: # the plan would be the first that does not fit
        program, args = [paradl + "-run", "train", "--plan", "tiny.plan",
                         "--virtual"], args[2:]
    p = subprocess.Popen(program + args, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                         preexec_fn=limits(user, blocks), env=env, cwd=cwd,
                         start_new_session=True)
    try:
        out, err = p.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
        return None, "", "no end after %d s" % LIMIT_S
    return p.returncode, out.decode("utf8", "replace"), \
        err.decode("utf8", "replace")


def complaint(case, rc, out, err):
    """What is wrong with the answer, or None."""
    lines = err.splitlines()
    if rc is None:
        return err
    if rc not in case["rc"]:
        return "exit code %d, wanted %s: %s" % (
            rc, "/".join(map(str, case["rc"])), err.strip()[:300])
    if rc in (0, 1): # done, or the answer is no
        return None
    if out and not case["partly"]:
        return "prints '%s'" % out[:100]
    if len(lines) != 1 or not lines[0].startswith("paradl: "):
        return "%d lines: %s" % (len(lines), err[:300])
    for word in case["says"]:
        if word not in lines[0]:
            return "does not say '%s': %s" % (word, lines[0])
    for name in case["absent"]:
        if os.path.exists(name):
            return "leaves %s behind" % name
    return None


cases = []


def expect(name, args, rc=INPUT, says=(), absent=(), user=None, blocks=None,
           partly=False):
    cases.append(dict(name=name, args=[str(a) for a in args],
                      rc=rc if isinstance(rc, tuple) else (rc,),
                      says=[says] if isinstance(says, str) else list(says),
                      absent=list(absent), user=user, blocks=blocks,
                      partly=partly))


# ---- good files -------------------------------------------------------------

def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def pixels(n):
    return bytes((i * 7 + i // 5) & 255 for i in range(n))


def idx(*dims):
    head = struct.pack(">BBBB", 0, 0, 8, len(dims)) + \
        b"".join(struct.pack(">I", d) for d in dims)
    n = 1
    for d in dims:
        n *= d
    return head + (pixels(n) if len(dims) > 1 else bytes(i % 10 for i in range(n)))


def npy(descr, shape, data):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + data


def cifar(n):
    return b"".join(bytes([i % 10]) + pixels(3072) for i in range(n))


def make_files():
    write("tiny.yaml", MODEL % "1, 8, 8")
    write("color.yaml", MODEL % "3, 32, 32")
    write("small.yaml", MODEL % "1, 2, 3")
    write("row.yaml", MODEL % "3")
    write("idx/train-images-idx3-ubyte", idx(12, 8, 8))
    write("idx/train-labels-idx1-ubyte", idx(12))
    write("idxgz/train-images-idx3-ubyte.gz", gzip.compress(idx(12, 8, 8)))
    write("idxgz/train-labels-idx1-ubyte.gz", gzip.compress(idx(12)))
    write("cifar/data_batch_1.bin", cifar(8))
    write("cifar/test_batch.bin", cifar(4))
    write("npy/x_train.npy", npy("<f4", "(12, 1, 8, 8)", bytes(12 * 256)))
    write("npy/y_train.npy", npy("<i8", "(12,)", bytes(12 * 8)))
    write("rows.csv", "a,b,c,class\n" + "".join(
        "%d,%d,%d,%d\n" % (i, i + 1, i + 2, i % 10) for i in range(40)))
    write("tokens/train.bin", b"".join(
        struct.pack("<H", i * 7 % 256) for i in range(400)))
    write("some.txt", "the quick brown fox jumps over the lazy dog\n" * 10)
    shutil.copy(source + "/tests/fuzz/corpus/io_hdf5/root", "set.h5")
    shutil.copy(source + "/tests/data/onnx/ext_mlp.onnx", "net.onnx")
    write("config.json", """{"architectures": ["GPT2LMHeadModel"],
  "model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_inner": 8,
  "n_positions": 8, "n_ctx": 8, "vocab_size": 16}
""")
    shutil.copy(source + "/systems/abci-v100.yaml", "here.yaml")
    shutil.copy(source + "/tests/fuzz/corpus/comm_profile/usual.yaml",
                "best.profile")
    write("runs.json", """{"schema": "paradl.runs/1", "runs": [
  {"id": "a", "set": "s", "model": "resnet50", "system": "abci-v100",
   "strategy": "data=4", "batch": 128, "precision": "fp32",
   "optimizer": "sgd", "measured": {"step_s": 0.12}, "flags": [],
   "source": "made up"}]}
""")


def make_by_program():
    train = ["train", "tiny.yaml", "--data", "idx"] + QUICK
    for args in (train + ["--save", "w.safetensors", "--checkpoint", "ckpt"],
                 ["project", "tiny.yaml", "--system", "abci-v100", "--strategy",
                  "serial", "--batch", "4", "--emit", "tiny.plan"],
                 train + ["--json"]):
        rc, out, err = run(args)
        if rc != 0:
            sys.exit("%s: %s" % (" ".join(args), err))
    write("run.jsonl", out)


# ---- files made wrong -------------------------------------------------------

def changed(name, path, how):
    """A copy of the file or folder that holds it, with the file changed."""
    top = path.split("/")[0]
    to = os.path.join("bad", name, top)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    if os.path.isdir(top):
        shutil.copytree(top, to)
    else:
        shutil.copy(top, to)
    os.chmod(os.path.join("bad", name), 0o755)
    how(os.path.join("bad", name, path))
    return to


def cut(n):
    def how(path):
        size = os.path.getsize(path)
        os.truncate(path, n if n >= 0 else size + n)
    return how


def half(path):
    os.truncate(path, os.path.getsize(path) // 2)


def fill(data):
    return lambda path: write(path, data)


def byte(at, value):
    def how(path):
        with open(path, "r+b") as f:
            f.seek(at)
            f.write(value)
    return how


def folder(path):
    os.remove(path)
    os.mkdir(path)


def unreadable(path):
    os.chmod(path, 0)


GARBAGE = bytes((i * 89 + 41) & 255 for i in range(5000))
ELF = b"\x7fELF" + bytes(range(200)) * 4

# What a file of each kind is read by: FILE stands for it, or for its folder.
# `soft`: ways of being changed that leave a file one can read.
def readers():
    data = lambda model, *more: ["train", model, "--data", "FILE"] + QUICK + list(more)
    tiny = ["train", "tiny.yaml", "--data", "idx"] + QUICK
    return [
        ("idx", "idx/train-images-idx3-ubyte", data("tiny.yaml"), ()),
        ("idx-labels", "idx/train-labels-idx1-ubyte", data("tiny.yaml"), ()),
        ("idx-gz", "idxgz/train-images-idx3-ubyte.gz", data("tiny.yaml"), ()),
        ("cifar", "cifar/data_batch_1.bin", data("color.yaml"), ("half",)),
        ("npy", "npy/x_train.npy", data("tiny.yaml"), ()),
        ("npy-labels", "npy/y_train.npy", data("tiny.yaml"), ()),
        ("csv", "rows.csv", data("row.yaml"), ("half", "end", "text")),
        ("tokens", "tokens/train.bin", data(GPT),
         ("half", "garbage", "elf", "text", "zeros")),
        ("text", "some.txt", data(GPT), ("half", "end", "garbage", "elf", "text")),
        ("hdf5", "set.h5", data("small.yaml"), ()),
        ("weights", "w.safetensors", tiny + ["--load", "FILE"], ()),
        ("plan", "tiny.plan", ["train", "--plan", "FILE", "--data", "idx",
                               "--steps", "2", "--backend", "ref"], ("end",)),
        ("model", "tiny.yaml", ["train", "FILE", "--data", "idx"] + QUICK,
         ("half", "end")),
        ("onnx", "net.onnx", ["train", "FILE", "--data", "synthetic"] + QUICK, ()),
        ("config", "config.json", ["train", "FILE", "--data",
                                   "synthetic"] + QUICK, ("end",)),
        ("steps", "run.jsonl", ["diff-run", "FILE", "run.jsonl"], ("half", "end")),
        ("system", "here.yaml", ["validate", "tiny.yaml", "--system", "FILE",
                                 "--strategy", "serial", "--steps", "2",
                                 "--batch", "4"], ("half", "end")),
        ("profile", "best.profile", ["bench", "allreduce", "-n", "2",
                                     "--transport", "memory", "--size", "4KiB",
                                     "--iterations", "1", "--profile", "FILE"],
         ("half", "end")),
        ("runs", "runs.json", ["validate", "--measured", "FILE"], ("end",)),
        ("fit", "runs.json", ["calibrate", "--fit", "FILE", "--base",
                              "abci-v100", "--json"], ("end",)),
    ]


WAYS = [
    ("empty", fill(b"")),
    ("one byte", cut(1)),
    ("half", half),
    ("end", cut(-1)),
    ("garbage", fill(GARBAGE)),
    ("elf", fill(ELF)),
    ("zeros", fill(bytes(4096))),
    ("text", fill("hello, I am no such file\n" * 20)),
    ("folder", folder),
    ("missing", os.remove),
    ("unreadable", unreadable),
]


def main_files():
    for kind, path, args, soft in readers():
        if not os.path.exists(path):
            continue
        expect(kind + ", good", [path.split("/")[0] if a == "FILE" else a
                                 for a in args], rc=0)
        for way, how in WAYS:
            name = "%s-%s" % (kind, way.replace(" ", "-"))
            top = changed(name, path, how)
            user = NOBODY if way == "unreadable" and os.getuid() == 0 else None
            expect(name, [top if a == "FILE" else a for a in args],
                   rc=(0, 1, INPUT) if way in soft else INPUT,
                   says=() if way in soft else "bad/" + name, user=user)
        # single bytes: any answer but a crash
        size = os.path.getsize(path)
        for at in sorted(set(list(range(0, min(size, 24), 3)) +
                             [size // 3, size // 2, size - 1])):
            name = "%s-byte-%d" % (kind, at)
            top = changed(name, path, byte(at, b"\xff"))
            expect(name, [top if a == "FILE" else a for a in args],
                   rc=(0, 1, INPUT))


# ---- claims -----------------------------------------------------------------

def claims():
    big = struct.pack(">I", 0xffffffff)
    train = lambda model, top: ["train", model, "--data", top] + QUICK
    for at in (4, 8, 12):
        name = "idx-claim-%d" % at
        top = changed(name, "idx/train-images-idx3-ubyte", byte(at, big))
        expect(name, train("tiny.yaml", top), says=name)
    name = "idx-claim-rank"
    top = changed(name, "idx/train-images-idx3-ubyte", byte(3, b"\xff"))
    expect(name, train("tiny.yaml", top), says=name)
    for shape in ("(4611686018427387904, 1, 8, 8)", "(12, 1, 8, 9223372036854775807)",
                  "(99999999999999999999999,)", "(-12, 1, 8, 8)", "()", "(0, 1, 8, 8)"):
        name = "npy-claim-%d" % len(cases)
        top = changed(name, "npy/x_train.npy",
                      fill(npy("<f4", shape, bytes(12 * 256))))
        expect(name, train("tiny.yaml", top), says=name)
    for head in ('{"w":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,8]}}',
                 '{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}}',
                 '{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}',
                 '{"w":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}',
                 '{"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', '[]', '{}', '{'):
        name = "weights-claim-%d" % len(cases)
        top = changed(name, "w.safetensors", fill(
            struct.pack("<Q", len(head)) + head.encode() + bytes(8)))
        expect(name, train("tiny.yaml", "idx") + ["--load", top], says=name)
    name = "weights-head"
    top = changed(name, "w.safetensors", byte(0, b"\xff" * 8))
    expect(name, train("tiny.yaml", "idx") + ["--load", top], says=name)
    shutil.copy(source + "/tests/fuzz/corpus/io_hdf5/huge", "huge.h5")
    expect("hdf5-claim", train("tiny.yaml", "huge.h5"), says="huge.h5")
    expect("not-its-weights", ["train", "color.yaml", "--data", "cifar", "--load",
                               "w.safetensors"] + QUICK, says="w.safetensors")
    for what, text in (("layers", "9223372036854775807"), ("layers", "-1"),
                       ("hidden", "1e30"), ("vocab", "0"), ("heads", "nan")):
        expect("zoo-%s-%s" % (what, text), train("gpt:%s=%s" % (what, text),
                                                 "synthetic"), rc=(USAGE, INPUT))


# ---- checkpoints ------------------------------------------------------------

def checkpoints():
    train = lambda top: ["train", "tiny.yaml", "--data", "idx", "--checkpoint",
                         top, "--resume"] + QUICK
    step = "ckpt/" + [x for x in os.listdir("ckpt") if x != "lock"][0]
    for file in sorted(os.listdir(step)):
        for way, how in WAYS:
            name = "ckpt-%s-%s" % (file, way.replace(" ", "-"))
            top = changed(name, step + "/" + file, how)
            if way == "unreadable" and os.getuid() == 0:
                for at, _, files in os.walk("bad/" + name):
                    os.chown(at, NOBODY, NOBODY)
                expect(name, train(top), says=name, user=NOBODY)
            else:
                expect(name, train(top), says=name)
        for at in range(0, os.path.getsize(step + "/" + file), 97):
            name = "ckpt-%s-byte-%d" % (file, at)
            old = open(step + "/" + file, "rb").read()[at]
            top = changed(name, step + "/" + file, byte(at, bytes([old ^ 0x55])))
            expect(name, train(top), says=name)
    expect("ckpt-other-seed", train("ckpt") + ["--seed", "3"], says="seed 0")
    expect("ckpt-other-model", ["train", "color.yaml", "--data", "cifar",
                                "--checkpoint", "ckpt", "--resume"] + QUICK,
           says="ckpt/")


# ---- numbers ----------------------------------------------------------------

WRONG = ["", "x", "nan", "inf", "-1", "1e30", "9223372036854775808",
         "99999999999999999999999999", "1.5.2", "0x10", " 3", "3 ", "1;2", "%s%n"]
COUNT = ["0", "1.5"]
# options by command: those that count from 1, and those that are any number;
# what is good of WRONG is left out
NUMBERS = {
    "train tiny.yaml --data idx --virtual --backend ref --threads 1": (
        "ranks batch epochs steps lr-every threads sequence samples test-samples"
        " every keep restarts log-every",
        "lr lr-last lr-gamma clip loss-scale label-smoothing warmup seed"),
    "validate tiny.yaml --system abci-v100": ("ranks batch steps", "seconds"),
    "diff-run serial serial --model tiny.yaml": ("batch steps",
                                                 "tolerance lr seed"),
    "calibrate -o never.yaml": ("ranks threads max-ranks rounds", "seconds"),
    "bench allreduce --transport memory -n 2": (
        "ranks iterations ranks-per-node", "seconds timeout size"),
}
REAL = ("0x10", "3 ", "9223372036854775808", "99999999999999999999999999")
GOOD = {("lr", "1e30"), ("clip", "1e30"), ("tolerance", "1e30"), ("lr-gamma", "1e30"),
        ("lr-last", "1e30"), ("seed", "-1"), ("seed", "0"), ("warmup", "0"),
        ("label-smoothing", "0"), ("lr-last", "0"), ("tolerance", "0"),
        ("size", "9223372036854775808")}


def numbers():
    for command, (counts, others) in NUMBERS.items():
        words = command.split()
        for option in counts.split() + others.split():
            count = option in counts.split()
            for value in WRONG + (COUNT if count else ["0"]):
                if (option, value) in GOOD or (not count and value in REAL):
                    continue
                expect("%s --%s=%s" % (words[0], option, value),
                       words + ["--%s=%s" % (option, value)], rc=(USAGE, INPUT),
                       says="-" + option if option != "ranks" else (),
                       absent=["never.yaml"])


def words():
    train = ["train", "tiny.yaml", "--data", "idx"] + QUICK
    for option in ("strategy", "schedule", "optimizer", "precision", "backend",
                   "dim", "load", "log", "save", "outputs", "trace", "timings",
                   "checkpoint", "plan", "loss-scale"):
        for value in ("", "nonsense", "no/such/place"):
            if (option, value) in (("trace", "nonsense"), ("timings", "nonsense"),
                                   ("checkpoint", "nonsense")):
                continue
            if (option == "checkpoint" and value) or (option, value) == ("dim", ""):
                continue
            expect("train --%s=%s" % (option, value),
                   train + ["--%s=%s" % (option, value)], rc=(USAGE, INPUT))
    for text in ("data=0", "data=-1", "data=1e30", "data=9223372036854775808", "data=",
                 "=2", "data=2,", "dat=2", "spatial=0x2", "filter=99", "pipe=2(", ",",
                 "pipe=2(m=0)", "pipe=2(1f1b,m=99999999999)", "data=3037000500,filter=3037000500",
                 "accumulate=0", "accumulate=9999999999999", "zero=9", "bucket=-1",
                 "bucket=nan", "compress=topk:0", "compress=topk:2", "compress=topk:nan",
                 "nolayer:filter=2", "recompute=maybe", "offload=optimiser",
                 "swap=auto"):
        expect("train --strategy " + text, train + ["--virtual", "--strategy", text])
    for text in ("sgd:", "sgd:momentum=", "sgd:momentum=nan", "sgd:momentum=-1",
                 "sgd:momentum=2", "adam:beta1=1", "adam:beta2=9", "adam:eps=nan",
                 "adamw:weight_decay=-1", "sgd:weight_decay=1e400", "lars:trust=nan", "sgd,adam"):
        expect("train --optimizer " + text, train + ["--optimizer", text])
    for text in ("1KiB..", "..", "8..4", "-4", "nan", "1e30", "0", "3B..x", "",
                 "2TiB") + (() if os.environ.get("PDL_SANITIZED") else ("1TiB",)):
        expect("bench --size " + text, ["bench", "allreduce", "--transport", "memory",
                                        "-n", "2", "--size=" + text], rc=(USAGE, INPUT))


# ---- a full disk ------------------------------------------------------------

def full():
    run(["train", "tiny.yaml", "--batch", "4", "--emit", "tiny.plan"])
    train = ["train", "tiny.yaml", "--data", "idx"] + QUICK
    for option, name in (("log", "full.csv"), ("trace", "full.json"),
                         ("timings", "full2.json"), ("save", "full.safetensors"),
                         ("outputs", "full2.safetensors"), ("checkpoint", "fullckpt")):
        # a file may have 64 bytes: what a full disk says of larger ones
        expect("full disk: --" + option, train + ["--%s=%s" % (option, name)],
               rc=(INPUT, 4), says=name, blocks=64, partly=True,
               absent=[] if option in ("log", "checkpoint") else [name])


def full_keeps():
    """A checkpoint that does not fit leaves the one before as it was."""
    train = ["train", "tiny.yaml", "--data", "idx", "--checkpoint", "kept",
             "--resume", "--every", "1", "--backend", "ref", "--batch", "4",
             "--no-test", "--steps"]
    run(train + ["1"])
    before = sorted(os.listdir("kept"))
    rc, _, err = run(train + ["3"], blocks=1000)
    after = sorted(os.listdir("kept"))
    wrong = []
    lines = [x for x in err.splitlines() if "resumed from" not in x]
    if rc != INPUT or not lines or any("kept" not in x for x in lines) or \
            "the last checkpoint is missing" not in lines[-1]:
        wrong.append("exit code %s: %s" % (rc, err))
    if before != ["lock", "step-1"] or "step-1" not in after:
        wrong.append("%s became %s" % (before, after))
    rc, out, err = run(train + ["2"])
    if rc != 0 or "resumed from kept/step-1" not in err:
        wrong.append("does not go on: %s" % err)
    if any(".tmp" in x for x in os.listdir("kept")):
        wrong.append("leaves %s" % os.listdir("kept"))
    for text in wrong:
        print("full disk, checkpoint kept: " + text)
    return len(wrong)


def sees_what_is_wrong():
    """A check that never says no proves nothing."""
    case = dict(rc=(INPUT,), says=["f.bin"], absent=[__file__], partly=False)
    good = dict(case, absent=["no such file"])
    line = "paradl: f.bin: cut short\n"
    wrong = [(None, "", line), (-11, "", line), (0, "", ""), (2, "", line),
             (3, "step 1", line), (3, "", line * 2), (3, "", ""),
             (3, "", "f.bin: what?\n"), (3, "", "paradl: g.bin: cut short\n")]
    return complaint(good, INPUT, "", line) is None and \
        complaint(case, INPUT, "", line) and \
        all(complaint(good, *answer) for answer in wrong)


# ---- all of it --------------------------------------------------------------

def one(case):
    return case, complaint(case, *run(case["args"], case["user"], case["blocks"]))


def main():
    if not sees_what_is_wrong():
        sys.exit("wrong_inputs.py does not see what is wrong")
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    make_files()
    make_by_program()
    for make in (main_files, claims, checkpoints, numbers, words, full):
        make()
    bad = full_keeps() if only in "full" else 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for case, wrong in pool.map(one, [c for c in cases if only in c["name"]]):
            if wrong:
                bad += 1
                print("%s: %s" % (case["name"], wrong))
                if only:
                    print("    paradl " + " ".join(case["args"]))
    print("wrong inputs: %d cases, %d answered badly" % (len(cases), bad))
    return 1 if bad else 0


try:
    code = main()
finally:
    os.chdir("/")
    if not os.environ.get("KEEP"):
        shutil.rmtree(work, ignore_errors=True)
sys.exit(code)
