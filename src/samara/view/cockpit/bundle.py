"""ES modules as one script, each in a scope of its own: a page opened from the disk may not import files."""

import re
from collections.abc import Mapping

IMPORT = re.compile(r'^import (\{[^}]*\}|\* as \w+) from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|let|class|function)\b(?:\s+(\w+)))", re.MULTILINE)


def bundled(modules: Mapping[str, str], main: str) -> str:
    """The modules that `main` needs, in the order they need each other; names of modules are those of their files"""
    order: list[str] = []
    _visit(main, modules, order, ())
    return "\n".join(_scoped(name, modules[name]) for name in order)


def _visit(name: str, modules: Mapping[str, str], order: list[str], on_the_way: tuple[str, ...]) -> None:
    if name in on_the_way:
        raise ValueError(f"modules import each other: {' → '.join((*on_the_way, name))}")
    if name in order:
        return
    for needed in IMPORT.finditer(modules[name]):
        _visit(needed[2], modules, order, (*on_the_way, name))
    order.append(name)


def _scoped(name: str, text: str) -> str:
    """const name = (() => { …; return { its exports }; })();"""
    exported = ", ".join(found[1] for found in EXPORT.finditer(text))
    body = EXPORT.sub("", IMPORT.sub(_taken, text)).strip()
    return f"const module_{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"


def _taken(found: re.Match[str]) -> str:
    names = found[1].removeprefix("* as ")
    return f"const {names.replace(' as ', ': ')} = module_{found[2]};\n"
