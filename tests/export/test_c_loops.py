"""Loops of traced programs as C against the same loops compiled by LLVM."""

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.repository import skip_or_fail

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, compile_loops
from samara.control.mpc.programs import Arrays, StepArray, shared_spec, trace_pass
from samara.control.policy_c import compile_library
from samara.core.ops import maximum, where
from samara.export.c_loops import array_sizes, constant_array, is_overwritten, loops_code

STEPS = 5
WEIGHTS = (0.1, -2.0, 3.0)


def _loops() -> tuple[ArrayLoop, ...]:
    """A start, a forward recursion, a reverse one that swaps numbers in place, and an end; of all kinds of operations."""
    x, y, weights = StepArray("x", 2), StepArray("y", 2), shared_spec("weights", 3)
    pair = shared_spec("pair", 2)
    return (
        ArrayLoop((trace_pass(lambda w: (w[:2], (1.0, 2.5)), (weights,), (x.step_values(2), pair)),), position="start"),
        ArrayLoop(
            (
                trace_pass(
                    lambda x, w: ((x[0] * w[2] - 0.5, where(x[0] < x[1], x[1] / w[1], -x[1])),),
                    (x.step_values(2), weights),
                    (x.step_values(2, later=1),),
                ),
            )
        ),
        ArrayLoop(
            (
                trace_pass(
                    lambda p, x: ((p[1], p[0] + x[0]), (maximum(p[0], x[1]), p[1])),
                    (pair, x.step_values(2, later=1)),
                    (pair, y.step_values(2)),
                ),
            ),
            reverse=True,
        ),
        ArrayLoop(
            (trace_pass(lambda x, p: ((x[1] * p[0], p[0]),), (x.step_values(2), pair), (pair,)),), position="end"
        ),
    )


@pytest.mark.parametrize("pointers", [(), ("y", "x")])
def test_loops_in_c_give_what_llvm_computes(pointers: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        skip_or_fail("no C compiler")
    loops = _loops()
    sizes = array_sizes((loop, STEPS) for loop in loops)
    assert sizes == {"weights": 3, "x": 2 * (STEPS + 1), "pair": 2, "y": 2 * STEPS}
    arrays = Arrays("float32", **sizes)
    arrays["weights"][:] = WEIGHTS
    compiled = compile_loops(loops, "float32", fast=False)
    compiled.call(arrays.table(compiled), STEPS)

    variables = [f"float {name}_values[{size}];" for name, size in sizes.items() if name in pointers]
    variables += [f"float {name}[{size}];" for name, size in sizes.items() if name not in (*pointers, "weights")]
    call = f"run({', '.join(f'{name}_values' for name in pointers)});"
    code = [constant_array("weights", WEIGHTS), *variables, loops_code("run", loops, str(STEPS), pointers)]
    (tmp_path / "code.c").write_text("\n".join([*code, f"void call(void);\nvoid call(void) {{ {call} }}\n"]))
    strict = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wdouble-promotion", "-Wfloat-conversion")
    library = compile_library(tmp_path / "code.c", tmp_path / "code.so", *strict)
    library.call()
    for name in ("x", "y", "pair"):
        symbol = f"{name}_values" if name in pointers else name
        result = np.array((ctypes.c_float * sizes[name]).in_dll(library, symbol))
        assert np.ptp(result) > 0.0
        np.testing.assert_allclose(result, arrays[name], rtol=1e-6, atol=0.0, err_msg=name)


def test_numbers_are_copied_if_the_step_may_overwrite_them() -> None:
    states = StepArray("x", 2)
    written = (states.step_values(2, later=1),)
    assert not is_overwritten(states.step_values(2), (0, 1), written)
    assert is_overwritten(states.step_values(2, later=1), (2, 3), written)
    assert is_overwritten(states.fixed_values(2), (0, 1), written)  # at another step it is the same number
    assert not is_overwritten(StepArray("y", 2).step_values(2, later=1), (2, 3), written)


def test_several_lanes_are_refused() -> None:
    lanes = ArraySpec("x", (0,), 8, 1)
    with pytest.raises(ValueError, match="one lane"):
        loops_code("run", (ArrayLoop((trace_pass(lambda x: ((x[0] + 1.0,),), (lanes,), (lanes,), 8),)),), "1")
