"""A policy flown there and back in machine code: the passes of a loop over steps, for as many drones as a vector has lanes.

    there   o = observe(m),  a = π(o),  u = command(z₁, a),  kᵢ = rate(zᵢ, u),  zᵢ₊₁ = z₁ + aᵢ dt kᵢ,  t = z₁ + dt Σ bᵢ kᵢ,
            z' = t / |q|,  m' = after(z', m, a)
    back    each of them transposed, from the last to the first (`samara.compiler.derivatives.reverse`):
            k̄ᵢ = dt (bᵢ t̄ + aᵢ z̄ᵢ₊₁),  z̄ᵢ = rate_zᵀ k̄ᵢ,  z̄ = t̄ + Σ z̄ᵢ,  ū = Σ rate_uᵀ k̄ᵢ

m are the numbers of an episode that change within it, c those that do not. Every number has its place in memory
(`Memory`), as many of them as a vector has lanes side by side; what the way back needs has one for every step.
"""

from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

from samara.compiler.derivatives.reverse import adjoint_of
from samara.compiler.llvm.array_loop import ArraySpec, Loop, Pass, Step
from samara.compiler.llvm.network_gradient import Dense, DenseBack, DenseGradient
from samara.compiler.trace.program import Program, program_of
from samara.core.integrate import RUNGE_KUTTA, chain_of, integrator_named, unit_quaternions
from samara.core.ops import where
from samara.core.tree import flatten, unflatten
from samara.learn.episode import StepFunctions

DONE, LOST = 0.5, 1.0  # how an episode has ended: by success, or otherwise

Traced = tuple[Program, list[int]]
"""A program, and the sizes of its groups of inputs"""


class Room(NamedTuple):
    """So many numbers, once for all steps or with places of their own for each"""

    name: str
    numbers: int
    width: int
    each_step: bool = False

    def array(self, first: int = 0, count: int | None = None, ahead: bool = False) -> ArraySpec:
        """Some of the numbers; `ahead` of them by a step"""
        length = self.numbers * self.width if self.each_step else 0
        last = self.numbers if count is None else first + count
        places = tuple(self.width * own + ahead * length for own in range(first, last))
        return ArraySpec(self.name, places, length, 1)


class LayerSizes(NamedTuple):
    """Sizes from the observation to the action; weights are one row of numbers: W₁, b₁, W₂, …"""

    sizes: tuple[int, ...]

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Where the weights and the bias of each layer begin"""
        found, at = [], 0
        for columns, rows in pairwise(self.sizes):
            found.append((at, at + rows * columns))
            at += rows * (columns + 1)
        return found

    @property
    def numbers(self) -> int:
        return sum(rows * (columns + 1) for columns, rows in pairwise(self.sizes))


class Passes:
    """The loops of a rollout and where their numbers are; with `kept` states there can be a way back."""

    def __init__(
        self,
        functions: StepFunctions,
        layers: LayerSizes,
        width: int,
        kept: bool,
        hidden: str = "tanh",
        integrator: str = "rk4",
    ) -> None:
        self.functions, self.layers, self.width, self.kept = functions, layers, width, kept
        self.chain = chain_of(integrator_named(integrator, RUNGE_KUTTA).tableau)
        self.stages = len(self.chain.weights)
        self.rooms: dict[str, Room] = {}
        self.activations = [*[hidden] * (len(layers.sizes) - 2), "tanh"]
        state, command = len(flatten(functions.state)), len(functions.setting.craft.command)
        self.state, self.command, self.action = state, command, len(functions.action)
        self.moving, self.constant = len(functions.varying), functions.size - len(functions.varying)
        self.m, self.c = self._kept("m", self.moving), self._room("c", self.constant)
        self.u = self._kept("u", functions.substeps * command)
        self.z = self._kept("z", functions.substeps * (self.stages + 1) * state)
        self.k, self.z_after = self._room("k", self.stages * state), self._kept("z_after", state)
        self.total, self.lost = self._room("total", 1), self._room("lost", 1)
        self.columns = [self._kept(f"column{i}", size) for i, size in enumerate(layers.sizes)]

    def _room(self, name: str, numbers: int) -> Room:
        self.rooms[name] = Room(name, numbers, self.width)
        return self.rooms[name]

    def _kept(self, name: str, numbers: int) -> Room:
        self.rooms[name] = Room(name, numbers, self.width, self.kept)
        return self.rooms[name]

    # There ------------------------------------------------------------------------------------------------------------

    def there(self) -> Loop:
        """All steps, from the first to the last"""
        m, c, a = self.m.array(), self.c.array(), self.columns[-1].array()
        passes: list[Step] = [self._pass(self.observe, (m, c), (self.columns[0].array(),))]
        for k, ((weights, bias), x, y) in enumerate(
            zip(self.layers.offsets, self.columns, self.columns[1:], strict=False)
        ):
            rows, columns = self.layers.sizes[k + 1], self.layers.sizes[k]
            own = (ArraySpec("w", (weights,)), ArraySpec("w", (bias,)), x.array(), y.array())
            passes.append(Dense(*own, rows, columns, self.width, self.activations[k]))
        rest = self.m.array(self.state)
        for s in range(self.functions.substeps):
            start = self._z(s, 0)
            passes.append(
                self._pass(self.copy, (self.m.array(0, self.state) if s == 0 else self.z_after.array(),), (start,))
            )
            passes.append(self._pass(self.commanded, (start, rest, c, a), (self._u(s),)))
            for i in range(self.stages):
                passes.append(self._pass(self.rate, (self._z(s, i), self._u(s), c), (self._k(i),)))
                if i + 1 < self.stages:
                    passes.append(self._pass(self.ahead[i], (start, self._k(i)), (self._z(s, i + 1),)))
            slopes = tuple(self._k(i) for i in range(self.stages))
            passes.append(self._pass(self.summed, (start, *slopes), (self._z(s, self.stages),)))
            passes.append(self._pass(self.unit, (self._z(s, self.stages),), (self.z_after.array(),)))
        given = self.z_after.array(), m, c, a, self.total.array(), self.lost.array()
        passes.append(self._pass(self.after, given, (self.m.array(ahead=True), self.total.array(), self.lost.array())))
        return Loop(tuple(passes))

    # Back -------------------------------------------------------------------------------------------------------------

    def back(self) -> tuple[Loop, Loop]:
        """All steps, from the last to the first; and then the gradients of the weights"""
        state, m, c, a = self.state, self.m.array(), self.c.array(), self.columns[-1].array()
        m_bar, before_bar, seen_bar = (self._room(name, self.moving) for name in ("m_bar", "before_bar", "seen_bar"))
        z_bar, t_bar, by_command, k_bar = (
            self._room(name, state) for name in ("z_bar", "t_bar", "by_command", "k_bar")
        )
        z_bars, u_bars = self._room("z_bars", self.stages * state), self._room("u_bars", self.stages * self.command)
        u_bar, r_bar = self._room("u_bar", self.command), self._room("r_bar", 1)
        a_bar, by_action = self._room("a_bar", self.action), self._room("by_action", self.action)
        rest_bar = self._room("rest_bar", self.moving - state)
        rest, before_rest = self.m.array(state), before_bar.array(state)
        passes: list[Step] = [
            self._pass(
                self._adjoint(self.after_alone, 0, 1, 3),
                (self.z_after.array(), m, c, a, m_bar.array(), r_bar.array()),
                (z_bar.array(), before_bar.array(), a_bar.array()),
            )
        ]
        for s in range(self.functions.substeps - 1, -1, -1):
            total = self._z(s, self.stages)
            passes.append(self._pass(self._adjoint(self.unit, 0), (total, z_bar.array()), (t_bar.array(),)))
            for i in range(self.stages - 1, -1, -1):
                z_own, u_own = z_bars.array(i * state, state), u_bars.array(i * self.command, self.command)
                later = z_bars.array((i + 1) * state, state) if i + 1 < self.stages else t_bar.array()
                passes.append(self._pass(self.pulled[i], (t_bar.array(), later), (k_bar.array(),)))
                given = self._z(s, i), self._u(s), c, k_bar.array()
                passes.append(self._pass(self._adjoint(self.rate, 0, 1), given, (z_own, u_own)))
            every = tuple(u_bars.array(i * self.command, self.command) for i in range(self.stages))
            passes.append(self._pass(_sum(self.command, self.stages), every, (u_bar.array(),)))
            commanded = self._z(s, 0), rest, c, a, u_bar.array()
            found = by_command.array(), rest_bar.array(), by_action.array()
            passes.append(self._pass(self._adjoint(self.commanded, 0, 1, 3), commanded, found))
            each = tuple(z_bars.array(i * state, state) for i in range(self.stages))
            passes.append(self._pass(_sum(state, self.stages + 2), (t_bar.array(), *each, found[0]), (z_bar.array(),)))
            passes.append(self._pass(_sum(self.moving - state, 2), (before_rest, found[1]), (before_rest,)))
            passes.append(self._pass(_sum(self.action, 2), (a_bar.array(), found[2]), (a_bar.array(),)))
        passes += self._network_back(a_bar)
        seen = self.columns_bar[0].array()
        passes.append(self._pass(self._adjoint(self.observe, 0), (m, c, seen), (seen_bar.array(),)))
        first = before_bar.array(0, state), z_bar.array(), seen_bar.array(0, state)
        passes.append(self._pass(_sum(state, 3), first, (m_bar.array(0, state),)))
        passes.append(
            self._pass(_sum(self.moving - state, 2), (before_rest, seen_bar.array(state)), (m_bar.array(state),))
        )
        return Loop(tuple(passes), reverse=True), Loop(tuple(self._gradients()), at="end")

    def _network_back(self, a_bar: Room) -> list[Step]:
        sizes, layers = self.layers.sizes, len(self.layers.offsets)
        self.columns_bar = [self._room(f"column_bar{i}", sizes[i]) for i in range(layers)] + [a_bar]
        self.before_tanh = [self._kept(f"before_tanh{i}", sizes[i + 1]) for i in range(layers)]
        return [
            DenseBack(
                ArraySpec("w", (self.layers.offsets[i][0],)),
                self.columns[i + 1].array(),
                self.columns_bar[i + 1].array(),
                self.before_tanh[i].array(),
                self.columns_bar[i].array(),
                sizes[i + 1],
                sizes[i],
                self.width,
                self.activations[i],
            )
            for i in range(layers - 1, -1, -1)
        ]

    def _gradients(self) -> list[Step]:
        sizes = self.layers.sizes
        return [
            DenseGradient(
                self.columns[i].array(),
                self.before_tanh[i].array(),
                ArraySpec("g", (weights,)),
                ArraySpec("g", (bias,)),
                sizes[i + 1],
                sizes[i],
                self.width,
            )
            for i, (weights, bias) in enumerate(self.layers.offsets)
        ]

    # Programs ---------------------------------------------------------------------------------------------------------

    def _traced(self, function: Callable[..., Any], *groups: str) -> Traced:
        own = {"z": self.state, "m": self.moving, "rest": self.moving - self.state, "c": self.constant}
        own |= {"u": self.command, "a": self.action, "one": 1}
        sizes = [own[name] for name in groups]
        return program_of(function, *((0.0,) * size for size in sizes)), sizes

    def _episode(self, m: Any, c: Any) -> Any:
        moving, constant = iter(m), iter(c)
        inside = set(self.functions.varying)
        leaves = [next(moving) if k in inside else next(constant) for k in range(self.functions.size)]
        return unflatten(self.functions.episode, iter(leaves))

    def _moving_of(self, episode: Any) -> tuple[Any, ...]:
        leaves = flatten(episode)
        return tuple(leaves[k] for k in self.functions.varying)

    @cached_property
    def observe(self) -> Traced:
        return self._traced(lambda m, c: (self.functions.observe(self._episode(m, c)),), "m", "c")

    @cached_property
    def commanded(self) -> Traced:
        def commanded(z: Any, rest: Any, c: Any, a: Any) -> Any:
            return (tuple(self.functions.command(self._episode((*z, *rest), c), a)),)

        return self._traced(commanded, "z", "rest", "c", "a")

    @cached_property
    def rate(self) -> Traced:
        def rate(z: Any, u: Any, c: Any) -> Any:
            still = flatten(self.functions.episode)
            episode = self._episode([still[k] for k in self.functions.varying], c)
            return (self.functions.derivative(unflatten(self.functions.state, iter(z)), tuple(u), episode),)

        return self._traced(rate, "z", "u", "c")

    @cached_property
    def unit(self) -> Traced:
        return self._traced(lambda z: (unit_quaternions(unflatten(self.functions.state, iter(z))),), "z")

    @cached_property
    def copy(self) -> Traced:
        return self._traced(lambda z: (z,), "z")

    @cached_property
    def ahead(self) -> list[Traced]:
        def ahead(factor: float, x: Any, k: Any) -> Any:
            return (tuple(own + factor * slope for own, slope in zip(x, k, strict=True)),)

        return [
            self._traced(partial(ahead, self.functions.dt * self.chain.ahead[i]), "z", "z")
            for i in range(self.stages - 1)
        ]

    @cached_property
    def summed(self) -> Traced:
        def summed(x: Any, *slopes: Any) -> Any:
            weights = [self.functions.dt * own for own in self.chain.weights]
            return (
                tuple(
                    own + sum(w * k for w, k in zip(weights, ks, strict=True))
                    for own, *ks in zip(x, *slopes, strict=True)
                ),
            )

        return self._traced(summed, *["z"] * (1 + self.stages))

    @cached_property
    def pulled(self) -> list[Traced]:
        """k̄ᵢ of t̄ and z̄ᵢ₊₁; the last stage leans on nobody"""

        def pulled(weight: float, factor: float, t_bar: Any, z_bar: Any) -> Any:
            return (tuple(weight * t + (factor * z if factor else 0.0) for t, z in zip(t_bar, z_bar, strict=True)),)

        dt = self.functions.dt
        factors = [(dt * weight, dt * own) for weight, own in zip(*self.chain, strict=True)]
        return [self._traced(partial(pulled, *own), "z", "z") for i, own in enumerate(factors)]

    @cached_property
    def after(self) -> Traced:
        def after(z: Any, m: Any, c: Any, a: Any, total: Any, lost: Any) -> Any:
            state, episode = unflatten(self.functions.state, iter(z)), self._episode(m, c)
            later, reward, over = self.functions.conclude(state, episode, tuple(a))
            ended = where(over, where(self.functions.is_success(later), DONE, LOST), 0.0)
            return self._moving_of(later), (total[0] + reward,), (where(lost[0] > 0.0, lost[0], ended),)

        return self._traced(after, "z", "m", "c", "a", "one", "one")

    @cached_property
    def after_alone(self) -> Traced:
        def after(z: Any, m: Any, c: Any, a: Any) -> Any:
            later, reward, _ = self.functions.conclude(
                unflatten(self.functions.state, iter(z)), self._episode(m, c), tuple(a)
            )
            return self._moving_of(later), (reward,)

        return self._traced(after, "z", "m", "c", "a")

    def _adjoint(self, program: Traced, *wanted: int) -> Traced:
        own, sizes = program
        return adjoint_of(own, sizes, wanted), sizes

    def _pass(self, program: Traced, inputs: tuple[ArraySpec, ...], outputs: tuple[ArraySpec, ...]) -> Pass:
        return Pass(program[0], inputs, outputs, self.width, apart=True)

    def _z(self, substep: int, stage: int) -> ArraySpec:
        return self.z.array((substep * (self.stages + 1) + stage) * self.state, self.state)

    def _u(self, substep: int) -> ArraySpec:
        return self.u.array(substep * self.command, self.command)

    def _k(self, stage: int) -> ArraySpec:
        return self.k.array(stage * self.state, self.state)


def _sum(numbers: int, count: int) -> Traced:
    """Σ of so many groups"""
    template = (0.0,) * numbers
    program = program_of(
        lambda *groups: (tuple(sum(own[1:], own[0]) for own in zip(*groups, strict=True)),), *[template] * count
    )
    return program, [numbers] * count
