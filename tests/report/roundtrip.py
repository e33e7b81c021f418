#!/usr/bin/env python3
"""What is exported reads back as the same job, to the last digit.

Usage: roundtrip.py PARADL. Draws random plans, projects each, exports it as
Megatron's script, DeepSpeed's JSON, torchtitan's TOML and nanotron's YAML, and
projects the file with --from: step and memory must be equal to 1e-9. What a program cannot
say must be refused with one line and exit code 3. Then the files are looked at
as their programs would: bash parses the script, JSON and YAML load, and no
stage, degree or batch of a torchtitan file is one that it would refuse. The
test tests itself: a file with one number changed must not come back equal.
PDL_LONG=1 draws ten times as many.
"""
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

PARADL = sys.argv[1]
READERS = {'megatron': 'megatron-args', 'deepspeed': 'deepspeed',
           'torchtitan-toml': 'torchtitan', 'nanotron': 'nanotron'}
FRAMEWORK = {'megatron': 'megatron', 'torchtitan-toml': 'torchtitan',
             'nanotron': 'nanotron'}
# vocabularies that Megatron would not pad; every name of a network here is
# either one that torchtitan ships or given to --from again
NETS = {
    'megatron': [
        'gpt:layers=12,hidden=1024,heads=16,vocab=51200,seq=1024',
        'llama:layers=12,hidden=2048,heads=16,kv_heads=8,ffn=5632,'
        'vocab=32768,seq=2048,tied=0',
        'llama:layers=10,hidden=1024,heads=16,ffn=2816,vocab=32768,seq=2048',
        'llama:layers=8,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocab=32768,'
        'seq=2048,tied=0,qkv_bias=1',
        'moe:layers=8,hidden=1024,heads=16,kv_heads=8,ffn=2048,vocab=32768,'
        'seq=1024,experts=8,topk=2,tied=0',
        'deepseek:layers=8,hidden=1024,heads=16,ffn=4096,moe_ffn=512,'
        'experts=16,topk=4,shared=1,dense=2,q_lora=256,kv_lora=128,nope=64,'
        'rope=32,v_head_dim=64,vocab=32768,seq=1024',
        'deepseek:layers=6,hidden=1024,heads=16,ffn=4096,moe_ffn=512,'
        'experts=16,topk=4,shared=1,dense=1,q_lora=256,kv_lora=128,nope=64,'
        'rope=32,v_head_dim=64,vocab=32768,seq=1024,correction=0'],
    'deepspeed': ['gpt2:vocab=51200', 'llama3-8b:seq=2048'],
    'torchtitan-toml': ['llama3-8b:seq=4096', 'llama3-70b:seq=2048'],
    'nanotron': [
        'llama:layers=12,hidden=2048,heads=16,kv_heads=8,ffn=5632,'
        'vocab=32000,seq=2048,tied=0',
        'llama:layers=10,hidden=1024,heads=16,ffn=2816,vocab=32768,seq=2048,'
        'tied=1'],
}


def run(args):
    return subprocess.run([PARADL] + args, capture_output=True, text=True,
                          check=False)


def pipe_term(r, fmt):
    p = r.choice([1, 1, 2, 3, 4])
    if p == 1:
        return 1, '', 1
    kinds = ['1f1b', '1f1b', 'interleaved,v=2']
    if fmt == 'torchtitan-toml':
        kinds += ['gpipe', 'zb-v']
    if fmt == 'nanotron':
        kinds = ['1f1b', 'gpipe']
    m = p * r.choice([1, 2, 4])
    return p, f'pipe={p}({r.choice(kinds)},m={m}),', m


def draw(r, fmt):
    """A strategy that the program might say, its PEs and a batch."""
    p, terms, m = pipe_term(r, fmt) if fmt != 'deepspeed' else (1, '', 1)
    t, c = r.choice([1, 2, 4]), r.choice([1, 1, 1, 2])
    d = r.choice([1, 2, 4, 8])
    net = r.choice(NETS[fmt])
    e = r.choice([1, 2]) if 'experts' in net and fmt == 'megatron' else 1
    data = f'data={d},'
    if fmt == 'megatron' and r.random() < .2:
        terms, data = data, terms
    terms += data + (f'expert={e},' if e > 1 else '')
    if c > 1:
        kinds = {'megatron': ['', '(a2a)', '(gather)'], 'deepspeed': ['(a2a)'],
                 'torchtitan-toml': ['', '(gather)'], 'nanotron': ['']}[fmt]
        terms += f'context={c}{r.choice(kinds)},'
    if t > 1:
        seq = fmt == 'torchtitan-toml' or r.random() < .5
        terms += f'tensor={t}{"+seq" if seq else ""},'
    if p == 1 and r.random() < .5:
        m = r.choice([2, 4])
        terms += f'accumulate={m},'
    zeros = {'megatron': [0, 1, 1] + ([2, 3] if p == 1 else []),
             'deepspeed': [0, 1, 2, 3], 'torchtitan-toml': [0, 3],
             'nanotron': [0, 1]}[fmt]
    z = r.choice(zeros) if d > 1 else 0
    terms += f'zero={z},' if z else ''
    kinds = {'megatron': ['', 'full', 'selective'], 'deepspeed': ['', 'full'],
             'torchtitan-toml': ['', 'full', 'selective-op'],
             'nanotron': ['', 'full']}[fmt]
    k = r.choice(kinds)
    terms += f'recompute={k},' if k else ''
    if fmt not in ('torchtitan-toml', 'nanotron') and r.random() < .3:
        terms += 'overlap=off,'
    if fmt not in ('torchtitan-toml', 'nanotron') and d > 1 and \
            r.random() < .2:
        terms += 'offload=optimizer,'
    batch = d * e * m * r.choice([1, 2])
    return net, terms.rstrip(','), p * d * e * c * t, batch


def options(r, fmt):
    out = []
    if fmt in FRAMEWORK and r.random() < .7:
        out += ['--framework', FRAMEWORK[fmt]]
    if fmt == 'megatron':
        out += r.choice([[], ['--dropout', '0.1'], ['--attention', 'unfused']])
        out += r.choice([[], ['--precision', 'fp8'], ['--precision', 'fp16']])
        if '--precision' not in out:
            out += r.choice([[], ['--gradient-dtype', 'bf16']])
        out += r.choice([[], [], ['--optimizer', 'sgd'], ['--async-tensor']])
    if fmt == 'nanotron':
        out += ['--gradient-dtype', 'fp32']
    if fmt == 'deepspeed':
        out += r.choice([[], ['--precision', 'fp16'], ['--precision', 'fp32'],
                         ['--gradient-dtype', 'fp32']])
    if fmt == 'torchtitan-toml':
        out += r.choice([[], ['--compile'], ['--compile', '--async-tensor'],
                         ['--precision', 'fp8']])
    return out


def same(a, b):
    pairs = [(a['step_s'], b['step_s'])]
    pairs += [(a['memory'][k], b['memory'][k]) for k in a['memory']
              if isinstance(a['memory'][k], (int, float))]
    return all(math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-15)
               for x, y in pairs)


def titan_would_start(text):
    """The rules of torchtitan 0.2.2's pipeline_llm()."""
    def get(key, default):
        m = re.search(rf'^{key} = (\d+)$', text, re.M)
        return int(m.group(1)) if m else default
    pp = get('pipeline_parallel_degree', 1)
    if pp == 1:
        return
    layers = {'8B': 32, '70B': 80}[re.search(r'flavor = "(\w+)"', text)[1]]
    single = re.search(r'_schedule = "(\w+)"', text)[1] in ('1F1B', 'GPipe')
    parts = re.search(r'model_part = \[\n(.*?)\n {4}\]', text, re.S)
    if parts:
        rows = [re.findall(r'"([\w.]+)"', x) for x in parts[1].split('\n')]
        flat = [x for row in rows for x in row]
        assert flat == (['tok_embeddings'] +
                        [f'layers.{i}' for i in range(layers)] +
                        ['norm', 'output']), flat
        stages = len(rows)
    else:
        per = get('pipeline_parallel_layers_per_stage', 0)
        ends = (get('pipeline_parallel_first_stage_less_layers', 1) +
                get('pipeline_parallel_last_stage_less_layers', 1))
        stages = -(-(layers + ends) // per)
    assert stages % pp == 0, (stages, pp)
    assert (stages // pp == 1) == single, (stages, pp, single)
    local = get('local_batch_size', 8)
    assert local % get('pipeline_parallel_microbatch_size', 1) == 0


def look(fmt, path, text):
    if fmt == 'megatron':
        subprocess.run(['bash', '-n', path], check=True)
    elif fmt == 'deepspeed':
        json.loads(text)
    elif fmt == 'torchtitan-toml':
        titan_would_start(text)


def one(r, fmt, where, tally):
    net, strategy, pes, batch = draw(r, fmt)
    opts = options(r, fmt)
    path = os.path.join(where, 'job')
    ask = ['project', net, '--system', 'dgx-h100', '--strategy', strategy,
           '--batch', str(batch), '--json'] + opts
    first = run(ask + ['--export', fmt, '-o', path])
    if first.returncode > 1:
        assert first.returncode == 3, (ask, first.stderr)
        assert first.stderr.count('\n') == 1, first.stderr
        tally[fmt][1] += 1
        return
    with open(path, encoding='utf-8') as f:
        text = f.read()
    look(fmt, path, text)
    back = ['project', '--from', READERS[fmt], path]
    if fmt == 'deepspeed':
        back += [net]
    back += ['--system', 'dgx-h100', '--pes', str(pes), '--json']
    frame = opts[opts.index('--framework') + 1] if '--framework' in opts \
        else None
    back += ['--framework', frame or 'own']
    second = run(back)
    if second.returncode > 1:
        raise SystemExit(f'{ask}\n{text}\n{second.stderr}')
    a, b = json.loads(first.stdout), json.loads(second.stdout)
    if not same(a, b):
        raise SystemExit(f"not the same: {' '.join(ask)}\n{text}\n"
                         f"{b['from']}\n{a['step_s']} {b['step_s']}\n"
                         f"{a['memory']}\n{b['memory']}")
    tally[fmt][0] += 1
    tally[fmt][2] += 'model_part' in text or 'parallel-layout' in text
    if tally[fmt][0] == 1:
        mutant(fmt, path, text, back, a)


def mutant(fmt, path, text, back, a):
    """The tester is tested: another batch is another job."""
    key = {'megatron': r'(--global-batch-size )(\d+)',
           'deepspeed': r'("train_batch_size": )(\d+)',
           'torchtitan-toml': r'(global_batch_size = )(\d+)',
           'nanotron': r'(micro_batch_size: )(\d+)'}[fmt]
    changed = re.sub(key, lambda m: m[1] + str(int(m[2]) * 2), text)
    assert changed != text
    if fmt == 'deepspeed':
        changed = re.sub(r'(accumulation_steps": )(\d+)',
                         lambda m: m[1] + str(int(m[2]) * 2), changed)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(changed)
    got = run(back)
    assert got.returncode > 1 or not same(a, json.loads(got.stdout))


def main():
    r = random.Random(5)
    n = 300 if os.environ.get('PDL_LONG') else 30
    tally = {fmt: [0, 0, 0] for fmt in READERS}
    with tempfile.TemporaryDirectory() as where:
        for fmt in READERS:
            for _ in range(n):
                one(r, fmt, where, tally)
    for fmt, (equal, refused, cut) in tally.items():
        print(f'{fmt}: {equal} equal, {refused} refused, {cut} with unequal '
              'stages')
        assert equal >= n // 3, fmt


if __name__ == '__main__':
    main()
