"""Dense layers with weights in memory, forward and backward, against NumPy on the same matrices."""

from itertools import pairwise

import numpy as np
import pytest

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, Pass, compile_loops
from samara.compiler.llvm.network_gradient import Dense, DenseBackward, DenseGradient
from samara.compiler.trace.folding_tape import trace_program


@pytest.mark.parametrize(("rows", "columns", "activation"), [(3, 5, "tanh"), (8, 4, "relu"), (13, 22, "tanh")])
def test_a_layer_forward_and_backward_is_that_of_numpy(rows, columns, activation):
    width, steps, rng = 4, 3, np.random.default_rng(0)
    W, b = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    x, y_bar = rng.normal(size=(steps, columns, width)), rng.normal(size=(steps, rows, width))
    y, p_bar, x_bar = np.zeros_like(y_bar), np.zeros_like(y_bar), np.zeros_like(x)
    W_bar, b_bar = np.zeros_like(W), np.zeros_like(b)
    arrays = {
        "W": W,
        "b": b,
        "x": x,
        "y_bar": y_bar,
        "y": y,
        "p": p_bar,
        "x_bar": x_bar,
        "W_bar": W_bar,
        "b_bar": b_bar,
    }

    def column(name):
        return ArraySpec(name, (0,), arrays[name][0].size, 1)

    one = {name: ArraySpec(name, (0,)) for name in ("W", "b", "W_bar", "b_bar")}
    size = rows, columns, width
    forward = Dense(one["W"], one["b"], column("x"), column("y"), *size, activation)
    back = DenseBackward(one["W"], column("y"), column("y_bar"), column("p"), column("x_bar"), *size, activation)
    gradient = DenseGradient(column("x"), column("p"), one["W_bar"], one["b_bar"], *size)
    loops = ArrayLoop((forward,)), ArrayLoop((back,), reverse=True), ArrayLoop((gradient,), position="end")
    code = compile_loops(loops, fast=False)
    table = np.array([arrays[name].ctypes.data for name in code.names])
    code.call(table.ctypes.data, steps)
    preactivation = np.einsum("ij,kjl->kil", W, x) + b[:, None]
    expected = np.tanh(preactivation) if activation == "tanh" else np.maximum(preactivation, 0.0)
    slope = y_bar * (1.0 - expected**2 if activation == "tanh" else preactivation > 0.0)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(x_bar, np.einsum("ij,kil->kjl", W, slope), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(W_bar, np.einsum("kil,kjl->ij", slope, x), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(b_bar, slope.sum(axis=(0, 2)), rtol=1e-11, atol=1e-13)


def test_shared_passes_share_a_function():
    """x → x² three times, from one location to the next: one function, three calls."""
    x = np.array([[1.5, -2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    program = trace_program(lambda x: ((x[0] * x[0],),), (0.0,))
    arrays = [ArraySpec("x", (2 * k,), 0, 1) for k in range(4)]
    passes = [Pass(program, (a,), (b,), 2, shared=True) for a, b in pairwise(arrays)]
    code = compile_loops((ArrayLoop(tuple(passes), position="start"),))
    code.call(np.array([x.ctypes.data]).ctypes.data, 1)
    assert x[:, 0].tolist() == [1.5, 1.5**2, 1.5**4, 1.5**8] and x[3, 1] == 256.0
