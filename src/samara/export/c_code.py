"""What C99 says its own way, and numbers as it initialises structs with them."""

from collections.abc import Sequence
from typing import Any

from samara.compiler.trace.program import Program
from samara.export import code
from samara.export.code import FUNCTIONS, Dialect, Places

C = Dialect(FUNCTIONS, "NAN", "INFINITY", "const double", "const int", "(void){};")


def c_lines(program: Program, inputs: Sequence[Places], outputs: Sequence[Places]) -> list[str]:
    """A traced program as lines of C"""
    return code.Body(program, inputs, outputs, C).lines


def decimal(value: float) -> str:
    """The shortest decimals that read back as the same number"""
    return code.literal(value, C).text


def braces(tree: Any) -> str:
    """A nested tuple as an initialiser"""
    if isinstance(tree, tuple):
        return "{" + ", ".join(braces(branch) for branch in tree) + "}"
    return decimal(tree)
