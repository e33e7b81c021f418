# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Every error carries what the program would have said."""
from __future__ import annotations

import re
from typing import Optional, Tuple

_PLACE = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+)(?::(?P<column>\d+))?: ")


class Error(Exception):
    """A question that has no answer.

    ``message`` is one line ("file:line:column: what" where a file is at
    fault), ``hint`` says what to do (or is empty), ``code`` is the exit code
    of the program. ``file``, ``line`` and ``column`` are None where no file
    is at fault.

    >>> import paradl
    >>> try:
    ...     paradl.ask("system show", "dgx-a10")
    ... except paradl.Error as e:
    ...     print(e.hint)
    did you mean 'dgx-a100'?
    """

    code = 5

    def __init__(self, message: str, hint: str = "",
                 code: Optional[int] = None) -> None:
        super().__init__(message + (f" (hint: {hint})" if hint else ""))
        self.message, self.hint = message, hint
        if code is not None:
            self.code = code
        self.file, self.line, self.column = _place(message)

    def __reduce__(self) -> Tuple[type, Tuple[str, str, int]]:
        return type(self), (self.message, self.hint, self.code)


class UsageError(Error, TypeError):
    """An argument that the command does not have, or that is missing."""

    code = 2


class InputError(Error, ValueError):
    """A file or a description is wrong."""

    code = 3


class EnvironmentLacks(Error, OSError):
    """This machine lacks something that the question needs."""

    code = 4

    def __str__(self) -> str:
        return Exception.__str__(self)


class InternalError(Error, RuntimeError):
    """A fault of ParaDL: please report it."""


def _place(message: str) -> Tuple[Optional[str], Optional[int], Optional[int]]:
    found = _PLACE.match(message)
    if not found:
        return None, None, None
    column = found["column"]
    return found["file"], int(found["line"]), int(column) if column else None


BY_CODE = {c.code: c for c in (UsageError, InputError, EnvironmentLacks)}
