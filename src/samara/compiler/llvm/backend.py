"""The CPU backend: a traced scan as vector code, threads over blocks of drones; no compiler needed.

Strict IEEE by default: no contraction, no reassociation, so that a drone's numbers are the same bits at every width and
place.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from samara.compiler.llvm.codegen import vector_width
from samara.compiler.llvm.scan import Kernel, Shape, scan_kernel
from samara.compiler.scan import Quiet, Run, Templates
from samara.compiler.thread_pool import shares_of, side_by_side
from samara.compiler.trace.program import Guarded, Program, program_of_body
from samara.core.tree import flatten


def compile_scan_llvm(
    body: Callable[[Any, Any, Any], tuple[Any, Any]],
    templates: Templates,
    quiet: Quiet | None = None,
    *,
    dtype: str,
    fast: bool = False,
    threads: int | None = None,
) -> Run:
    """The scan as vector code, traced"""
    program = program_of_body(body, templates, quiet)
    sizes = [len(flatten(template)) for template in templates]
    return compile_scan_program(program, sizes, dtype=dtype, fast=fast, threads=threads)


def compile_scan_program(
    program: Program | Guarded, sizes: Sequence[int], *, dtype: str, fast: bool = False, threads: int | None = None
) -> Run:
    """A program with input groups (carry, held, inputs) of these sizes and output groups (carry, outputs), as vector code:
    full tiles at the widest registers, what is left over one drone at a time

    A kernel is built for each pattern of held values that are one number or one per drone, when first met.
    """
    outputs = len(program.outputs[1])
    width = vector_width(dtype)
    kernels: dict[tuple[tuple[bool, ...], bool, int], Kernel] = {}

    def kernel(uniform: tuple[bool, ...], inputs_uniform: bool, width: int) -> Kernel:
        key = (uniform, inputs_uniform, width)
        if key not in kernels:
            shape = Shape(sizes[0], uniform, sizes[2], inputs_uniform, outputs)
            kernels[key] = scan_kernel(program, shape, dtype, width, fast)
        return kernels[key]

    def run(carry: Any, held: Sequence[Any], inputs: Any, steps: int, every: int = 1) -> tuple[Any, Any]:
        n = carry.shape[1]
        uniform = tuple(np.ndim(value) == 0 for value in held)
        same = np.array([value for value, one in zip(held, uniform, strict=True) if one], dtype=dtype)
        own = np.array([value for value, one in zip(held, uniform, strict=True) if not one], dtype=dtype)
        inputs_uniform = inputs is None or np.ndim(inputs) == 2
        if carry.dtype != dtype or not carry.flags.carray or carry.shape[0] != sizes[0]:
            raise ValueError(
                f"carry has shape {carry.shape}, dtype {carry.dtype.str}; expected ({sizes[0]}, N), {dtype}, by rows, writable"
            )
        if (own.size and own.shape[1] != n) or not (inputs_uniform or np.shape(inputs)[2] == n):
            raise ValueError(
                f"held values and inputs of their own for each drone must have length {n}, as the state has"
            )
        given = np.ascontiguousarray(inputs, dtype=dtype) if inputs is not None else same
        recorded = np.empty((steps // every, outputs, n), dtype=dtype)
        pointers = [array.ctypes.data for array in (carry, same, own, given, recorded)]
        tiles = n // width
        whole = width * tiles

        def part(first: int, last: int, width: int) -> None:
            kernel(uniform, inputs_uniform, width).call(*pointers, first, last, n, steps, every)

        if whole:
            kernel(uniform, inputs_uniform, width)
            shares = shares_of(tiles * steps * len(program.instructions), threads)
            cuts = [width * (tiles * i // shares) for i in range(shares + 1)]
            side_by_side([partial(part, first, last, width) for first, last in pairwise(cuts)])
        if n > whole:
            part(whole, n, 1)
        return carry, recorded

    return run


def compile_program(
    program: Program, sizes: list[int], *, dtype: str = "float64", fast: bool = False
) -> Callable[[Sequence[float]], Any]:
    """call(numbers) → the first output group, for one drone: the program alone, without a loop"""
    places = [(group, index) for group, size in enumerate(sizes) for index in range(size)]
    at = {place: k for k, place in enumerate(places)}
    flat = program._replace(
        instructions=tuple(
            own._replace(place=(1, at[own.place])) if own.operation == "input" else own for own in program.instructions
        ),
        outputs=((), program.outputs[0]),
    )
    count = len(program.outputs[0])
    kernel = scan_kernel(flat, Shape(0, (True,) * len(places), 0, True, count), dtype, 1, fast, effort=0)

    def call(numbers: Sequence[float]) -> Any:
        given, results = np.array(numbers, dtype=dtype), np.empty(count, dtype=dtype)
        kernel.call(0, given.ctypes.data, 0, 0, results.ctypes.data, 0, 1, 1, 1, 1)
        return results

    return call
