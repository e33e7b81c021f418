#!/usr/bin/env python3
"""accidents.py PARADL: what happens to runs, and what they lose by it.

kill -9 of paradl, of mpirun and of ranks, again and again: the run goes on
(by itself, or with --resume), ends with the losses of an undisturbed one,
loses no checkpoint that was there, and leaves no process behind. Two runs in
one folder, a folder of another run, symbolic links, a full disk, a folder
that cannot be written, signals while output is slow: one line each, and
nothing is lost. PDL_LONG=1: a hundred kills.
"""
import fcntl
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

paradl = os.path.realpath(sys.argv[1])
source = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
work = os.path.realpath(tempfile.mkdtemp(prefix="paradl-accident-"))
long = bool(os.environ.get("PDL_LONG"))
bad = []
OURS = "PARADL_ACCIDENT=" + work # in the environment of every process of a run
BASE = [os.path.join(source, "examples/digits.yaml"), "--data", "digits",
        "--batch", "16", "--lr", "0.05", "--threads", "1", "--json",
        "--no-test"]


def fail(text):
    print("WRONG:", text)
    bad.append(text)


class Run:
    """paradl train with a folder of its own name, output to files."""

    def __init__(self, name, args, limit=None, stdout=None, command=None, env=None):
        self.out = os.path.join(work, name + ".out")
        self.err = os.path.join(work, name + ".err")
        self.stdout = stdout

        def apply():
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        self.p = subprocess.Popen(
            [paradl] + (command or ["train"] + BASE) + args, stdin=subprocess.DEVNULL,
            stdout=stdout or open(self.out, "wb"), stderr=open(self.err, "wb"),
            preexec_fn=apply, start_new_session=True,
            env=dict(os.environ, **dict([OURS.split("=", 1)]), **(env or {})))

    def end(self, limit=120):
        if not wait_for(lambda: self.p.poll() is not None, limit):
            fail("no end after %d s: %s" % (limit, self.said()))
            kill_all(processes(work))
        return self.p.wait()

    def said(self):
        with open(self.err, errors="replace") as f:
            return f.read()

    def rows(self):
        return read_rows(self.out)


def read_rows(path):
    rows = []
    with open(path, "rb") as f:
        for line in f:
            try:
                rows.append(json.loads(line))
            except ValueError: # cut off by a kill
                pass
    return rows


def losses(rows):
    return {r["step"]: r["loss"] for r in rows
            if "loss" in r and "epoch_ended" not in r}


def processes(mark):
    """Who has the mark on the command line: {pid: name}."""
    found = {}
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                line = f.read()
            with open("/proc/%s/comm" % pid) as f:
                name = f.read().strip()
            with open("/proc/%s/stat" % pid) as f:
                dead = f.read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            continue
        if mark.encode() in line and not dead:
            found[int(pid)] = name
    return found


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def kill_all(pids):
    signal_all(pids, signal.SIGKILL)


def spent():
    """CPU seconds of all processes of these runs, and whether one of them would
    run (or wait for a disk) if it could."""
    ticks, ready = 0, False
    for pid in os.listdir("/proc"):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                if OURS.encode() not in f.read().split(b"\0"):
                    continue
            with open("/proc/%s/stat" % pid) as f:
                x = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += int(x[11]) + int(x[12])
        ready |= x[0] in "RD"
    return ticks / os.sysconf("SC_CLK_TCK"), ready


def wait_for(what, limit=30.0):
    """Until it is so. The limit is on what the runs had of the machine, not on
    the clock: their CPU time, and time in which none of them wanted any. On a
    busy machine a run is late, not wrong."""
    waited, last, (cpu, _) = 0, time.monotonic(), spent()
    while waited < limit:
        v = what()
        if v:
            return v
        time.sleep(0.02)
        now = time.monotonic()
        if now - last > 0.5:
            used, ready = spent()
            waited += max(used - cpu, 0) if ready else now - last
            cpu, last = used, now
    return None


def need(what, text, limit=30.0):
    """It must become so."""
    v = wait_for(what, limit)
    if not v:
        fail("waited in vain: " + text)
    return v


def nobody_left(mark, case):
    if wait_for(lambda: not processes(mark), 20):
        return
    left = processes(mark)
    fail("%s: left behind: %s" % (case, left))
    kill_all(left)


def newest(folder):
    steps = [int(n[5:]) for n in os.listdir(folder)
             if n.startswith("step-") and n[5:].isdigit()] \
        if os.path.isdir(folder) else []
    return max(steps, default=0)


# ---- kills -----------------------------------------------------------------

KINDS = {"paradl": "paradl", "mpirun": "mpirun", "rank": "paradl-run"}


def kills(strategy, kinds, count, whole, number):
    """One run of many lives; returns how often it was killed."""
    rng = random.Random(len(strategy) * 1000 + 100 * number + count)
    folder = os.path.join(work, "kills-%d-%s" % (number, strategy))
    args = ["--strategy", strategy, "--steps", str(len(whole)), "--every", "1",
            "--checkpoint", folder, "--backend", "ref"]
    done, trace, lives = 0, {}, 0
    while lives < 3 * count + 3:
        lives += 1
        run = Run("life", args + (["--resume"] if newest(folder) else []) +
                  ["--restarts", "50"])
        begin = newest(folder)
        while done < count:
            kind = rng.choice(kinds)
            reach = begin + rng.randint(0, 2)
            wait_for(lambda: newest(folder) >= reach or
                     run.p.poll() is not None)
            time.sleep(rng.random() * 0.05)
            victims = [p for p, n in processes(folder).items()
                       if n.startswith(KINDS[kind]) and
                       (kind == "rank") == (n == "paradl-run")]
            if run.p.poll() is not None or not victims:
                break
            there = newest(folder)
            kill_all([rng.choice(victims)])
            done += 1
            if kind == "paradl":
                run.end()
                nobody_left(folder, "kill -9 of paradl")
            time.sleep(0.02)
            if newest(folder) < there:
                fail("%s: checkpoint %d is lost" % (kind, there))
            begin = newest(folder)
            if kind == "paradl":
                break
        else:
            run.end()
        rc = run.end()
        for step, loss in losses(run.rows()).items():
            if trace.setdefault(step, loss) != loss:
                fail("step %d: %r and %r" % (step, trace[step], loss))
        if rc == 0:
            break
        if rc != -signal.SIGKILL and rc != 4:
            fail("%s: exit code %s: %s" % (strategy, rc, run.said()))
            break
    nobody_left(folder, strategy)
    for step in trace:
        if trace[step] != whole[step]:
            fail("%s: step %d: %r instead of %r" %
                 (strategy, step, trace[step], whole[step]))
    if len(whole) not in trace or rc != 0:
        fail("%s: it never came to its end" % strategy)
    return done


def many_kills():
    n = 50 if long else 4
    total = 0
    for strategy, kinds in (("data=2", ["paradl", "mpirun", "rank"]),
                            ("serial", ["paradl", "rank"])):
        run = Run("whole", ["--strategy", strategy, "--steps", str(4 * n + 20),
                            "--backend", "ref"])
        if run.end(600) != 0:
            fail(run.said())
            return
        whole = losses(run.rows())
        got = number = 0
        while got < n and number < n and not bad: # a run may be done too soon
            got += kills(strategy, kinds, n - got, whole, number)
            number += 1
        total += got
    print("%d kills" % total)
    if total < 2 * n:
        fail("only %d kills" % total)


# ---- one folder, one run -----------------------------------------------------

def two_runs():
    folder = os.path.join(work, "two")
    args = ["--checkpoint", folder, "--every", "5"]
    first = Run("first", args + ["--steps", "100000"])
    need(lambda: newest(folder), "a checkpoint")
    stopped = processes(folder) # it is there, and takes no time
    signal_all(stopped, signal.SIGSTOP)
    for how in ([], ["--resume"]):
        second = Run("second", args + ["--steps", "3"] + how)
        rc = second.end()
        said = second.said()
        if rc != 3 or "in use by process" not in said or \
                said.count("\n") != 1:
            fail("two runs: exit code %d: %s" % (rc, said))
    os.remove(os.path.join(folder, "lock")) # as if it were left over
    third = Run("third", args + ["--steps", "3", "--resume"])
    if third.end() != 3 or "in use by" not in third.said():
        fail("without the lock's file: " + third.said())
    beside = Run("beside", args + ["--steps", "3", "--beside"])
    if beside.end() != 0 or newest(folder + "-2") != 3:
        fail("--beside: " + beside.said())
    signal_all(stopped, signal.SIGCONT)
    os.kill(first.p.pid, signal.SIGTERM)
    if first.end() != 130:
        fail("two runs: the first one ended with: " + first.said())
    last = newest(folder)
    # a new run may not take the place of the old one ...
    other = Run("other", args + ["--steps", "3"])
    if other.end() != 3 or "another run" not in other.said():
        fail("another run's folder: " + other.said())
    if newest(folder) != last:
        fail("another run's folder: %d became %d" % (last, newest(folder)))
    # ... nor go on with other samples
    for how in (["--batch", "32"], ["--seed", "7"], ["--augment"], ["--raw"]):
        r = Run("else", args + ["--steps", str(last + 2), "--resume"] + how)
        if r.end() != 3 or "would be others" not in r.said():
            fail("--resume %s: %s" % (how, r.said()))
    r = Run("anyway", args + ["--steps", str(last + 2), "--resume",
                              "--resume-anyway", "--batch", "32"])
    if r.end() != 0 or "going on with batch 32" not in r.said():
        fail("--resume-anyway: " + r.said())


def links():
    folder = os.path.join(work, "links")
    mine = os.path.join(work, "mine")
    os.mkdir(folder)
    os.mkdir(mine)
    with open(os.path.join(mine, "thesis"), "w") as f:
        f.write("years")
    for n in range(1, 7):
        os.symlink(mine, os.path.join(folder, "step-%d.tmp" % n))
    r = Run("links", ["--checkpoint", folder, "--every", "2", "--steps", "6"])
    if r.end() != 0 or newest(folder) != 6:
        fail("links: " + r.said())
    if os.listdir(mine) != ["thesis"]:
        fail("links: %s" % os.listdir(mine))


# ---- disks --------------------------------------------------------------------

def tmpfs(folder, options):
    os.makedirs(folder, exist_ok=True)
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs",
                           folder], stderr=subprocess.DEVNULL).returncode == 0


def unmount(folder):
    subprocess.run(["umount", folder], check=False)


def disk(name, spoil, mend, size="4m"):
    """Spoiled once there is a checkpoint, mended when it was told."""
    folder = os.path.join(work, name)
    if not tmpfs(folder, "size=" + size):
        print("SKIPPED: %s: no tmpfs may be mounted here" % name)
        return
    ck = os.path.join(folder, "ck")
    try:
        for strategy in ("serial", "data=2"):
            r = Run(name, ["--checkpoint", ck, "--every", "1", "--steps",
                           "100000", "--batch", "480", "--strategy",
                           strategy])
            need(lambda: newest(ck) >= 2, name + ": a checkpoint")
            last = newest(ck)
            # again and again: an old checkpoint may just make room
            need(lambda: spoil(folder) or "training goes on" in r.said(),
                 name + ": word of it")
            last = max(last, newest(ck))
            steps = len(r.rows())
            need(lambda: len(r.rows()) > steps + 20, name + ": further steps")
            if r.p.poll() is not None or r.said().count("\n") != 1 or \
                    "training goes on" not in r.said():
                fail("%s: %s" % (name, r.said()))
            mend(folder)
            if newest(ck) < last:
                fail("%s: the last good one is gone" % name)
            # the next try may be a minute away
            need(lambda: newest(ck) > last + 5, name + ": another try", 120)
            if r.p.poll() is None:
                os.kill(r.p.pid, signal.SIGTERM)
            if r.end() != 130:
                fail("%s: %s" % (name, r.said()))
            shutil.rmtree(ck)
    finally:
        kill_all(processes(ck))
        unmount(folder)


def fill(folder):
    try:
        with open(os.path.join(folder, "filler"), "ab") as f:
            while True:
                f.write(b"x" * 4096)
                f.flush()
    except OSError:
        pass


def cover(folder):
    """What was there is still there, under something read-only."""
    ck = os.path.join(folder, "ck")
    if not os.path.ismount(ck) and not tmpfs(ck, "ro"):
        fail("cannot mount")


def uncover(folder):
    unmount(os.path.join(folder, "ck"))


def too_large():
    """Where nothing may be mounted: files may not grow."""
    folder = os.path.join(work, "limit")
    r = Run("limit", ["--checkpoint", folder, "--every", "2", "--steps", "60"],
            limit=20000)
    rc = r.end()
    if rc != 3 or newest(folder) or "training goes on" not in r.said() or \
            "the last checkpoint is missing" not in r.said():
        fail("files that may not grow: exit code %d: %s" % (rc, r.said()))


def slow_disk():
    """A disk that takes 0.4 s to keep a file: that --every is not kept is said."""
    slow = os.path.join(work, "slow.so")
    cc = subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-o", slow, "-"], text=True, input="""
        #include <unistd.h>
        int fsync(int fd) { (void)fd; usleep(400000); return 0; }
        int fdatasync(int fd) { return fsync(fd); }""")
    if cc.returncode:
        fail("no library that makes disks slow")
    words = "writing a checkpoint takes longer than --every 2"
    r = Run("slow", ["--checkpoint", os.path.join(work, "ck-slow"), "--every", "2",
                     "--steps", "1000000", "--virtual"], env={"LD_PRELOAD": slow})
    need(lambda: words in r.said(), "that the disk is slow")
    os.kill(r.p.pid, signal.SIGTERM)
    if r.end() != 130 or r.said().count("takes longer") != 1:
        fail("a slow disk: " + r.said())


# ---- data ----------------------------------------------------------------------

def npy(path, kind, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (
        kind, shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) +
                head.encode() + data)


def shrinking():
    """Data that become shorter, or hold a NaN: one line, exit code 3."""
    folder = os.path.join(work, "data")
    os.mkdir(folder)
    n = 4096
    x = os.path.join(folder, "x_train.npy")
    rng = random.Random(1)
    values = [rng.random() for _ in range(n * 64)]
    npy(os.path.join(folder, "y_train.npy"), "<i8", "(%d,)" % n,
        struct.pack("<%dq" % n, *(i % 10 for i in range(n))))
    for strategy in ("serial", "data=2"):
        npy(x, "<f4", "(%d, 1, 8, 8)" % n,
            struct.pack("<%df" % len(values), *values))
        r = Run("shrink", ["--steps", "100000", "--strategy", strategy,
                           "--data", folder, "--backend", "ref"])
        need(lambda: len(r.rows()) > 3, "the first steps")
        os.truncate(x, 4096)
        rc = r.end()
        said = r.said()
        # mpirun may have something to say of an end that it did not order
        lines = [x for x in said.splitlines() if x.startswith("paradl: ")]
        if rc != 3 or len(lines) != 1 or \
                "x_train.npy: has become shorter" not in lines[0]:
            fail("shrinking, %s: exit code %d: %s" % (strategy, rc, said))
    values[99 * 64 + 7] = float("nan")
    npy(x, "<f4", "(%d, 1, 8, 8)" % n,
        struct.pack("<%df" % len(values), *values))
    r = Run("nan", ["--epochs", "1", "--data", folder])
    if r.end() != 3 or "x_train.npy: sample 99 " not in r.said():
        fail("a NaN in the data: " + r.said())


# ---- output --------------------------------------------------------------------

def waiting(pipe):
    """Bytes that nobody has read yet."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"0000"))[0]


def slow_reader():
    """SIGTERM while a full pipe holds up a line: 130, and no line is cut."""
    for strategy in ("serial", "data=2"):
        end, begin = os.pipe()
        room = fcntl.fcntl(begin, fcntl.F_SETPIPE_SZ, 1 << 15)
        # slow steps: mpirun keeps what it has no time to write, without end, so
        # that quick ones are over before the pipe is full
        r = Run("slow", ["--steps", "100000", "--strategy", strategy,
                         "--backend", "ref"], stdout=os.fdopen(begin, "wb"))
        r.stdout.close()
        if not wait_for(lambda: waiting(end) > room - 8192):
            fail("slow reader: the pipe is never full")
        told = time.monotonic()
        os.kill(r.p.pid, signal.SIGTERM)
        text = b""
        while True:
            some = os.read(end, 4096)
            if not some:
                break
            text += some
            time.sleep(0.001)
        os.close(end)
        rc = r.end()
        told = time.monotonic() - told
        print("slow reader, %s: stopped after %.1f s" % (strategy, told))
        rows = []
        for line in text.splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                fail("slow reader: half a line: %r" % line[:80])
        steps = sorted(losses(rows))
        if rc != 130 or not rows or not rows[-1].get("stopped"):
            fail("slow reader, %s: exit code %d: %s" % (strategy, rc, r.said()))
        elif steps != list(range(1, rows[-1]["steps"] + 1)):
            fail("slow reader, %s: lines are missing" % strategy)


# ---- asked to stop -----------------------------------------------------------------

def launched(r):
    """The processes of mpirun of a run, once there are ranks."""
    need(lambda: len([n for n in processes(work).values()
                      if n == "paradl-run"]) == 2, "two ranks")
    return [p for p, n in processes(work).items() if n.startswith("mpirun")]


def asked():
    """Ranks save and stop without mpirun; or by it where nothing else is."""
    folder = os.path.join(work, "asked")
    args = ["--strategy", "data=2", "--steps", "1000000", "--every", "1000000",
            "--checkpoint", folder, "--log-every", "1000000"]
    r = Run("asked", args)
    mpirun = launched(r)
    need(lambda: os.path.exists(folder), "a folder of checkpoints")
    signal_all(mpirun, signal.SIGSTOP)
    os.kill(r.p.pid, signal.SIGTERM)
    if not wait_for(lambda: newest(folder)):
        fail("asked: ranks do not hear of it without mpirun")
    signal_all(mpirun, signal.SIGCONT)
    if r.end() != 130:
        fail("asked: exit code %d: %s" % (r.p.poll(), r.said()))
    shutil.rmtree(folder)
    # a launcher that hands on nothing but signals
    path = os.path.join(work, "bin")
    os.mkdir(path)
    with open(os.path.join(path, "srun"), "w") as f:
        f.write("#!/bin/sh\nexec env -u PARADL_ASKED -u SLURM_JOB_ID "
                "mpirun.openmpi \"$@\"\n")
    os.chmod(f.name, 0o755)
    was = os.environ["PATH"]
    os.environ.update(PATH=path + ":" + was, SLURM_JOB_ID="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1",
                      OMPI_ALLOW_RUN_AS_ROOT="1",
                      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    r = Run("slurm", args)
    os.environ["PATH"] = was
    del os.environ["SLURM_JOB_ID"]
    launched(r)
    need(lambda: os.path.exists(folder), "a folder of checkpoints")
    os.kill(r.p.pid, signal.SIGTERM)
    if r.end() != 130 or not newest(folder):
        fail("asked by srun: exit code %d: %s" % (r.p.poll(), r.said()))


def threads_of(pid):
    """Of each thread: CPU time, and whether it takes none of the signals."""
    asks = sum(1 << n - 1 for n in
               (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1))
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        base = "/proc/%d/task/%s/" % (pid, task)
        try:
            with open(base + "stat") as f:
                used = f.read().rsplit(")", 1)[1].split()[11:13]
            with open(base + "status") as f:
                mask = [x.split()[1] for x in f if x.startswith("SigBlk")]
        except OSError:
            continue
        found.append((sum(map(int, used)), int(mask[0], 16) & asks == asks))
    return found


def undisturbed():
    """No signal is handled by a thread that computes: a product of matrices
    keeps its stack in the heap, where the kernel would then write."""
    for how in (["--strategy", "data=2"], ["--virtual"], ["--threads", "2"]):
        mark = os.path.join(work, "undisturbed")
        r = Run("undisturbed", ["--steps", "1000000", "--batch", "480",
                                "--checkpoint", mark] + how)
        need(lambda: len(r.rows()) > 20, "undisturbed: some steps")
        ranks = [p for p, n in processes(mark).items() if n == "paradl-run"]
        found = [threads_of(p) for p in ranks]
        if not found or any(not blocked and 5 * used > sum(u for u, _ in t)
                            for t in found for used, blocked in t):
            fail("undisturbed %s: %s" % (how, found))
        os.kill(r.p.pid, signal.SIGTERM)
        if r.end() != 130:
            fail("undisturbed %s: %s" % (how, r.said()))
        shutil.rmtree(mark, ignore_errors=True)


def federation():
    """What is said of train holds for federate: lost ranks, SIGTERM, ends."""
    folder = os.path.join(work, "fed")
    args = ["--clients", "4", "--rounds", "100000", "--checkpoint", folder,
            "--every", "1", "--no-test", "--json"]
    narrow = "resnet9:width=4,input=8,channels=1"
    for how, model in ((["-n", "2"], BASE[0]),
                       (["-n", "3", "--algorithm", "feddct"], narrow),
                       (["--virtual", "--report",
                         os.path.join(work, "page.html")], BASE[0])):
        shutil.rmtree(folder, ignore_errors=True)
        r = Run("fed", args + how, command=["federate", model, "--data",
                                            "digits"])
        need(lambda: newest(folder) >= 2, "federate: a checkpoint")
        if how[0] == "-n":
            kill_all([p for p, n in processes(folder).items()
                      if n == "paradl-run"][:1])
            need(lambda: "starting again" in r.said(), "federate: a restart")
            there = newest(folder)
            need(lambda: newest(folder) > there + 2, "federate: new rounds")
        os.kill(r.p.pid, signal.SIGTERM)
        rc = r.end()
        if rc != 130 or ("starting again" in r.said()) != (how[0] == "-n"):
            fail("federate %s: exit code %d: %s" % (how, rc, r.said()))
        nobody_left(folder, "federate")


# ---- the checkers see what is wrong -----------------------------------------------

def checkers():
    sleeper = subprocess.Popen([sys.executable, "-c",
                                "import time; time.sleep(60)", work + "/mark"])
    try:
        if sleeper.pid not in (wait_for(lambda: processes(work + "/mark"), 5)
                               or {}):
            fail("a process left behind is not seen")
    finally:
        sleeper.kill()
        sleeper.wait()
    if processes(work + "/mark"):
        fail("a dead process is seen")
    path = os.path.join(work, "cut")
    with open(path, "w") as f:
        f.write('{"step": 1, "loss": 2}\n{"step": 2, "lo')
    if losses(read_rows(path)) != {1: 2}:
        fail("rows are misread")


CASES = [checkers, two_runs, links, too_large, slow_disk, shrinking,
         slow_reader, asked, undisturbed, federation, many_kills]

os.environ["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
try:
    chosen = [c for c in sys.argv[2:] if c != "all"]
    for case in CASES:
        if not chosen or case.__name__ in chosen:
            start = time.monotonic()
            case()
            print("%s: %.1f s" % (case.__name__, time.monotonic() - start))
    if not chosen or "disks" in chosen:
        disk("full", fill, lambda d: os.remove(os.path.join(d, "filler")))
        disk("read-only", cover, uncover)
finally:
    kill_all(processes(work))
    shutil.rmtree(work, ignore_errors=True)
sys.exit(1 if bad else 0)
