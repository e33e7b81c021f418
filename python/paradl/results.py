# SPDX-License-Identifier: Apache-2.0
"""Answers: mappings as ``--json`` has them, with their fields as attributes.

Times are seconds, sizes bytes, rates per second.
"""
from __future__ import annotations

import functools
import html
import json
from typing import (Any, ClassVar, Dict, Iterator, List, Mapping, Optional,
                    Sequence, Tuple, Type, get_args, get_type_hints)

from ._library import Answer
from .errors import EnvironmentLacks, InputError


class Result(Mapping[str, Any]):
    """One JSON object: ``result["step_s"]`` and ``result.step_s``.

    >>> import paradl
    >>> answer = paradl.ask("model show", "lenet5")
    >>> answer.name, answer["parameters"]
    ('lenet5', 61706)
    """

    _schema: ClassVar[str] = ""
    _rows: ClassVar[str] = ""  # the field that a table has a row for
    _common: ClassVar[Tuple[str, ...]] = ()  # fields that each row has, too

    def __init__(self, fields: Dict[str, Any]) -> None:
        self._fields = fields
        self._kept: Dict[str, Any] = {}
        self._asked: Sequence[Any] = ()

    # -- a mapping ---------------------------------------------------------
    def __getitem__(self, key: str) -> Any:
        if key not in self._kept:
            self._kept[key] = self._wrap(key, self._fields[key])
        return self._kept[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}; it has "
                + ", ".join(self._fields)) from None

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(),
                       *(k for k in self._fields if k.isidentifier())})

    def __reduce__(self) -> Any:
        return type(self), (self._fields,)

    def _wrap(self, key: str, value: Any) -> Any:
        kind = _parts(type(self)).get(key, Result)
        if isinstance(value, dict):
            return kind(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            more = {k: self._fields[k] for k in self._common
                    if key == self._rows}
            return [kind({**more, **v}) for v in value]
        return value

    # -- other forms -------------------------------------------------------
    def to_dict(self) -> Dict[str, Any]:
        """The object as plain dictionaries and lists."""
        fields: Dict[str, Any] = json.loads(self.to_json())
        return fields

    def to_json(self, indent: Optional[int] = None) -> str:
        """As ``paradl report`` reads it."""
        return json.dumps(self._fields, indent=indent)

    def to_records(self) -> List[Dict[str, Any]]:
        """One flat dictionary a row: ``"memory.peak_bytes"``.

        >>> import paradl
        >>> s = paradl.scale("lenet5", system="dgx-a100", strategy="data=p",
        ...                  pes="1..4", batch=64)
        >>> [r["pes"] for r in s.to_records()]
        [1, 2, 4]
        """
        rows = self._fields.get(self._rows or "rows", self._fields)
        others = [v for k, v in self._fields.items() if k != "schema"]
        if len(others) == 1 and isinstance(others[0], list):
            rows = others[0]  # a list of things
        return [_flat(r) for r in (rows if isinstance(rows, list) else [rows])]

    def to_dataframe(self) -> Any:
        """The rows as a pandas.DataFrame (pandas is needed for this alone)."""
        try:
            import pandas  # type: ignore[import]
        except ImportError as e:
            raise EnvironmentLacks(f"to_dataframe: {e}", "install pandas, or "
                                   "take to_records()") from None
        return pandas.DataFrame(self.to_records())

    def to_html(self) -> str:
        """The page with charts that ``--report`` writes."""
        return Answer().page(self.to_json().encode())

    def save_html(self, path: Any) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.to_html())

    def _repr_html_(self) -> str:
        """For notebooks: the page in a frame, or a table where there is no
        page for this kind of answer."""
        try:
            page = html.escape(self.to_html(), quote=True)
        except InputError:
            return _table(self.to_records())
        return ('<iframe sandbox="allow-scripts" style="width:100%;'
                f'height:640px;border:0" srcdoc="{page}"></iframe>')

    def __repr__(self) -> str:
        shown = [f"{k}={v!r}" for k, v in self._fields.items()
                 if k != "schema" and not isinstance(v, (dict, list))]
        shown = shown or [f"{len(v)} {k}" for k, v in self._fields.items()
                          if isinstance(v, list)]
        return f"{type(self).__name__}({', '.join(shown[:8])})"


@functools.lru_cache(maxsize=None)
def _parts(kind: Type[Result]) -> Dict[str, Type[Result]]:
    """Fields that are answers themselves, as the class says it."""
    return {name: part for name, hint in get_type_hints(kind).items()
            for part in (hint, *get_args(hint))
            if isinstance(part, type) and issubclass(part, Result)}


def _flat(row: Any, prefix: str = "") -> Dict[str, Any]:
    out: Dict[str, Any] = {}
    if not isinstance(row, dict):
        return {prefix or "value": row}
    for key, value in row.items():
        if isinstance(value, dict):
            out.update(_flat(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value
    return out


def _table(records: Sequence[Dict[str, Any]]) -> str:
    columns = [k for k, v in records[0].items()
               if not isinstance(v, list)] if records else []
    head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(r.get(c, '')))}</td>"
                         for c in columns) + "</tr>" for r in records)
    return f"<table><tr>{head}</tr>{body}</table>"
