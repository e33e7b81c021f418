# SPDX-License-Identifier: Apache-2.0
"""The Python package: its examples, errors, interrupts, threads, forms."""
import copy
import doctest
import gc
import json
import keyword
import os
import pickle
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing
import unittest
import unittest.mock

import paradl
from paradl import errors, kinds, models, questions, results, watching

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                       "doc", "formats", "json")
README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                      "README.md")
LARGE = dict(system="dgx-a100", pes=2048, batch=2048)


class _PythonBlocks(doctest.DocTestParser):
    """Fences are no output."""

    def parse(self, string, name="<string>"):
        return super().parse(string.replace("```", "\n"), name)


class Examples(unittest.TestCase):
    def test_docstrings_are_true(self):
        for module in (paradl, errors, kinds, models, questions, results,
                       watching):
            failed, tried = doctest.testmod(module)
            self.assertEqual(failed, 0, module.__name__)

    def test_everything_public_is_documented(self):
        for name in paradl.__all__:
            thing = getattr(paradl, name)
            if callable(thing):
                self.assertTrue(thing.__doc__, name)

    def test_version_is_one(self):
        self.assertEqual(paradl.__version__, paradl.library_version)

    def test_readme(self):
        failed, tried = doctest.testfile(
            README, module_relative=False, parser=_PythonBlocks())
        self.assertEqual((failed, tried > 2), (0, True))

    def test_first_screen_of_the_readme(self):
        with open(README, encoding="utf-8") as f:
            asked, shown = f.read().split("\n$ paradl ", 1)[1].split("\n", 1)
        command, model, *more = shlex.split(asked)
        options = {name[2:]: value
                   for name, value in zip(more[::2], more[1::2])}
        text = paradl.text(command, model, **options)
        self.assertTrue(text.startswith(shown.split("...\n", 1)[0]), text)


class Types(unittest.TestCase):
    """What classes say of their fields is what doc/formats/json says."""

    PLACES = {"Projection": ("project", "plan.plans", "plan.scaling",
                             "scale.points"),
              "Plan": ("plan",), "Scaling": ("scale",), "FitIn": ("fit-in",),
              "Method": ("fit-in.methods",),
              "Trial": ("fit-in.as_asked", "fit-in.most_layers"),
              "Design": ("design",), "Machine": ("design.designs",),
              "Simulation": ("simulate",), "Validation": ("validate",),
              "Time": ("project.time",), "Memory": ("project.memory",),
              "Limit": ("project.limits",), "Gain": ("project.gains",),
              "Evidence": ("project.evidence",)}
    NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}

    def properties(self, place):
        name, *path = place.split(".")
        with open(os.path.join(SCHEMAS, name + ".schema.json")) as f:
            found = json.load(f)
        for field in path:
            found = found["properties"][field]
            found = found.get("items", found)
        return found["properties"]

    def allows(self, hint, schema):
        """Is every value of the schema one of this type?"""
        of = typing.get_args(hint)
        said = schema.get("type", "string")
        said = set(said if isinstance(said, list) else [said])
        if typing.get_origin(hint) is typing.Union:
            return self.allows(of[0], {**schema, "type": list(said - {"null"})})
        if typing.get_origin(hint) is list:
            return said == {"array"} and ("items" not in schema or
                                          self.allows(of[0], schema["items"]))
        return said == {self.NAMES.get(hint, "object")}

    def test_fields(self):
        for name, places in self.PLACES.items():
            kind = getattr(paradl, name)
            hints = {k: v for k, v in typing.get_type_hints(kind).items()
                     if k[0] != "_"}
            seen = set()
            for place in places:
                fields = self.properties(place)
                seen |= {k for k in fields if not keyword.iskeyword(k)}
                for k in set(fields) & set(hints):
                    self.assertTrue(self.allows(hints[k], fields[k]),
                                    (name, place, k, hints[k]))
            self.assertEqual(seen - {"schema"}, set(hints), name)
        self.assertFalse(self.allows(int, {"type": "number"}))
        self.assertFalse(self.allows(float, {"type": ["null", "number"]}))

    def test_rows_know_their_question(self):
        for rows in (paradl.plan("lenet5", system="dgx-a100", pes=4,
                                 batch=64).plans,
                     paradl.scale("lenet5", system="dgx-a100", pes="1..2",
                                  strategy="data=p", batch=64).points):
            self.assertEqual((rows[1].model, rows[1].system),
                             ("lenet5", "dgx-a100"))
            self.assertIsInstance(rows[1], paradl.Projection)
            self.assertIsInstance(rows[1].evidence, paradl.Evidence)


class Errors(unittest.TestCase):
    def fails(self, kind, *args, **options):
        with self.assertRaises(kind) as caught:
            paradl.ask(*args, **options)
        return caught.exception

    def test_kinds(self):
        e = self.fails(paradl.UsageError, "plan", "resnet50", pse=4)
        self.assertIn("--pes", e.hint)
        self.assertIsInstance(e, TypeError)
        e = self.fails(paradl.InputError, "model show", "resnet51")
        self.assertIsInstance(e, ValueError)
        self.assertIn("resnet50", e.hint)
        self.fails(paradl.EnvironmentLacks, "train", "lenet5")
        self.fails(paradl.UsageError, "nosuch")

    def test_arguments_are_no_options(self):
        e = self.fails(paradl.InputError, "model show", "--help")
        self.assertIn("no model '--help'", e.message)
        with self.assertRaises(paradl.InputError):
            paradl.plan("-h", system="--json", pes=4, batch=64)
        with self.assertRaises(paradl.InputError):
            paradl.plan("lenet5", system="--json", pes=4, batch=64)

    def test_what_is_no_model(self):
        class Module:
            def state_dict(self):
                return {}
        for wrong, hint in (({"model_type": "gpt2"}, ""), (None, ""),
                            (Module(), "from_torch")):
            with self.assertRaises(paradl.UsageError) as caught:
                paradl.plan(wrong, system="dgx-a100", pes=8, batch=64)
            self.assertIn(type(wrong).__name__, caught.exception.message)
            self.assertIn(hint, caught.exception.hint)

    def test_what_is_no_json(self):
        e = self.fails(paradl.UsageError, "plan", "lenet5", help=True)
        self.assertIn("paradl.options", e.hint)

    def test_files_that_are_none(self):
        with tempfile.TemporaryDirectory() as d:
            deep = os.path.join(d, "deep.json")
            with open(deep, "w") as f:
                f.write("[" * 100000)
            binary = os.path.join(d, "binary.json")
            with open(binary, "wb") as f:
                f.write(bytes([0xff, 0xfe]) * 9)
            for path in (os.path.join(d, "none"), d, deep, binary):
                with self.assertRaises(paradl.InputError) as caught:
                    paradl.read_runs(path)
                self.assertIn(path, caught.exception.message)

    def test_file_and_line(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "bad.yaml")
            with open(path, "w") as f:
                f.write("name: x\nnodes: many\n")
            e = self.fails(paradl.InputError, "system show", path)
            self.assertEqual((e.file, e.line), (path, 2))
            self.assertEqual(e.column, 8)
            with open(path, "w") as f:
                f.write('{"schema": "paradl.runs/1",\n "runs": [}')
            with self.assertRaises(paradl.InputError) as caught:
                paradl.read_runs(path)
            self.assertEqual(caught.exception.line, 2)

    def test_pickle(self):
        e = self.fails(paradl.InputError, "model show", "nosuch")
        again = pickle.loads(pickle.dumps(e))
        self.assertEqual((again.message, again.hint, type(again)),
                         (e.message, e.hint, type(e)))

    def test_an_answer_that_is_no(self):
        p = paradl.project("gpt3-175b", system="dgx-a100", strategy="serial",
                           batch=1)
        self.assertFalse(p.feasible)
        self.assertTrue(p.reasons)

    def test_wrong_library(self):
        code = subprocess.run(
            [sys.executable, "-c", "import paradl"], stderr=subprocess.PIPE,
            env={**os.environ, "PARADL_LIBRARY": "/nosuch.so"}, text=True)
        self.assertNotEqual(code.returncode, 0)
        self.assertIn("PARADL_LIBRARY", code.stderr)


class Results(unittest.TestCase):
    def setUp(self):
        self.plan = paradl.plan("lenet5", system="dgx-a100", pes=4, batch=64)

    def test_forms(self):
        self.assertEqual(json.loads(self.plan.to_json()), self.plan.to_dict())
        rows = self.plan.to_records()
        self.assertEqual(len(rows), len(self.plan.plans))
        self.assertEqual(rows[0]["memory.peak_bytes"],
                         self.plan.best.memory.peak_bytes)
        self.assertEqual(rows[0]["strategy"], self.plan["plans"][0].strategy)

    def test_copies(self):
        for other in (pickle.loads(pickle.dumps(self.plan)),
                      copy.deepcopy(self.plan)):
            self.assertEqual(dict(other.best), dict(self.plan.best))

    def test_no_such_field(self):
        with self.assertRaises(AttributeError) as caught:
            self.plan.nosuch
        self.assertIn("plans", str(caught.exception))
        self.assertIn("plans", dir(self.plan))

    def test_pages(self):
        shown = self.plan._repr_html_()
        self.assertIn("<iframe", shown)
        self.assertIn("&lt;svg", shown)
        self.assertIn("<svg", self.plan.to_html())
        fit = paradl.fit_in("lenet5", system="dgx-a100", pes=4, batch=64)
        self.assertIn("<iframe", fit._repr_html_())
        self.assertIn("<table>", paradl.collective("list")._repr_html_())
        self.assertEqual(fit.to_records()[0]["question"], "as_asked")

    def test_lists(self):
        found = paradl.collective("list")
        names = [r["name"] for r in found.to_records()]
        self.assertIn("ring", names)
        self.assertIn(str(len(names)), repr(found))
        self.assertIn("ring", found._repr_html_())
        found = paradl.collective("compare", "allreduce", size="1MiB",
                                  topology="torus:4x4")
        self.assertEqual(found.to_records()[0]["algorithm"],
                         found.rows[0].algorithm)

    def test_dataframe(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaises(paradl.EnvironmentLacks) as caught:
                self.plan.to_dataframe()
            self.assertIn("to_records", caught.exception.hint)
            return
        frame = self.plan.to_dataframe()
        self.assertEqual(frame["strategy"][0], self.plan.best.strategy)


class Jobs(unittest.TestCase):
    def test_same_as_the_command(self):
        asked = paradl.project("gpt2", system="dgx-a100", strategy="data=8",
                               batch=64)
        with paradl.Job("gpt2", system="dgx-a100", batch=64) as job:
            brief = job.project("data=8")
            whole = job.project("data=8", whole=True)
            more = job.project("data=8", batch=128)
            job.set(precision="fp32", batch=64)
            fp32 = job.project("data=8")
            with self.assertRaises(paradl.InputError):
                job.project("data=7x")
            with self.assertRaises(paradl.InputError):
                job.set(nosuch=1)
        self.assertAlmostEqual(brief.step_s / asked.step_s, 1, delta=1e-9)
        self.assertEqual(brief.memory.peak_bytes, asked.memory.peak_bytes)
        self.assertEqual(whole.interval_s, asked.interval_s)
        self.assertGreater(more.step_s, brief.step_s)
        self.assertGreater(fp32.step_s, brief.step_s)
        with self.assertRaises(ValueError):
            job.project("data=8")

    def test_threads_share_a_job(self):
        wrong = []

        def ask(job):
            for k in range(100):
                s = ("data=8", "data=4,tensor=2")[k % 2]
                if job.project(s).strategy != s:
                    wrong.append(s)

        with paradl.Job("gpt2", system="dgx-a100", batch=64) as job:
            all_of = [threading.Thread(target=ask, args=(job,))
                      for _ in range(4)]
            for t in all_of:
                t.start()
            for t in all_of:
                t.join()
            with self.assertRaises(TypeError):
                pickle.dumps(job)
        self.assertEqual(wrong, [])

    def test_names_of_any_bytes(self):
        for name in ("gpt2\0", "\udcff.json", "\ud800.json"):
            with self.assertRaises(paradl.InputError):
                paradl.project(name, system="dgx-a100", strategy="data=8",
                               batch=64)
            with paradl.Job("gpt2", system="dgx-a100", batch=64) as job:
                with self.assertRaises(paradl.InputError):
                    job.project(f"data=8{name}")

    def test_what_is_no_text(self):
        with self.assertRaises(paradl.UsageError):
            paradl.Job(None, system="dgx-a100", batch=64)
        with paradl.Job("gpt2", system="dgx-a100", batch=64) as job:
            with self.assertRaises(paradl.UsageError):
                job.project(None)
            with self.assertRaises(paradl.InputError):
                job.project(3)

    def test_read_runs_and_validate(self):
        data = os.path.join(DATA, "oracle", "runs.json")
        runs = paradl.read_runs(data)
        some = paradl.validate(data, select=f"id={runs.runs[0].id}")
        self.assertEqual(some.rows[0].id, runs.runs[0].id)


class Models(unittest.TestCase):
    def test_its_file_goes_with_it_and_not_with_a_child(self):
        folder = tempfile.mkdtemp()
        model = models.Model(os.path.join(folder, "net.onnx"), folder)
        child = os.fork()
        if child == 0:
            del model
            gc.collect()
            os._exit(0)
        os.waitpid(child, 0)
        self.assertTrue(os.path.isdir(folder))
        del model
        gc.collect()
        self.assertFalse(os.path.exists(folder))


class Watches(unittest.TestCase):
    def test_a_job_beside_its_projection(self):
        p = paradl.project("resnet50", system="abci-v100",
                           strategy="data=64", batch=2048)
        w = paradl.watch(p, skip=1)
        self.assertIn("no step", w.verdict())
        step = w(lambda s: time.sleep(s))
        for s in (.2, p.step_s * 1.01, p.step_s * 1.01):
            step(s)
        self.assertEqual(w.steps, 2)
        w._times = [0, p.step_s * 2]
        self.assertIn("slower", w.verdict())
        w._times = [0, p.step_s]
        self.assertIn("as projected", w.verdict())
        w._times = [0, p.step_s / 9]
        self.assertIn("faster", w.verdict())
        with self.assertRaises(ZeroDivisionError):
            with w:
                1 / 0
        self.assertEqual(w.steps, 1)
        text = w.report(os.path.join(DATA, "oracle", "kineto_gpt.json.gz"))
        self.assertIn("computation: projected", text)
        self.assertIn(p.limits[0].text, text)

    def test_waits_for_a_gpu(self):
        p = paradl.project("lenet5", system="dgx-a100", strategy="serial",
                           batch=32)
        w = paradl.watch(p, skip=0)
        cuda = types.SimpleNamespace(is_initialized=lambda: True,
                                     synchronize=lambda: time.sleep(.02))
        with unittest.mock.patch.dict(
                sys.modules, torch=types.SimpleNamespace(cuda=cuda)):
            with w:
                pass
        self.assertGreater(w.step_s, .015)

    def test_what_to_change(self):
        trace = os.path.join(DATA, "oracle", "kineto_gpt.json.gz")
        p = paradl.project("gpt2:layers=1", system="dgx-a100",
                           strategy="serial", batch=1)
        w = paradl.watch(p, skip=0)
        found = w.report(trace)  # the trace's step has much that is idle
        self.assertIn("- idle: bubble, I/O, host takes", found)
        self.assertNotIn("between steps", found)
        for _ in range(3):
            with w:
                pass
            time.sleep(.02)
        self.assertGreater(w.between_s, .015)
        self.assertIn("pass between steps", w.report())
        self.assertNotIn("one step in ten", w.report())
        w._times = [.1] * 18 + [.3, .3]
        self.assertIn("one step in ten takes 0.3 s", w.report())

    def test_wrong(self):
        for wrong in (None, "x", {}):
            with self.assertRaises(TypeError):
                paradl.watch(wrong)
        plan = paradl.plan("lenet5", system="dgx-a100", pes=4, batch=64)
        with self.assertRaises(ValueError):
            paradl.watch(plan.best, skip=-1)
        with self.assertRaises(paradl.InputError) as caught:
            paradl.watch(plan.best).phases("trace.json")
        self.assertIn("project()", caught.exception.hint)


class Threads(unittest.TestCase):
    def test_lock_is_released(self):
        """Another thread counts while one question is answered."""
        ticks, done = [0], threading.Event()

        def count():
            while not done.is_set():
                ticks[0] += 1
                time.sleep(0.002)

        counter = threading.Thread(target=count)
        counter.start()
        paradl.ask("plan", "gpt2", system="dgx-a100", pes=64, batch=64)
        during = ticks[0]
        done.set()
        counter.join()
        self.assertGreater(during, 3)

    def test_many_threads(self):
        wrong = []

        def work(name):
            for _ in range(5):
                if paradl.ask("model show", name).name != name:
                    wrong.append(name)

        threads = [threading.Thread(target=work, args=(n,))
                   for n in ("lenet5", "resnet18", "gpt2")]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_interrupt_ends_a_search(self):
        # a shell's background job ignores it, and so would Python
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        start = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            paradl.plan("gpt3-175b", **LARGE)
        self.assertLess(time.monotonic() - start, 3)

    def test_progress_is_told_and_may_stop(self):
        told = []

        def stop(done, total):
            told.append((done, total))
            if done:
                raise StopIteration

        with self.assertRaises(StopIteration):
            paradl.plan("gpt3-175b", progress=stop, **LARGE)
        self.assertTrue(told)

    def test_progress_is_told_in_any_thread(self):
        told = []

        def work():
            paradl.plan("gpt2", system="dgx-a100", pes=64, batch=64,
                        progress=lambda *at: told.append(at))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertTrue(told)

    def test_a_child_may_ask_too(self):
        """As DataLoader's workers are made: forked after a question."""
        paradl.ask("model show", "lenet5")
        child = os.fork()
        if child == 0:
            try:
                found = paradl.plan("lenet5", system="dgx-a100", pes=4,
                                    batch=64)
                os._exit(0 if found.best else 1)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
