"""API reference: a page for `samara` and one for each public package, with the docstrings of the names in `__all__`."""

import sys
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File

import samara


def on_config(config: Any) -> Any:
    """Add the pages to the section Reference."""
    (reference,) = (entry["Reference"] for entry in config.nav if isinstance(entry, dict) and "Reference" in entry)
    reference.append({"Python API": [{title: uri} for title, uri, _ in pages()]})
    return config


def on_files(files: Any, config: Any) -> Any:
    for _, uri, content in pages():
        files.append(File.generated(config, uri, content=content))
    return files


def pages() -> list[tuple[str, str, str]]:
    """Return title, path and Markdown of each page."""
    packages = [getattr(samara, name) for name in samara.__all__]
    return [
        (package.__name__, f"api/{package.__name__}.md", _page(package))
        for package in (samara, *(package for package in packages if isinstance(package, ModuleType)))
    ]


def _page(package: ModuleType) -> str:
    parts = []
    for name in package.__all__:
        path = f"{package.__name__}.{name}"
        try:
            thing = getattr(package, name)
        except ImportError:  # an extra that is not installed
            thing = None
        if isinstance(thing, ModuleType):
            continue
        module, qualified_name = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")
        if not qualified_name:
            parts.append(_reference(path, path))
        elif module.startswith("samara") and getattr(sys.modules[module], qualified_name, None) is thing:
            parts.append(_reference(f"{module}.{qualified_name}", path))
        else:  # an alias of a type of another library, whose documentation does not belong here
            parts.append(f"## `{path}`\n\n`{str(thing).removeprefix('typing.')}`")
    return "\n\n".join([f"# `{package.__name__}`", *parts]) + "\n"


def _reference(defined: str, path: str) -> str:
    """Return the directive of mkdocstrings for a name that is defined in one place and documented as another."""
    return f"::: {defined}\n    options:\n      heading: {path}\n      toc_label: {path}"
