"""Every backend is compiled by the right compiler."""

from importlib import import_module

import pytest

from samara.compiler.stepper import _compiler

COMPILERS = {
    "llvm": ("samara.compiler.llvm.scan", "compile_scan_llvm"),
    "python": ("samara.compiler.scan", "compile_scan_python"),
    "jax": ("samara.compiler.jax.scan", "compile_scan_jax"),
    "pallas": ("samara.compiler.jax.scan", "compile_scan_pallas"),
}


@pytest.mark.parametrize("backend", COMPILERS)
def test_a_backend_has_its_own_compiler(backend):
    """Backends agree in their results: a wrong compiler would only show in speed."""
    if backend in ("jax", "pallas"):
        pytest.importorskip("jax")
    module, name = COMPILERS[backend]
    assert _compiler(backend) is getattr(import_module(module), name)
