#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile.py PARADL: what strangers and hostile files get from 'paradl serve'.
77 where it was built without."""
import http.client
import json
import socket
import subprocess
import sys
import time
import unittest

PARADL = sys.argv.pop(1)
ASK = dict(system="dgx-a100", pes="8", batch="64")
GPT2 = b'{"model_type": "gpt2", "n_layer": %d, "n_embd": 768, "n_head": 12, ' \
    b'"vocab_size": 50257, "n_positions": 1024}'


def form(fields, file=None, name="config.json"):
    """The body of an upload, as browsers write it."""
    line = b"--xyz\r\nContent-Disposition: form-data; name="
    out = b"".join(line + b'"%s"\r\n\r\n%s\r\n' % (k.encode(), v.encode())
                   for k, v in fields.items())
    if file is not None:
        out += line + b'"file"; filename="%s"\r\n\r\n%s\r\n' % (
            name.encode(), file)
    return out + b"--xyz--\r\n"


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen(
            [PARADL, "serve", "--port", "0", "--seconds", "2s",
             "--max-upload", "1MiB"], stdout=subprocess.PIPE, text=True)
        line = cls.server.stdout.readline()
        cls.port = int(line.rsplit(":", 1)[1].strip("/\n"))

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        assert cls.server.wait(20) == 0, "it ends when told to"
        cls.server.stdout.close()

    def get(self, method, path, body=None, **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if body is not None:
            headers.setdefault("Content-Type",
                               "multipart/form-data; boundary=xyz")
        try:
            c.request(method, path, body, headers)
            r = c.getresponse()
            return r.status, r.headers, r.read().decode(errors="replace")
        finally:
            c.close()

    def plan(self, fields, *file):
        """What comes of a question: its last state."""
        status, headers, text = self.get("POST", "/plan", form(fields, *file))
        if status != 303:
            return status, text
        for _ in range(200):
            state = json.loads(self.get("GET", headers["Location"] + "/state")
                               [2])
            if state["state"] != "running":
                return state["state"], state.get("message", "")
            time.sleep(.1)
        return "running", ""

    def test_other_origins_and_names_are_refused(self):
        self.assertEqual(self.get("GET", "/")[0], 200)
        for headers in ({"Host": "evil.example"}, {"Host": ""},
                        {"Host": f"127.0.0.1:{self.port + 1}"},
                        {"Origin": "http://evil.example"},
                        {"Origin": f"https://127.0.0.1:{self.port}"},
                        {"Origin": "null"}):
            self.assertEqual(self.get("GET", "/", **headers)[0], 403, headers)
            self.assertEqual(self.get("POST", "/plan", form(ASK),
                                      **headers)[0], 403, headers)

    def test_no_path_leaves_the_pages(self):
        for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
                     "/job/../../etc/passwd", "/style.css/../../etc/passwd",
                     "/job/" + "0" * 32 + "/report", "//etc/passwd",
                     "/" + "a" * 20000):
            status, _, text = self.get("GET", path)
            self.assertIn(status, (400, 404, 414, 431), path)
            self.assertNotIn("root:", text)
        for method in ("DELETE", "PUT", "TRACE"):
            self.assertGreaterEqual(self.get(method, "/")[0], 400)

    def test_names_are_not_paths(self):
        for what in (dict(model="/etc/passwd"), dict(model="gpt2:/etc/passwd"),
                     dict(model="gpt2", system="/etc/passwd.yaml"),
                     dict(model="gpt2", system="dgx-a100:pe=own.yaml"),
                     dict(model="gpt2:own.json"),
                     dict(model="gpt2", pes="0"), dict(model="gpt2", pes="9e9"),
                     dict(model="gpt2", batch="-1"), dict(model="<script>"),
                     dict(model="gpt2", precision="bf16 --export x"),
                     dict(model="x" * 10000), {}):
            try:
                status, text = self.plan({**ASK, **what})
            except (ConnectionError, http.client.HTTPException):
                continue  # hung up on
            self.assertEqual(status, 400, what)
            self.assertNotIn("<script>", text.replace("<script src", ""))

    def test_files_are_bounded(self):
        try:  # what it will not read it need not wait for
            self.assertEqual(self.get("POST", "/plan",
                                      form(ASK, bytes(3 << 20)))[0], 413)
        except ConnectionError:
            pass
        status, text = self.plan(ASK, bytes((1 << 20) + 5))
        self.assertEqual(status, 400)
        self.assertIn("too large", text)
        chunks = iter([form(ASK, b"")[:-9]] + [bytes(1 << 16)] * 40)
        try:  # as large as it likes, without saying so
            self.assertIn(self.get("POST", "/plan", chunks)[0], (400, 413))
        except (ConnectionError, http.client.HTTPException):
            pass

    def test_hostile_files_fail_with_a_line(self):
        aliases = b"a: &a [x]\n" + b"".join(
            b"b%d: &b%d [*a,*a]\n" % (i, i) for i in range(9))
        for file, name in ((b"[" * 500000, "c.json"), (aliases, "m.yaml"),
                           (bytes(500000), "m.onnx"), (b"", "c.json"),
                           (GPT2 % 10**12, "../../c.json")):
            state, message = self.plan(ASK, file, name)
            self.assertEqual(state, "failed", name)
            self.assertTrue(message and "/tmp" not in message, message)
        self.assertEqual(self.plan(ASK, b"x", "m.exe")[0], 400)

    def test_results_do_not_tell_where_files_are(self):
        status, headers, _ = self.get("POST", "/plan", form(ASK, GPT2 % 2))
        self.assertEqual(status, 303)
        at = headers["Location"]
        while '"running"' in self.get("GET", at + "/state")[2]:
            time.sleep(.1)
        for what in ("/result.json", "/report"):
            status, _, text = self.get("GET", at + what)
            self.assertEqual(status, 200)
            self.assertEqual((text.count("/tmp"),
                              text.count("paradl plan config.json") > 0),
                             (0, True), what)

    def test_deep_networks_are_refused(self):
        start = time.time()
        for model in (dict(model="gpt:layers=100000,hidden=64,heads=4"), {}):
            state, message = self.plan({**ASK, **model},
                                       *([] if model else [GPT2 % 60000]))
            self.assertEqual(state, "failed")
            self.assertIn("layers", message)
        self.assertLess(time.time() - start, 20)

    def test_who_hangs_up_is_forgotten(self):
        """Halves of requests, more than it serves at once."""
        for wait in (0, .2) * 4:  # it depends on who is faster
            halves = []
            for _ in range(80):
                at = socket.create_connection(("127.0.0.1", self.port), 20)
                at.sendall(b"GET / HTTP/1.1\r\nX: ")
                halves.append(at)
            time.sleep(wait)
            for at in halves:
                at.close()
            start = time.time()
            self.assertEqual(self.get("GET", "/")[0], 200)
            self.assertLess(time.time() - start, 8)

    def test_a_search_has_its_time(self):
        start = time.time()
        self.plan(dict(model="gpt:layers=2000,hidden=4096,heads=32",
                       system="dgx-a100", pes="16384", batch="65536"))
        self.assertLess(time.time() - start, 25)


if __name__ == "__main__":
    if subprocess.run([PARADL, "serve", "--help"],
                      stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(77)
    unittest.main()
