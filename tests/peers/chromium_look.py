#!/usr/bin/env python3
"""Reads pages in a browser and says what a reader would complain about.

  chromium_look.py [--shots DIR] [--widths 1280,390] PAGE.html ...

One browser, driven over its debugging pipe (a window cannot be made narrower
than 500 px, an emulated screen can). Every page is looked at in every width,
light and dark, and as paper. Printed, one line each, and exit 1:

  - messages and errors of the console, refused loads, exceptions;
  - what is wider than the screen or out of it: nothing scrolls sideways but
    a table in its own box (and nothing at all beside the screen);
  - text of a chart that lies outside of its svg, or over another text;
  - text that is too small to read, or too close to its ground in colour;
  - marks (bars, points, lines, tasks) that are not drawn: no size, or not of
    this picture's box; and canvases that are empty, or do not zoom.

Needs chromium and Python's standard library only."""
import base64
import json
import os
import subprocess
import sys
import tempfile

LOOK = r"""
(() => {
  const bad = [], width = document.documentElement.clientWidth;
  const name = e => e.id ? '#' + e.id : e.tagName.toLowerCase() +
      (e.className && e.className.baseVal === undefined ? '.' + e.className : '');
  const said = t => (t.textContent || '').trim().slice(0, 40);
  const shown = e => e.checkVisibility ? e.checkVisibility() : true;
  const wide = document.documentElement.scrollWidth;
  if (wide > width + 1) bad.push('the page is ' + wide + ' px wide on a screen of ' + width);
  const boxed = e => { for (let p = e.parentElement; p; p = p.parentElement)
      if (p.classList.contains('scroll') || p.tagName === 'PRE') return true; return false; };
  for (const e of document.querySelectorAll('body *')) {
    if (!shown(e) || boxed(e) || e.closest('svg') !== null && e.tagName !== 'svg') continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.right > width + 1 || r.left < -1))
      bad.push(name(e) + ' reaches from ' + Math.round(r.left) + ' to ' + Math.round(r.right) +
               ' px on a screen of ' + width);
  }
  const scroller = e => e.scrollWidth > e.clientWidth + 1 &&
      /auto|scroll|hidden/.test(getComputedStyle(e).overflowX);
  for (const e of document.querySelectorAll('.wide'))
    if (shown(e) && scroller(e)) bad.push('a chart scrolls sideways: ' + name(e.firstElementChild));
  const rgb = c => { const m = c.match(/[\d.]+/g); return m ? m.map(Number) : [0, 0, 0]; };
  const lum = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
      return v <= .03928 ? v / 12.92 : Math.pow((v + .055) / 1.055, 2.4); });
      return .2126 * r + .7152 * g + .0722 * b; };
  const ground = rgb(getComputedStyle(document.body).backgroundColor);
  const contrast = c => { const a = lum(rgb(c)), b = lum(ground);
      return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); };
  let charts = 0, texts = 0, marks = 0;
  for (const svg of document.querySelectorAll('svg')) {
    if (!shown(svg)) continue;
    charts++;
    const box = svg.getBoundingClientRect(), seen = [];
    const paper = matchMedia('print').matches;
    for (const t of svg.querySelectorAll('text')) {
      if (!said(t) || !shown(t)) continue;
      texts++;
      const r = t.getBoundingClientRect(), s = getComputedStyle(t);
      const turned = r.height > r.width * 1.5 && said(t).length > 3;
      const px = (turned ? r.width : r.height);
      if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 ||
          r.bottom > box.bottom + 1)
        bad.push(name(svg) + ': "' + said(t) + '" lies outside of its chart');
      if (!paper && px < 10) bad.push(name(svg) + ': "' + said(t) + '" is ' + px.toFixed(1) + ' px high');
      if (contrast(s.fill) < 3) bad.push(name(svg) + ': "' + said(t) + '" has a contrast of ' +
          contrast(s.fill).toFixed(1));
      for (const [o, q] of seen) {
        const w = Math.min(r.right, q.right) - Math.max(r.left, q.left);
        const h = Math.min(r.bottom, q.bottom) - Math.max(r.top, q.top);
        if (w > 1.5 && h > .3 * px)
          bad.push(name(svg) + ': "' + said(t) + '" lies over "' + said(o) + '"');
      }
      seen.push([t, r]);
    }
    for (const m of svg.querySelectorAll('rect,circle,polygon,polyline,path,line')) {
      marks++;
      const r = m.getBoundingClientRect();
      if (!(r.width > 0 || r.height > 0 || m.getAttribute('width') === '0'))
        bad.push(name(svg) + ': a ' + m.tagName + ' is not drawn');
      else if (r.left < box.left - 2 || r.right > box.right + 2 || r.top < box.top - 2 ||
               r.bottom > box.bottom + 2)
        bad.push(name(svg) + ': a ' + m.tagName + ' lies outside of its chart');
    }
  }
  for (const c of document.querySelectorAll('canvas')) {
    charts++;
    marks += Number(c.dataset.marks || 0);
    if (!(Number(c.dataset.marks) > 0)) { bad.push(name(c) + ' has no marks'); continue; }
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
    for (let i = 0; i < d.length; i += 4 * 7) if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
    if (seen.size < 2) bad.push(name(c) + ' is empty');
    const zoom = document.querySelectorAll('.zoom button'), whole = c.dataset.span;
    if (matchMedia('print').matches) continue;
    if (zoom.length < 3) { bad.push(name(c) + ' has no buttons to zoom'); continue; }
    zoom[0].click();
    if (!(Number(c.dataset.span) < .6 * whole)) bad.push(name(c) + ' does not zoom');
    zoom[2].click();
    if (c.dataset.span !== whole) bad.push(name(c) + ' does not show all again');
  }
  return JSON.stringify({bad, charts, texts, marks, tables: document.querySelectorAll('table').length});
})()
"""


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory()
        to_read, self.to = os.pipe()
        self.back, from_write = os.pipe()

        def pipes():  # the browser reads 3 and writes 4
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--hide-scrollbars", "--user-data-dir=" + self.profile.name,
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.rest, self.last, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log":
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.back, 1 << 20)
            if not more:
                raise SystemExit("the browser ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            m = self.message()
            if m.get("id") == self.last:
                if "error" in m:
                    raise SystemExit(method + ": " + m["error"]["message"])
                return m["result"]
            self.events.append(m)

    def open(self, page):
        self.events = []
        self.call("Page.navigate", url="file://" + os.path.abspath(page))
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())

    def evaluate(self, text):
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True)
        if "exceptionDetails" in r:
            raise SystemExit("the check failed: " + json.dumps(r["exceptionDetails"])[:400])
        return r["result"].get("value")

    def screen(self, width, dark, paper):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", media="print" if paper else "screen", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def errors(self):
        said = []
        for e in self.events:
            p = e.get("params", {})
            if e["method"] == "Runtime.exceptionThrown":
                said.append(p["exceptionDetails"].get("text", "exception"))
            elif e["method"] == "Runtime.consoleAPICalled":
                said.append("console." + p["type"])
            elif e["method"] == "Log.entryAdded":
                said.append(p["entry"]["text"])
        return said

    def shot(self, path, top=0, height=None):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"],
                "height": height or min(size["height"], 16000), "scale": 1}
        r = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        with open(path, "wb") as f:
            f.write(base64.b64decode(r["data"]))

    def end(self):
        self.process.terminate()
        self.process.wait()
        try:
            self.profile.cleanup()
        except OSError:
            pass


def look(browser, page, width, dark, paper, shots):
    name = os.path.basename(page).rsplit(".", 1)[0]
    where = "%s at %d%s%s" % (name, width, " dark" if dark else "", " on paper" if paper else "")
    browser.screen(width, dark, paper)
    browser.open(page)
    got = json.loads(browser.evaluate(LOOK))
    if shots:
        browser.shot("%s/%s-%d%s%s.png" % (shots, name, width, "-dark" if dark else "",
                                           "-paper" if paper else ""))
    return where, got, [where + ": " + b for b in browser.errors() + got["bad"]]


def main():
    args, shots, widths = sys.argv[1:], None, (1280, 768, 390)
    while args and args[0].startswith("--"):
        if args[0] == "--shots":
            shots = args[1]
            os.makedirs(shots, exist_ok=True)
        elif args[0] == "--widths":
            widths = [int(w) for w in args[1].split(",")]
        args = args[2:]
    browser, bad = Browser(), 0
    for page in args:
        kinds = [(w, d, False) for w in widths for d in (False, True)] + [(1000, False, True)]
        for kind in kinds:
            where, got, faults = look(browser, page, *kind, shots)
            if not kind[1]:
                print("%s: %d charts, %d tables, %d texts, %d marks" % (
                    where, got["charts"], got["tables"], got["texts"], got["marks"]))
            for fault in faults[:30]:
                print(fault)
            bad += len(faults)
    browser.end()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
