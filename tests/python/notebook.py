# SPDX-License-Identifier: Apache-2.0
"""Notebooks of examples/, cell by cell, as a notebook runs them: what the last
line of a cell is, is shown (its page, where it has one)."""
import ast
import glob
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_cell(source, names, where):
    """Runs it; the value of a last expression."""
    tree = ast.parse(source, where)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, where, "exec"), names)
    return eval(compile(last, where, "eval"), names) if last else None


def main():
    shown = pages = 0
    for path in glob.glob(os.path.join(HERE, "..", "..", "examples",
                                       "*.ipynb")):
        with open(path) as f:
            cells = json.load(f)["cells"]
        names = {"__name__": "__main__", "print": lambda *a: None}
        for i, cell in enumerate(c for c in cells if c["cell_type"] == "code"):
            assert cell["outputs"] == [], f"{path}: stored with outputs"
            value = run_cell("".join(cell["source"]), names,
                             f"{os.path.basename(path)}, cell {i + 1}")
            shown += value is not None
            if hasattr(value, "_repr_html_"):
                assert "svg" in value._repr_html_()
                pages += 1
    print(f"notebooks: {shown} values, {pages} pages")
    return 0 if shown > 5 and pages > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
