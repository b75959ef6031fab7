"""Rollouts of a policy and their gradient, compiled for the CPU.

x₀ → x_H and Σ r of each drone:   ∂ Σ r / ∂ weights by reverse differentiation, from the states kept on the way there

As many drones as a vector has lanes fly all steps, and back, before the next ones do, so that what is kept stays in a
core's cache; threads share the drones. Every drone has the same bits whatever the others are, and gradients are summed
in the order of drones: the same numbers of any number of threads.
"""

import ctypes
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from samara.compiler.llvm.array_loop import Loops, compile_loops
from samara.compiler.llvm.codegen import vector_width
from samara.compiler.thread_pool import shares_of, side_by_side
from samara.core.random import key_of
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.learn.compiled_episode import SOURCE, random_numbers
from samara.learn.env_config import Setting, require_no_camera
from samara.learn.episode import StepFunctions
from samara.learn.gradient_training import Hyperparameters
from samara.learn.lane_passes import DONE, LOST, LayerSizes, Passes, Room
from samara.learn.optimizer import Begin, Chunk, S, Update, run_in_python
from samara.learn.policies import Layers, Weights

WORK = 20_000  # vector instructions of a step there and back, about


class Flown(NamedTuple):
    """Rewards summed over the steps (N,), episodes at the end (size, N), and whether they were over on the way (N,), by
    success or not"""

    total: Array
    end: Array
    lost: Array
    done: Array


class Gradient(NamedTuple):
    """What was flown, and the slopes of Σ total·total_bar + Σ end·end_bar by the weights, and by the start (size, N), 0 for
    what does not move within an episode"""

    flown: Flown
    weights: Array
    start: Array


class CpuRollout:
    """The `samara.learn.gradient_training.Rollout` of the CPU: weights are one row of numbers

    Random numbers have addresses (seed, update, drone), so that nothing depends on the number of threads, or on where a
    run was interrupted.
    """

    def __init__(self, setting: Setting, parameters: Hyperparameters, first: Weights | None = None) -> None:
        require_no_camera(setting)
        self.parameters, self.first, self.functions = parameters, first, StepFunctions(setting)
        self.sizes = (self.functions.observations, *parameters.hidden, len(self.functions.action))
        self.lanes = LaneRollout(
            self.functions,
            self.sizes,
            parameters.horizon,
            hidden=parameters.activation,
            integrator=parameters.integrator,
        )

    def initial(self, seed: int) -> tuple[Array, Array, Array]:
        """Weights, episodes at their start, and the seed"""
        rng = np.random.default_rng(seed)
        shapes = self.parameters.network.shapes(self.sizes[0], self.sizes[-1])
        normals = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
        weights = row_of(self.first or self.parameters.network.initial_weights(normals))
        episodes, _ = starts(self.functions, seed, self.parameters.updates, self.parameters.drones)
        return weights, episodes, np.array(seed, np.uint64)

    def restart(self, key: Array, update: Array, weights: Array) -> tuple[Array, Array, Array]:
        """The seed, new episodes, and a uniform number for each drone"""
        return key, *starts(self.functions, int(key), int(update), self.parameters.drones)

    def is_lost(self, episodes: Array) -> Array:
        """Whether each episode has ended or has values that are not finite"""
        with np.errstate(all="ignore"):
            episode = unflatten(self.functions.episode, iter(episodes.astype(float)))
            terminated = np.broadcast_to(self.functions.is_terminated(episode), episodes.shape[1])
            lost: Array = (terminated > 0.0) | ~np.isfinite(episodes).all(axis=0)
        return lost

    def gradient(self, weights: Array, episodes: Array) -> tuple[Array, Array, Array]:
        """The mean reward of a step, the gradient of its negative by the weights, and the episodes after the horizon"""
        drones, horizon = self.parameters.drones, self.parameters.horizon
        flown, gradient, _ = self.lanes.gradient(weights, episodes, np.full(drones, -1.0 / (drones * horizon)))
        return flown.total.mean() / horizon, gradient, flown.end

    def layers(self, weights: Array) -> Layers:
        """The weights as (W, b) of each layer"""
        return layers_of(weights, self.sizes)

    def compile_updates(self, begin: Begin[S], update: Update[S], size: int) -> tuple[Begin[S], Chunk[S]]:
        """Call updates one by one: what they call is compiled"""
        return run_in_python(begin, update, size)


def starts(functions: StepFunctions, seed: int, update: int, drones: int, source: str = SOURCE) -> tuple[Array, Array]:
    """Episodes at their start (size, N), and a uniform number for each"""
    keys = np.repeat(np.array(key_of(seed, source), dtype=np.uint64)[:, None], drones, axis=1)
    draws = random_numbers(keys, np.full(drones, update), np.arange(drones), (*functions.draws, "uniform"))
    leaves = flatten(functions.reset(list(draws[:-1])))
    return np.array([np.broadcast_to(x, drones) for x in leaves], dtype=np.float32), draws[-1]


class LaneRollout:
    """`fly(weights, episodes, steps)`, and with `kept` steps `gradient(weights, episodes, total_bar, end_bar)`

    Weights are one row of numbers, W₁, b₁, W₂, … (`samara.learn.lane_passes.LayerSizes`), episodes are columns (size,
    N).
    """

    def __init__(
        self,
        functions: StepFunctions,
        sizes: Sequence[int],
        kept: int = 0,
        dtype: str = "float32",
        fast: bool = True,
        hidden: str = "tanh",
        integrator: str = "rk4",
    ) -> None:
        self.functions, self.layers, self.kept, self.dtype = functions, LayerSizes(tuple(sizes)), kept, np.dtype(dtype)
        self.width = vector_width(dtype)
        self._passes = Passes(functions, self.layers, self.width, bool(kept), hidden, integrator)
        loops = (self._passes.there(), *(self._passes.back() if kept else ()))
        self._code = compile_loops(loops, dtype, fast)
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._code.address)
        self._constant = [k for k in range(functions.size) if k not in set(functions.varying)]
        self._memories: list[_Memory] = []

    def fly(self, weights: Array, episodes: Array, steps: int) -> Flown:
        """All drones, so many steps"""
        if self.kept:
            raise ValueError("a rollout that keeps its steps is for gradients; expected one that does not")
        return self._tiles(weights, episodes, steps, None, None).flown

    def gradient(self, weights: Array, episodes: Array, total_bar: Array, end_bar: Array | None = None) -> Gradient:
        """There and back"""
        bars = np.zeros(episodes.shape, self.dtype) if end_bar is None else end_bar
        return self._tiles(weights, episodes, self.kept, total_bar, bars)

    def _tiles(self, weights: Array, episodes: Array, steps: int, total_bar: Any, end_bar: Any) -> Gradient:
        n = episodes.shape[1]
        tiles = -(-n // self.width)
        moving, constant = list(self.functions.varying), self._constant
        m, c = self._in_tiles(episodes[moving], tiles), self._in_tiles(episodes[constant], tiles)
        bars = None
        if total_bar is not None:
            bars = self._in_tiles(end_bar[moving], tiles), self._in_tiles(np.asarray(total_bar)[None], tiles)
            if n % self.width:  # what fills the last tile counts for nothing
                for own in bars:
                    own[-1, :, n % self.width :] = 0.0
        total, lost = (np.zeros((tiles, 1, self.width), self.dtype) for _ in range(2))
        gradients = np.empty((tiles, self.layers.numbers if bars else 0), self.dtype)
        shares = min(tiles, shares_of(tiles * steps * WORK))
        while len(self._memories) < shares:
            self._memories.append(_Memory(self._passes.rooms, self._code, self.layers, self.kept, self.dtype))

        def part(memory: "_Memory", first: int, last: int) -> None:
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

        cuts = [tiles * i // shares for i in range(shares + 1)]
        side_by_side([partial(part, *own) for own in zip(self._memories, cuts, cuts[1:], strict=False)])
        end, start = episodes.astype(self.dtype), np.zeros(episodes.shape, self.dtype)
        end[moving] = self._in_columns(m, n)
        if bars:
            start[moving] = self._in_columns(bars[0], n)
        ended = self._in_columns(lost, n)[0]
        flown = Flown(self._in_columns(total, n)[0], end, ended == LOST, ended == DONE)
        return Gradient(flown, gradients.sum(axis=0), start)

    def _in_tiles(self, rows: Array, tiles: int) -> Array:
        """(numbers, N) as (tiles, numbers, width); what is missing of the last tile is filled with its first drone"""
        padded = np.empty((len(rows), tiles * self.width), self.dtype)
        n = rows.shape[1]
        padded[:, :n] = rows
        padded[:, n:] = padded[:, (tiles - 1) * self.width : (tiles - 1) * self.width + 1]
        return np.ascontiguousarray(padded.reshape(len(rows), tiles, self.width).transpose(1, 0, 2))

    def _in_columns(self, tiles: Array, n: int) -> Array:
        return tiles.transpose(1, 0, 2).reshape(tiles.shape[1], -1)[:, :n]


class _Memory:
    """The numbers of one tile of drones, for one thread"""

    def __init__(self, rooms: dict[str, Room], code: Loops, layers: LayerSizes, steps: int, dtype: Any) -> None:
        self._arrays = {"w": _aligned((layers.numbers,), dtype), "g": _aligned((layers.numbers,), dtype)}
        for name, own in rooms.items():
            times = steps + (name == "m") if own.each_step else 1
            self._arrays[name] = _aligned((times, own.numbers, own.width), dtype)
        addresses = [self._arrays[name].ctypes.data for name in code.names]
        self._table = np.array(addresses, dtype=np.int64)
        self.table = int(self._table.ctypes.data)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]


def _aligned(shape: tuple[int, ...], dtype: Any, to: int = 64) -> Array:
    """Zeros that begin where a line of the cache does"""
    size = int(np.prod(shape)) * dtype.itemsize
    whole = np.zeros(size + to, np.uint8)
    first = -whole.ctypes.data % to
    return whole[first : first + size].view(dtype).reshape(shape)


def sizes_of(weights: Layers) -> tuple[int, ...]:
    """The sizes of the layers, from the observation to the action"""
    return np.shape(weights[0][0])[1], *(len(bias) for _, bias in weights)


def row_of(weights: Weights, dtype: DTypeLike = np.float32) -> Array:
    """(W, b) of each layer as one row of numbers"""
    return np.concatenate([np.asarray(leaf, dtype).ravel() for leaf in flatten(weights)])


def layers_of(row: Array, sizes: Sequence[int]) -> Layers:
    """(W, b) of each layer from one row of numbers"""
    offsets = LayerSizes(tuple(sizes)).offsets
    return tuple(
        (row[weights:bias].reshape(rows, columns), row[bias : bias + rows])
        for (weights, bias), (columns, rows) in zip(offsets, pairwise(sizes), strict=True)
    )
