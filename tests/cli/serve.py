# SPDX-License-Identifier: Apache-2.0
"""paradl serve, asked by friends and by others: serve.py PARADL. 77 where it
was built without."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

PARADL = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
GOOD = dict(model="gpt2", system="dgx-a100", pes="8", batch="64")


def multipart(fields, file=None):
    out = []
    for name, value in fields.items():
        out.append(f'------paradl\r\nContent-Disposition: form-data; name="{name}"'
                   f"\r\n\r\n{value}\r\n".encode())
    if file:
        out.append(f'------paradl\r\nContent-Disposition: form-data; name="file"; '
                   f'filename="{file[0]}"\r\n\r\n'.encode() + file[1] +
                   b"\r\n")
    return b"".join(out) + b"------paradl--\r\n"


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen(
            [PARADL, "serve", "--port", "0", "--max-upload", "1MiB",
             "--seconds", "20s"], stdout=subprocess.PIPE, text=True)
        cls.port = int(re.match(r"http://127\.0\.0\.1:(\d+)/\n",
                                cls.server.stdout.readline()).group(1))

    @classmethod
    def tearDownClass(cls):
        cls.server.send_signal(signal.SIGINT)
        assert cls.server.wait(20) == 0
        cls.server.stdout.close()

    def ask(self, method, path, body=None, **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if body is not None:
            headers.setdefault("Content-Type",
                               "multipart/form-data; boundary=----paradl")
        c.request(method, path, body, headers)
        r = c.getresponse()
        text = r.read()
        c.close()
        return r, text

    def plan(self, fields=None, file=None, **headers):
        return self.ask("POST", "/plan",
                        multipart({**GOOD, **(fields or {})}, file), **headers)

    def finish(self, response):
        self.assertEqual(response.status, 303)
        job = response.getheader("Location")
        for _ in range(400):
            state = json.loads(self.ask("GET", job + "/state")[1])
            if state["state"] != "running":
                return job, state
            time.sleep(.05)
        self.fail("it does not end")

    def test_from_form_to_report(self):
        r, page = self.ask("GET", "/")
        self.assertEqual(r.status, 200)
        self.assertIn(b'action="/plan"', page)
        policy = r.getheader("Content-Security-Policy")
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        job, state = self.finish(self.plan()[0])
        self.assertEqual(state["state"], "done")
        self.assertIn(b"data-job", self.ask("GET", job)[1])
        r, report = self.ask("GET", job + "/report")
        self.assertIn(b"<svg", report)
        self.assertTrue(r.getheader("Content-Security-Policy").startswith(
            "sandbox"))
        result = json.loads(self.ask("GET", job + "/result.json")[1])
        self.assertEqual(result["schema"], "paradl.plan/1")
        for path in ("/style.css", "/script.js"):
            self.assertEqual(self.ask("GET", path)[0].status, 200)

    def test_uploads(self):
        with open(os.path.join(HERE, "..", "data", "hf", "gpt2.json"),
                  "rb") as f:
            good = f.read()
        job, state = self.finish(self.plan(file=("../../my.JSON", good))[0])
        self.assertEqual(state["state"], "done")
        job, state = self.finish(self.plan(file=("a.json", b"{no\n"))[0])
        self.assertEqual(state["state"], "failed")
        self.assertTrue(state["message"].startswith("config.json:"),
                        state["message"])
        for name in ("x.exe", "config", "x.safetensors"):
            r, page = self.plan(file=(name, b"x"))
            self.assertEqual(r.status, 400)
            self.assertIn(b"no file of a model", page)
        r, page = self.plan(file=("a.json", b" " * (1 << 20) + b"{}"))
        self.assertIn(r.status, (400, 413))
        leftover = [n for n in os.listdir("/tmp")
                    if n.startswith("paradl-serve-")]
        self.assertEqual(leftover, [])

    def test_claims_of_a_large_body(self):
        s = socket.create_connection(("127.0.0.1", self.port), 10)
        s.sendall(b"POST /plan HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                  b"Content-Length: 99999999999\r\n\r\n" % self.port)
        self.assertIn(b"413", s.recv(200))
        s.close()

    def test_files_of_this_machine_are_not_read(self):
        for model in ("/etc/passwd", "../x.yaml", "x.json", "file.onnx",
                      "gpt2:x=/etc/passwd", "nosuch", ""):
            r, page = self.plan(dict(model=model))
            self.assertEqual(r.status, 400, model)
        for system in ("/etc/passwd", "a.yaml", "dgx-a100:pe=/etc/x.yaml", ""):
            self.assertEqual(self.plan(dict(system=system))[0].status, 400)
        job, state = self.finish(
            self.plan(dict(system="dgx-a100:nic=4x12.5GB/s"))[0])
        self.assertEqual(state["state"], "done")

    def test_wrong_numbers(self):
        for bad in (dict(pes="0"), dict(pes="-1"), dict(pes="1e9"),
                    dict(batch="99999999999999999999"), dict(batch=""),
                    dict(precision="bf16;x")):
            self.assertEqual(self.plan(bad)[0].status, 400, bad)
        job, state = self.finish(self.plan(dict(precision="fp3"))[0])
        self.assertEqual(state["state"], "failed")

    def test_markup_is_text(self):
        r, page = self.plan(dict(model="<script>alert(1)</script>"))
        self.assertEqual(r.status, 400)
        self.assertNotIn(b"<script>alert", page)
        self.assertIn(b"&lt;script&gt;", page)

    def test_other_origins(self):
        evil = "http://evil.example"
        self.assertEqual(self.plan(Origin=evil)[0].status, 403)
        self.assertEqual(self.plan(Origin="null")[0].status, 403)
        self.assertEqual(self.ask("GET", "/", Host="evil.example")[0].status,
                         403)
        self.assertEqual(
            self.ask("GET", "/", Host="evil.example:%d" % self.port)[0].status,
            403)
        ours = f"http://127.0.0.1:{self.port}"
        self.finish(self.plan(Origin=ours)[0])

    def test_paths(self):
        for path in ("/../../etc/passwd", "/%2e%2e/x", "/job/", "/job/" +
                     "0" * 32, "/job/" + "z" * 400, "/nosuch", "//"):
            self.assertEqual(self.ask("GET", path)[0].status, 404, path)
        self.assertEqual(self.ask("GET", "/plan")[0].status, 405)
        self.assertEqual(self.ask("DELETE", "/")[0].status, 405)

    def test_junk(self):
        for body in (b"", b"x" * 5000, multipart({"model": "x" * 5000}),
                     b"------paradl\r\n\r\n"):
            try:
                r, _ = self.ask("POST", "/plan", body)
                self.assertEqual(r.status, 400)
            except (http.client.HTTPException, ConnectionError):
                pass  # it hung up
        for junk in (b"\0" * 2000, b"GET / HTTP/9.9\r\n\r\n",
                     b"A" * 100000 + b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                try:
                    s.sendall(junk)
                    s.recv(100)
                except OSError:
                    pass  # it hung up, or waits for more
        self.assertEqual(self.ask("GET", "/")[0].status, 200)

    def test_few_at_once_and_stopped(self):
        large = dict(model="gpt3-175b", pes="16384", batch="16384")
        jobs = [self.plan(large)[0] for _ in range(2)]
        r, page = self.plan(large)
        self.assertEqual(r.status, 400)
        self.assertIn(b"run already", page)
        early, _ = self.ask("GET", jobs[0].getheader("Location") + "/report")
        self.assertEqual(early.status, 409)
        for j in jobs:
            self.ask("POST", j.getheader("Location") + "/cancel", b"")
            self.assertEqual(self.finish(j)[1]["state"], "failed")


if __name__ == "__main__":
    made = subprocess.run([PARADL, "serve", "--port", "0", "--address", "x"],
                          stderr=subprocess.PIPE, text=True)
    if "no server here" in made.stderr:
        print("serve: built without libmicrohttpd: skipped")
        sys.exit(77)
    assert made.returncode == 3, made
    unittest.main(argv=sys.argv[:1])
