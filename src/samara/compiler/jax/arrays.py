"""Array programs in JAX for executors, so that no executor imports JAX.

    run = compile_arrays(function, dtype="float32")      # `jit`, with doubles enabled for "float64"
    repeat(times, body, carry)                           # carry ← body(i, carry)
    branch(condition, if_true, if_false)                 # one of two computations
    call_kernel(kernel, operands, shapes, …)             # one GPU kernel over blocks of lanes (Pallas and Triton)

Arrays have NumPy's methods and operators. Lanes, one per flight, are along the last axis.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.compiler.jax.folding_scalar import OperationCount, bare_select, count_operations
from samara.core.quantity import Scalar
from samara.core.tree import Tree

JaxArray: TypeAlias = jax.Array
Leaf: TypeAlias = JaxArray | float

# Arrays -----------------------------------------------------------------------------------------------------------------


def array(x: object, dtype: Any = None) -> JaxArray:
    """Return numbers as an array on JAX's default device."""
    return jnp.asarray(x, dtype)


def zeros(shape: tuple[int, ...], dtype: Any) -> JaxArray:
    """Return an array of zeros."""
    return jnp.zeros(shape, dtype)


def index_range(length: int, dtype: Any = np.int32) -> JaxArray:
    """Return 0, 1, … length − 1."""
    return jnp.arange(length, dtype=dtype)


def stack(arrays: Sequence[Leaf], axis: int = 0) -> JaxArray:
    """Stack arrays of one shape along a new axis."""
    return jnp.stack(arrays, axis)


def concatenate(arrays: Sequence[JaxArray], axis: int = 0) -> JaxArray:
    """Join arrays along an axis."""
    return jnp.concatenate(arrays, axis)


def convert(x: Scalar, dtype: Any) -> JaxArray:
    """Return numbers in another type."""
    return lax.convert_element_type(x, dtype)


def fill(x: Scalar, shape: tuple[int, ...], dtype: Any) -> JaxArray:
    """Return numbers in a type, repeated to a shape."""
    return jnp.broadcast_to(lax.convert_element_type(x, dtype), shape)


def select(condition: Scalar, a: Scalar, b: Scalar) -> JaxArray:
    """Select a where the condition holds, else b."""
    return bare_select(condition, a, b)


def table_row(table: JaxArray, k: Scalar) -> list[JaxArray]:
    """Return the entries of row k of a table, k being traced."""
    return list(lax.dynamic_index_in_dim(table, k, 0, keepdims=False))


def any_lane(condition: Scalar) -> JaxArray:
    """Whether a condition holds in at least one lane; kernels can reduce numbers only."""
    return jnp.max(jnp.where(condition, np.int32(1), np.int32(0))) > 0


def every_lane(condition: Scalar) -> JaxArray:
    """Whether a condition holds in all lanes."""
    return jnp.min(jnp.where(condition, np.int32(1), np.int32(0))) > 0


def pad_lanes(x: JaxArray, missing: int) -> JaxArray:
    """Repeat the last lane `missing` times."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)], mode="edge") if missing else x


# Control flow -----------------------------------------------------------------------------------------------------------


def branch(condition: Scalar, if_true: Callable[[], Tree], if_false: Callable[[], Tree]) -> Tree:
    """if_true() if a scalar condition holds, else if_false(); only one of them is computed."""
    return lax.cond(condition, if_true, if_false)


def repeat(times: int, body: Callable[[Scalar, Tree], Tree], carry: Tree) -> Tree:
    """carry ← body(i, carry) for i = 0 … times − 1; a single iteration is computed without a loop."""
    if times <= 1:
        return body(0, carry) if times else carry
    return lax.fori_loop(np.int32(0), np.int32(times), body, carry)


# Compilation ------------------------------------------------------------------------------------------------------------

Options: TypeAlias = Mapping[str, str] | None


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """Enable doubles in JAX inside the block if `dtype` needs them; JAX caches code for each setting separately."""
    if dtype != "float64" or jnp.result_type(float) == "float64":
        yield
        return
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental").enable_x64
    with enable(True):
        yield


def platform() -> str:
    """Return the name of JAX's default platform: "cpu", "gpu" or "tpu"."""
    return jax.default_backend()


def devices() -> list[Scalar]:
    """Return the devices of this process."""
    return jax.local_devices()


@contextmanager
def default_device(device: Any) -> Iterator[None]:
    """Create arrays and run computations inside the block on this device."""
    with jax.default_device(device):
        yield


def compile_arrays(
    function: Callable[..., Tree], *, dtype: str, static: tuple[int, ...] = (), options: Options = None
) -> Callable[..., Tree]:
    """Compile a function of arrays with XLA; `static` has the indices of arguments that are constants of the program."""
    compiled = jax.jit(function, static_argnums=static, compiler_options=None if options is None else dict(options))

    def run(*arguments: Tree) -> Tree:
        with precision(dtype):
            return compiled(*arguments)

    return run


def compile_with_constants(
    function: Callable[..., Tree], *, dtype: str, options: Callable[[str], Options]
) -> Callable[..., Tree]:
    """Compile `function(values, *arguments)`, once for every set of Python floats among the leaves of `values`.

    `values` has a list of leaves for each name. Leaves that are Python floats are folded into the program; all others are
    arrays of the type `dtype`. `options(platform)` returns compiler options for XLA.
    """
    compiled: dict[str, Callable[..., Tree]] = {}

    def run(values: Mapping[str, Sequence[Leaf]], *arguments: Tree) -> Tree:
        with precision(dtype):
            constants = {name: [leaf if type(leaf) is float else None for leaf in row] for name, row in values.items()}
            pattern = repr(constants)
            if pattern not in compiled:

                def fill_constants(arrays: Tree, *further_arguments: Tree) -> Tree:
                    return function(_merge(arrays, constants), *further_arguments)

                compiler_options = options(platform())
                compiled[pattern] = jax.jit(
                    fill_constants, compiler_options=None if compiler_options is None else dict(compiler_options)
                )
            arrays = {
                name: [jnp.asarray(leaf, dtype) for leaf in row if type(leaf) is not float]
                for name, row in values.items()
            }
            return compiled[pattern](arrays, *arguments)

    return run


def _merge(
    arrays: Mapping[str, Sequence[JaxArray]], constants: Mapping[str, Sequence[float | None]]
) -> dict[str, list[Leaf]]:
    """Merge constants and arrays into the leaves of all names, in order."""
    values: dict[str, list[Leaf]] = {}
    for name, row in constants.items():
        remaining = iter(arrays[name])
        values[name] = [next(remaining) if leaf is None else leaf for leaf in row]
    return values


def array_shape(shape: tuple[int, ...], dtype: Any) -> Scalar:
    """Return an array shape without values, to trace functions with."""
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def trace_shapes(function: Callable[..., Tree], *arguments: Tree) -> Tree:
    """Trace a function without computing; returns the shapes of its results."""
    return jax.eval_shape(function, *arguments)


def count_function_operations(function: Callable[..., Tree], *arguments: Tree) -> OperationCount:
    """Count the operations of a function of arrays; `arguments` may be `array_shape`s."""
    return count_operations(jax.make_jaxpr(function)(*arguments).jaxpr)


# Kernels ----------------------------------------------------------------------------------------------------------------


class Launch(NamedTuple):
    """The launch configuration of a kernel: lanes per program (a power of two), warps of 32 threads, pipeline stages."""

    block: int = 256
    warps: int = 8
    stages: int = 1


class Operand(NamedTuple):
    """An argument of a kernel: every program reads its lanes of the last axis, or the whole array."""

    array: JaxArray
    by_lane: bool = True


def call_kernel(
    kernel: Callable[..., None],
    operands: Sequence[Operand],
    shapes: Sequence[tuple[int, ...]],
    *,
    dtype: str,
    launch: Launch,
    interpret: bool,
    name: str,
) -> list[JaxArray]:
    """Run `kernel(*references)` for every block of lanes; the last references are the results, lanes along their last axis.

    The lane count must be a multiple of `launch.block`.
    """
    from jax.experimental import pallas as pl

    def block(shape: tuple[int, ...], by_lane: bool) -> pl.BlockSpec:
        """Return the block spec of a whole array, or of the lanes of one program."""
        leading = (0,) * (len(shape) - 1)
        if not by_lane:
            return pl.BlockSpec(shape, lambda i: (*leading, 0))
        return pl.BlockSpec((*shape[:-1], launch.block), lambda i: (*leading, i))

    results: list[JaxArray] = pl.pallas_call(
        kernel,
        grid=(shapes[0][-1] // launch.block,),
        in_specs=[block(x.array.shape, x.by_lane) for x in operands],
        out_specs=[block(shape, True) for shape in shapes],
        out_shape=[array_shape(shape, dtype) for shape in shapes],
        interpret=interpret,
        name=name,
        **triton_options(launch),
    )(*(x.array for x in operands))
    return results


def triton_options(launch: Launch) -> dict[str, Scalar]:
    """Return Triton's parameters under the name of this JAX version."""
    from jax.experimental.pallas import triton

    parameters = getattr(triton, "CompilerParams", None) or getattr(triton, "TritonCompilerParams", None)
    return {"compiler_params": parameters(num_warps=launch.warps, num_stages=launch.stages)} if parameters else {}


# Triton's pass "coalesce" traverses a whole kernel for every load and store in it: a step with contact, with a load and a store
# for each of its components, took a minute to compile. So all rows go through one load and one store, in a loop.


def load_rows(reference: Scalar) -> list[JaxArray]:
    """Load all rows of a kernel's operand: each iteration of the loop appends one."""
    rows = reference.shape[0]
    empty_rows = [jnp.zeros(reference.shape[1:], reference.dtype)] * rows
    return list(repeat(rows, lambda i, loaded_rows: [*loaded_rows[1:], reference[i, :]], empty_rows))


def store_rows(rows: Sequence[JaxArray], reference: Scalar, index: Callable[[Scalar], Scalar]) -> None:
    """Store rows at `index(i)` of a kernel's result: each iteration of the loop stores one."""

    def store_next(i: Scalar, remaining: Sequence[JaxArray]) -> list[JaxArray]:
        reference[index(i)] = remaining[0]
        return [*remaining[1:], remaining[0]]

    repeat(len(rows), store_next, list(rows))


def materialise(tree: Any) -> Any:
    """Compute a tree before what follows; XLA would otherwise fuse it and repeat it for every element."""
    return lax.optimization_barrier(tree)  # type: ignore[no-untyped-call]


def stack_last(arrays: Sequence[Leaf]) -> JaxArray:
    """Stack arrays that broadcast to one shape, along a new last axis."""
    return jnp.stack(jnp.broadcast_arrays(*arrays), axis=-1)


def expand_to(values: Leaf, shape: tuple[int, ...]) -> JaxArray:
    """Broadcast an array or a number to a shape."""
    return jnp.broadcast_to(values, shape)
