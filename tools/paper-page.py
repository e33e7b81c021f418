#!/usr/bin/env python3
"""paper-page.py FIGURES.tsv OUT.html: the figures of `make paper` as one page.

A line is group, what, unit, ours, the reference, what it may be off (0: not said)
and the command that computes it (tests/paper/figure.h). Each group has a plot of
ours over the reference and a table, the farthest off first."""
import html
import math
import os
import sys

STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;
padding:0 1em;color:#222;background:#fff}table{border-collapse:collapse}
td,th{padding:.15em .7em;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
tr:nth-child(even){background:#f4f4f4}code{font-size:.85em;overflow-wrap:anywhere}
.far{color:#b00}svg{background:#fafafa;border:1px solid #ddd}"""


def read(path):
    groups = {}
    for line in open(path, encoding="utf-8"):
        group, what, unit, ours, want, most, command = line.rstrip("\n").split("\t")
        groups.setdefault(group, []).append(
            (what, unit, float(ours), float(want), float(most), command))
    return groups


def off(row):
    return row[2] / row[3] - 1 if row[3] else 0.0


def ticks(low, high):
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0 ** k for k in range(first, last + 1) if low <= 10.0 ** k <= high]


def plot(rows):
    """Ours over the reference, both by their logarithm; the lines are 5 % off."""
    rows = [r for r in rows if r[2] > 0 and r[3] > 0]
    if len(rows) < 3:
        return ""
    values = [r[2] for r in rows] + [r[3] for r in rows]
    low, high = min(values) / 1.2, max(values) * 1.2
    size, edge = 420, 48
    span = math.log(high / low)

    def at(v):
        return (size - 2 * edge) * math.log(v / low) / span

    def point(x, y):
        return edge + at(x), size - edge - at(y)

    out = [f'<svg width="{size}" height="{size}" role="img" '
           'aria-label="ours over the reference">']
    for factor, dash in ((1, ""), (1.05, "3 3"), (1 / 1.05, "3 3")):
        a = point(low * max(1, 1 / factor), low * max(1, factor))
        b = point(high * min(1, 1 / factor), high * min(1, factor))
        out.append(f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" '
                   f'y2="{b[1]:.1f}" stroke="#999" stroke-dasharray="{dash}"/>')
    for v in ticks(low, high):
        x, y = point(v, v)
        out.append(f'<text x="{x:.1f}" y="{size - edge + 18}" font-size="12" '
                   f'text-anchor="middle">{v:g}</text>')
        out.append(f'<text x="{edge - 6}" y="{y + 4:.1f}" font-size="12" '
                   f'text-anchor="end">{v:g}</text>')
    for r in rows:
        x, y = point(r[3], r[2])
        name = html.escape(f"{r[0]}: {r[2]:.4g} {r[1]}, reference {r[3]:.4g}")
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#06c" '
                   f'fill-opacity=".6"><title>{name}</title></circle>')
    units = html.escape(" and ".join(sorted({r[1] for r in rows})))
    out.append(f'<text x="{size / 2}" y="{size - 8}" font-size="13" '
               f'text-anchor="middle">reference, {units}</text>')
    out.append(f'<text x="14" y="{size / 2}" font-size="13" text-anchor="middle" '
               f'transform="rotate(-90 14 {size / 2})">ours</text></svg>')
    return "\n".join(out)


def table(rows):
    out = ["<table><tr><th>what</th><th class=n>ours</th><th class=n>reference</th>"
           "<th class=n>off</th><th>command</th></tr>"]
    for r in sorted(rows, key=lambda r: -abs(off(r))):
        far = ' class="n far"' if r[4] and abs(off(r)) > r[4] else " class=n"
        out.append(
            f"<tr><td>{html.escape(r[0])}</td><td class=n>{r[2]:.5g} "
            f"{html.escape(r[1])}</td><td class=n>{r[3]:.5g}</td>"
            f"<td{far}>{100 * off(r):+.2f} %</td>"
            f"<td><code>{html.escape(r[5])}</code></td></tr>")
    return "\n".join(out) + "</table>"


def summary(rows):
    size = sorted(abs(off(r)) for r in rows)
    near = sum(s <= 0.05 for s in size)
    return (f"{len(rows)} figures, {near} within 5 %, the middle one "
            f"{100 * size[len(size) // 2]:.2f} % off, the farthest "
            f"{100 * size[-1]:.1f} %.")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: paper-page.py FIGURES.tsv OUT.html")
    groups = read(sys.argv[1])
    body = []
    for name in sorted(groups):
        rows = groups[name]
        body += [f"<h2>{html.escape(name)}</h2>", f"<p>{summary(rows)}</p>",
                 plot(rows), "<details><summary>all of them</summary>",
                 table(rows), "</details>"]
        print(f"{name}: {summary(rows)}")
    page = ("<!DOCTYPE html><html lang=en><meta charset=utf-8>"
            "<title>ParaDL beside published figures</title>"
            f"<style>{STYLE}</style><h1>ParaDL beside published figures</h1>"
            "<p>Written by <code>make paper</code>. Tests draw ranks' pauses and take "
            "medians; a command is one run, which may be another draw.</p>"
            + "\n".join(body) + "</html>\n")
    with open(sys.argv[2] + ".part", "w", encoding="utf-8") as f:
        f.write(page)
    os.replace(sys.argv[2] + ".part", sys.argv[2])


if __name__ == "__main__":
    main()
