"""Rollouts of a policy and their gradient, compiled for the CPU.

x₀ → x_H and Σ r of each drone:   ∂ Σ r / ∂ weights by reverse differentiation, from stored states

A batch of one drone per vector lane flies all steps forward and backward before the next batch starts, so that stored
values stay in a core's cache; threads share the drones. Every drone has the same bits whatever the others are, and gradients
are summed in the order of drones: the result does not depend on the count of threads.
"""

import ctypes
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from samara.compiler.derivatives.reverse import adjoint_program
from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, CompiledLoops, LoopElement, Pass, compile_loops
from samara.compiler.llvm.codegen import vector_width
from samara.compiler.llvm.network_gradient import Dense, DenseBackward, DenseGradient
from samara.compiler.thread_pool import parallel_task_count, run_parallel
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import Program
from samara.core.integrate import RUNGE_KUTTA_INTEGRATORS, find_integrator, stage_chain, unit_quaternions
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.core.random import derive_key
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.learn.compiled_episode import SOURCE, random_numbers
from samara.learn.env_config import EnvironmentSetting, require_no_camera, require_no_images
from samara.learn.episode import Episode, StepFunctions
from samara.learn.optimizer import Begin, Chunk, S, Update, run_in_python
from samara.learn.policies import Layers, Weights

if TYPE_CHECKING:
    from samara.learn.gradient_training import GradientHyperparameters

INSTRUCTIONS_PER_STEP = 20_000  # approximate count of vector instructions of a step, forward and backward


SUCCEEDED, LOST = 0.5, 1.0  # end of an episode: by success, or otherwise

Numbers: TypeAlias = tuple[Scalar, ...]
Function: TypeAlias = Callable[..., tuple[Numbers, ...]]


class BufferSpec(NamedTuple):
    """A buffer for all steps together or for `each_step`, with `width` lanes per number."""

    name: str
    rows: int
    width: int
    each_step: bool = False

    def array(self, first: int = 0, count: int | None = None, ahead: bool = False) -> ArraySpec:
        """Return the array of some of the numbers; with `ahead`, of the next step."""
        length = self.rows * self.width if self.each_step else 0
        last = self.rows if count is None else first + count
        offsets = tuple(self.width * number + ahead * length for number in range(first, last))
        return ArraySpec(self.name, offsets, length, 1)


class LayerSizes(NamedTuple):
    """Layer sizes from the observation to the action; weights are one row of values: W₁, b₁, W₂, …"""

    sizes: tuple[int, ...]

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """The offsets of the matrix and the bias of each layer."""
        offsets, offset = [], 0
        for columns, rows in pairwise(self.sizes):
            offsets.append((offset, offset + rows * columns))
            offset += rows * (columns + 1)
        return offsets

    @property
    def weight_count(self) -> int:
        """Count of weights."""
        return sum(rows * (columns + 1) for columns, rows in pairwise(self.sizes))


class Value(NamedTuple):
    """Values in memory, and their cotangents in the backward pass."""

    array: ArraySpec
    bar: ArraySpec

    def part(self, first: int, last: int | None = None) -> "Value":
        """Return the values from `first` to `last`."""
        return Value(*(spec._replace(offsets=spec.offsets[first:last]) for spec in self))


class RolloutPasses:
    """The loops of a rollout and their buffers; with `stored` steps there is a backward pass.

        forward    o = observe(m),  a = π(o),  u = command(z, a),  kᵢ = rate(zᵢ, u),  zᵢ₊₁ = z + aᵢ dt kᵢ,
                   z' = unit(z + dt Σ bᵢ kᵢ),  m' = conclude(z', m, a)
        backward   every pass transposed, from the last to the first (`samara.compiler.derivatives.reverse`)

    m are the values of an episode that change within it, z its state, c those that are constant.
    """

    def __init__(
        self,
        functions: StepFunctions,
        layers: LayerSizes,
        width: int,
        stored: bool,
        activations: tuple[str, str],
        integrator: str,
    ) -> None:
        self.functions, self.layers, self.width, self.stored = functions, layers, width, stored
        self.chain = stage_chain(find_integrator(integrator, RUNGE_KUTTA_INTEGRATORS).tableau)
        self.buffers: dict[str, BufferSpec] = {}
        hidden, output = activations
        self.activations = [*[hidden] * (len(layers.sizes) - 2), output]
        self.bar_count = 0
        self.passes: list[LoopElement] = []
        self.differentiated: list[tuple[Function, Sequence[Value | ArraySpec], Sequence[ArraySpec]]] = []
        self.programs: dict[Hashable, Program] = {}
        self.c = self._add_buffer("c", functions.size - len(functions.varying_leaves)).array()
        self.m = self._value("m", len(functions.varying_leaves))
        self.columns = [self._add_buffer(f"column{i}", size, stored).array() for i, size in enumerate(layers.sizes)]
        self.observation, self.action = (
            Value(column, self._bar(len(column.offsets))) for column in self.columns[:: len(layers.offsets)]
        )
        self._build_forward()

    def _add_buffer(self, name: str, numbers: int, each_step: bool = False) -> BufferSpec:
        self.buffers[name] = BufferSpec(name, numbers, self.width, each_step)
        return self.buffers[name]

    def _bar(self, numbers: int) -> ArraySpec:
        self.bar_count += numbers
        return self._add_buffer("bars", self.bar_count).array(self.bar_count - numbers)

    def _value(self, name: str, numbers: int, each_step: bool = True) -> Value:
        return Value(self._add_buffer(name, numbers, each_step and self.stored).array(), self._bar(numbers))

    def _append_pass(self, function: Function, inputs: Sequence[Value | ArraySpec], outputs: Sequence[Value]) -> None:
        """Append a pass, and record it for the backward pass; inputs without cotangents are constant."""
        arrays = tuple(value.array if isinstance(value, Value) else value for value in inputs)
        self.passes.append(self._pass(self._trace(function, arrays), arrays, [value.array for value in outputs]))
        self.differentiated.append((function, inputs, [value.bar for value in outputs]))

    def _pass(self, program: Program, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> Pass:
        return Pass(program, tuple(inputs), tuple(outputs), self.width, shared=True)

    def _trace(self, function: Function, inputs: Sequence[ArraySpec]) -> Program:
        key = function, tuple(len(array.offsets) for array in inputs)
        if key not in self.programs:
            self.programs[key] = trace_program(function, *((0.0,) * size for size in key[1]))
        return self.programs[key]

    def _transpose(
        self, function: Function, inputs: Sequence[Value | ArraySpec], bars: Sequence[ArraySpec], written: set[int]
    ) -> Iterator[Pass]:
        """Write the cotangents of the inputs, or add to those already written."""
        arrays = [value.array if isinstance(value, Value) else value for value in inputs]
        sizes = tuple(len(array.offsets) for array in arrays)
        input_bars = [value.bar for value in inputs if isinstance(value, Value)]
        key = function, sizes, "adjoint"
        if key not in self.programs:
            groups = tuple(k for k, value in enumerate(inputs) if isinstance(value, Value))
            self.programs[key] = adjoint_program(self._trace(function, arrays), sizes, groups)
        accumulated = [k for k, bar in enumerate(input_bars) if not written.isdisjoint(bar.offsets)]
        outputs = [
            self.scratch[k].array(0, len(bar.offsets)) if k in accumulated else bar for k, bar in enumerate(input_bars)
        ]
        yield self._pass(self.programs[key], (*arrays, *bars), outputs)
        for k in accumulated:
            yield self._pass(
                self._trace(_add_values, (input_bars[k], input_bars[k])), (input_bars[k], outputs[k]), (input_bars[k],)
            )
        written.update(*(bar.offsets for bar in input_bars))

    def _build_forward(self) -> None:
        """Append the passes of one step."""
        functions, state_size, dt = self.functions, len(flatten(self.functions.state)), self.functions.dt
        stages, command_size = len(self.chain.weights), len(functions.setting.drone.command)
        self._append_pass(self._observe, (self.m, self.c), (self.observation,))
        for k, (weights, bias) in enumerate(self.layers.offsets):
            columns, rows = self.layers.sizes[k : k + 2]
            x, y, matrix = self.columns[k], self.columns[k + 1], (ArraySpec("w", (weights,)), ArraySpec("w", (bias,)))
            self.passes.append(Dense(*matrix, x, y, rows, columns, self.width, self.activations[k]))
        z, other_values = self.m.part(0, state_size), self.m.part(state_size)
        for s in range(functions.substeps):
            u, next_state, total = (
                self._value(f"{name}{s}", size)
                for name, size in (("u", command_size), ("z", state_size), ("t", state_size))
            )
            slopes = [self._value(f"k{s}.{i}", state_size, each_step=False) for i in range(stages)]
            self._append_pass(self._command, (z, other_values, self.c, self.action), (u,))
            stage_state = z
            for i, slope in enumerate(slopes):
                self._append_pass(self._rate, (stage_state, u, self.c), (slope,))
                if i + 1 < stages:
                    stage_state = self._value(f"z{s}.{i + 1}", state_size)
                    self._append_pass(
                        partial(_combine, (dt * self.chain.next_coefficients[i],)), (z, slope), (stage_state,)
                    )
            factors = tuple(dt * weight for weight in self.chain.weights)
            self._append_pass(partial(_combine, factors), (z, *slopes), (total,))
            self._append_pass(self._unit, (total,), (next_state,))
            z = next_state
        counts = [self._add_buffer(name, 1).array() for name in ("total", "lost")]
        inputs = z.array, self.m.array, self.c, self.action.array, *counts
        outputs = self.buffers["m"].array(ahead=True), *counts
        self.passes.append(self._pass(self._trace(self._complete_and_count, inputs), inputs, outputs))
        bars = self._add_buffer("m_bar", len(functions.varying_leaves)).array(), self._add_buffer("r_bar", 1).array()
        self.differentiated.append((self._conclude, (z, self.m, self.c, self.action), bars))

    def forward_loop(self) -> ArrayLoop:
        """Return all steps, from the first to the last."""
        return ArrayLoop(tuple(self.passes))

    def backward_loops(self) -> tuple[ArrayLoop, ArrayLoop]:
        """Return all steps, from the last to the first; and then the gradients of the weights."""
        sizes, offsets = self.layers.sizes, self.layers.offsets
        bars = [
            self.observation.bar,
            *(self._add_buffer(f"column_bar{i}", n).array() for i, n in enumerate(sizes[1:-1])),
        ]
        bars.append(self.action.bar)
        preactivations = [self._add_buffer(f"before_activation{i}", n, True).array() for i, n in enumerate(sizes[1:])]
        self.scratch = [self._add_buffer(f"scratch{k}", len(self.functions.varying_leaves)) for k in range(4)]
        network: list[LoopElement] = []
        gradients: list[LoopElement] = []
        for i, (weights, bias) in reversed(list(enumerate(offsets))):
            shape = sizes[i + 1], sizes[i], self.width
            matrix, y = ArraySpec("w", (weights,)), self.columns[i + 1]
            network.append(
                DenseBackward(matrix, y, bars[i + 1], preactivations[i], bars[i], *shape, self.activations[i])
            )
            gradient = ArraySpec("g", (weights,)), ArraySpec("g", (bias,))
            gradients.append(DenseGradient(self.columns[i], preactivations[i], *gradient, *shape))
        written: set[int] = set()
        observe, *later_passes = self.differentiated
        transposed = [
            transposed_pass
            for forward_pass in reversed(later_passes)
            for transposed_pass in self._transpose(*forward_pass, written)
        ]
        last, add = self._transpose(*observe, written)
        m_bar = self.buffers["m_bar"].array()
        passes = *transposed, *network, last, add._replace(outputs=(m_bar,))
        return ArrayLoop(passes, reverse=True), ArrayLoop(tuple(gradients), position="end")

    # Functions of groups of values ----------------------------------------------------------------------------------------

    def _observe(self, m: Numbers, c: Numbers) -> tuple[Numbers]:
        return (self.functions.observe(self._episode(m, c)),)

    def _command(self, z: Numbers, other_values: Numbers, c: Numbers, a: Numbers) -> tuple[Numbers]:
        return (tuple(self.functions.command(self._episode((*z, *other_values), c), a)),)

    def _rate(self, z: Numbers, u: Numbers, c: Numbers) -> tuple[Numbers]:
        episode = self._episode([flatten(self.functions.episode)[k] for k in self.functions.varying_leaves], c)
        return (self.functions.derivative(unflatten(self.functions.state, iter(z)), tuple(u), episode),)

    def _unit(self, z: Numbers) -> tuple[Numbers]:
        return (unit_quaternions(unflatten(self.functions.state, iter(z))),)

    def _conclude(self, z: Numbers, m: Numbers, c: Numbers, a: Numbers) -> tuple[Numbers, Numbers]:
        state = unflatten(self.functions.state, iter(z))
        next_episode, reward, _ = self.functions.complete_step(state, self._episode(m, c), tuple(a))
        return self._varying_values(next_episode), (reward,)

    def _complete_and_count(
        self, z: Numbers, m: Numbers, c: Numbers, a: Numbers, total: Numbers, lost: Numbers
    ) -> tuple[Numbers, ...]:
        """Return the end of a step with the sum of rewards, and how the episode first ended."""
        state = unflatten(self.functions.state, iter(z))
        next_episode, reward, is_terminated = self.functions.complete_step(state, self._episode(m, c), tuple(a))
        ended = where(is_terminated, where(self.functions.is_success(next_episode), SUCCEEDED, LOST), 0.0)
        return self._varying_values(next_episode), (total[0] + reward,), (where(lost[0] > 0.0, lost[0], ended),)

    def _episode(self, m: Sequence[Scalar], c: Numbers) -> Episode:
        varying_values, constant_values, varying_indices = iter(m), iter(c), set(self.functions.varying_leaves)
        leaves = [
            next(varying_values) if k in varying_indices else next(constant_values) for k in range(self.functions.size)
        ]
        episode: Episode = unflatten(self.functions.episode, iter(leaves))
        return episode

    def _varying_values(self, episode: Episode) -> Numbers:
        leaves = flatten(episode)
        return tuple(leaves[k] for k in self.functions.varying_leaves)


def _combine(weights: Sequence[float], x: Numbers, *slopes: Numbers) -> tuple[Numbers]:
    """x + Σ wᵢ kᵢ"""
    pairs = zip(x, zip(*slopes, strict=True), strict=True)
    return (tuple(value + sum(w * k for w, k in zip(weights, ks, strict=True)) for value, ks in pairs),)


def _add_values(x: Numbers, y: Numbers) -> tuple[Numbers]:
    return (tuple(a + b for a, b in zip(x, y, strict=True)),)


class RolloutResult(NamedTuple):
    """Rewards summed over the steps (N,), final episodes (size, N), and whether they ended early (N,), as lost or as
    successful."""

    total: Array
    end: Array
    lost: Array
    succeeded: Array


class Gradient(NamedTuple):
    """The rollout, and the derivatives of Σ total·total_bar + Σ end·end_bar with respect to the weights and to the start
    (size, N); they are 0 for values that are constant within an episode."""

    result: RolloutResult
    weights: Array
    start: Array


class CpuRollout:
    """The `samara.learn.gradient_training.Rollout` of the CPU: weights are one row of values.

    Random numbers have addresses (seed, update, drone), so that nothing depends on the count of threads, or on the point at
    which a run was interrupted.
    """

    def __init__(
        self, setting: EnvironmentSetting, parameters: "GradientHyperparameters", first: Weights | None = None
    ) -> None:
        require_no_camera(setting)
        require_no_images(setting)
        self.parameters, self.first, self.functions = parameters, first, StepFunctions(setting)
        self.sizes = (self.functions.observation_size, *parameters.hidden, len(self.functions.action))
        self.lanes = LaneRollout(
            self.functions,
            self.sizes,
            parameters.horizon,
            hidden=parameters.activation,
            integrator=parameters.integrator,
        )

    def initial(self, seed: int) -> tuple[Array, Array, Array]:
        """Return weights, episodes at their start, and the seed."""
        rng = np.random.default_rng(seed)
        shapes = self.parameters.network.shapes(self.sizes[0], self.sizes[-1])
        normals = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
        weights = flatten_weights(self.first or self.parameters.network.initial_weights(normals))
        episodes, _ = initial_episodes(self.functions, seed, self.parameters.updates, self.parameters.drones)
        return weights, episodes, np.array(seed, np.uint64)

    def restart(self, key: Array, update: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Return the seed, new episodes, and a uniform random value for each drone."""
        return key, *initial_episodes(self.functions, int(key), int(update), self.parameters.drones)

    def is_lost(self, episodes: Array) -> Array:
        """Return whether each episode has ended or has values that are not finite."""
        with np.errstate(all="ignore"):
            episode = unflatten(self.functions.episode, iter(episodes.astype(float)))
            terminated = np.broadcast_to(self.functions.is_terminated(episode), episodes.shape[1])
            lost: Array = (terminated > 0.0) | ~np.isfinite(episodes).all(axis=0)
        return lost

    def gradient(self, weights: Array, episodes: Array) -> tuple[Array, Array, Array]:
        """Return the mean reward of a step, the gradient of its negative, and the episodes after the horizon."""
        drones, horizon = self.parameters.drones, self.parameters.horizon
        result, gradient, _ = self.lanes.gradient(weights, episodes, np.full(drones, -1.0 / (drones * horizon)))
        return result.total.mean() / horizon, gradient, result.end

    def layers(self, weights: Array) -> Layers:
        """Return the weights as (W, b) of each layer."""
        return unflatten_weights(weights, self.sizes)

    def pack_layers(self, layers: Layers) -> Array:
        """Return the row of weights from (W, b) of each layer."""
        return flatten_weights(layers)

    def compile_updates(self, begin: Begin[S], update: Update[S], size: int) -> tuple[Begin[S], Chunk[S]]:
        """Call updates one by one: the functions that they call are compiled."""
        return run_in_python(begin, update, size)


def initial_episodes(
    functions: StepFunctions, seed: int, update: int, drones: int, source: str = SOURCE
) -> tuple[Array, Array]:
    """Return episodes at their start (size, N), and a uniform random value for each."""
    keys = np.repeat(np.array(derive_key(seed, source), dtype=np.uint64)[:, None], drones, axis=1)
    draws = random_numbers(keys, np.full(drones, update), np.arange(drones), (*functions.draws, "uniform"))
    leaves = flatten(functions.reset(list(draws[:-1])))
    return np.array([np.broadcast_to(x, drones) for x in leaves], dtype=np.float32), draws[-1]


class LaneRollout:
    """`fly(weights, episodes, steps)`, or with `stored_steps` `gradient(weights, episodes,
    total_bar, end_bar)`.

    Weights are one row of values, W₁, b₁, W₂, … (`LayerSizes`), episodes are columns (size, N).
    """

    def __init__(
        self,
        functions: StepFunctions,
        sizes: Sequence[int],
        stored_steps: int = 0,
        dtype: str = "float32",
        fast_math: bool = True,
        hidden: str = "tanh",
        integrator: str = "rk4",
        output: str = "tanh",
    ) -> None:
        self.functions, self.layers, self.stored_steps, self.dtype = (
            functions,
            LayerSizes(tuple(sizes)),
            stored_steps,
            np.dtype(dtype),
        )
        self.width = vector_width(dtype)
        self._passes = RolloutPasses(
            functions, self.layers, self.width, bool(stored_steps), (hidden, output), integrator
        )
        loops = (self._passes.forward_loop(), *(self._passes.backward_loops() if stored_steps else ()))
        self._code = compile_loops(loops, dtype, fast_math)
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._code.address)
        self._constant = [k for k in range(functions.size) if k not in set(functions.varying_leaves)]
        self._thread_buffers: list[_ThreadBuffers] = []

    def fly(self, weights: Array, episodes: Array, steps: int) -> RolloutResult:
        """Fly all drones for `steps` steps."""
        if self.stored_steps:
            raise ValueError("a rollout that stores its steps is for gradients; expected one that does not")
        return self._run_tiles(weights, episodes, steps, None, None).result

    def gradient(self, weights: Array, episodes: Array, total_bar: Array, end_bar: Array | None = None) -> Gradient:
        """Fly all drones forward and backward."""
        bars = np.zeros(episodes.shape, self.dtype) if end_bar is None else end_bar
        return self._run_tiles(weights, episodes, self.stored_steps, total_bar, bars)

    def _run_tiles(
        self, weights: Array, episodes: Array, steps: int, total_bar: Array | None, end_bar: Array | None
    ) -> Gradient:
        """Run the compiled loops on tiles of drones, shared by threads."""
        n = episodes.shape[1]
        tiles = -(-n // self.width)
        varying, constant = list(self.functions.varying_leaves), self._constant
        m, c = self._tile_rows(episodes[varying], tiles), self._tile_rows(episodes[constant], tiles)
        bars = None
        if total_bar is not None and end_bar is not None:
            bars = self._tile_rows(end_bar[varying], tiles), self._tile_rows(np.asarray(total_bar)[None], tiles)
            if n % self.width:  # padding lanes of the last tile contribute nothing
                for bar in bars:
                    bar[-1, :, n % self.width :] = 0.0
        total, lost = (np.zeros((tiles, 1, self.width), self.dtype) for _ in range(2))
        gradients = np.empty((tiles, self.layers.weight_count if bars else 0), self.dtype)
        threads = min(tiles, parallel_task_count(tiles * steps * INSTRUCTIONS_PER_STEP))
        while len(self._thread_buffers) < threads:
            self._thread_buffers.append(
                _ThreadBuffers(self._passes.buffers, self._code, self.layers, self.stored_steps, self.dtype)
            )

        def run_tiles(memory: "_ThreadBuffers", first: int, last: int) -> None:
            memory["w"][:] = weights
            for tile in range(first, last):
                memory["m"][0], memory["c"][0] = m[tile], c[tile]
                memory["total"][0] = memory["lost"][0] = 0.0
                if bars:
                    memory["m_bar"][0], memory["r_bar"][0] = bars[0][tile], bars[1][tile]
                self._run(memory.table, steps)
                m[tile], total[tile], lost[tile] = memory["m"][-1], memory["total"][0], memory["lost"][0]
                if bars:
                    gradients[tile], bars[0][tile] = memory["g"], memory["m_bar"][0]

        bounds = [tiles * i // threads for i in range(threads + 1)]
        run_parallel(
            [
                partial(run_tiles, *arguments)
                for arguments in zip(self._thread_buffers, bounds, bounds[1:], strict=False)
            ]
        )
        end, start = episodes.astype(self.dtype), np.zeros(episodes.shape, self.dtype)
        end[varying] = self._untile_rows(m, n)
        if bars:
            start[varying] = self._untile_rows(bars[0], n)
        ending = self._untile_rows(lost, n)[0]
        result = RolloutResult(self._untile_rows(total, n)[0], end, ending == LOST, ending == SUCCEEDED)
        return Gradient(result, gradients.sum(axis=0), start)

    def _tile_rows(self, rows: Array, tiles: int) -> Array:
        """Convert (numbers, N) to (tiles, numbers, width); the last tile is padded with copies of its first drone."""
        padded = np.empty((len(rows), tiles * self.width), self.dtype)
        n = rows.shape[1]
        padded[:, :n] = rows
        padded[:, n:] = padded[:, (tiles - 1) * self.width : (tiles - 1) * self.width + 1]
        return np.ascontiguousarray(padded.reshape(len(rows), tiles, self.width).transpose(1, 0, 2))

    def _untile_rows(self, tiles: Array, n: int) -> Array:
        return tiles.transpose(1, 0, 2).reshape(tiles.shape[1], -1)[:, :n]


class _ThreadBuffers:
    """The buffers of one tile of drones, for one thread."""

    def __init__(
        self, buffers: dict[str, BufferSpec], code: CompiledLoops, layers: LayerSizes, steps: int, dtype: np.dtype[Any]
    ) -> None:
        self._arrays = {
            "w": _aligned_zeros((layers.weight_count,), dtype),
            "g": _aligned_zeros((layers.weight_count,), dtype),
        }
        for name, spec in buffers.items():
            copies = steps + (name == "m") if spec.each_step else 1
            self._arrays[name] = _aligned_zeros((copies, spec.rows, spec.width), dtype)
        addresses = [self._arrays[name].ctypes.data for name in code.names]
        self._table = np.array(addresses, dtype=np.int64)
        self.table = int(self._table.ctypes.data)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]


def _aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any], alignment: int = 64) -> Array:
    """Return zeros aligned to a cache line."""
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + alignment, np.uint8)
    first = -raw.ctypes.data % alignment
    return raw[first : first + size].view(dtype).reshape(shape)


def layer_sizes(weights: Layers) -> tuple[int, ...]:
    """Return the sizes of the layers, from the observation to the action."""
    return np.shape(weights[0][0])[1], *(len(bias) for _, bias in weights)


def flatten_weights(weights: Weights, dtype: DTypeLike = np.float32) -> Array:
    """Flatten (W, b) of each layer to one row of values."""
    return np.concatenate([np.asarray(leaf, dtype).ravel() for leaf in flatten(weights)])


def unflatten_weights(row: Array, sizes: Sequence[int]) -> Layers:
    """Split one row of values into (W, b) of each layer."""
    offsets = LayerSizes(tuple(sizes)).offsets
    return tuple(
        (row[weights:bias].reshape(rows, columns), row[bias : bias + rows])
        for (weights, bias), (columns, rows) in zip(offsets, pairwise(sizes), strict=True)
    )
