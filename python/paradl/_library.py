# SPDX-License-Identifier: Apache-2.0
"""libparadl through ctypes: which one it is, and how a question is asked.

Only functions that take and return plain values and pointers are used
(paradl/cli.h), so that no layout of a structure is written down here twice;
the options of a sampler are the exception. ctypes releases the interpreter's
lock while a question is answered.
"""
from __future__ import annotations

import ctypes
import os
import threading
from ctypes import (POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int32,
                    c_int64, c_size_t, c_uint64, c_void_p)
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence

from ._version import __version__
from .errors import (BY_CODE, EnvironmentLacks, InputError,
                     InternalError)

_SONAME = "libparadl.so.0"
Progress = Callable[[int, int], Any]


class SamplerOptions(ctypes.Structure):
    """struct pdl_sampler_options of paradl/data.h."""

    _fields_ = [("samples", c_int64), ("batch", c_int64), ("epochs", c_int64),
                ("micros", c_int64), ("workers", c_int64),
                ("warmup_epochs", c_double), ("seed", c_uint64),
                ("deal", c_char_p), ("hide", c_char_p),
                ("labels", POINTER(c_int32))]


class SamplerPart(ctypes.Structure):
    """struct pdl_sampler_part of paradl/data.h."""

    _fields_ = [("name", c_char_p), ("data", c_void_p), ("count", c_int64),
                ("bytes", c_int)]


class Err(ctypes.Structure):
    """struct pdl_err of paradl/base.h."""

    _fields_ = [("msg", ctypes.c_char * 512), ("hint", ctypes.c_char * 256)]


_FUNCTIONS = {
    "pdl_version": (c_char_p, []),
    "pdl_answer_create": (c_void_p, []),
    "pdl_answer_destroy": (None, [c_void_p]),
    "pdl_ask_command": (c_int, [c_void_p, c_int, POINTER(c_char_p)]),
    "pdl_ask_set": (c_int, [c_void_p, c_void_p, c_char_p, c_char_p]),
    "pdl_ask_project": (c_int, [c_void_p, c_void_p, c_bool]),
    "pdl_ask_page": (c_int, [c_void_p, c_char_p, c_size_t]),
    "pdl_answer_text": (c_void_p, [c_void_p]),
    "pdl_answer_size": (c_size_t, [c_void_p]),
    "pdl_answer_notes": (c_char_p, [c_void_p]),
    "pdl_answer_message": (c_char_p, [c_void_p]),
    "pdl_answer_hint": (c_char_p, [c_void_p]),
    "pdl_answer_cancel": (None, [c_void_p]),
    "pdl_answer_progress": (None, [c_void_p, POINTER(c_int64),
                                   POINTER(c_int64)]),
    "pdl_job_create": (c_void_p, []),
    "pdl_job_destroy": (None, [c_void_p]),
    "pdl_sampler_create": (c_int, [POINTER(SamplerOptions), POINTER(c_void_p),
                                   POINTER(Err)]),
    "pdl_sampler_destroy": (None, [c_void_p]),
    "pdl_sampler_next": (None, [c_void_p]),
    "pdl_sampler_batches": (c_int64, [c_void_p]),
    "pdl_sampler_order": (None, [c_void_p, c_int64, c_int64,
                                 POINTER(c_int64)]),
    "pdl_sampler_weights": (c_void_p, [c_void_p]),
    "pdl_sampler_rate": (c_double, [c_void_p]),
    "pdl_sampler_hidden": (c_int64, [c_void_p, POINTER(c_void_p)]),
    "pdl_sampler_refreshes": (c_bool, [c_void_p]),
    "pdl_sampler_saw": (None, [c_void_p, c_int64, c_double, c_bool]),
    "pdl_sampler_saw_all": (None, [c_void_p, c_int64, POINTER(c_int64),
                                   POINTER(c_double), POINTER(c_bool)]),
    "pdl_sampler_asks_confidence": (c_bool, [c_void_p]),
    "pdl_sampler_tell_confidence": (None, [c_void_p, c_int64,
                                           POINTER(c_int64),
                                           POINTER(c_double)]),
    "pdl_sampler_part": (POINTER(SamplerPart), [c_void_p, c_int]),
    "pdl_sampler_resume": (c_int, [c_void_p, c_int64, POINTER(Err)]),
}


def _candidates() -> List[str]:
    """PARADL_LIBRARY, what the wheel brought, what the system has."""
    beside = Path(__file__).with_name(_SONAME)
    asked = os.environ.get("PARADL_LIBRARY")
    if asked:
        return [asked]
    return [str(beside)] if beside.exists() else [_SONAME]


def _load() -> ctypes.CDLL:
    name = _candidates()[0]
    try:
        library = ctypes.CDLL(name)
        for function, (result, arguments) in _FUNCTIONS.items():
            at = getattr(library, function)
            at.restype, at.argtypes = result, arguments
    except (OSError, AttributeError) as e:
        raise EnvironmentLacks(
            f"cannot use {name}: {e}",
            "install libparadl0, or set PARADL_LIBRARY to libparadl.so.0"
        ) from None
    found = library.pdl_version().decode()
    if found.split(".")[:2] != __version__.split(".")[:2]:
        raise EnvironmentLacks(f"{name} is version {found}, not {__version__}",
                               "package and library belong together")
    return library


lib = _load()


def _bytes(text: str) -> bytes:
    """As the system writes names of files, whatever bytes they have."""
    if "\0" in text:
        raise InputError(f"a NUL in {text[:60]!r}")
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        raise InputError(f"half a character in {text[:60]!r}") from None


class Answer:
    """One pdl_answer: asks, and raises what went wrong."""

    def __init__(self) -> None:
        self._at = lib.pdl_answer_create()
        if not self._at:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "_at", None):
            lib.pdl_answer_destroy(self._at)

    def _check(self, code: int) -> bytes:
        """The text of 0 and 1 (an answer that is no)."""
        if code in (0, 1):
            size = lib.pdl_answer_size(self._at)
            return ctypes.string_at(lib.pdl_answer_text(self._at), size)
        if code == 130:
            raise KeyboardInterrupt
        kind = BY_CODE.get(code, InternalError)
        raise kind(lib.pdl_answer_message(self._at).decode(errors="replace"),
                   lib.pdl_answer_hint(self._at).decode(errors="replace"),
                   code)

    def notes(self) -> str:
        text: bytes = lib.pdl_answer_notes(self._at)
        return text.decode(errors="replace")

    def page(self, json: bytes) -> str:
        code = lib.pdl_ask_page(self._at, json, len(json))
        return self._check(code).decode()

    def set(self, job: int, name: str, value: Optional[str]) -> None:
        text = None if value is None else _bytes(value)
        self._check(lib.pdl_ask_set(self._at, job, _bytes(name), text))

    def project(self, job: int, whole: bool) -> bytes:
        return self._check(lib.pdl_ask_project(self._at, job, whole))

    def ask(self, words: Sequence[str],
            progress: Optional[Progress] = None) -> bytes:
        """Asks in another thread, so that Ctrl-C can take it back."""
        argv = (c_char_p * len(words))(*[_bytes(w) for w in words])
        if progress is None and \
                threading.current_thread() is not threading.main_thread():
            return self._check(
                lib.pdl_ask_command(self._at, len(words), argv))
        code: List[int] = []

        def answer() -> None:
            code.append(lib.pdl_ask_command(self._at, len(words), argv))

        thread = threading.Thread(target=answer, name="paradl", daemon=True)
        thread.start()
        try:
            self._wait(thread, progress)
        except BaseException:
            lib.pdl_answer_cancel(self._at)
            thread.join()
            raise
        return self._check(code[0])

    def _wait(self, thread: threading.Thread,
              progress: Optional[Progress]) -> None:
        """Looks up now and then: a signal that another thread was given wakes
        nobody here."""
        done, total = c_int64(), c_int64()
        while thread.is_alive():
            thread.join(0.1)
            if progress is None:
                continue
            lib.pdl_answer_progress(self._at, byref(done), byref(total))
            progress(done.value, total.value)
