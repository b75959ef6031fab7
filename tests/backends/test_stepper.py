"""Every backend is compiled by its own compiler."""

from importlib import import_module

import pytest

from samara.backends.stepper import _compiler

COMPILERS = {
    "llvm": ("samara.backends.llvm", "compile_scan_llvm"),
    "python": ("samara.backends.scan", "compile_scan_python"),
    "jax": ("samara.backends.jax_scan", "compile_scan_jax"),
    "pallas": ("samara.backends.pallas", "compile_scan_pallas"),
}


@pytest.mark.parametrize("backend", COMPILERS)
def test_a_backend_has_its_own_compiler(backend):
    """Backends agree in their results: that the wrong one ran would show in speed alone."""
    if backend in ("jax", "pallas"):
        pytest.importorskip("jax")
    module, name = COMPILERS[backend]
    assert _compiler(backend) is getattr(import_module(module), name)
