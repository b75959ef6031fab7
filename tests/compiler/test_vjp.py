"""`samara.compile(...).vjp`: the slopes of one number by all that led to it, by differences, by JAX and by tangents."""

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


def alike(found, again):
    """The same bits, of all that came back"""
    return rows(found[:2]).tobytes() == rows(again[:2]).tobytes() and all(
        rows(tuple(a)).tobytes() == rows(tuple(b)).tobytes()
        for a, b in ((found.commands, again.commands), (found.vehicle.values(), again.vehicle.values()))
    )


class There(Flight):
    """Three drones that tumble, and cotangents of where they are after every step"""

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
        """dL along the direction, by L(e) of central differences, each with an error of e⁶: (4 D(e) − D(2e)) / 3 twice"""

        def difference(e):
            return np.einsum("kcn,ckn->", self.bars, (self.rollout(e) - self.rollout(-e))) / (2 * e)

        e = 1e-4
        d = [difference(k * e) for k in (1, 2, 4)]
        first = [(4 * d[i] - d[i + 1]) / 3 for i in range(2)]
        return (16 * first[0] - first[1]) / 15

    def by_jax(self):
        """The cotangents of the first step by `jax.vjp`"""
        step, numbers = self.first_step()
        back = jax.vjp(step, *numbers)[1]
        return [np.array(group) for group in back(wide(self.bars[0]))]


@pytest.mark.parametrize("group", ["rotors", *(pytest.param(name, marks=pytest.mark.long) for name in (*GROUPS,)[1:])])
def test_cotangents_through_every_effect(group):
    """dL = x̄·dx + ū·du + h̄·dh is that of differences and of the tangent; one step is JAX's; and drone 1 alone has its bits"""
    there = There(group)
    found = there.back()
    assert rows(found.final).tobytes() == there.rollout()[:, -1].tobytes()
    of_held = rows((found.environment, *found.vehicle.values()))
    terms = rows(found.state) * there.d_state, found.commands * there.d_commands, of_held * there.d_held[:, None]
    slope, size = (sum(float(f(own).sum()) for own in terms) for f in (np.asarray, np.abs))
    assert abs(slope - there.slope()) <= 1e-9 * size
    tangents = rows(there.tangent().d_states)[:, 0]
    assert abs(slope - np.einsum("kcn,ckn->", there.bars, tangents)) <= 1e-12 * size

    one = there.sim.vjp(
        unflatten(there.shapes[0], iter(there.state)),
        there.commands[:1],
        unflatten(there.shapes[0], iter(there.bars[0])),
        DT,
        there.shapes[1],
    )
    by_state, by_held, by_command = there.by_jax()
    of_held = rows((one.environment, *one.vehicle.values()))
    for own, expected in ((rows(one.state), by_state), (of_held, by_held[1:]), (one.commands[0], by_command)):
        assert np.abs(own - expected).max() <= 1e-9 * np.abs(expected).max()

    alone = there.back(drones=slice(1, 2))
    assert rows(alone.state).tobytes() == rows(found.state)[:, 1:2].tobytes()
    assert alone.commands.tobytes() == found.commands[..., 1:2].tobytes()


def test_numpy_plays_the_same_program():
    """To rounding: on the way there NumPy computes what is written, and machine code what CasADi has made of it"""
    there = There("rotors")
    by_numpy = compile(there.sim.vehicle, "numpy", integrator="euler", vary=there.sim.vary)
    found, expected = there.back(by_numpy), there.back()
    for own, other in zip(found[:3], expected[:3], strict=True):
        size = np.abs(rows(tuple(other))).max()
        assert np.abs(rows(tuple(own)) - rows(tuple(other))).max() <= 1e-12 * size
    assert np.abs(rows((*found.vehicle.values(),)) / rows((*expected.vehicle.values(),)) - 1.0).max() <= 1e-9


def test_on_the_ground_and_above_it():
    """The quiet way through a step is taken there, and the whole one back: with the tangent's slope, on the ground and above"""
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


def test_in_stretches_that_are_flown_twice_nothing_changes(monkeypatch):
    state, commands = tumbling(CRAZYFLIE, 9)
    bar = unflatten(state, iter(np.random.default_rng(2).normal(size=(len(flatten(state)), 9))))
    sim = compile(CRAZYFLIE, integrator="euler", vary=("mass",))
    whole = sim.vjp(state, commands, bar, DT)
    for kept in (1, 60_000):  # a step at a time, and several
        monkeypatch.setattr(reverse, "RETAINED", kept)
        assert alike(whole, sim.vjp(state, commands, bar, DT))


def test_one_drone_in_plain_numbers():
    """The height after a tenth of a second, by the mass: −½ t² g / m of what hovers, as its thrust is held"""
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
    ("changes", "said"),
    [
        ({"cotangent": (1.0, 2.0)}, "cotangent has 2 numbers; expected"),
        ({"cotangent": "long"}, r"cotangent\[0\] has shape \(5,\); expected"),
        ({"cotangent": "bad"}, r"cotangent\[0\] is nan; expected finite numbers"),
        ({"cotangents": "long"}, r"cotangents\[0\] has shape \(5,\); expected \(\) or \(2,\)"),
        ({"record_every": 0}, "record_every is 0"),
    ],
)
def test_what_does_not_fit_is_named(changes, said):
    state, command = samara.hover(CRAZYFLIE)
    made = {
        "long": unflatten(state, iter([np.ones(5)] * len(flatten(state)))),
        "bad": unflatten(state, iter([np.nan] * len(flatten(state)))),
    }
    given = {"cotangent": state, **{k: made.get(v, v) if isinstance(v, str) else v for k, v in changes.items()}}
    with pytest.raises(ValueError, match=said):
        compile(CRAZYFLIE).vjp(state, np.tile(command, (20, 1)), dt=DT, **given)


def test_controllers_and_other_backends_are_refused():
    state, command = samara.hover(CRAZYFLIE)
    for sim in (compile(CRAZYFLIE, "jax"), compile(CRAZYFLIE, controller=geometric(CRAZYFLIE))):
        with pytest.raises(ValueError, match="expected backend 'llvm' or 'numpy', and commands"):
            sim.vjp(state, [command], state)
