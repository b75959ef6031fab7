"""A rollout and its adjoint as one GPU kernel each, with the policy inside.

A program of the kernel flies a block of drones for all steps. Their state stays in registers; the network's layers are
products of tiles, on tensor cores, to which single rows go, and from which they come back, through memory that this
program alone uses. On the way back the adjoint of a step is JAX's, of the same functions; each of its stages starts
from where it was on the way there, and the gradients of the weights are summed in registers until the last step.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from samara.compiler.jax.arrays import Launch, triton_options
from samara.compiler.jax.folding_scalar import chosen
from samara.core.integrate import RUNGE_KUTTA, Chain, chain_of, integrator_named
from samara.learn.jax.rollout import FlatStep, RolloutFunction, Rows
from samara.learn.policies import RELU, TANH, Layers

NARROWEST = 16  # rows of a tile, for tensor cores
LAUNCH = Launch(block=32, warps=2)


class Tiles(NamedTuple):
    """Layers with room to spare: rows and columns filled up with zeros to powers of two."""

    matrices: list[Any]
    biases: list[Any]


def rollout_kernel(
    functions: FlatStep,
    steps: int,
    launch: Launch = LAUNCH,
    interpret: bool | None = None,
    hidden: str = TANH,
    integrator: str = "rk4",
) -> RolloutFunction:
    """`steps` actions of all drones, whose number is a multiple of the block; differentiable by the weights and the start

    In training tanh is the processor's own (11 bits) and products round their factors to 11 bits, as learning does not
    mind.
    """
    simulated = jax.default_backend() == "cpu" if interpret is None else interpret
    kernels = _Kernels(
        functions, steps, launch, simulated, hidden, chain_of(integrator_named(integrator, RUNGE_KUTTA).tableau)
    )

    @jax.custom_vjp
    def rollout(weights: Layers, episodes: Any) -> tuple[Any, Any]:
        total, end, _ = kernels.forward(weights, episodes)
        return total, end

    def there(weights: Layers, episodes: Any) -> tuple[Any, Any]:
        total, end, kept = kernels.forward(weights, episodes)
        return (total, end), (weights, kept)

    def back(residual: Any, cotangents: Any) -> tuple[Layers, Any]:
        weights, kept = residual
        total_bar, end_bar = cotangents
        gradients, start_bar = kernels.backward(weights, kept, end_bar, total_bar)
        return gradients, start_bar

    rollout.defvjp(there, back)
    return rollout


class _Kernels:
    """Both kernels for one number of steps, and the arrays between them."""

    def __init__(
        self, functions: FlatStep, steps: int, launch: Launch, interpret: bool, hidden: str, chain: Chain
    ) -> None:
        self.functions, self.steps, self.launch, self.interpret = functions, steps, launch, interpret
        self.hidden, self.chain = hidden, chain

    def forward(self, weights: Layers, episodes: Any) -> tuple[Any, Any, list[Any]]:
        own, tiles, n = self.functions, tiles_of(weights), episodes.shape[1]
        if n % self.launch.block:
            raise ValueError(f"{n} drones; expected a multiple of {self.launch.block}")
        widths = [tiles.matrices[0].shape[1], *(matrix.shape[0] for matrix in tiles.matrices)]
        kept = [
            _array(self.steps, own.size, n),
            _array(self.steps * own.substeps, len(self.chain.weights) + 1, own.state, n),
            *(_array(self.steps, width, n) for width in widths),
        ]
        total, end, *kept = self._call(
            partial(
                _forward,
                own,
                self.chain,
                self.steps,
                self.launch.block,
                self.interpret,
                self.hidden,
                len(tiles.matrices),
            ),
            [_array(n), _array(own.size, n), *kept],
            "rollout",
        )(episodes, *tiles.matrices, *tiles.biases)
        return total, end, kept

    def backward(self, weights: Layers, kept: list[Any], end_bar: Any, total_bar: Any) -> tuple[Layers, Any]:
        own, tiles, n = self.functions, tiles_of(weights), end_bar.shape[1]
        programs, layers = n // self.launch.block, len(tiles.matrices)
        shapes = [(programs, *each.shape) for each in (*tiles.matrices, *tiles.biases)]
        rows = [_array(self.steps, width, n) for width in (tiles.matrices[-1].shape[0], tiles.matrices[0].shape[1])]
        start_bar, *found = self._call(
            partial(_backward, own, self.chain, self.steps, self.launch.block, self.interpret, self.hidden, layers),
            [_array(own.size, n), *(_array(*shape) for shape in shapes), *rows],
            "adjoint",
        )(end_bar, total_bar, *kept, *tiles.matrices)
        summed = [each.sum(0) for each in found[: 2 * layers]]
        gradients = tuple(
            (matrix[: own.shape[0], : own.shape[1]], bias[: own.shape[0], 0])
            for (own, _), matrix, bias in zip(weights, summed[:layers], summed[layers:], strict=True)
        )
        return gradients, start_bar

    def _call(self, kernel: Any, results: list[Any], name: str) -> Any:
        options = {} if self.interpret else triton_options(self.launch)
        return pl.pallas_call(
            kernel,
            grid=(results[0].shape[-1] // self.launch.block,),
            out_shape=results,
            interpret=self.interpret,
            name=name,
            **options,
        )


def _forward(
    functions: FlatStep,
    chain: Chain,
    steps: int,
    block: int,
    interpret: bool,
    hidden: str,
    layers: int,
    episodes: Any,
    *references: Any,
) -> None:
    matrices, biases = ([own[:, :] for own in references[k * layers : (k + 1) * layers]] for k in range(2))
    total_out, end, kept, stages, *tiles = references[2 * layers :]
    drones = pl.ds(pl.program_id(0) * block, block)

    def step(t: Any, carried: tuple[Rows, Any]) -> tuple[Rows, Any]:
        episode, total = carried
        _store(kept, (t,), drones, episode)
        _store(tiles[0], (t,), drones, functions.observe(episode))
        _wait(interpret)
        x = _tile(tiles[0], t, drones, functions.observations)
        for k, (matrix, bias, tile) in enumerate(zip(matrices, biases, tiles[1:], strict=True)):
            x = _product(matrix, x) + bias
            x = jnp.maximum(x, 0.0) if hidden == RELU and k < layers - 1 else _tanh(x, interpret)
            tile[t, :, drones] = x
        _wait(interpret)
        action = _load(tiles[-1], (t,), drones, functions.actions)
        state = episode[: functions.state]
        for k in range(functions.substeps):
            keep = partial(_store, stages, drones=drones)
            state = _advanced(functions, chain, state, episode, action, keep, t * functions.substeps + k)
        episode, reward, _ = functions.conclude(state, episode, action)
        return episode, total + reward

    first = _load(episodes, (), drones, functions.size)
    last, total = _loop(steps, step, (first, jnp.zeros_like(first[0])))
    _store(end, (), drones, last)
    total_out[drones] = total


def _advanced(functions: FlatStep, chain: Chain, state: Rows, episode: Rows, action: Rows, keep: Any, at: Any) -> Rows:
    """A step as a loop over its stages, each of which leaves where it started"""
    command = functions.command([*state, *episode[functions.state :]], action)

    def stage(i: Any, carried: tuple[Rows, Rows]) -> tuple[Rows, Rows]:
        z, total = carried
        keep((at, i), rows=z)
        slopes = functions.derivative(z, command, episode)
        ahead, weight = (chosen(i, row, jnp.float32) * functions.dt for row in (chain.ahead, chain.weights))
        z = [x + ahead * k for x, k in zip(state, slopes, strict=True)]
        return z, [x + weight * k for x, k in zip(total, slopes, strict=True)]

    count = len(chain.weights)
    _, total = _loop(count, stage, (state, state))
    keep((at, count), rows=total)
    return functions.normalize(total)


def _backward(
    functions: FlatStep,
    chain: Chain,
    steps: int,
    block: int,
    interpret: bool,
    hidden: str,
    layers: int,
    end_bar: Any,
    total_bar: Any,
    *references: Any,
) -> None:
    kept, stages, *tiles = references[: 3 + layers]
    matrices = [own[:, :] for own in references[3 + layers : 3 + 2 * layers]]
    start_bar, *results = references[3 + 2 * layers :]
    sums, (action_rows, seen_rows) = results[: 2 * layers], results[2 * layers :]
    drones = pl.ds(pl.program_id(0) * block, block)
    reward_bar = total_bar[drones]

    def step(i: Any, carried: tuple[Rows, list[Any]]) -> tuple[Rows, list[Any]]:
        episode_bar, gradients = carried
        t = steps - 1 - i
        episode = _load(kept, (t,), drones, functions.size)
        action = _load(tiles[-1], (t,), drones, functions.actions)
        before_bar, action_bar = _adjoint(functions, chain, episode, action, stages, t, drones, episode_bar, reward_bar)
        _store(action_rows, (t,), drones, action_bar)
        _wait(interpret)
        bar, found = _tile(action_rows, t, drones, functions.actions), []
        for k in range(layers - 1, -1, -1):
            y = tiles[k + 1][t, :, drones]
            x = tiles[k][t, :, drones] if k else _tile(tiles[0], t, drones, functions.observations)
            bar = jnp.where(y > 0.0, bar, 0.0) if hidden == RELU and k < layers - 1 else bar * (1.0 - y * y)
            found.append((_product(bar, x.T), bar.sum(1, keepdims=True)))
            bar = _product(matrices[k].T, bar)
        seen_rows[t, :, drones] = bar
        _wait(interpret)
        seen_bar = _load(seen_rows, (t,), drones, functions.observations)
        (more,) = _pulled_back(functions, functions.observe, episode)(seen_bar)
        added = [*(matrix for matrix, _ in found[::-1]), *(bias for _, bias in found[::-1])]
        return _sum(before_bar, more), [a + b for a, b in zip(gradients, added, strict=True)]

    nothing = [jnp.zeros(own.shape[1:], jnp.float32) for own in sums]
    first, gradients = _loop(steps, step, (_load(end_bar, (), drones, functions.size), nothing))
    _store(start_bar, (), drones, first)
    for own, gradient in zip(sums, gradients, strict=True):
        own[pl.program_id(0), :, :] = gradient


def _adjoint(
    functions: FlatStep,
    chain: Chain,
    episode: Rows,
    action: Rows,
    stages: Any,
    t: Any,
    drones: Any,
    episode_bar: Rows,
    reward_bar: Any,
) -> tuple[Rows, Rows]:
    """Cotangents of an episode and an action, from those of the episode after it and of its reward"""
    last, count = t * functions.substeps + functions.substeps - 1, len(chain.weights)

    def after(total: Rows, moving: Rows, action: Rows) -> Any:
        advanced, reward, _ = functions.conclude(functions.normalize(total), _with(functions, episode, moving), action)
        return [advanced[k] for k in functions.varying], reward

    total = _load(stages, (last, count), drones, functions.state)
    _, back = jax.vjp(after, total, [episode[k] for k in functions.varying], action)
    total_bar, moving_bar, action_bar = back(([episode_bar[k] for k in functions.varying], reward_bar))
    for k in range(functions.substeps - 1, -1, -1):
        at = t * functions.substeps + k
        if k < functions.substeps - 1:
            total = _load(stages, (at, count), drones, functions.state)
            _, normalized = jax.vjp(functions.normalize, total)
            (total_bar,) = normalized(total_bar)
        here = [*_load(stages, (at, 0), drones, functions.state), *episode[functions.state :]]

        def commanded(moving: Rows, action: Rows, here: Rows = here) -> Rows:
            return functions.command(_with(functions, here, moving), action)

        command, back = jax.vjp(commanded, [here[k] for k in functions.varying], action)
        start_bar, command_bar = _advanced_adjoint(functions, chain, command, episode, stages, at, drones, total_bar)
        more, acted = back(command_bar)
        total_bar = _sum(start_bar, more[: functions.state])
        moving_bar = [*moving_bar[: functions.state], *_sum(moving_bar[functions.state :], more[functions.state :])]
        action_bar = _sum(action_bar, acted)
    own = dict(zip(functions.varying, moving_bar, strict=True))
    zero = jnp.zeros_like(reward_bar)
    before = [own.get(k, zero) for k in range(functions.size)]
    return [*_sum(before[: functions.state], total_bar), *before[functions.state :]], action_bar


def _advanced_adjoint(
    functions: FlatStep, chain: Chain, command: Rows, episode: Rows, stages: Any, at: Any, drones: Any, total_bar: Rows
) -> tuple[Rows, Rows]:
    """k̄ᵢ = dt (bᵢ x̄' + aᵢ₊₁ z̄ᵢ₊₁),  z̄ᵢ = f_zᵀ k̄ᵢ,  x̄ = x̄' + Σ z̄ᵢ,  ū = Σ f_uᵀ k̄ᵢ: from the last stage to the first"""
    nothing, count = jnp.zeros_like(total_bar[0]), len(chain.weights)

    def stage(j: Any, carried: Any) -> Any:
        z_bar, start_bar, command_bar = carried
        i = count - 1 - j
        z = _load(stages, (at, i), drones, functions.state)
        ahead, weight = (chosen(i, row, jnp.float32) * functions.dt for row in (chain.ahead, chain.weights))
        slope_bar = [weight * a + ahead * b for a, b in zip(total_bar, z_bar, strict=True)]
        _, back = jax.vjp(lambda z, u: functions.derivative(z, u, episode), z, command)
        z_bar, more = back(slope_bar)
        return z_bar, _sum(start_bar, z_bar), _sum(command_bar, more)

    _, start_bar, command_bar = _loop(count, stage, ([nothing] * functions.state, total_bar, [nothing] * len(command)))
    return start_bar, command_bar


def _with(functions: FlatStep, episode: Rows, moving: Rows) -> Rows:
    own = dict(zip(functions.varying, moving, strict=True))
    return [own.get(k, x) for k, x in enumerate(episode)]


def _pulled_back(functions: FlatStep, function: Any, episode: Rows) -> Any:
    """Cotangents of an episode from those of a function of it; 0 for what does not move"""
    _, back = jax.vjp(lambda own: function(_with(functions, episode, own)), [episode[k] for k in functions.varying])

    def all_of(bar: Rows) -> tuple[Rows]:
        own = dict(zip(functions.varying, back(bar)[0], strict=True))
        return ([own.get(k, jnp.zeros_like(bar[0])) for k in range(functions.size)],)

    return all_of


def _sum(a: Rows, b: Rows) -> Rows:
    return [x + y for x, y in zip(a, b, strict=True)]


# Tiles --------------------------------------------------------------------------------------------------------------


def tiles_of(weights: Layers) -> Tiles:
    """Every layer filled up with zeros"""

    def filled(x: Any, *shape: int) -> Any:
        return jnp.pad(x, [(0, wanted - own) for wanted, own in zip(shape, x.shape, strict=True)])

    sizes = [tuple(width(size) for size in matrix.shape) for matrix, _ in weights]
    return Tiles(
        [filled(matrix, *size) for (matrix, _), size in zip(weights, sizes, strict=True)],
        [filled(bias[:, None], rows, 1) for (_, bias), (rows, _) in zip(weights, sizes, strict=True)],
    )


def width(size: int) -> int:
    """The power of two that a tile of so many rows takes"""
    return max(NARROWEST, 1 << (size - 1).bit_length())


def _tile(reference: Any, t: Any, drones: Any, rows: int) -> Any:
    """All rows at once, 0 in those that nobody has written"""
    tile = reference[t, :, drones]
    return jnp.where(lax.broadcasted_iota(jnp.int32, tile.shape, 0) < rows, tile, 0.0)


# One load and one store in a loop for all rows, as in `samara.compiler.jax.scan`: written out, the kernels
# compile for 14 s
# instead of 3, and run no faster.


def _store(reference: Any, at: tuple[Any, ...], drones: Any, rows: Rows) -> None:
    def turn(i: Any, rows: Rows) -> Rows:
        reference[(*at, i, drones)] = rows[0]
        return [*rows[1:], rows[0]]

    _loop(len(rows), turn, list(rows))


def _load(reference: Any, at: tuple[Any, ...], drones: Any, count: int) -> Rows:
    nothing = [jnp.zeros(drones.size, jnp.float32)] * count
    return list(_loop(count, lambda i, rows: [*rows[1:], reference[(*at, i, drones)]], nothing))


def _product(a: Any, b: Any) -> Any:
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def _tanh(x: Any, interpret: bool) -> Any:
    return jnp.tanh(x) if interpret else triton.approx_tanh(x)


def _wait(interpret: bool) -> None:
    """Until all threads of the program have stored what the others load"""
    if not interpret:
        triton.debug_barrier()


def _loop(times: int, once: Any, carried: Any) -> Any:
    return lax.fori_loop(np.int32(0), np.int32(times), once, carried)


def _array(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
