"""The lessons run, store the outputs of this code, and their checks accept the solution and nothing else."""

import ast
import re
import sys
import tomllib

import pytest
from support.repository import REPOSITORY
from tools.run_lessons import Cell, cell_text, code_cells, execute, lesson_paths, read_lesson

PAGE = REPOSITORY / "docs" / "tutorials" / "lessons.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXTRAS = ("gymnasium", "jax", "pandas", "pyarrow", "scipy", "sympy")  # lessons need none
MAX_WORDS, MAX_LINES, MAX_BYTES = 900, 10, 500_000

lessons = pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)


def printed(outputs: list[Cell]) -> str:
    """Return the printed text of a cell's outputs."""
    return "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")


def scale_numbers(value):
    """Multiply every number of an answer by one and a half."""
    if not isinstance(value, tuple):
        return 1.5 * value
    parts = [scale_numbers(part) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


@lessons
def test_a_lesson_runs_and_its_stored_outputs_are_current(path, tmp_path, monkeypatch):
    """Without extras; each check says "not yet" of the placeholder, "correct" of the solution, neither of a wrong number."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = read_lesson(path)
    for name in [*EXTRAS, *(module for module in sys.modules if module.partition(".")[0] in EXTRAS)]:
        monkeypatch.setitem(sys.modules, name, None)  # cannot be imported
    outputs, namespace = execute(notebook, tmp_path, path.stem)
    for cell, current in zip(code_cells(notebook), outputs, strict=True):
        assert printed(cell["outputs"]) == printed(current), (
            f"{cell['id']}: run `python -m tools.run_lessons {path.name}`"
        )
        assert [output["output_type"] for output in cell["outputs"]] == [output["output_type"] for output in current]
    for number, (check, solution) in enumerate(
        zip(code_cells(notebook, "check"), code_cells(notebook, "solution"), strict=True), 1
    ):
        assert printed(check["outputs"]).startswith(f"Exercise {number}: not yet"), check["id"]
        assert printed(solution["outputs"]) == f"Exercise {number}, solution: correct\n", solution["id"]
        answer = namespace[re.search(r"^def (\w+_solution)\(", cell_text(solution), re.MULTILINE)[1]]
        verdict = namespace[f"check_{number}"](lambda *arguments, answer=answer: scale_numbers(answer(*arguments)))
        assert not verdict.startswith(("correct", "not yet")), (
            f"exercise {number} accepts one and a half times its answer"
        )


@lessons
def test_a_lesson_is_a_clean_notebook(path):
    """Format 4.5, ids of cells, no traces of an execution, small; text and cells as short as a lesson allows."""
    notebook = read_lesson(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert path.stat().st_size < MAX_BYTES
    identifiers = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", identifier) for identifier in identifiers)
    words = 0
    for cell in notebook["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert isinstance(cell["source"], list) and cell["source"]
        if cell["cell_type"] == "markdown":
            words += len(re.sub(r"\$[^$]*\$", "x", cell_text(cell)).split())
            continue
        assert cell["execution_count"] is None
        assert {output["output_type"] for output in cell["outputs"]} <= {"stream", "display_data"}
        lines = [line for line in cell_text(cell).splitlines() if line.strip()]
        assert cell["metadata"].get("tags") or len(lines) <= MAX_LINES, f"{cell['id']} has {len(lines)} lines"
    assert words <= MAX_WORDS


@lessons
def test_a_lesson_has_exercises_each_with_a_check_and_a_hidden_solution(path):
    """Two to four, in this order: placeholder, check, solution."""
    tagged = [cell for cell in code_cells(read_lesson(path)) if cell["metadata"].get("tags", ["setup"]) != ["setup"]]
    tags = [cell["metadata"]["tags"][0] for cell in tagged]
    count = tags.count("exercise")
    assert 2 <= count <= 4 and tags == ["exercise", "check", "solution"] * count
    for cell in tagged[::3]:
        assert "# your code" in cell_text(cell)
    for cell in tagged[2::3]:
        assert cell["metadata"]["jupyter"] == {"source_hidden": True}


@lessons
def test_a_lesson_opens_anywhere(path):
    """It installs Samara from the project's address where it is missing, imports what is public, and its links resolve."""
    notebook = read_lesson(path)
    text = "\n".join(cell_text(cell) for cell in notebook["cells"])
    urls = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    setup = code_cells(notebook)[0]
    assert setup["metadata"]["tags"] == ["setup"] and f'"git+{urls["Repository"]}"' in cell_text(setup)
    github = urls["Repository"].removeprefix("https://github.com/")
    colab = f"https://colab.research.google.com/github/{github}/blob/main/docs/lessons/{path.name}"
    assert f"[Open in Colab]({colab})" in text and f"]({colab})" in PAGE.read_text(encoding="utf-8")
    for target in LINK.findall(
        "\n".join(cell_text(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    ):
        assert target == colab or (path.parent / target).exists(), target
    for cell in code_cells(notebook):
        for node in ast.walk(ast.parse(cell_text(cell))):
            if isinstance(node, ast.ImportFrom):
                assert re.fullmatch(r"samara(\.\w+)?|[a-z]\w*", node.module or ""), ast.unparse(node)


def test_all_lessons_have_the_same_setup_and_are_on_the_page():
    """In the order of their numbers; each leads to the next."""
    notebooks = [read_lesson(path) for path in lesson_paths()]
    assert len({cell_text(code_cells(notebook)[0]) for notebook in notebooks}) == 1
    assert [int(path.stem[:2]) for path in lesson_paths()] == list(range(1, len(notebooks) + 1))
    page = PAGE.read_text(encoding="utf-8")
    for path, notebook, following in zip(lesson_paths(), notebooks, [*lesson_paths()[1:], None], strict=True):
        title = re.match(r"# Lesson \d+: (.+)", cell_text(notebook["cells"][0]))[1]
        assert f"[{title}](../lessons/{path.name})" in page
        assert following is None or f"({following.name})" in cell_text(notebook["cells"][-1])
