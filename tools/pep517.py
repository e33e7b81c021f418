#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel and the sdist (PEP 517), with nothing that Debian's python3
lacks. As a program: pep517.py wheel|sdist FOLDER.

The wheel has the shared library inside, other libraries in it or beside it,
and a tag that says which C library it needs at least: that of the newest
symbol. Files have one date (SOURCE_DATE_EPOCH), so that two builds are equal.
"""
import base64
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", 1735689600))  # 2025
# what every Linux has (PEP 600); others come along
SYSTEM = re.compile(r"^(libc|libm|libpthread|libdl|librt|ld-linux.*)\.so\.\d+$")


def version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\(paradl VERSION ([\d.]+)", text).group(1)


def metadata():
    return f"""Metadata-Version: 2.1
Name: paradl
Version: {version()}
Summary: Oracle, simulator and planner for parallel training
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Requires-Python: >=3.8
Provides-Extra: pandas
Requires-Dist: pandas; extra == 'pandas'
Provides-Extra: torch
Requires-Dist: torch; extra == 'torch'
Description-Content-Type: text/markdown

{(ROOT / "README.md").read_text()}"""


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"pep517: {' '.join(command)} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def build_library(folder):
    """libparadl.so.0 without MPI, and the libraries that go beside it. From
    objects that are there already where PDL_WHEEL_LIBRARY names a
    libparadl.a."""
    run("cmake", "-S", str(ROOT), "-B", folder, "-G", "Ninja",
        "-DPDL_RUN=OFF", "-DPDL_TESTS=OFF", "-DPDL_STATIC_DEPS=ON",
        "-DPDL_WERROR=OFF",
        f"-DPDL_LIBRARY={os.environ.get('PDL_WHEEL_LIBRARY', '')}",
        f"-DCMAKE_C_FLAGS=-ffile-prefix-map={ROOT}=. "
        f"-ffile-prefix-map={folder}=build")
    run("ninja", "-C", folder, *os.environ.get("PDL_NINJA", "").split(),
        "paradl_shared")
    library = Path(folder, "libparadl.so.0").resolve()
    found = {"libparadl.so.0": library}
    for line in run("ldd", str(library)).splitlines():
        name, _, path = line.strip().partition(" => ")
        if path and not SYSTEM.match(name):
            found[name] = Path(path.split()[0]).resolve()
    return found


def stripped(path):
    with tempfile.NamedTemporaryFile() as out:
        run("strip", "--strip-unneeded", "-o", out.name, str(path))
        return Path(out.name).read_bytes()


def platform(libraries):
    """manylinux_2_X of the newest symbol of glibc that any of them needs."""
    newest = 17
    for path in libraries.values():
        for minor in re.findall(r"GLIBC_2\.(\d+)",
                                run("objdump", "-T", str(path))):
            newest = max(newest, int(minor))
    return f"manylinux_2_{newest}_{os.uname().machine}"


def sources():
    return sorted(p for p in (ROOT / "python").rglob("*")
                  if p.is_file() and p.suffix != ".pyc")


def write_zip(path, files):
    """name -> bytes, with RECORD at the end."""
    stamp = time.gmtime(max(EPOCH, 315532800))[:6]
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            record.append(f"{name},sha256={digest.rstrip(b'=').decode()},"
                          f"{len(data)}")
            info = zipfile.ZipInfo(name, stamp)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            z.writestr(info, data)
        name = f"paradl-{version()}.dist-info/RECORD"
        info = zipfile.ZipInfo(name, stamp)
        info.external_attr = 0o644 << 16
        z.writestr(info, "\n".join(record + [f"{name},,", ""]))


def build_wheel(wheel_directory, config_settings=None,
                metadata_directory=None):
    folder = os.environ.get("PDL_WHEEL_BUILD") or tempfile.mkdtemp()
    try:
        libraries = build_library(folder)
        tag = f"py3-none-{platform(libraries)}"
        files = {str(p.relative_to(ROOT / "python")): p.read_bytes()
                 for p in sources()}
        for name, path in sorted(libraries.items()):
            files[f"paradl/{name}"] = stripped(path)
    finally:
        if "PDL_WHEEL_BUILD" not in os.environ:
            shutil.rmtree(folder)
    info = f"paradl-{version()}.dist-info"
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: paradl tools/pep517.py\n"
        f"Root-Is-Purelib: false\nTag: {tag}\n").encode()
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    name = f"paradl-{version()}-{tag}.whl"
    write_zip(os.path.join(wheel_directory, name), files)
    return name


def tracked():
    """What git has but for debian/, which is another archive in a source
    package; in a sdist everything that is there."""
    if (ROOT / ".git").exists():
        return [n for n in run("git", "-C", str(ROOT),
                               "ls-files").splitlines()
                if not n.startswith("debian/")]
    return sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                  if p.is_file() and "build" not in p.parts
                  and p.suffix != ".pyc")


def write_tar(path, prefix, names, more):
    """All files with one date and one owner, in the order of their names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w",
                      format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            at = ROOT / name
            info = tar.gettarinfo(str(at), f"{prefix}/{name}")
            info.mtime, info.uid, info.gid = EPOCH, 0, 0
            info.uname = info.gname = ""
            info.mode = 0o755 if info.mode & 0o100 else 0o644
            with open(at, "rb") as f:
                tar.addfile(info, f if info.isfile() else None)
        for name, data in more.items():
            info = tarfile.TarInfo(f"{prefix}/{name}")
            info.size, info.mtime = len(data), EPOCH
            tar.addfile(info, io.BytesIO(data))
    with open(path, "wb") as out, gzip.GzipFile(
            filename="", mode="wb", fileobj=out, mtime=EPOCH) as z:
        z.write(buffer.getvalue())


def build_sdist(sdist_directory, config_settings=None):
    name = f"paradl-{version()}"
    write_tar(os.path.join(sdist_directory, name + ".tar.gz"), name,
              tracked(), {"PKG-INFO": metadata().encode()})
    return name + ".tar.gz"


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("wheel", "sdist"):
        sys.exit("usage: pep517.py wheel|sdist FOLDER")
    os.makedirs(sys.argv[2], exist_ok=True)
    make = {"wheel": build_wheel, "sdist": build_sdist}[sys.argv[1]]
    print(os.path.join(sys.argv[2], make(sys.argv[2])))
