"""Execute the lessons, docs/lessons/*.ipynb, and store their outputs.

    PYTHONPATH=docs python -m tools.run_lessons [LESSON ...]      all lessons (part of `make gallery`), or those named

Cells run in one namespace, in an empty folder, without Jupyter: a lesson uses plain Python. Printed text and open Matplotlib
figures become the outputs of a cell, as in Jupyter.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

REPOSITORY = Path(__file__).resolve().parents[2]
LESSONS = REPOSITORY / "docs" / "lessons"

Notebook = dict[str, Any]
Cell = dict[str, Any]


def lesson_paths() -> list[Path]:
    """Return the notebooks of the lessons in order."""
    return sorted(LESSONS.glob("*.ipynb"))


def read_lesson(path: Path) -> Notebook:
    """Parse a notebook file."""
    notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def write_lesson(path: Path, notebook: Notebook) -> None:
    """Write a notebook as Jupyter does: one space of indentation and a final newline."""
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def cell_text(cell: Cell) -> str:
    """Return the source of a cell."""
    return "".join(cell["source"])


def code_cells(notebook: Notebook, tag: str = "") -> list[Cell]:
    """Return the code cells, or those with a tag: `exercise`, `check` or `solution`."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in cells if tag in cell["metadata"].get("tags", [])] if tag else cells


def execute(notebook: Notebook, folder: Path, name: str = "lesson") -> tuple[list[list[Cell]], dict[str, Any]]:
    """Execute all code cells in `folder`; return the outputs of each and the final namespace."""
    from matplotlib import pyplot

    matplotlib.use("Agg")
    pyplot.close("all")  # figures of other code would be taken for those of the first cell
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder), matplotlib.rc_context():
        outputs = [_execute_cell(cell, namespace, f"{name}:{cell['id']}") for cell in code_cells(notebook)]
    return outputs, namespace


def _execute_cell(cell: Cell, namespace: dict[str, Any], name: str) -> list[Cell]:
    tree = ast.parse(cell_text(cell), name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        value = (
            eval(compile(ast.Expression(last.value), name, "eval"), namespace) if isinstance(last, ast.Expr) else None
        )
    text = printed.getvalue()
    outputs: list[Cell] = (
        [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []
    )
    return outputs + [_picture(data) for data in _figures(value)]


def _figures(value: Any) -> Iterator[bytes]:
    """Yield the PNG of every open figure and of a value that is a figure of Samara; close the figures."""
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        data = io.BytesIO()
        pyplot.figure(number).savefig(data, format="png", dpi="figure", metadata={"Software": None})
        yield data.getvalue()
    pyplot.close("all")
    if hasattr(value, "_repr_png_"):
        yield value._repr_png_()


def _picture(data: bytes) -> Cell:
    return {
        "data": {"image/png": base64.b64encode(data).decode("ascii"), "text/plain": ["<Figure>"]},
        "metadata": {},
        "output_type": "display_data",
    }


def main(names: list[str]) -> None:
    """Execute the lessons and store their outputs."""
    os.environ["MPLBACKEND"] = "Agg"
    for path in [LESSONS / name for name in names] or lesson_paths():
        notebook = read_lesson(path)
        with tempfile.TemporaryDirectory() as folder:
            outputs, _ = execute(notebook, Path(folder), path.stem)
        for cell, cell_outputs in zip(code_cells(notebook), outputs, strict=True):
            cell["outputs"] = cell_outputs
        write_lesson(path, notebook)


if __name__ == "__main__":
    main(sys.argv[1:])
