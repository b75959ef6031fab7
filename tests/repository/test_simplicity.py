"""Bounds on complexity: parameters per function, one `Array`, depth of imports."""

import ast
from functools import cache
from pathlib import Path

import pytest

import samara

SOURCE = Path(samara.__file__).parent
MAX_PARAMETERS = 10
MAX_IMPORT_DEPTH = 32
FRONT_DOOR = (
    "sim/fly.py fly",
    "sim/fly_many.py fly_many",
    "comparison/controllers.py compare",
    "campaigns/sweep.py sweep",
)


def module_trees() -> dict[str, ast.Module]:
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return module_trees()


def parameter_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_a_function_takes_at_most_ten_parameters(trees):
    """Exempt are commands, whose parameters are Typer options, the published signatures of the source documents, and the four
    functions of `FRONT_DOOR`: help, type checkers and editors show a keyword only if the signature states it."""
    violations = []
    for name, tree in trees.items():
        if name.startswith(("cli/", "documents/")):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or f"{name} {node.name}" in FRONT_DOOR:
                continue
            if parameter_count(node) > MAX_PARAMETERS:
                violations.append(f"{name}:{node.lineno} {node.name} takes {parameter_count(node)} parameters")
    assert not violations, "\n".join(violations)


def test_array_is_declared_once(trees):
    declarations = []
    for name, tree in trees.items():
        for node in tree.body:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            if any(isinstance(target, ast.Name) and target.id == "Array" for target in targets):
                declarations.append(name)
    assert declarations == ["core/types.py"]


def imports_when_loaded(tree: ast.Module, modules: set[str]) -> set[str]:
    """Modules that an import of this one loads: neither those inside functions nor those for type checkers."""
    names: set[str] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id.endswith("TYPE_CHECKING"):
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full_names = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= full_names & modules or {str(node.module)}
        pending += ast.iter_child_nodes(node)
    return names & modules - {"samara"}


def test_the_longest_chain_of_imports_is_bounded(trees):
    """The chain counts modules of the package, each of which imports the next on loading."""
    graph_trees = {
        "samara." + name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree
        for name, tree in trees.items()
        if name != "__init__.py"
    }
    modules = set(graph_trees)
    edges = {name: sorted(imports_when_loaded(tree, modules) - {name}) for name, tree in graph_trees.items()}

    @cache
    def longest_chain(name: str) -> tuple[str, ...]:
        return (name, *max((longest_chain(other) for other in edges[name]), key=len, default=()))

    chain = max(map(longest_chain, edges), key=len)
    assert len(chain) <= MAX_IMPORT_DEPTH, " -> ".join(chain)
