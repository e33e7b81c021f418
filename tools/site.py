#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""site.py PARADL OUT: the documents as a site of static pages: README and doc/,
the help of every command, reports to look at. Links are checked: a page or a
heading that is not there is an error. Needs python3-markdown."""
import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import markdown

ROOT = Path(__file__).resolve().parent.parent
STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5c6670;
--rule:#d9dee3;--soft:#f4f6f8;--link:#0a58a8}
@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e4e8ec;
--dim:#9aa5b0;--rule:#333b44;--soft:#1c2229;--link:#79b8ff}}
*{box-sizing:border-box}body{margin:0 auto;max-width:900px;padding:24px;
background:var(--bg);color:var(--fg);
font:16px/1.55 system-ui,'DejaVu Sans',sans-serif}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:14px;
border-bottom:1px solid var(--rule);padding-bottom:10px;margin-bottom:20px}
a{color:var(--link)}h1{line-height:1.2}h1,h2,h3{overflow-wrap:anywhere}
img{max-width:100%;height:auto}
pre{background:var(--soft);padding:12px;border-radius:6px;overflow-x:auto;
font-size:13px}code{background:var(--soft);padding:1px 4px;border-radius:3px;
overflow-wrap:anywhere}pre code{padding:0;overflow-wrap:normal}
.scroll{overflow-x:auto}table{border-collapse:collapse}
td,th{border-bottom:1px solid var(--rule);padding:5px 12px 5px 0;
text-align:left;vertical-align:top}
"""
GALLERY = (
    ("resnet50", "ResNet-50 on 64 V100 of ABCI",
     "plan resnet50 --system abci-v100 --pes 64 --batch 2048"),
    ("gpt3", "GPT-3 175B on 1024 A100",
     "plan gpt3-175b --system dgx-a100 --pes 1024 --batch 1536"),
    ("project", "One strategy, phase by phase",
     "project resnet50 --system abci-v100 --strategy data=64 --batch 2048"),
    ("scale", "How far VGG-16 scales",
     "scale vgg16 --system abci-v100 --strategy data=p --pes 1..512 "
     "--batch 32 --weak"),
    ("simulate", "An allreduce on a torus",
     "simulate allreduce --algorithm ring --topology torus:4x4 --size 32MiB"),
)


def page(out, name, title, body):
    """Writes one page, with the way to all others."""
    up = "../" * name.count("/")
    links = "".join(f'<a href="{up}{to}">{text}</a>' for to, text in (
        ("index.html", "ParaDL"), ("doc/README.html", "documents"),
        ("doc/tutorial.html", "tutorial"), ("doc/python.html", "Python"),
        ("commands/index.html", "commands"),
        ("gallery/index.html", "reports")))
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{html.escape(title)}</title><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{up}style.css"></head><body>'
        f"<nav>{links}</nav>\n{body}\n</body></html>\n")


def sources():
    """Documents, and where each goes."""
    for p in sorted([*ROOT.glob("*.md"), *(ROOT / "doc").rglob("*.md")]):
        name = p.relative_to(ROOT).with_suffix(".html").as_posix()
        yield p, "index.html" if name == "README.html" else name


def link_of(source, to, pages):
    """Where a link of a document leads in the site; files that are no pages
    are copied beside it by copy_files."""
    if re.match(r"[a-z]+:|#", to):
        return to
    path, mark, anchor = to.partition("#")
    target = (source.parent / path).resolve()
    if target.is_dir():
        target = target / "README.md"
    for p, name in pages:
        if p == target:
            here = dict(pages)[source]
            return os.path.relpath(name, os.path.dirname(here) or ".") + \
                mark + anchor
    return to


def render(source, pages):
    text = source.read_text()
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    body = markdown.markdown(text, extensions=["tables", "fenced_code", "toc"])
    body = re.sub(r'(href|src)="([^"]*)"', lambda m: '%s="%s"' % (
        m[1], link_of(source, html.unescape(m[2]), pages)), body)
    body = body.replace("<table>", '<div class="scroll"><table>').replace(
        "</table>", "</table></div>")
    title = re.search(r"^# (.*)", text, re.M)
    return title[1] if title else source.name, body


def copy_files(out, pages):
    """What documents link to or show and is no page: pictures, sources."""
    for source, name in pages:
        here = (out / name).parent
        for to in re.findall(r'(?:href|src)="([^"#:]+)"',
                             (out / name).read_text()):
            target = here / to
            origin = (source.parent / to).resolve()
            if ROOT not in origin.parents:
                continue
            if origin.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin, target)
            elif origin.is_dir():
                list_folder(out, origin, target.resolve())


def list_folder(out, origin, target):
    """A page for a folder that is linked to: its files, or their pages."""
    if (target / "index.html").exists():
        return
    target.mkdir(parents=True, exist_ok=True)
    rows = []
    for f in sorted(f for f in origin.iterdir() if f.is_file()):
        name = f.with_suffix(".html").name if f.suffix == ".md" else f.name
        if f.suffix != ".md":
            shutil.copy(f, target)
        rows.append(f'<li><a href="{name}">{f.name}</a></li>')
    title = target.relative_to(out).as_posix()
    page(out, f"{title}/index.html", title,
         f"<h1>{title}</h1><ul>{''.join(rows)}</ul>")


def ask(paradl, *words):
    return subprocess.run([paradl, *words], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def commands(paradl, out):
    rows = []
    for name in ask(paradl, "help", "--list").splitlines():
        file = name.replace(" ", "-") + ".html"
        text = ask(paradl, "help", *name.split())
        page(out, "commands/" + file, "paradl " + name,
             f"<h1>paradl {name}</h1><pre>{html.escape(text)}</pre>")
        rows.append(f'<li><a href="{file}">paradl {name}</a></li>')
    page(out, "commands/index.html", "Commands",
         f"<h1>Commands</h1><ul>{''.join(rows)}</ul>")


def gallery(paradl, out):
    rows = []
    (out / "gallery").mkdir(exist_ok=True)
    for name, title, line in GALLERY:
        subprocess.run([paradl, *line.split(), "--report",
                        str(out / "gallery" / (name + ".html"))], check=True,
                       stdout=subprocess.DEVNULL)
        rows.append(f'<li><a href="{name}.html">{title}</a><br><code>paradl '
                    f"{html.escape(line)}</code></li>")
    page(out, "gallery/index.html", "Reports",
         f"<h1>Reports</h1><ul>{''.join(rows)}</ul>")


def check(out):
    """Every link of every page of ours leads somewhere."""
    bad, ids = 0, {}
    for p in out.rglob("*.html"):
        ids[p] = set(re.findall(r'id="([^"]*)"', p.read_text()))
    for p in ids:
        if p.parent == out / "gallery" and p.name != "index.html":
            continue
        for to in re.findall(r'(?:href|src)="([^"]*)"', p.read_text()):
            if re.match(r"[a-z]+:", to):
                continue
            path, _, anchor = html.unescape(to).partition("#")
            target = (p.parent / path).resolve() if path else p
            if target.is_dir():
                target = target / "index.html"
            if not target.exists() or \
                    anchor and anchor not in ids.get(target, {anchor}):
                print(f"{p.relative_to(out)}: no such place: {to}")
                bad += 1
    print(f"site: {len(ids)} pages, {bad} broken links")
    return bad


def main():
    paradl, out = sys.argv[1], Path(sys.argv[2]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "style.css").write_text(STYLE)
    pages = list(sources())
    for source, name in pages:
        title, body = render(source, pages)
        page(out, name, title, body)
    commands(paradl, out)
    gallery(paradl, out)
    copy_files(out, pages)
    return 1 if check(out) else 0


if __name__ == "__main__":
    sys.exit(main())
