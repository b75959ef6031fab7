"""API reference: a page for `samara` and one for each package, generated from the docstrings.

Public names are those in `samara.__all__`, and the modules that a page, the README or an example imports from.
"""

import ast
import importlib
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

import samara

REPOSITORY = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Add the pages to the navigation, below the subjects."""
    config.nav.append({"API reference": [{title: uri} for title, uri, _ in pages()]})
    return config


def on_files(files: Any, config: Any) -> Any:
    for _, uri, content in pages():
        files.append(File.generated(config, uri, content=content))
    return files


def pages() -> list[tuple[str, str, str]]:
    """Return title, path and Markdown of each page."""
    packages: dict[str, list[str]] = {"samara": [f"samara.{name}" for name in samara.__all__]}
    for module in sorted(imported_modules()):
        packages.setdefault(".".join(module.split(".")[:2]), []).append(module)
    return [(package, f"api/{package}.md", _page(package, members)) for package, members in packages.items()]


def imported_modules() -> set[str]:
    """Return the modules that documentation and examples import from."""
    texts = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "examples").glob("*.py")]
    for page in (REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")):
        texts += BLOCK.findall(page.read_text(encoding="utf-8"))
    nodes = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return {node.module for node in nodes if node.module and node.module.startswith("samara.")}


def _page(title: str, paths: list[str]) -> str:
    parts = [
        f"::: {_defining_module(path)}\n    options:\n      heading: {path}\n      toc_label: {path}" for path in paths
    ]
    return "\n\n".join([f"# `{title}`", *parts]) + "\n"


def _defining_module(path: str) -> str:
    """Return the name of the file that defines a module, if its public path is an alias; docstrings are parsed, not run."""
    try:
        return importlib.import_module(path).__name__
    except ModuleNotFoundError:
        return path  # a name of `samara` itself
