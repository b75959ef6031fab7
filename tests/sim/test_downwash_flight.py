"""Downwash in flight: the extra thrust of the lower of two drones, the pairs that interact, and replays."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.pairwise import sum_over_others

import samara
from samara.control.registry import CONTROLLERS
from samara.core.algebra import IDENTITY, Quat, Vec3, cross, direction, quat_from_euler, rotate
from samara.core.tree import flatten, unflatten
from samara.physics.air.atmosphere import density_at_height
from samara.physics.air.downwash import (
    DOWNWASH,
    EXTERNAL_WRENCH,
    Downwash,
    DownwashReceiver,
    Jet,
    downwash_wrench,
    rotor_jet,
    sum_wrenches,
)
from samara.physics.effect import Wrench
from samara.physics.multirotor import complete_environment, derivative, state_at_rest
from samara.physics.types import CALM, Environment
from samara.plan import trajectory
from samara.record.load import load_run
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.file import ScenarioError, parse_scenario
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.fly import fingerprint, fly
from samara.sim.replay import replay
from samara.sim.simulation import Simulation
from samara.sim.stages.downwash import DownwashGroup, downwash_wrenches, margins
from samara.wind.turbulence import Dryden

SEPARATION = 0.5
POSITIONS = ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0 + SEPARATION), (0.03, 0.02, 2.0 + SEPARATION))


def downwash_vehicle(vehicle="crazyflie_documented"):
    return samara.switch_on(samara.vehicle(vehicle), "downwash")


def stacked_scenario(places=POSITIONS[:2], *, vehicle=None, duration=1.0, drone_events=(), **options):
    drone_vehicle = downwash_vehicle() if vehicle is None else vehicle
    drones = [
        Drone(
            f"d{k}",
            drone_vehicle,
            trajectory.hover(Vec3(*p)),
            Vec3(*p),
            airborne=True,
            controller=options.get("controller", "pid"),
        )
        for k, p in enumerate(places)
    ]
    return Scenario("stack", tuple(drones), duration, events=tuple(drone_events), rates=Rates(log=50.0))


def downwash_group(vehicle, state):
    environment = np.array(flatten(complete_environment(vehicle, CALM)), dtype=float)
    return DownwashGroup(
        vehicle, np.arange(state.shape[1]), state, np.repeat(environment[:, None], state.shape[1], axis=1)
    )


def total_thrust(track):
    """Σ kF Ω² ρ(z)/ρ₀, with ρ(z)/ρ₀ = (1 − 2.25577e-5 z)^4.2559 of the standard atmosphere  [N]"""
    ratio = (1.0 - 2.25577e-5 * track.position[:, 2]) ** 4.2559
    return ratio * sum(rotor.k_thrust * track.rotor_speed[:, k] ** 2 for k, rotor in enumerate(track.vehicle.rotors))


def pushes(track, field="f_W"):
    """Return f_W [N] or τ_B [N·m] of the downwash of others, at every logged time, (m, 3)."""
    table = track.tables["environment"]
    rows = np.searchsorted(table.times_us, track.tables["state"].times_us, side="right") - 1
    return np.stack([table[f"external_wrenches[0].{field}.{axis}"] for axis in "xyz"], axis=1)[rows]


# A push ----------------------------------------------------------------------------------------------------------------


def test_a_push_moves_a_body_as_newton_and_euler_say():
    """Δv̇ = (f_W + R f_B)/m, Δω̇ = J⁻¹ τ, two wrenches add up; a vehicle without the effect feels none."""
    vehicle = samara.vehicle("iris_documented").with_effect(EXTERNAL_WRENCH)
    q_WB = quat_from_euler(0.3, -0.2, 1.0)
    state, command = state_at_rest(vehicle, Vec3(0.0, 0.0, 5.0), q_WB), (0.3,) * 4
    f_B, tau_B, f_W = Vec3(1.0, -2.0, 0.5), Vec3(0.02, 0.01, -0.03), Vec3(0.4, 0.2, -3.0)
    environment = Environment(external_wrenches=(Wrench(f_B, tau_B), Wrench(f_W=f_W)))
    calm, pushed = derivative(state, command, vehicle), derivative(state, command, vehicle, environment)
    acceleration = np.array(pushed.v_W) - np.array(calm.v_W)
    assert acceleration * vehicle.mass == pytest.approx(np.array(rotate(q_WB, f_B)) + np.array(f_W), rel=1e-12)
    inertia = np.array(vehicle.inertia_B).reshape(3, 3)
    angular_acceleration = np.array(pushed.omega_B) - np.array(calm.omega_B)
    assert inertia @ angular_acceleration == pytest.approx(np.array(tau_B), rel=1e-12)
    assert flatten(derivative(state, command, vehicle, CALM)) == flatten(calm)
    unaffected = samara.vehicle("iris_documented")
    unaffected_state = state_at_rest(unaffected, Vec3(0.0, 0.0, 5.0), q_WB)
    assert derivative(unaffected_state, command, unaffected, environment) == derivative(
        unaffected_state, command, unaffected
    )
    assert sum_wrenches(()) == Wrench()


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_compiled_code_takes_pushes_too(backend):
    vehicle = downwash_vehicle("iris_documented")
    state, command = samara.hover(vehicle)
    pushed = Environment(external_wrenches=(Wrench(f_W=Vec3(0.0, 1.0, -2.0)), Wrench(tau_B=Vec3(0.01, 0.0, 0.0))))
    fast = samara.compile(vehicle, backend=backend).step(state, command, 1e-3, environment=pushed)
    slow = samara.step(state, command, vehicle, dt=1e-3, environment=pushed)
    assert flatten(fast) == pytest.approx(flatten(slow), rel=1e-12, abs=1e-15)
    assert fast.v_W.y > 0.0 and fast.omega_B.x > 0.0


# One below another -----------------------------------------------------------------------------------------------------


def test_the_lower_drone_carries_the_force_of_the_jet():
    """ΣT = mg + 4 · ½ C_D πR² (2mg/πb²) e^{−2r²/b²},  b² = (2R)² + (k s)²: by hand, at the height where the lower settles."""
    run = fly(stacked_scenario(duration=12.0, controller="geometric"))
    lower, upper = run.drone_records
    rotor, weight = lower.vehicle.rotors[0], lower.vehicle.mass * lower.vehicle["gravity"].acceleration
    s = upper.position[-1, 2] - lower.position[-1, 2]
    b2 = (2 * rotor.radius) ** 2 + (0.113 * s) ** 2
    r2 = rotor.r_B.x**2 + rotor.r_B.y**2
    force = 4 * 0.5 * 1.17 * rotor.radius**2 * 2 * weight / b2 * math.exp(-2 * r2 / b2)
    assert s > SEPARATION + 0.05  # this controller has no integral action: it sinks until its error balances the force
    assert total_thrust(upper)[-1] == pytest.approx(weight, rel=1e-8)  # the exponent has five digits
    assert -pushes(lower)[-1, 2] == pytest.approx(force, rel=1e-4)
    assert total_thrust(lower)[-1] == pytest.approx(weight + force, rel=1e-3)
    assert 0.1 < force / weight < 0.5


def air_at(state):
    """Calm air with the standard atmosphere's density at a drone's height above sea level"""
    density = density_at_height(state.p_W.z, home_density=1.225, home_altitude=0.0)
    return CALM._replace(air_density=density)


def test_pushes_are_those_of_the_recorded_states():
    """Every tick, from the logged states by the functions of the physics, drone by drone."""
    run = fly(stacked_scenario(POSITIONS))
    for i, track in enumerate(run.drone_records):
        for row in (0, 20, 50):
            states = [
                unflatten(state_at_rest(member.vehicle), iter(member.tables["state"].rows[row].tolist()))
                for member in run.drone_records
            ]
            exposed = DownwashReceiver(states[i].p_W, states[i].q_WB)
            wrenches = [
                downwash_wrench(exposed, rotor_jet(other, track.vehicle, air_at(other)), track.vehicle, Downwash())
                for j, other in enumerate(states)
                if j != i
            ]
            expected = np.sum([list(wrench.f_W) for wrench in wrenches], axis=0)
            assert pushes(track)[row] == pytest.approx(expected, rel=1e-11, abs=1e-16)
            expected_torque = np.sum([list(wrench.tau_B) for wrench in wrenches], axis=0)
            assert pushes(track, "tau_B")[row] == pytest.approx(expected_torque, rel=1e-9, abs=1e-17)
    assert np.abs(pushes(run.drone_records[0], "tau_B")).max() > 1e-5  # the third is not quite above them


@pytest.mark.long
def test_a_single_or_upper_drone_is_unaffected():
    """The upper drone flies bit for bit as if downwash were off, and so does a single drone."""
    affected, unaffected = (
        fly(stacked_scenario(vehicle=vehicle)) for vehicle in (downwash_vehicle(), samara.vehicle("crazyflie_documented"))
    )  # fmt: skip
    assert np.array_equal(affected["d1"].position, unaffected["d1"].position)
    assert not np.array_equal(affected["d0"].position, unaffected["d0"].position)
    single = fly(stacked_scenario(POSITIONS[:1]))
    assert np.array_equal(single.position, unaffected["d0"].position)


def test_stopped_rotors_have_no_downwash():
    scenario = stacked_scenario(vehicle=downwash_vehicle("iris_documented"), duration=0.1)
    lower, upper = scenario.drones
    resting = replace(upper, airborne=False, armed=False)
    run = fly(replace(scenario, drones=(lower, resting)))
    assert np.array_equal(pushes(run.drone_records[0]), np.zeros((6, 3)))


def test_another_order_of_drones_is_the_same_flight():
    run = fly(stacked_scenario(POSITIONS))
    permuted = fly(stacked_scenario([POSITIONS[k] for k in (2, 0, 1)]))
    for index, permuted_index in ((0, 1), (1, 2), (2, 0)):
        expected, rows = (
            track.tables["state"].rows for track in (run.drone_records[index], permuted.drone_records[permuted_index])
        )
        assert rows == pytest.approx(expected, rel=1e-9, abs=1e-11)


def test_downwash_acts_on_another_vehicle_and_not_on_one_without_it():
    """An Iris above a Crazyflie of another group; the third drone has downwash off, and neither feels nor causes any."""
    places = ((0.0, 0.0, 1.0), (0.0, 0.0, 3.0), (0.0, 0.0, 2.0))
    mixed = [downwash_vehicle(), downwash_vehicle("iris_documented"), samara.vehicle("crazyflie_documented")]
    scenario = stacked_scenario(places, duration=0.1)
    drones = tuple(replace(drone, vehicle=vehicle) for drone, vehicle in zip(scenario.drones, mixed, strict=True))
    run = fly(replace(scenario, drones=drones))
    assert pushes(run.drone_records[0])[0, 2] < -0.01
    assert not pushes(run.drone_records[1]).any()
    assert "external_wrenches[0].f_W.x" not in run.drone_records[2].tables["environment"].fields
    pair = fly(replace(scenario, drones=drones[:2]))
    assert np.array_equal(pair.drone_records[0].position, run.drone_records[0].position)


def test_a_push_is_held_through_a_regrouping():
    """A payload between two ticks of the wind makes another group: the environment recorded there keeps its wrench."""
    loaded = Event(at(0.105), events.add_payload(0.002, drone="d1"))
    table = fly(stacked_scenario(duration=0.2, drone_events=[loaded])).drone_records[0].tables["environment"]
    row = table.times_us.tolist().index(105_000)
    assert table["external_wrenches[0].f_W.z"][row] == table["external_wrenches[0].f_W.z"][row - 1] < 0.0


@pytest.mark.parametrize("name", ["crazyflie", "iris", "iris_documented", "hexarotor_tilted", "octorotor_x"])
def test_compiled_jets_equal_those_of_arrays(name):
    """In any motion, and with rotors at rest: the same bits, but for the sign of a zero."""
    vehicle, n, rng = downwash_vehicle(name), 50, np.random.default_rng(4)
    state = np.repeat(np.array(flatten(samara.hover(vehicle)[0]))[:, None], n, axis=1)
    state[:6], state[6:10], state[10:13] = (rng.normal(size=(k, n)) for k in (6, 4, 3))
    state[6:10] /= np.linalg.norm(state[6:10], axis=0)
    state[13 : 13 + len(vehicle.rotors)] *= rng.uniform(0.0, 1.2, (len(vehicle.rotors), n))
    state[13 : 13 + len(vehicle.rotors), :5] = 0.0
    group = downwash_group(vehicle, state)
    environment = complete_environment(vehicle, CALM)
    expected = flatten(rotor_jet(unflatten(state_at_rest(vehicle), iter(state)), vehicle, environment))
    for jet_row, expected_row in zip(group.jets, expected, strict=True):
        assert np.array_equal(jet_row, np.broadcast_to(expected_row, n))


# Many -------------------------------------------------------------------------------------------------------------------


def test_excluded_pairs_do_not_matter():
    """Three hundred drones in a box, tilted at random: the sum over near pairs against that over all pairs."""
    vehicle, n, rng = downwash_vehicle(), 300, np.random.default_rng(1)
    state = np.repeat(np.array(flatten(samara.hover(vehicle)[0]))[:, None], n, axis=1)
    state[:3] = rng.uniform(-1.5, 1.5, (3, n))
    state[6:10] = rng.normal(size=(4, n)) + np.array([[3.0], [0.0], [0.0], [0.0]])
    state[6:10] /= np.linalg.norm(state[6:10], axis=0)
    wrenches = downwash_wrenches([downwash_group(vehicle, state)])[0]
    motion = unflatten(state_at_rest(vehicle), iter(state))
    jets = rotor_jet(motion, vehicle, CALM)
    all_pairs = sum_over_others(
        lambda exposed, jet: downwash_wrench(exposed, jet, vehicle, Downwash()),
        DownwashReceiver(motion.p_W, Quat(*state[6:10])),
        jets,
    )
    expected = np.stack([*all_pairs.f_W, *all_pairs.tau_B])
    assert (np.abs(expected) > 0.0).mean() > 0.9
    for row, expected_row in zip(wrenches, expected, strict=True):
        assert row == pytest.approx(expected_row, rel=1e-11, abs=1e-14 * np.abs(expected[:3]).max())


def test_a_small_crowd_by_a_loop_over_all_pairs_in_floats():
    """Σ of the jets of all others, drone by drone in plain Python; torques of a µN·m remain of terms of a mN·m."""
    vehicle, n, rng = downwash_vehicle(), 25, np.random.default_rng(2)
    states = [
        samara.hover(vehicle)[0]._replace(
            p_W=Vec3(*rng.uniform(-0.3, 0.3, 3).tolist()), q_WB=quat_from_euler(*rng.uniform(-0.4, 0.4, 3).tolist())
        )
        for _ in range(n)
    ]
    wrenches = downwash_wrenches([downwash_group(vehicle, np.array([flatten(state) for state in states]).T)])[0]
    jets = [rotor_jet(state, vehicle, CALM) for state in states]
    for i, state in enumerate(states):
        parts = [
            downwash_wrench(DownwashReceiver(state.p_W, state.q_WB), jet, vehicle, Downwash())
            for j, jet in enumerate(jets)
            if j != i
        ]
        expected = np.sum([flatten((part.f_W, part.tau_B)) for part in parts], axis=0)
        assert wrenches[:, i] == pytest.approx(expected, rel=1e-11, abs=1e-16)
    assert np.abs(wrenches[:3]).max() > 0.01


@pytest.mark.parametrize("spread", [0.05, 0.113, 0.3])
def test_no_drone_within_the_width_of_a_jet_is_excluded(spread):
    """A hub within h of a drone, below the rotors' plane and less than 4.5 widths from the axis is included; 8 are not."""
    rng, hub, n = np.random.default_rng(3), 0.05, 20_000
    axis = direction(Vec3(*rng.normal(size=3).tolist()))
    tangent = direction(cross(axis, Vec3(0.3, -0.2, 0.9)))
    radius, s = 0.05, rng.uniform(0.0, 8.0, n)
    r, azimuth = (
        rng.uniform(0.0, 1.0, n) * 4.5 * np.sqrt(radius**2 + (spread * s) ** 2),
        rng.uniform(0.0, 2 * math.pi, n),
    )
    hub_offset = direction(Vec3(*rng.normal(size=(3, n)))) * hub
    origin = Vec3(3.0, -2.0, 5.0)
    radial = tangent * (r * np.cos(azimuth)) + cross(axis, tangent) * (r * np.sin(azimuth))
    p_W = origin + axis * s + radial + hub_offset
    jet = Jet(origin, axis, 0.3, radius)
    for margin in margins(DownwashReceiver(p_W, IDENTITY), jet, hub, spread):
        assert (margin > -1e-12).all()
    far_W = origin + axis * s + radial * (8.0 * np.sqrt(radius**2 + (spread * s) ** 2) / r)
    assert (margins(DownwashReceiver(far_W, IDENTITY), jet, hub, spread)[1] < 0.0).all()


@pytest.mark.long
def test_a_thousand_fly_with_it():
    """Ten layers of a hundred: all stay in the air, the top layer feels nothing, those below are pushed down."""
    places = [(0.6 * (k % 10), 0.6 * (k // 10 % 10), 2.0 + 0.8 * (k // 100)) for k in range(1000)]
    run = fly(stacked_scenario(places, duration=1.0))
    forces = np.array([pushes(track)[-1, 2] for track in run.drone_records]).reshape(10, 100)
    assert not run.crashed and (forces[:9] < 0.0).all()
    assert np.abs(forces[9]).max() < 1e-6 * np.abs(forces[8]).min()


@pytest.mark.parametrize("controller", [name for name in CONTROLLERS if name != "mpc"])
def test_every_controller_flies_in_it(controller):
    run = fly(stacked_scenario(duration=2.0, controller=controller))
    assert not run.crashed and run.drone_records[0].error.max() < 0.35


@pytest.mark.long
def test_ilqr_flies_in_it():
    run = fly(stacked_scenario(duration=2.0, controller="mpc"))
    assert not run.crashed and run.drone_records[0].error.max() < 0.35


# Replay --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ["rk4", "rk45"])
def test_a_replay_needs_no_neighbours(tmp_path, integrator):
    """External wrenches are recorded with the environment: each drone replays from the file bit for bit."""
    scenario = replace(stacked_scenario(POSITIONS, duration=0.5), integrator=integrator)
    run = fly(scenario, out=tmp_path / "run.mcap")
    recorded_run = load_run(tmp_path / "run.mcap")
    assert recorded_run.drone_records[0].vehicle == downwash_vehicle()
    assert fingerprint(replay(recorded_run)) == fingerprint(run) == fingerprint(fly(scenario))


def test_a_vehicle_without_downwash_replays_the_other_inputs(tmp_path):
    """In a recording the motors' powers follow the wrenches; another vehicle reads each value by its name."""
    failing = Event(at(0.3), events.fail_motor(1, drone="d0"))
    run = fly(stacked_scenario(duration=0.4, drone_events=[failing]))
    unaffected = samara.vehicle("crazyflie_documented")
    speeds = replay(run, vehicle=unaffected).drone_records[0].tables["state"]["rotor_speed"][-1]
    assert speeds[1] < 0.1 * speeds[0]
    upper = replay(run, vehicle=unaffected).drone_records[1]
    assert np.array_equal(upper.position, run.drone_records[1].position)


# From a file ------------------------------------------------------------------------------------------------------------

TWO = """
name = "two"
duration = 0.1
{0}
[[drones]]
vehicle = "crazyflie_documented"
start = [0, 0, 1]
airborne = true
count = 2
spacing = [0, 0, 0.5]
[[drones]]
name = "block"
vehicle = "rigid_body_quadrotor"
start = [0, 0, 5]
airborne = true
{1}
"""


def vehicles(top="", bottom=""):
    return [drone.vehicle for drone in parse_scenario(TWO.format(top, bottom), "two.toml").drones]


def test_a_file_switches_it_on_for_all_that_have_rotors():
    assert not any(vehicle.has("downwash") for vehicle in vehicles()) and not vehicles("downwash = false")[0].has(
        "downwash"
    )
    first, second, block = vehicles("downwash = true")
    assert first is second and first == downwash_vehicle() and DOWNWASH in first.structure.effects
    assert block.has("downwash") == bool(block.rotors)
    parameters = vehicles(bottom="[downwash]\nspread = 0.2\nbody_area = 0.01")[0]["downwash"]
    assert parameters == Downwash(spread=0.2, body_area=0.01)


@pytest.mark.parametrize(
    ("top", "bottom", "sentence"),
    [
        ("downwash = 'yes'", "", "downwash = 'yes': expected a table"),
        ("", "[downwash]\nwidth = 1.0", "downwash.width = 1.0: expected only the keys spread, drag, body_area here"),
        ("", "[downwash]\nspread = -0.1", "downwash: crazyflie_documented: downwash.spread = -0.1"),
        ("", "[downwash]\ndrag = 'much'", "downwash.drag = 'much': expected a finite number"),
    ],
)
def test_an_error_in_the_file_is_one_sentence(top, bottom, sentence):
    with pytest.raises(ScenarioError) as caught:
        vehicles(top, bottom)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("two.toml: ")


def test_rotors_without_a_radius_are_an_error(tmp_path):
    bare = samara.vehicle("crazyflie_documented").replace({"rotors.radius": 0.0})
    samara.save_vehicle(bare, tmp_path / "bare.toml")
    text = TWO.format("downwash = true", "").replace('"crazyflie_documented"', '"bare.toml"')
    with pytest.raises(ScenarioError, match=r"two.toml: downwash: .*radius = 0.0 m: expected a positive number"):
        parse_scenario(text, "two.toml", folder=tmp_path)


def test_no_downwash_costs_nothing(monkeypatch):
    """Without downwash in a vehicle, its code is not called."""

    def fail(*_):
        raise AssertionError("downwash_on was called")

    monkeypatch.setattr("samara.sim.stages.downwash.downwash_wrenches", fail)
    simulation = Simulation(stacked_scenario(vehicle=samara.vehicle("crazyflie_documented"), duration=0.1))
    simulation.run()
    assert simulation.bus().drones[0].environment.external_wrenches == ()


def test_flights_of_a_batch_have_no_downwash_on_each_other():
    """They start at one position, each in a separate world: a gust moves them apart."""
    scenario = stacked_scenario(POSITIONS[:1], duration=0.5)
    scenario = replace(scenario, wind=Dryden(Vec3(3.0, 0.0, 0.0)))
    batch = samara.fly_many(scenario, 2)
    for flight in range(2):
        single = fly(replace(scenario, seed=scenario.seed + flight))
        assert [x[flight] for x in batch.final.p_W] == single.position[-1].tolist()
    assert batch.final.p_W.x[0] != batch.final.p_W.x[1]
