"""Position-dependent winds in flight: each drone in its own, through events and regrouping, at its hubs, from a file."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samara
from samara.core.algebra import ZERO, Quat, Vec3, rotate
from samara.core.random import normals
from samara.core.tree import flatten
from samara.physics.air.atmosphere import log_law, power_law
from samara.plan import trajectory
from samara.record.load import load_run
from samara.record.run import embedded_scenario
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.file import ScenarioError, parse_scenario
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.fly import fingerprint, fly
from samara.sim.replay import replay
from samara.sim.simulation import Simulation
from samara.sim.stages.air import independent_normals
from samara.view.web.snapshot import recorded_frame, snapshot_frame, take_snapshot
from samara.wind.shear import LogLaw, PowerLaw
from samara.wind.sources import Constant, Gust, OrnsteinUhlenbeck, WindSum, evaluate_wind
from samara.wind.turbulence import Dryden, VonKarman
from samara.wind.wind_field import WindField

jax.config.update("jax_enable_x64", True)

TICK = 0.02
EVERY_TICK = Rates(log=50.0)  # the state at every tick of the wind


def flock(
    wind, heights=(2.0, 10.0, 60.0), *, duration=0.4, vehicle="crazyflie_documented", flight_events=(), **options
):
    """Drones that hover above each other."""
    model = samara.vehicle(vehicle) if isinstance(vehicle, str) else vehicle
    drones = [
        Drone(f"d{k}", model, trajectory.hover(Vec3(0.0, 0.0, z)), Vec3(0.0, 0.0, z), airborne=True)
        for k, z in enumerate(heights)
    ]
    return Scenario(
        "flock", tuple(drones), duration, wind=wind, rates=EVERY_TICK, events=tuple(flight_events), **options
    )


def expected_wind(track, wind, drone, seed):
    """The wind on one drone, from floats: its recorded positions and velocities, its own normals, tick by tick."""
    wind_state, winds = wind.initial(), []
    for tick, (p, v) in enumerate(zip(track.position.tolist(), track.velocity.tolist(), strict=True)):
        tick_normals = tuple(normals(seed, "wind", drone, tick, wind.normals_needed).tolist())
        dt = TICK if tick else math.inf
        wind_W, wind_state = evaluate_wind(wind, tick * TICK, dt, tick_normals, wind_state, Vec3(*p), Vec3(*v))
        winds.append([float(x) for x in wind_W])
    return np.array(winds)


# Local wind of each drone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wind", [Dryden(LogLaw(Vec3(6.0, 2.0, 0.0))), VonKarman(Vec3(5.0, 0.0, 0.0))])
def test_every_drone_meets_the_wind_of_its_place_with_gusts_of_its_own(wind):
    run = fly(flock(wind, seed=5))
    for drone, track in enumerate(run.drone_records):
        assert track.wind == pytest.approx(expected_wind(track, wind, drone, 5), rel=1e-12, abs=1e-12)
    gusts = np.array([track.wind[:, 2] for track in run.drone_records])
    assert np.abs(np.diff(gusts, axis=0)).max(axis=1).min() > 0.1


def test_the_wind_grows_with_height_as_the_law_says():
    run = fly(flock(PowerLaw(Vec3(4.0, -3.0, 0.0), reference_height=10.0, exponent=0.2)))
    for track in run.drone_records:
        profile = (track.position[:, 2] / 10.0) ** 0.2
        assert track.wind == pytest.approx(profile[:, None] * [4.0, -3.0, 0.0], rel=1e-13)


def test_a_wind_of_all_is_drawn_as_it_always_was():
    """Seeded winds of earlier flights do not change: the normals of drone 0 apply to all drones, for any fleet."""
    wind = WindSum((OrnsteinUhlenbeck(Vec3(3.0, 0.0, 0.0), 0.7, 1.5), Gust(Vec3(0.0, 2.0, 0.0), 0.1, 0.2)))
    run = fly(flock(wind, seed=9))
    wind_state = wind.initial()
    for tick, row in enumerate(run.wind.tolist()):
        tick_normals = tuple(normals(9, "wind", 0, tick, 3).tolist())
        wind_W, wind_state = wind.sample(tick * TICK, TICK if tick else math.inf, tick_normals, wind_state)
        assert row == list(wind_W)
    assert all(np.array_equal(track.wind, run.wind) for track in run.drone_records)


def test_what_blows_on_all_does_so_inside_a_local_sum():
    """A mean that grows with height does not split the gusts that all drones share."""
    shared, layer = OrnsteinUhlenbeck(ZERO, 0.7, 1.5), PowerLaw(Vec3(4.0, 0.0, 0.0))
    assert independent_normals(WindSum((shared, layer, Dryden(ZERO)))) == (False,) * 3 + (True,) * 5
    shared_run, sum_run = fly(flock(shared, seed=2)), fly(flock(WindSum((shared, layer)), seed=2))
    for track in sum_run.drone_records:
        mean = 4.0 * power_law(track.position[:, 2], reference_height=10.0, exponent=1 / 7)
        assert track.wind[:, 0] - mean == pytest.approx(shared_run.wind[:, 0], abs=1e-14)
        assert track.wind[:, 1:] == pytest.approx(shared_run.wind[:, 1:], abs=1e-15)


# Through events ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_drone_that_becomes_another_vehicle_keeps_its_gusts():
    """A payload puts a drone into its own group; no drone's wind restarts or takes another's."""
    wind = Dryden(Vec3(6.0, 0.0, 0.0))
    loaded = Event(at(0.19), events.add_payload(0.003, drone="d1"))
    run = fly(flock(wind, seed=3, flight_events=[loaded]))
    for drone, track in enumerate(run.drone_records):
        assert track.wind == pytest.approx(expected_wind(track, wind, drone, 3), rel=1e-12, abs=1e-12)


def test_a_gust_on_top_leaves_the_turbulence_going():
    """A restart would make the wind jump by √2 σ; continuing, it changes by the difference over 0.2 m of air."""
    scenario = flock(Dryden(Vec3(8.0, 0.0, 0.0)), tuple(80.0 + k for k in range(12)), seed=4)
    gust = Event(at(0.2), events.gust((0.0, 0.0, 3.0), 4.0))
    run = fly(replace(scenario, events=(gust,)))
    jumps = np.array([np.abs(np.diff(track.wind, axis=0)) for track in run.drone_records])
    assert np.ptp([track.wind[0, 1] for track in run.drone_records]) > 1.0  # σ is significant
    assert jumps.max() < 0.35


def test_from_one_wind_for_all_to_one_for_each_and_back():
    layer = PowerLaw(Vec3(5.0, 0.0, 0.0))

    def change(setting, bus):
        return setting._replace(wind=layer)

    happening = [Event(at(0.1), change), Event(at(0.2), events.wind_step((1.0, 1.0, 0.0)))]
    run = fly(flock(Constant(Vec3(2.0, 0.0, 0.0)), flight_events=happening))
    winds = np.array([track.wind[:, 0] for track in run.drone_records])
    assert (winds[:, :5] == 2.0).all() and (winds[:, 10:] == 1.0).all()
    heights = np.array([track.position[5:10, 2] for track in run.drone_records])
    assert winds[:, 5:10] == pytest.approx(5.0 * power_law(heights, reference_height=10.0, exponent=1 / 7), rel=1e-13)


def test_what_disturbs_the_wind_is_added_to_it():
    """w = 2 + 3 from the instant of the action, for a shared wind and for a local one"""
    happening = [Event(at(0.2), lambda setting, bus: setting._replace(wind_disturbance_W=Vec3(3.0, 0.0, -1.0)))]
    for wind in (Constant(Vec3(2.0, 0.0, 0.0)), PowerLaw(Vec3(2.0, 0.0, 0.0), exponent=0.0)):
        for track in fly(flock(wind, flight_events=happening)).drone_records:
            assert track.wind[5].tolist() == [2.0, 0.0, 0.0]
            assert track.wind[-1].tolist() == [5.0, 0.0, -1.0]


# At the hubs ---------------------------------------------------------------------------------------------------------


def hub_winds(track):
    table = track.tables["environment"]
    rows = [[table[f"hub_wind_W[{k}].{axis}"] for axis in "xyz"] for k in range(4)]
    latest = np.searchsorted(table.times_us, track.tables["state"].times_us, side="right") - 1
    return np.array(rows)[:, :, latest]


@pytest.mark.long
def test_every_rotor_feels_the_wind_at_its_hub():
    """Near the ground the log law varies over the size of a drone: each hub has the wind at its own height."""
    dragged = samara.switch_on(samara.vehicle("iris_documented"), "rotor_drag", coefficient=3e-5)
    scenario = flock(LogLaw(Vec3(9.0, 0.0, 0.0)), (0.5,), vehicle=dragged, duration=1.0)
    track = fly(replace(scenario, wind_per_rotor=True)).drone_records[0]
    hub_wind = hub_winds(track)
    for k, rotor in enumerate(dragged.rotors):
        height = track.position[:, 2] + rotate(Quat(*track.attitude.T), rotor.r_B).z
        assert hub_wind[k, 0] == pytest.approx(9.0 * log_law(height, reference_height=10.0, roughness=0.03), rel=1e-12)
    assert np.ptp(hub_wind[:, 0, -1]) > 0.01  # it tilts into the wind
    uniform = fly(scenario).drone_records[0]
    assert np.array_equal(hub_winds(uniform)[:, 0], np.tile(uniform.wind[:, 0], (4, 1)))
    assert not np.array_equal(uniform.position, track.position)


def test_a_gust_is_the_same_at_all_hubs():
    """Dryden has no lateral correlation: level at one height, the hubs have the wind of the centre."""
    dragged = samara.switch_on(samara.vehicle("iris_documented"), "rotor_drag", coefficient=3e-5)
    track = fly(
        flock(Dryden(Vec3(5.0, 0.0, 0.0)), (30.0,), vehicle=dragged, wind_per_rotor=True, seed=1)
    ).drone_records[0]
    assert hub_winds(track)[:, :, 0] == pytest.approx(np.tile(track.wind[0], (4, 1)), rel=1e-12)
    assert np.ptp(hub_winds(track)[:, 1], axis=0).max() < 1e-3


def test_a_field_asked_for_no_place_answers_for_its_middle():
    """A wind equal to the position: w(p) = p, at the centre of a box whose three sides differ"""
    axes = [np.array([0.0, 2.0]), np.array([10.0, 16.0]), np.array([-4.0, 30.0])]
    positions = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    wind_W, _ = WindField(*axes, positions).sample(0.0, TICK, (), ())
    assert tuple(wind_W) == pytest.approx((1.0, 13.0, 13.0), rel=1e-14)


@pytest.mark.parametrize("names", [("hexarotor_x", "iris_documented"), ("iris_documented", "hexarotor_x")])
def test_each_has_the_wind_at_all_its_hubs_whoever_flies_beside_it(names):
    """Six rotors and four, in either order, in a wind that grows along x: w = x at every hub, level at the start"""
    x = np.array([-50.0, 50.0])
    pattern = np.zeros((2, 1, 1, 3))
    pattern[:, 0, 0, 0] = x
    drones = [
        Drone(
            name,
            samara.switch_on(samara.vehicle(name), "rotor_drag", coefficient=3e-5),
            trajectory.hover(p),
            p,
            airborne=True,
        )
        for name, p in zip(names, (Vec3(2.0, 0.0, 5.0), Vec3(-7.0, 3.0, 8.0)), strict=True)
    ]
    run = fly(
        Scenario(
            "two", tuple(drones), 0.04, wind=WindField(x, [0.0], [0.0], pattern), rates=EVERY_TICK, wind_per_rotor=True
        )
    )
    for drone in drones:
        table = run[drone.name].tables["environment"]
        hub_wind = [table[f"hub_wind_W[{k}].x"][0] for k in range(len(drone.vehicle.rotors))]
        assert hub_wind == pytest.approx([drone.start_W.x + rotor.r_B.x for rotor in drone.vehicle.rotors], rel=1e-12)
        assert len(drone.vehicle.rotors) == (6 if "hexa" in drone.name else 4)


def test_a_frozen_field_is_carried_over_hubs_and_drones():
    """Taylor's hypothesis: w(p, t + Δ) = w(p − cΔ, t); a drifting observer sees no change, and the pattern is periodic."""
    x, carried = np.linspace(0.0, 8.0, 17), Vec3(4.0, 0.0, 0.0)
    pattern = np.zeros((17, 1, 1, 3))
    pattern[:, 0, 0, 1] = np.sin(2 * np.pi * x / 8.0)
    field = WindField(x, [0.0], [0.0], pattern, carried)

    def wind_y(p_x, time):
        return evaluate_wind(field, time, TICK, (), (), Vec3(p_x, 3.0, 7.0), ZERO)[0].y

    positions = np.random.default_rng(0).uniform(-30.0, 30.0, 50)
    still = np.interp(np.mod(positions, 8.0), x, pattern[:, 0, 0, 1])
    assert wind_y(positions, 0.0) == pytest.approx(still, abs=1e-14)
    assert wind_y(positions + 4.0 * 1.7, 1.7) == pytest.approx(still, abs=1e-12)
    assert wind_y(positions, 2.0) == pytest.approx(still, abs=1e-12)
    by_jax = jax.jit(wind_y)(jnp.asarray(positions), 1.3)
    assert np.asarray(by_jax) == pytest.approx(wind_y(positions, 1.3), abs=1e-12)


# A thousand at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Dryden, pytest.param(VonKarman, marks=pytest.mark.long)])  # four times the filters
def test_a_thousand_drones_in_jax_meet_the_wind_of_numpy(model):
    """Under jit, with the same normals: every drone's wind and state to rounding."""
    wind, n, rng = model(LogLaw(Vec3(7.0, 2.0, 0.0))), 1000, np.random.default_rng(3)
    p, v = rng.uniform(1.0, 700.0, (3, n)), rng.uniform(-10.0, 10.0, (3, n))
    step = jax.jit(
        lambda dt, tick_normals, wind_state, p, v: evaluate_wind(
            wind, 0.0, dt, tick_normals, wind_state, Vec3(*p), Vec3(*v)
        )
    )
    by_numpy = by_jax = wind.initial()
    for tick in range(3):
        dt = TICK if tick else math.inf
        tick_normals = normals(1, "wind", np.arange(n), tick, wind.normals_needed).T
        wind_W, by_numpy = evaluate_wind(wind, 0.0, dt, tuple(tick_normals), by_numpy, Vec3(*p), Vec3(*v))
        traced, by_jax = step(dt, tuple(jnp.asarray(tick_normals)), by_jax, jnp.asarray(p), jnp.asarray(v))
        assert np.stack(traced) == pytest.approx(np.stack(wind_W), rel=1e-12, abs=1e-12)
        assert np.stack(flatten(by_jax)) == pytest.approx(np.stack(flatten(by_numpy)), rel=1e-12, abs=1e-12)


# In the viewer -------------------------------------------------------------------------------------------------------


def test_the_viewer_has_an_arrow_for_each():
    """A live frame and a recorded one have the wind on every drone."""
    scenario = flock(PowerLaw(Vec3(5.0, 0.0, 0.0)), duration=0.1)
    simulation = Simulation(scenario)
    simulation.run()
    live, recorded = snapshot_frame(take_snapshot(simulation)), recorded_frame([fly(scenario)], 0.1)
    expected = 5.0 * power_law(live.p_W[:, 2], reference_height=10.0, exponent=1 / 7)
    assert live.wind_W[:, 0] == pytest.approx(expected, rel=1e-9)
    assert np.array_equal(recorded.wind_W, live.wind_W)


# From a file ---------------------------------------------------------------------------------------------------------

ONE_DRONE = """
name = "blown"
duration = 0.3
[[drones]]
vehicle = "iris_documented"
start = [1, 0, 4]
airborne = true
"""
GRID = "x,y,z,wind_x,wind_y,wind_z\n0,0,0,0,0,0\n2,0,0,6,0,0\n"
LOG = "time,wind_x,wind_y,wind_z\n0.0,1,0,0\n0.2,3,0,0\n"


def parse_wind(text, **options):
    return parse_scenario(ONE_DRONE + text, "blown.toml", **options).wind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "model = 'power_law'\nspeed = 4.0\nfrom_deg = 270\nexponent = 0.2",
            PowerLaw(Vec3(4.0, 0.0, 0.0), exponent=0.2),
        ),
        ("model = 'log_law'\nwind_W = [0, 4, 0]\nroughness = 0.1", LogLaw(Vec3(0.0, 4.0, 0.0), roughness=0.1)),
        ("model = 'dryden'\nspeed = 4.0\nfrom_deg = 180", Dryden(Constant(Vec3(0.0, 4.0, 0.0)))),
        ("model = 'von_karman'\nmean = [3, 0, 0]\nsigma_aloft = 3.0", VonKarman(Vec3(3.0, 0.0, 0.0), 3.0)),
        ("model = 'dryden'\nmean = { model = 'log_law', wind_W = [5, 0, 0] }", Dryden(LogLaw(Vec3(5.0, 0.0, 0.0)))),
    ],
)
def test_a_file_names_the_winds(text, expected):
    parsed = parse_wind(f"[wind]\n{text}")
    assert type(parsed) is type(expected)
    heights = Vec3(0.0, 0.0, np.array([1.0, 20.0, 300.0]))
    wind_normals = tuple(normals(0, "wind", np.arange(3), 0, parsed.normals_needed).T)
    samples = [
        evaluate_wind(source, 0.0, math.inf, wind_normals, source.initial(), heights, ZERO)[0]
        for source in (parsed, expected)
    ]
    assert np.stack([np.broadcast_to(x, 3) for x in samples[0]]) == pytest.approx(
        np.stack([np.broadcast_to(x, 3) for x in samples[1]]), abs=1e-14
    )


def test_the_boundary_layer_stands_on_the_ground_of_the_file():
    high = "[environment]\nground_height = 2.0\n"
    assert parse_wind(f"{high}[wind]\nmodel = 'power_law'\nwind_W = [1, 0, 0]").ground == 2.0
    assert parse_wind(f"{high}[wind]\nmodel = 'power_law'\nwind_W = [1, 0, 0]\nground = 1.5").ground == 1.5


def test_a_recording_carries_its_table_and_needs_it_no_more(tmp_path):
    """The field is a file beside the scenario; without both the recording replays bit for bit, and its scenario can be read."""
    (tmp_path / "street.csv").write_text(GRID)
    (tmp_path / "own.toml").write_text(ONE_DRONE + "[[wind]]\nmodel = 'field'\nfile = 'street.csv'\n")
    run = fly(tmp_path / "own.toml", out=tmp_path / "run.mcap")
    assert run.wind[0].tolist() == [3.0, 0.0, 0.0]  # half way between the corners
    (tmp_path / "street.csv").unlink()
    (tmp_path / "own.toml").unlink()
    loaded = load_run(tmp_path / "run.mcap")
    assert fingerprint(replay(loaded)) == fingerprint(run)
    embedded = embedded_scenario(loaded)
    assert fingerprint(fly(embedded)) == fingerprint(run)


def test_a_log_is_blown_on_all(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    text = ONE_DRONE + "[wind]\nmodel = 'replay'\nfile = 'log.csv'\nlinear = true\n"
    run = fly(parse_scenario(text, "own.toml", folder=tmp_path))
    assert run.wind[:, 0] == pytest.approx(
        np.interp(np.floor(run.time / TICK + 1e-9) * TICK, [0, 0.2], [1, 3]), rel=1e-12
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "model = 'field'\nfile = 'none.npz'",
            "wind[0].file = 'none.npz': expected a file beside the scenario (No such",
        ),
        ("model = 'field'", "wind[0].file is missing"),
        (
            "model = 'field'\nfile = 'broken.npz'",
            "broken.npz: cannot be read; expected a NumPy .npz file of numbers",
        ),
        ("model = 'field'\nfile = 'some.npz'", "some.npz: z is missing; expected arrays x, y, z and wind"),
        ("model = 'field'\nfile = 'log.csv'", "log.csv: column 'x' is missing; expected x, y, z, wind_x"),
        ("model = 'replay'\nfile = 'words.csv'", "words.csv: line 2 is ['now', '1', '0', '0']; expected numbers"),
        (
            "model = 'replay'\nfile = 'log.csv'\nspeed = 2.0",
            "wind[0].speed = 2.0: expected no speed: replay has its own",
        ),
        ("model = 'field'\nfile = 'street.csv'\nfrom_deg = 1\nspeed = 2.0", "expected no direction: field has its own"),
        ("model = 'dryden'", "wind[0].mean is missing"),
        ("model = 'dryden'\nmean = [1, 2]", "wind[0].mean = [1, 2]: expected three finite numbers"),
        (
            "model = 'dryden'\nmean = { model = 'turbulence', mean_W = [1, 0, 0], sigma = 1, tau = 1 }",
            "which is random",
        ),
        (
            "model = 'dryden'\nmean = [1, 0, 0]\nheight = 3.0",
            "wind[0].height = 3.0: expected only the keys per_rotor, model, mean, sigma_aloft",
        ),
        (
            "model = 'log_law'\nwind_W = [1, 0, 0]\nroughness = -1.0",
            "LogLaw.roughness is -1.0; expected a positive number",
        ),
        (
            "model = 'constant'\nwind_W = [1, 0, 0]\nper_rotor = true",
            "wind[0].per_rotor = True: expected a wind that depends",
        ),
        (
            "model = 'log_law'\nwind_W = [1, 0, 0]\nper_rotor = true",
            "expected a drone with an effect that uses it: rotor_air or",
        ),
    ],
)
def test_what_is_wrong_with_a_wind_is_one_sentence(tmp_path, text, sentence):
    (tmp_path / "street.csv").write_text(GRID)
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "words.csv").write_text(LOG.replace("0.0,", "now,"))
    (tmp_path / "broken.npz").write_bytes(b"no zip at all")
    np.savez(tmp_path / "some.npz", x=[0.0], y=[0.0])
    with pytest.raises(ScenarioError) as refused:
        parse_wind(f"[wind]\n{text}", folder=tmp_path)
    assert sentence in str(refused.value) and "\n" not in str(refused.value)
    assert str(refused.value).startswith("blown.toml: ")
