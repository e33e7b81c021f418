# SPDX-License-Identifier: Apache-2.0
"""See chromium_serve.sh."""
import json
import os
import signal
import subprocess
import sys
import time

from chromium_look import LOOK, Browser

HERE = os.path.dirname(os.path.abspath(__file__))
SHOTS = os.environ.get("PDL_SHOTS")
bad = []


class Visitor(Browser):
    def visit(self, url):
        self.events = []
        self.call("Page.navigate", url=url)
        self.loaded()

    def loaded(self):
        while not any(e["method"] == "Page.loadEventFired"
                      for e in self.events):
            self.events.append(self.message())

    def until(self, what, text, seconds=40):
        for _ in range(seconds * 10):
            if self.evaluate(text):
                return
            time.sleep(.1)
        bad.append(what + ": never; " + str(self.evaluate(
            "(document.querySelector('#say') || document.body).innerText"))
            [:200])

    def send(self, **fields):
        """Fills the form in and sends it."""
        for name, value in fields.items():
            self.evaluate(f"document.querySelector('[name={name}]').value = "
                          + json.dumps(value))
        self.events = []
        self.evaluate("document.querySelector('form.ask').requestSubmit()")
        self.loaded()

    def upload(self, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root,
                         selector="[name=file]")["nodeId"]
        self.call("DOM.setFileInputFiles", files=[path], nodeId=node)

    def look(self, name):
        """As tests/peers/chromium_look.py does, of what is there now."""
        for width in (1280, 390):
            for dark in (False, True):
                self.screen(width, dark, False)
                got = json.loads(self.evaluate(LOOK))
                where = f"{name} at {width}{' dark' if dark else ''}: "
                bad.extend(where + b for b in got["bad"])
                if SHOTS:
                    self.shot(f"{SHOTS}/serve-{name}-{width}"
                              f"{'-dark' if dark else ''}.png")
        bad.extend(f"{name}: {e}" for e in self.errors())




def main():
    server = subprocess.Popen([sys.argv[1], "serve", "--port", "0"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    url = server.stdout.readline().strip()
    if not url:
        print("chromium_serve: built without libmicrohttpd: skipped")
        return 77
    b = Visitor()
    try:
        b.visit(url)
        b.look("form")
        b.send(model="llama2-7b", system="dgx-h100", pes="64", batch="512")
        b.until("a report", "!!document.querySelector('iframe')")
        b.until("charts", "(() => { fetch(document.querySelector('iframe')"
                ".src).then(r => r.text()).then(t => window.seen = "
                "t.includes('<svg ')); return window.seen })()")
        time.sleep(1)
        b.look("report")
        b.visit(url)
        b.upload(os.path.realpath(os.path.join(HERE, "..", "data", "hf",
                                               "gpt2.json")))
        b.send(system="dgx-a100", pes="8", batch="64")
        b.until("an upload's report", "!!document.querySelector('iframe')")
        b.visit(url)
        b.send(model="nosuch<b>", system="dgx-a100", pes="8", batch="64")
        said = b.evaluate("document.querySelector('.bad').textContent")
        if "nosuch<b>" not in (said or ""):
            bad.append(f"what is wrong is not said: {said}")
        b.events = [e for e in b.events if "400" not in json.dumps(e)]
        b.look("wrong")
    finally:
        b.end()
        server.send_signal(signal.SIGINT)
        server.wait(20)
    for line in bad:
        print(line)
    print(f"chromium_serve: {len(bad)} complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
