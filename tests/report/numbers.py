#!/usr/bin/env python3
"""Every number of a page can be traced to --json.

Usage: numbers.py PARADL. Makes pages, and beside each what --json prints for
the same question. Then
 - the data inside a page are those of --json, value by value;
 - every cell of a table, and every tooltip, that has a unit is a number of the
   data as it prints (a sum of parts is one of the few that may be derived);
 - changing one number of the data makes the test fail: it is tried.
"""
import html
import json
import re
import subprocess
import sys
import tempfile

UNITS = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1, 'min': 60, 'h': 3600,
         'd': 86400, 'B': 1, 'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30,
         'TiB': 2**40, 'PiB': 2**50}
PLAN = 'plan resnet50 --system abci-v100 --pes 16 --batch 512'
PIPE = ('project gpt2 --system dgx-a100 --batch 32 '
        '--strategy pipe=4(m=8),data=4')
SCALE = ('scale resnet50 --system abci-v100 --strategy data=p --pes 1..16 '
         '--batch 32 --weak')
# question, what --json needs to say as much, keys that a page leaves out
CASES = [
    (PLAN, ['--details', '--space', '--top', '40'],
     {'search_s', 'command', 'interval_s', 'fallbacks', 'precision',
      'optimizer', 'contention', 'limits', 'gains', 'evidence', 'notes'}),
    (PIPE, ['--details'], {'command'}),
    (SCALE, [], {'command'}),
]


def numbers(value, out):
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        out.append(float(value))
    elif isinstance(value, list):
        for v in value:
            numbers(v, out)
    elif isinstance(value, dict):
        for v in value.values():
            numbers(v, out)


def within(page, full, skip, path=''):
    """Everything that the page's data say, the full answer says too."""
    if isinstance(page, dict):
        for key, value in page.items():
            if key == 'search_s' or key == 'command':
                continue
            if key not in full:
                yield f'{path}.{key}: not in --json'
            else:
                yield from within(value, full[key], skip, f'{path}.{key}')
        for key in full:
            if key not in page and key not in skip:
                yield f'{path}.{key}: not in the page'
    elif isinstance(page, list):
        if len(page) != len(full):
            yield f'{path}: {len(page)} and {len(full)} items'
        for i, (a, b) in enumerate(zip(page, full)):
            yield from within(a, b, skip, f'{path}[{i}]')
    elif page != full:
        yield f'{path}: {page} and {full}'


def derived(data):
    """Numbers of the data, and the sums and differences that pages show."""
    out = []
    numbers(data, out)
    for plan in walk(data):
        time, memory = plan.get('time'), plan
        if 'peak_bytes' not in plan:
            memory = None
        if isinstance(time, dict):
            out.append(time['backward_s'] + time['recompute_s'])
        if memory:
            keys = ['weights_bytes', 'gradients_bytes', 'optimizer_bytes',
                    'activations_bytes', 'workspace_bytes',
                    'comm_buffers_bytes']
            if all(k in memory for k in keys):
                out.append(memory['peak_bytes'] -
                           sum(memory[k] for k in keys))
    return sorted(out)


def walk(value):
    if isinstance(value, dict):
        yield value
        for v in value.values():
            yield from walk(v)
    elif isinstance(value, list):
        for v in value:
            yield from walk(v)


def shown(page):
    """(text, value, half of the last digit) of all cells and tooltips with a
    unit."""
    page = re.sub(r'<script.*?</script>', '', page, flags=re.S)
    cells = re.findall(r'<td class="n">([^<]*)</td>', page)
    for tip in re.findall(r'<title>([^<]*)</title>', page)[1:]:
        m = re.search(r'(-?[0-9.]+ (?:[a-zA-Z]+))$', html.unescape(tip))
        if m:
            cells.append(m.group(1))
    for cell in cells:
        m = re.fullmatch(r'([0-9.]+) ([a-zA-Z]+)', html.unescape(cell).strip())
        if m and m.group(2) in UNITS:
            digits = m.group(1)
            after = len(digits.split('.')[1]) if '.' in digits else 0
            whole = digits.replace('.', '').lstrip('0')
            half = 0.5 * 10.0**-after
            if after == 0 and len(whole) > 3:
                half = 0.5 * 10**(len(whole) - 3)
            yield cell, float(digits) * UNITS[m.group(2)], \
                1.02 * half * UNITS[m.group(2)]


def untraced(page, data):
    import bisect
    known = derived(data)
    bad = []
    for text, value, half in shown(page):
        at = bisect.bisect_left(known, value - half)
        if at == len(known) or known[at] > value + half:
            bad.append(text)
    return bad


def consistent(data):
    """What a page shows of a plan agrees with its projection."""
    plan = data['plans'][0] if 'plans' in data else data
    if 'stages' in plan:
        most = max(s['peak_bytes'] for s in plan['stages'])
        if most != plan['memory']['peak_bytes']:
            yield f'the fullest stage has {most} bytes'
    if 'schedule' in plan:
        tasks = plan['schedule']['tasks']
        end = max(t['start_s'] + t['seconds'] for t in tasks)
        # the step counts exchange and update of the busiest stage; another
        # one, with more weights, may end a little later
        if end > plan['step_s'] * (1.1 if len(plan['stages']) > 1
                                   else 1.000001):
            yield f'the schedule ends at {end}, after the step'
        if len(tasks) == plan['schedule']['total'] and \
                end < 0.5 * plan['step_s']:
            yield f'the schedule ends at {end}, long before the step'
    if 'network' in plan and not any(plan['network']['link_bytes']):
        yield 'no link is used'
    for point in data.get('scaling', []) if 'plans' in data else []:
        if point['pes'] == plan['pes'] and point['step_s'] != plan['step_s']:
            yield 'scaling has another step for the same PEs'
    if 'front' in data:
        steps = [f['step_s'] for f in data['front']]
        peaks = [f['peak_bytes'] for f in data['front']]
        if steps != sorted(steps) or peaks != sorted(peaks, reverse=True):
            yield 'the front is no front'


def check(paradl, question, extra, skip, where):
    args = question.split()
    path = where + '/page.html'
    subprocess.run([paradl, *args, '--report', path], check=True,
                   stdout=subprocess.DEVNULL)
    full = json.loads(subprocess.run([paradl, *args, '--json', *extra],
                                     check=True, capture_output=True).stdout)
    page = open(path, encoding='utf-8').read()
    data = json.loads(re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page,
        re.S).group(1))
    bad = list(within(data, full, skip)) + list(consistent(data))
    cells = list(shown(page))
    bad += [f'{t}: of no number' for t in untraced(page, data)]
    # test the tester: other numbers in the data are noticed
    wrong = json.loads(json.dumps(data))
    first = wrong.get('plans', [wrong])[0]
    for part in walk(wrong):
        for key in ('peak_bytes', 'step_s'):
            if key in part:
                part[key] *= 7
    if 'stages' in first:
        first['stages'][0]['peak_bytes'] *= 3
    if not list(within(wrong, full, skip)) or not untraced(page, wrong) or \
            ('stages' in first and not list(consistent(wrong))):
        bad.append('a wrong number was not noticed')
    if len(cells) < 20:
        bad.append(f'only {len(cells)} numbers were found in the page')
    print(f'{args[0]}: {len(cells)} numbers with units traced')
    return bad


def main():
    bad = []
    with tempfile.TemporaryDirectory() as where:
        for question, extra, skip in CASES:
            bad += [f'{question.split()[0]}: {b}' for b in
                    check(sys.argv[1], question, extra, skip, where)]
    for b in bad[:20]:
        print(b)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
