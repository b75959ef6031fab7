"""A rollout and its adjoint as one GPU kernel each, with the policy inside.

A program of the kernel flies a block of drones for all steps. Their state stays in registers; the network's layers are
products of tiles on tensor cores, which exchange rows with the registers through memory private to this program. In the
backward pass the adjoint of a step is JAX's, of the same functions; each stage starts from the state stored in the forward
pass, and the gradients of the weights are summed in registers until the last step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from samara.compiler.jax.arrays import Launch, triton_options
from samara.compiler.jax.folding_scalar import select_constant
from samara.core.integrate import RUNGE_KUTTA_INTEGRATORS, StageChain, find_integrator, stage_chain
from samara.core.quantity import Scalar
from samara.learn.policies import RELU, TANH, Layers

if TYPE_CHECKING:
    from samara.learn.jax.rollout import FlatStep, RolloutFunction, Rows

MIN_TILE_ROWS = 16  # of tensor cores
LAUNCH = Launch(block=32, warps=2)
Reference: TypeAlias = Scalar
"""An array in memory, inside a kernel."""


def rollout_kernel(
    functions: FlatStep,
    steps: int,
    launch: Launch = LAUNCH,
    interpret: bool | None = None,
    hidden: str = TANH,
    integrator: str = "rk4",
) -> RolloutFunction:
    """Fly `steps` actions of all drones, a multiple of the block; differentiable by the weights and the start.

    On a GPU tanh is approximated to 11 bits and products round their factors to 11 bits, which is enough for training.
    """
    in_interpreter = jax.default_backend() == "cpu" if interpret is None else interpret
    chain = stage_chain(find_integrator(integrator, RUNGE_KUTTA_INTEGRATORS).tableau)
    kernels = _Kernels(functions, steps, launch, in_interpreter, hidden, chain)

    @jax.custom_vjp
    def rollout(weights: Layers, episodes: Array) -> tuple[Array, Array]:
        total, end, _ = kernels.forward(weights, episodes)
        return total, end

    def forward(weights: Layers, episodes: Array) -> tuple[tuple[Array, Array], tuple[Layers, list[Array]]]:
        total, end, stored = kernels.forward(weights, episodes)
        return (total, end), (weights, stored)

    def backward(residual: tuple[Layers, list[Array]], cotangents: tuple[Array, Array]) -> tuple[Layers, Array]:
        return kernels.backward(*residual, *cotangents)

    rollout.defvjp(forward, backward)
    return rollout


@dataclass(frozen=True)
class _Kernels:
    """Both kernels for a fixed count of steps, and the arrays between them."""

    functions: FlatStep
    steps: int
    launch: Launch
    interpret: bool
    hidden: str
    chain: StageChain

    @property
    def stages(self) -> int:
        return len(self.chain.weights)

    def forward(self, weights: Layers, episodes: Array) -> tuple[Array, Array, list[Array]]:
        """Return rewards, final episodes, and the inputs of the backward pass: episodes, stage states and layer columns."""
        functions, (matrices, biases), n = self.functions, weight_tiles(weights), episodes.shape[1]
        if n % self.launch.block:
            raise ValueError(f"{n} drones; expected a multiple of {self.launch.block}")
        widths = [matrices[0].shape[1], *(matrix.shape[0] for matrix in matrices)]
        states = _array_spec(self.steps * functions.substeps, self.stages + 1, functions.state_size, n)
        stored = [
            _array_spec(self.steps, functions.size, n),
            states,
            *(_array_spec(self.steps, width, n) for width in widths),
        ]
        results = [_array_spec(n), _array_spec(functions.size, n), *stored]
        total, end, *stored = self._call(partial(self._forward, len(matrices)), results, "rollout")(
            episodes, *matrices, *biases
        )
        return total, end, stored

    def backward(self, weights: Layers, stored: list[Array], total_bar: Array, end_bar: Array) -> tuple[Layers, Array]:
        """Return the cotangents of the weights and of the start."""
        (matrices, biases), n = weight_tiles(weights), end_bar.shape[1]
        programs, layers = n // self.launch.block, len(matrices)
        sums = [_array_spec(programs, *tile.shape) for tile in (*matrices, *biases)]
        rows = [_array_spec(self.steps, width, n) for width in (matrices[-1].shape[0], matrices[0].shape[1])]
        results = [_array_spec(self.functions.size, n), *sums, *rows]
        start_bar, *sums = self._call(partial(self._backward, layers), results, "adjoint")(
            end_bar, total_bar, *stored, *matrices
        )
        totals = [tile.sum(0) for tile in sums[: 2 * layers]]
        gradients = tuple(
            (by_matrix[: matrix.shape[0], : matrix.shape[1]], by_bias[: len(bias), 0])
            for (matrix, bias), by_matrix, by_bias in zip(weights, totals[:layers], totals[layers:], strict=True)
        )
        return gradients, start_bar

    def _call(self, kernel: Callable[..., None], results: list[Array], name: str) -> Callable[..., list[Array]]:
        grid = (results[0].shape[-1] // self.launch.block,)
        options = {} if self.interpret else triton_options(self.launch)
        return pl.pallas_call(kernel, grid=grid, out_shape=results, interpret=self.interpret, name=name, **options)

    @property
    def _drones(self) -> Scalar:
        return pl.ds(pl.program_id(0) * self.launch.block, self.launch.block)

    # Forward ------------------------------------------------------------------------------------------------------------

    def _forward(self, layers: int, episodes: Reference, *references: Reference) -> None:
        functions, drones = self.functions, self._drones
        matrices, biases = ([tile[:, :] for tile in references[k * layers : (k + 1) * layers]] for k in range(2))
        total_out, end, stored, stages, *tiles = references[2 * layers :]

        def step(t: Scalar, carry: tuple[Rows, Scalar]) -> tuple[Rows, Scalar]:
            episode, total = carry
            _store(stored, (t,), drones, episode)
            _store(tiles[0], (t,), drones, functions.observe(episode))
            self._wait()
            x = _tile(tiles[0], t, drones, functions.observation_size)
            for k, (matrix, bias, tile) in enumerate(zip(matrices, biases, tiles[1:], strict=True)):
                x = _product(matrix, x) + bias
                x = jnp.maximum(x, 0.0) if self._is_relu(k, layers) else self._tanh(x)
                tile[t, :, drones] = x
            self._wait()
            action = _load(tiles[-1], (t,), drones, functions.action_size)
            state = episode[: functions.state_size]
            for k in range(functions.substeps):
                save = partial(_store, stages, drones=drones)
                state = self._integrate(state, episode, action, save, t * functions.substeps + k)
            episode, reward, _ = functions.complete_step(state, episode, action)
            return episode, total + reward

        first = _load(episodes, (), drones, functions.size)
        last, total = _loop(self.steps, step, (first, jnp.zeros_like(first[0])))
        _store(end, (), drones, last)
        total_out[drones] = total

    def _integrate(self, state: Rows, episode: Rows, action: Rows, save: Callable[..., None], substep: Scalar) -> Rows:
        """Integrate one physics step as a loop over the stages of the integrator, which save their states."""
        command = self.functions.command([*state, *episode[self.functions.state_size :]], action)

        def stage(i: Scalar, carry: tuple[Rows, Rows]) -> tuple[Rows, Rows]:
            z, total = carry
            save((substep, i), rows=z)
            slopes = self.functions.derivative(z, command, episode)
            ahead, weight = self._factors(i)
            z = [x + ahead * k for x, k in zip(state, slopes, strict=True)]
            return z, [x + weight * k for x, k in zip(total, slopes, strict=True)]

        _, total = _loop(self.stages, stage, (state, state))
        save((substep, self.stages), rows=total)
        return self.functions.normalize(total)

    # Backward -----------------------------------------------------------------------------------------------------------

    def _backward(self, layers: int, end_bar: Reference, total_bar: Reference, *references: Reference) -> None:
        functions, drones = self.functions, self._drones
        stored, stages, *tiles = references[: 3 + layers]
        matrices = [tile[:, :] for tile in references[3 + layers : 3 + 2 * layers]]
        start_bar, *results = references[3 + 2 * layers :]
        sums, (action_rows, observation_rows) = results[: 2 * layers], results[2 * layers :]
        reward_bar = total_bar[drones]

        def step(i: Scalar, carry: tuple[Rows, list[Scalar]]) -> tuple[Rows, list[Scalar]]:
            episode_bar, gradients = carry
            t = self.steps - 1 - i
            episode = _load(stored, (t,), drones, functions.size)
            action = _load(tiles[-1], (t,), drones, functions.action_size)
            load = partial(_load, stages, drones=drones, count=functions.state_size)
            before_bar, action_bar = self._transpose_step(episode, action, load, t, episode_bar, reward_bar)
            _store(action_rows, (t,), drones, action_bar)
            self._wait()
            bar, by_matrix, by_bias = _tile(action_rows, t, drones, functions.action_size), [], []
            for k in range(layers - 1, -1, -1):
                y = tiles[k + 1][t, :, drones]
                x = tiles[k][t, :, drones] if k else _tile(tiles[0], t, drones, functions.observation_size)
                bar = jnp.where(y > 0.0, bar, 0.0) if self._is_relu(k, layers) else bar * (1.0 - y * y)
                by_matrix.append(_product(bar, x.T))
                by_bias.append(bar.sum(1, keepdims=True))
                bar = _product(matrices[k].T, bar)
            observation_rows[t, :, drones] = bar
            self._wait()
            observation_bar = _load(observation_rows, (t,), drones, functions.observation_size)
            _, pullback = jax.vjp(
                lambda varying: functions.observe(self._replace_varying(episode, varying)), self._varying_rows(episode)
            )
            before_bar = _sum(
                before_bar,
                self._replace_varying([jnp.zeros_like(reward_bar)] * functions.size, *pullback(observation_bar)),
            )
            return before_bar, _sum(gradients, [*by_matrix[::-1], *by_bias[::-1]])

        zeros = [jnp.zeros(tile.shape[1:], jnp.float32) for tile in sums]
        first, gradients = _loop(self.steps, step, (_load(end_bar, (), drones, functions.size), zeros))
        _store(start_bar, (), drones, first)
        for tile, gradient in zip(sums, gradients, strict=True):
            tile[pl.program_id(0), :, :] = gradient

    def _transpose_step(
        self, episode: Rows, action: Rows, load: Callable[..., Rows], t: Scalar, episode_bar: Rows, reward_bar: Scalar
    ) -> tuple[Rows, Rows]:
        """Return the cotangents of an episode and an action, from those of the next episode and of the reward."""
        functions, state = self.functions, self.functions.state_size

        def conclude(total: Rows, varying: Rows, action: Rows) -> tuple[Rows, Scalar]:
            next_episode, reward, _ = functions.complete_step(
                functions.normalize(total), self._replace_varying(episode, varying), action
            )
            return self._varying_rows(next_episode), reward

        last = t * functions.substeps + functions.substeps - 1
        total = load((last, self.stages))
        _, pullback = jax.vjp(conclude, total, self._varying_rows(episode), action)
        total_bar, moving_bar, action_bar = pullback((self._varying_rows(episode_bar), reward_bar))
        for k in range(functions.substeps - 1, -1, -1):
            substep = t * functions.substeps + k
            if k < functions.substeps - 1:
                _, pullback = jax.vjp(functions.normalize, load((substep, self.stages)))
                (total_bar,) = pullback(total_bar)
            rows_at_substep = [*load((substep, 0)), *episode[state:]]

            def compute_command(varying: Rows, action: Rows, rows_at_substep: Rows = rows_at_substep) -> Rows:
                return functions.command(self._replace_varying(rows_at_substep, varying), action)

            command, pullback = jax.vjp(compute_command, self._varying_rows(rows_at_substep), action)
            start_bar, command_bar = self._transpose_integration(command, episode, load, substep, total_bar)
            by_moving, by_action = pullback(command_bar)
            total_bar = _sum(start_bar, by_moving[:state])
            moving_bar = [*moving_bar[:state], *_sum(moving_bar[state:], by_moving[state:])]
            action_bar = _sum(action_bar, by_action)
        previous_bar = self._replace_varying([jnp.zeros_like(reward_bar)] * functions.size, moving_bar)
        return [*_sum(previous_bar[:state], total_bar), *previous_bar[state:]], action_bar

    def _transpose_integration(
        self, command: Rows, episode: Rows, load: Callable[..., Rows], substep: Scalar, total_bar: Rows
    ) -> tuple[Rows, Rows]:
        """k̄ᵢ = dt (bᵢ x̄' + aᵢ₊₁ z̄ᵢ₊₁),  z̄ᵢ = f_zᵀ k̄ᵢ,  x̄ = x̄' + Σ z̄ᵢ,  ū = Σ f_uᵀ k̄ᵢ: from the last stage to the first"""

        def stage(j: Scalar, carry: tuple[Rows, Rows, Rows]) -> tuple[Rows, Rows, Rows]:
            z_bar, start_bar, command_bar = carry
            i = self.stages - 1 - j
            ahead, weight = self._factors(i)
            slope_bar = [weight * a + ahead * b for a, b in zip(total_bar, z_bar, strict=True)]
            _, pullback = jax.vjp(lambda z, u: self.functions.derivative(z, u, episode), load((substep, i)), command)
            z_bar, by_command = pullback(slope_bar)
            return z_bar, _sum(start_bar, z_bar), _sum(command_bar, by_command)

        zero = jnp.zeros_like(total_bar[0])
        carry = [zero] * self.functions.state_size, total_bar, [zero] * len(command)
        _, start_bar, command_bar = _loop(self.stages, stage, carry)
        return start_bar, command_bar

    # Both ---------------------------------------------------------------------------------------------------------------

    def _factors(self, i: Scalar) -> tuple[Scalar, Scalar]:
        """Return dt aᵢ₊₁ and dt bᵢ of a stage."""
        ahead, weight = (
            select_constant(i, row, jnp.float32) * self.functions.dt
            for row in (self.chain.next_coefficients, self.chain.weights)
        )
        return ahead, weight

    def _varying_rows(self, episode: Rows) -> Rows:
        """Return the rows that change within an episode."""
        return [episode[k] for k in self.functions.varying_leaves]

    def _replace_varying(self, episode: Rows, varying: Rows) -> Rows:
        """Return the episode with its varying rows replaced."""
        rows = dict(zip(self.functions.varying_leaves, varying, strict=True))
        return [rows.get(k, x) for k, x in enumerate(episode)]

    def _is_relu(self, k: int, layers: int) -> bool:
        return self.hidden == RELU and k < layers - 1

    def _tanh(self, x: Array) -> Array:
        return jnp.tanh(x) if self.interpret else triton.approx_tanh(x)

    def _wait(self) -> None:
        """Wait until all threads of the program have stored the values that others load."""
        if not self.interpret:
            triton.debug_barrier()


# Tiles --------------------------------------------------------------------------------------------------------------


def weight_tiles(weights: Layers) -> tuple[list[Array], list[Array]]:
    """Return the matrices and the biases of the layers, zero-padded to powers of two."""

    def pad(x: Array, *shape: int) -> Array:
        return jnp.pad(x, [(0, size - length) for size, length in zip(shape, x.shape, strict=True)])

    sizes = [tuple(tile_rows(size) for size in matrix.shape) for matrix, _ in weights]
    matrices = [pad(matrix, *size) for (matrix, _), size in zip(weights, sizes, strict=True)]
    return matrices, [pad(bias[:, None], rows, 1) for (_, bias), (rows, _) in zip(weights, sizes, strict=True)]


def tile_rows(size: int) -> int:
    """Return the rows of a tile: a power of two."""
    return max(MIN_TILE_ROWS, 1 << (size - 1).bit_length())


def _tile(reference: Reference, t: Scalar, drones: Scalar, rows: int) -> Array:
    """Load all rows at once, 0 in those that are not written."""
    tile = reference[t, :, drones]
    return jnp.where(lax.broadcasted_iota(jnp.int32, tile.shape, 0) < rows, tile, 0.0)


# One load and one store in a loop for all rows, as in `samara.compiler.jax.scan`: unrolled, the kernels compile in 14 s
# instead of 3, and run no faster.


def _store(reference: Reference, indices: tuple[Scalar, ...], drones: Scalar, rows: Rows) -> None:
    def rotate(i: Scalar, rows: Rows) -> Rows:
        reference[(*indices, i, drones)] = rows[0]
        return [*rows[1:], rows[0]]

    _loop(len(rows), rotate, list(rows))


def _load(reference: Reference, indices: tuple[Scalar, ...], drones: Scalar, count: int) -> Rows:
    zeros = [jnp.zeros(drones.size, jnp.float32)] * count
    return list(_loop(count, lambda i, rows: [*rows[1:], reference[(*indices, i, drones)]], zeros))


def _sum(a: Rows, b: Rows) -> Rows:
    return [x + y for x, y in zip(a, b, strict=True)]


def _product(a: Array, b: Array) -> Array:
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def _loop(times: int, body: Callable[..., Scalar], carry: Scalar) -> Scalar:
    return lax.fori_loop(np.int32(0), np.int32(times), body, carry)


def _array_spec(*shape: int) -> Scalar:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
