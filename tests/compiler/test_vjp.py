"""`samara.compile(...).vjp`: the gradient of one number by all inputs, by differences, by JAX and by tangents."""

import jax
import numpy as np
import pytest
from compiler.test_tangent import CRAZYFLIE, DT, GROUPS, Flight, tumbling, wide

import samara
from samara.compiler.derivatives import reverse
from samara.compiler.simulator import compile
from samara.control.geometric import geometric
from samara.core.tree import flatten, unflatten


def rows(tree):
    return np.array(flatten(tree))


def is_bit_identical(first, second):
    """Whether two pullbacks have the same bits."""
    return rows(first[:2]).tobytes() == rows(second[:2]).tobytes() and all(
        rows(tuple(a)).tobytes() == rows(tuple(b)).tobytes()
        for a, b in ((first.commands, second.commands), (first.vehicle.values(), second.vehicle.values()))
    )


class CotangentFlight(Flight):
    """Three drones that tumble, and cotangents of their states after every step."""

    def __init__(self, group):
        super().__init__(group)
        rng = np.random.default_rng(11)
        size = np.maximum(np.abs(self.rollout()).max(axis=(1, 2)), 0.1)
        self.bars = rng.normal(size=(3, len(size), 3)) / size[:, None]  # (steps, components, drones)

    def back(self, sim=None, drones=slice(None)):
        state, environment, _ = self.shapes
        after, at_end = self.bars[..., drones].copy(), self.bars[-1][:, drones]
        after[-1] = 0.0
        return (sim or self.sim).vjp(
            unflatten(state, iter(self.state[:, drones])),
            self.commands[..., drones],
            unflatten(state, iter(at_end)),
            DT,
            environment,
            cotangents=unflatten(state, iter(after.transpose(1, 0, 2))),
            record_every=1,
        )

    def slope(self):
        """dL along the direction, by L(e) of central differences, each with an error of e⁶: (4 D(e) − D(2e)) / 3 twice."""

        def difference(e):
            return np.einsum("kcn,ckn->", self.bars, (self.rollout(e) - self.rollout(-e))) / (2 * e)

        e = 1e-4
        d = [difference(k * e) for k in (1, 2, 4)]
        first = [(4 * d[i] - d[i + 1]) / 3 for i in range(2)]
        return (16 * first[0] - first[1]) / 15

    def by_jax(self):
        """The cotangents of the first step by `jax.vjp`."""
        step, numbers = self.first_step()
        back = jax.vjp(step, *numbers)[1]
        return [np.array(group) for group in back(wide(self.bars[0]))]


@pytest.mark.parametrize("group", ["rotors", *(pytest.param(name, marks=pytest.mark.long) for name in (*GROUPS,)[1:])])
def test_cotangents_through_every_effect(group):
    """dL = x̄·dx + ū·du + h̄·dh is that of differences and of the tangent; one step is JAX's; and drone 1 alone has its bits."""
    flight = CotangentFlight(group)
    pullback = flight.back()
    assert rows(pullback.final).tobytes() == flight.rollout()[:, -1].tobytes()
    held_bars = rows((pullback.environment, *pullback.vehicle.values()))
    terms = (
        rows(pullback.state) * flight.d_state,
        pullback.commands * flight.d_commands,
        held_bars * flight.d_held[:, None],
    )
    slope, size = (sum(float(f(term).sum()) for term in terms) for f in (np.asarray, np.abs))
    assert abs(slope - flight.slope()) <= 1e-9 * size
    tangents = rows(flight.tangent().d_states)[:, 0]
    assert abs(slope - np.einsum("kcn,ckn->", flight.bars, tangents)) <= 1e-12 * size

    one_step = flight.sim.vjp(
        unflatten(flight.shapes[0], iter(flight.state)),
        flight.commands[:1],
        unflatten(flight.shapes[0], iter(flight.bars[0])),
        DT,
        flight.shapes[1],
    )
    jax_state, jax_held, jax_command = flight.by_jax()
    held_bars = rows((one_step.environment, *one_step.vehicle.values()))
    for term, expected in (
        (rows(one_step.state), jax_state),
        (held_bars, jax_held[1:]),
        (one_step.commands[0], jax_command),
    ):
        assert np.abs(term - expected).max() <= 1e-9 * np.abs(expected).max()

    single = flight.back(drones=slice(1, 2))
    assert rows(single.state).tobytes() == rows(pullback.state)[:, 1:2].tobytes()
    assert single.commands.tobytes() == pullback.commands[..., 1:2].tobytes()


def test_numpy_evaluates_the_same_program():
    """To rounding: forward, NumPy computes the source as written, and machine code the simplified trace."""
    flight = CotangentFlight("rotors")
    by_numpy = compile(flight.sim.vehicle, "numpy", integrator="euler", vary=flight.sim.vary)
    result, expected = flight.back(by_numpy), flight.back()
    for bars, expected_bars in zip(result[:3], expected[:3], strict=True):
        size = np.abs(rows(tuple(expected_bars))).max()
        assert np.abs(rows(tuple(bars)) - rows(tuple(expected_bars))).max() <= 1e-12 * size
    assert np.abs(rows((*result.vehicle.values(),)) / rows((*expected.vehicle.values(),)) - 1.0).max() <= 1e-9


def test_on_the_ground_and_above_it():
    """Forward takes the idle path, backward the full body: with the tangent's slope, on the ground and above."""
    vehicle = samara.vehicle("crazyflie")
    sim, (state, command) = compile(vehicle, integrator="euler"), samara.hover(vehicle, (0.0, 0.0, 0.1))
    n, rng = 17, np.random.default_rng(5)
    state = unflatten(state, iter(x + 0.01 * rng.normal(size=n) for x in flatten(state)))
    state = state._replace(p_W=state.p_W._replace(z=np.linspace(-0.001, 0.5, n)))
    d_state, bar = (unflatten(state, iter(rng.normal(size=(len(flatten(state)), n)))) for _ in range(2))
    commands = np.tile(command, (20, 1))
    moved = sim.rollout_tangent(state, commands, DT, d_state=d_state, record_every=20)
    back = sim.vjp(state, commands, bar, DT)
    forwards = (rows(bar) * rows(moved.d_final)[:, 0]).sum(axis=0)
    backwards = (rows(back.state) * rows(d_state)).sum(axis=0)
    size = (np.abs(rows(bar) * rows(moved.d_final)[:, 0]) + np.abs(rows(back.state) * rows(d_state))).sum(axis=0)
    assert (np.abs(forwards - backwards) <= 1e-12 * size).all()
    assert back.commands.shape == (20, 4, n) and back.environment is None and back.vehicle == {}


def test_recomputed_segments_change_nothing(monkeypatch):
    state, commands = tumbling(CRAZYFLIE, 9)
    bar = unflatten(state, iter(np.random.default_rng(2).normal(size=(len(flatten(state)), 9))))
    sim = compile(CRAZYFLIE, integrator="euler", vary=("mass",))
    expected = sim.vjp(state, commands, bar, DT)
    for retained_bytes in (1, 60_000):  # a step at a time, and several
        monkeypatch.setattr(reverse, "MAX_CHECKPOINT_BYTES", retained_bytes)
        assert is_bit_identical(expected, sim.vjp(state, commands, bar, DT))


def test_one_drone_in_plain_numbers():
    """The height after a tenth of a second, by the mass: −½ t² g / m at hover under constant thrust."""
    sim = compile(CRAZYFLIE.without_effect("drag") if CRAZYFLIE.has("drag") else CRAZYFLIE, vary=("mass",))
    state, command = samara.hover(sim.vehicle)
    nothing = unflatten(state, iter([0.0] * len(flatten(state))))
    up = nothing._replace(p_W=nothing.p_W._replace(z=1.0))
    back = sim.vjp(state, np.tile(command, (100, 1)), up, 1e-3)
    assert isinstance(back.state.p_W.z, float) and back.state.p_W.z == pytest.approx(1.0, rel=1e-9)
    assert back.state.v_W.z == pytest.approx(0.1, rel=2e-2)
    assert back.commands.shape == (100, 4)
    assert back.vehicle["mass"] == pytest.approx(-0.5 * 0.1**2 * 9.81 / sim.vehicle.mass, rel=2e-2)
    none = sim.vjp(state, np.empty((0, 4)), up, 1e-3)
    assert none.final == state and none.state == up


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cotangent": (1.0, 2.0)}, "cotangent has 2 numbers; expected"),
        ({"cotangent": "long"}, r"cotangent\[0\] has shape \(5,\); expected"),
        ({"cotangent": "bad"}, r"cotangent\[0\] is nan; expected finite numbers"),
        ({"cotangents": "long"}, r"cotangents\[0\] has shape \(5,\); expected \(\) or \(2,\)"),
        ({"record_every": 0}, "record_every is 0"),
    ],
)
def test_invalid_arguments_are_named(changes, message):
    state, command = samara.hover(CRAZYFLIE)
    values = {
        "long": unflatten(state, iter([np.ones(5)] * len(flatten(state)))),
        "bad": unflatten(state, iter([np.nan] * len(flatten(state)))),
    }
    arguments = {"cotangent": state, **{k: values.get(v, v) if isinstance(v, str) else v for k, v in changes.items()}}
    with pytest.raises(ValueError, match=message):
        compile(CRAZYFLIE).vjp(state, np.tile(command, (20, 1)), dt=DT, **arguments)


def test_controllers_and_other_backends_are_refused():
    state, command = samara.hover(CRAZYFLIE)
    for sim in (compile(CRAZYFLIE, "jax"), compile(CRAZYFLIE, controller=geometric(CRAZYFLIE))):
        with pytest.raises(ValueError, match="expected backend 'llvm' or 'numpy', and commands"):
            sim.vjp(state, [command], state)
