"""Only `samara.compiler` imports a backend (JAX, CasADi, llvmlite); the exceptions are listed with their reasons."""

import ast
from pathlib import Path

import samara

SOURCE = Path(samara.__file__).parent
BACKENDS = {"jax", "jaxlib", "casadi", "llvmlite"}
EXCEPTIONS = {
    "control/mpc/batch_jax.py": "batched iLQR is one XLA program: a loop over iterations, mapped over problems",
    "learn/jax": "networks and trainers are array programs written in JAX, not traced from scalars",
    "sensors/depth_jax.py": "depth images are one Pallas kernel over tiles of pixels, with its own derivative",
}


def backend_imports(path: Path) -> set[str]:
    """Return the backends a module imports, at its top or inside functions"""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            arguments = (constant.value for constant in node.args if isinstance(constant, ast.Constant))
            names |= {str(constant).partition(".")[0] for constant in arguments}
    return names & BACKENDS


def importers() -> set[str]:
    modules = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    return {name for name, path in modules.items() if not name.startswith("compiler/") and backend_imports(path)}


def test_only_the_compiler_imports_a_backend():
    violations = {
        name
        for name in importers()
        if not any(name == exception or name.startswith(f"{exception}/") for exception in EXCEPTIONS)
    }
    assert not violations


def test_there_are_at_most_three_exceptions_and_each_is_one():
    assert len(EXCEPTIONS) <= 3
    for name in EXCEPTIONS:
        assert any(importer == name or importer.startswith(f"{name}/") for importer in importers()), name


def test_imports_inside_functions_and_by_name_are_found(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "import importlib\n\n\ndef f():\n    from jax import lax\n    return importlib.import_module('casadi.tools')\n"
    )
    assert backend_imports(module) == {"jax", "casadi"}
