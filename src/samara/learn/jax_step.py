"""The step of an episode (`samara.learn.episode`) in JAX, on arrays with one entry for each drone.

    functions = flat_step(setting)                                        # for trainers that differentiate a step
    rows, reward, terminated = functions.step(rows, action)

    batch = EpisodeBatch(setting)                                         # for those that only run it
    episodes = batch.reset(key, 4096)                                     # episodes.rows (size, 4096)
    episodes, transition = batch.step(episodes, actions, noise, fresh)    # actions (size, 4096)

Components are rows, drones are columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from samara.control.depth_observation import BLOCKS, nearness
from samara.core.integrate import RUNGE_KUTTA, chain_of, integrator_named, unit_quaternions
from samara.core.optional_dependencies import MissingExtraError
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.learn.env_config import Setting
from samara.learn.episode import (
    Integration,
    StepFunctions,
    fly,
    reset,
    reset_draws,
    step,
    step_draws,
    templates,
)
from samara.learn.task import Draw, Sight, Situation, Tree

try:
    import jax
    import jax.numpy as jnp
    from jax import Array, lax
    from jax.ad_checkpoint import checkpoint_name
except ImportError as error:
    raise MissingExtraError("samara.learn.jax_step needs JAX: pip install 'samara[jax]'") from error

from samara.compiler.jax.arrays import Launch, Operand, call_kernel, load_rows, store_rows
from samara.compiler.jax.folding_scalar import folded, new_trace, unfolded
from samara.compiler.rk_stage_loop import rolled
from samara.sensors.depth_jax import depth_images

MAX_EPISODE_SUM = 1e18  # Σ|x| of an episode above which, or where it is NaN, the drone is lost and starts again
LAUNCH = Launch(128, 4)
IMAGE = "image"  # name under which images are stored for the way back

Rows = list[Scalar]
"""Arrays with one entry for each drone"""


def rolled_integrator(name: str = "rk4") -> Callable[..., Scalar]:
    """A Runge–Kutta method as a loop over its stages: for RK4 a quarter of the code to compile"""
    return partial(rolled, chain_of(integrator_named(name, RUNGE_KUTTA).tableau))


ROLLED_RK4 = rolled_integrator()


# For trainers that differentiate a step -------------------------------------------------------------------------------


class FlatStep(NamedTuple):
    """The functions of `StepFunctions` on flat lists of arrays, each traced by itself, and the sizes of the lists"""

    reset: Callable[[Sequence[Scalar]], Rows]
    observe: Callable[[Sequence[Scalar]], Rows]
    step: Callable[[Sequence[Scalar], Sequence[Scalar]], tuple[Rows, Scalar, Scalar]]
    command: Callable[[Sequence[Scalar], Sequence[Scalar]], Rows]
    derivative: Callable[[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]], Rows]
    conclude: Callable[[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]], tuple[Rows, Scalar, Scalar]]
    normalize: Callable[[Sequence[Scalar]], Rows]
    is_terminated: Callable[[Sequence[Scalar]], Rows]
    draws: tuple[str, ...]
    state: int
    varying: tuple[int, ...]
    size: int
    observations: int
    actions: int
    dt: float
    substeps: int


def flat_step(setting: Setting, integrator: Integration = ROLLED_RK4) -> FlatStep:
    """The functions of a setting with one drone and without sensors, whose step uses an integrator"""
    scalar = StepFunctions(setting)
    episode, state, action, camera = scalar.episode, scalar.state, scalar.action, setting.task.sight
    conclude = _flat(scalar.conclude, state, episode, action)
    step_rows = _flat(partial(scalar.step, integrator=integrator), episode, action)
    observe, size = _flat(scalar.observe, episode), len(flatten(state))
    if camera is not None:
        substep = _flat(partial(fly, setting=setting, integrator=integrator, substeps=1), episode, action)
        observe_state = observe

        def observe(rows: Sequence[Scalar]) -> Rows:
            return [*observe_state(rows), *depth_image(camera, unflatten(episode, iter(rows)).situation)]

        def step_rows(rows: Sequence[Scalar], action: Sequence[Scalar]) -> Rows:
            """The physics in a loop: its code is compiled once, not for each of many substeps"""

            @jax.checkpoint
            def once(now: Array, _: None) -> tuple[Array, None]:
                return jnp.stack(substep([*now, *rows[size:]], list(action))), None

            flown, _ = lax.scan(once, jnp.stack(list(rows[:size])), None, length=scalar.substeps)
            return conclude(list(flown), rows, action)

    return FlatStep(
        reset=_flat(scalar.reset, (0.0,) * max(1, len(scalar.draws))),  # at least one input, to infer the batch size
        observe=observe,
        step=lambda *groups: _split(step_rows(*groups)),
        command=_flat(scalar.command, episode, action),
        derivative=_flat(scalar.derivative, state, tuple(setting.craft.command), episode),
        conclude=lambda *groups: _split(conclude(*groups)),
        normalize=_flat(unit_quaternions, state),
        is_terminated=_flat(lambda episode: (scalar.is_terminated(episode),), episode),
        draws=scalar.draws,
        state=size,
        varying=scalar.varying,
        size=scalar.size,
        observations=scalar.observations + (0 if camera is None else BLOCKS),
        actions=len(action),
        dt=scalar.dt,
        substeps=scalar.substeps,
    )


def depth_image(sight: Sight, situation: Situation) -> Array:
    """Render the image blocks that a policy observes, (96, N), for N drones above flat ground at z = 0, each in its own world

    No gradient goes back through an image.
    """
    state, goal = lax.stop_gradient((situation.state, situation.goal))
    images = depth_images(state, sight.solids(goal), sight.camera)
    return checkpoint_name(nearness(images, sight.camera.farthest).T, IMAGE)  # type: ignore[no-untyped-call]


def _flat(function: Callable[..., Scalar], *templates: Tree) -> Callable[..., Rows]:
    """A function of trees of scalars as one of lists of arrays, all of one shape and type"""

    def flat(*groups: Sequence[Scalar]) -> Rows:
        first = groups[0][0]
        trace = new_trace(first.dtype, True)
        trees = (folded(template, list(rows), trace) for template, rows in zip(templates, groups, strict=True))
        return _fill(unfolded(function(*trees)), first.shape, first.dtype)

    return flat


def _split(rows: Rows) -> tuple[Rows, Scalar, Scalar]:
    return rows[:-2], rows[-2], rows[-1]


def _fill(leaves: list[Scalar], shape: tuple[int, ...], dtype: object = jnp.float32) -> Rows:
    return [jnp.broadcast_to(lax.convert_element_type(x, dtype), shape) for x in leaves]


# For those that only run it -------------------------------------------------------------------------------------------


class Episodes(NamedTuple):
    """Episodes (components, N), the number of steps since each began (N,), and their observations"""

    rows: Array
    age: Array
    observation: Array


class BatchTransition(NamedTuple):
    """The result of a step: `final_observation` is that at its end, before a new episode begins"""

    final_observation: Array
    reward: Array
    terminated: Array
    ended: Array


@dataclass(frozen=True)
class EpisodeBatch:
    """`reset` and `step` of N drones in float32; a step is one elementwise computation, or with `kernel` one Triton kernel

    Where an episode ends, the drone continues from its `fresh` start: starts are drawn once for many steps, as a GPU
    takes longer for random numbers than for the flight. `interpret` runs the kernel without a GPU.
    """

    setting: Setting
    kernel: bool = False
    interpret: bool = False

    @property
    def observations(self) -> int:
        """The size of an observation"""
        return len(templates(self.setting)[1])

    def reset(self, key: Array, count: int) -> Episodes:
        """New episodes"""
        trace = new_trace(jnp.dtype("float32"))
        drawn = self.draw(key, reset_draws(self.setting), count)
        numbers = folded((0.0,) * len(drawn), list(drawn), trace)
        rows, observation = (
            jnp.stack(_fill(unfolded(tree), (count,))) for tree in reset(Draw(iter(numbers)), self.setting)
        )
        return Episodes(rows, jnp.zeros(count, jnp.float32), observation)

    def noise(self, key: Array, steps: int, count: int) -> Array:
        """The random numbers of the sensors in a number of steps: (steps, kinds, N)"""
        kinds = step_draws(self.setting)
        if not kinds:
            return jnp.zeros((steps, 0, count), jnp.float32)
        return jax.vmap(lambda key: self.draw(key, kinds, count))(jax.random.split(key, steps))

    @staticmethod
    def draw(key: Array, kinds: tuple[str, ...], count: int) -> Array:
        """A random number of each kind for each drone: (kinds, N)"""
        words = jax.random.split(key)
        numbers = {"uniform": iter(jax.random.uniform(words[0], (kinds.count("uniform"), count), jnp.float32))}
        numbers["normal"] = iter(jax.random.normal(words[1], (kinds.count("normal"), count), jnp.float32))
        return jnp.stack([next(numbers[kind]) for kind in kinds])

    def step(
        self, episodes: Episodes, actions: Array, noise: Array, fresh: Episodes
    ) -> tuple[Episodes, BatchTransition]:
        """One period under the actions"""
        actions = actions.astype(jnp.float32)
        inputs = (episodes.rows, episodes.age[None], actions, noise, fresh.rows, fresh.observation)
        if self.kernel:
            rows = self._in_kernel([x for x in inputs if x.shape[0]])
        else:
            rows = jnp.stack(self._step_rows([row for x in inputs for row in x]))
        c, o = len(episodes.rows), self.observations
        cuts = (c, c + 1, c + 1 + o, c + 1 + 2 * o)
        now, age, observation, final, (reward, terminated, ended) = jnp.split(rows, cuts)
        return Episodes(now, age[0], observation), BatchTransition(final, reward, terminated, ended)

    def _step_rows(self, inputs: list[Scalar]) -> Rows:
        shape, rest = jnp.shape(inputs[0]), iter(inputs)
        template, _ = templates(self.setting)
        size = len(flatten(template))
        sizes = (size, 1, self.setting.actions, len(step_draws(self.setting)), size, self.observations)
        now, (age,), action, noise, fresh, at_start = ([next(rest) for _ in range(count)] for count in sizes)
        trace = new_trace(jnp.dtype("float32"))
        episode = folded(template, now, trace)
        folded_action = folded((0.0,) * len(action), action, trace)
        draw = Draw(iter(folded((0.0,) * len(noise), noise, trace)))
        after, (observed, *outcome) = step(episode, folded_action, draw, self.setting, ROLLED_RK4)
        rows, final, (reward, terminated) = (_fill(unfolded(tree), shape) for tree in (after, observed, tuple(outcome)))
        finite = sum((abs(x) for x in rows), jnp.zeros(shape, jnp.float32)) < MAX_EPISODE_SUM
        terminated = jnp.where(finite, terminated, 1.0)
        ended = jnp.where(age + 1.0 >= self.setting.task.steps, 1.0, terminated)
        final = [jnp.where(finite, x, 0.0) for x in final]
        continues = ended < 0.5
        return [
            *(jnp.where(continues, *pair) for pair in zip(rows, fresh, strict=True)),
            jnp.where(continues, age + 1.0, 0.0),
            *(jnp.where(continues, *pair) for pair in zip(final, at_start, strict=True)),
            *final,
            jnp.where(finite, reward, 0.0),
            terminated,
            ended,
        ]

    def _in_kernel(self, inputs: list[Scalar]) -> Array:
        count = inputs[0].shape[1]
        block = min(LAUNCH.block, 1 << (count - 1).bit_length())
        if count % block:
            raise ValueError(f"{count} drones: expected a multiple of {block}")

        def kernel(*references: Scalar) -> None:
            rows = self._step_rows([row for reference in references[:-1] for row in load_rows(reference)])
            store_rows(rows, references[-1], lambda i: (i, slice(None)))

        outputs = (inputs[0].shape[0] + 1 + 2 * self.observations + 3, count)
        return call_kernel(
            kernel,
            [Operand(x) for x in inputs],
            [outputs],
            dtype="float32",
            launch=LAUNCH._replace(block=block),
            interpret=self.interpret,
            name="step",
        )[0]
