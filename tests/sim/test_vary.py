"""Parameters that vary are inputs: one flight, a batch, a campaign's row and its replay have the same bits.

A flight is determined by the scenario, the names and values of its varied parameters and its seed, and has the bits of a
flight of a scenario whose file has those values.
"""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import samara
import samara.compiler.batch_parameters as batch_parameters
from samara.compiler.batch_parameters import StepFunction, batch_code, replace_leaves, split_record
from samara.control.registry import controller_spec
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.record.streams import concatenate_blocks
from samara.scenario.events import Event, add_payload, at, fail_motor, gust
from samara.sim.setup import Variation
from samara.sim.simulation import Simulation
from samara.sim.varied import varied_scenario
from samara.wind.sources import NoWind
from samara.wind.turbulence import Dryden

SEED = 5


def scenario(name="hover", duration=1.0, **settings):
    return samara.load_scenario(name, {"duration": duration, "seed": SEED, **settings})


def spread_values(value, n=3, spread=0.05):
    return value * np.random.default_rng(7).uniform(1.0 - spread, 1.0 + spread, n)


def vehicle_values(base):
    vehicle = base.drones[0].vehicle
    return {
        "mass": spread_values(vehicle.mass),
        "vehicle.inertia_B.xx": spread_values(vehicle.inertia_B.xx),
        "rotors.k_thrust": spread_values(vehicle.rotors[0].k_thrust),
        "rotors.1.k_torque": spread_values(vehicle.rotors[1].k_torque),
    }


def all_values(base):
    offsets = np.random.default_rng(8).uniform(-0.2, 0.2, (2, 3, 3)) * [1.0, 1.0, 0.0]
    return {
        **vehicle_values(base),
        "controller.position": np.array([2.9, 3.0, 3.1]),
        "wind.sigma_aloft": np.array([1.4, 1.5, 1.6]),
        "wind.mean.wind_W": np.array([[1.0, 0.5, 0.0], [1.2, 0.4, 0.0], [0.8, 0.6, 0.1]]),
        "start_W": offsets[0],
        "goal_shift": offsets[1],
        "yaw": np.array([0.0, 0.3, -0.4]),
    }


def dryden(base):
    return replace(base, wind=Dryden.from_direction(2.0, 0.5, sigma_aloft=1.5))


CASES = {
    "crazyflie in turbulence": (lambda: dryden(scenario(**{"drones.vehicle": "crazyflie"})), all_values),
    "iris on its battery": (
        lambda: scenario(**{"drones.vehicle": "iris"}),
        lambda one: {**vehicle_values(one), "initial_charge": np.array([1.0, 0.8, 0.6])},
    ),
    "sensors, a filter and pid": (
        lambda: scenario("wind", 0.5, **{"drones.controller": "pid"}),
        lambda one: {"mass": spread_values(one.drones[0].vehicle.mass), "controller.speed": np.array([1.5, 1.7, 1.9])},
    ),
}


QUICK = "crazyflie in turbulence"


def final_row(run):
    return run.drone_records[0].tables["state"].rows[-1].tobytes()


def columns(flights):
    return np.array([np.broadcast_to(leaf, (len(flights),)) for leaf in flatten(flights.final)])


def flight(vary, k):
    return {name: values[k].tolist() for name, values in vary.items()}


@pytest.mark.parametrize(
    "case", [QUICK, *(pytest.param(case, marks=pytest.mark.long) for case in CASES if case != QUICK)]
)
def test_one_flight_and_a_batch_have_the_same_bits(case):
    build, values = CASES[case]
    one = build()
    vary = values(one)
    batch = columns(samara.fly_many(one, 3, vary=vary))
    assert len({column.tobytes() for column in batch.T}) == 3
    single = samara.fly_many(one, seeds=[SEED + 1], vary={name: rows[1:2] for name, rows in vary.items()})
    assert columns(single)[:, 0].tobytes() == batch[:, 1].tobytes()
    for k in (0, 2):
        separate = samara.fly(replace(one, seed=SEED + k), vary=flight(vary, k))
        assert final_row(separate) == batch[:, k].tobytes()


def test_stepped_and_recorded_flights_have_the_bits_of_the_compiled_one(tmp_path):
    one = dryden(scenario(duration=0.3, **{"drones.vehicle": "crazyflie"}))
    vary = flight(all_values(one), 1)
    compiled = samara.fly(one, vary=vary)
    assert final_row(samara.fly(one, vary=vary, step_by_step=True)) == final_row(compiled)
    assert final_row(samara.fly(one, vary=vary, out=tmp_path / "a.mcap")) == final_row(compiled)
    assert final_row(samara.replay(tmp_path / "a.mcap")) == final_row(compiled)
    assert compiled.drone_records[0].vehicle.mass == vary["mass"]


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_varied_values_have_the_bits_of_the_same_values_in_the_scenario(case):
    """Over 10 s: traces fold nothing that would change the rounding of an input or of a constant."""
    build, values = CASES[case]
    one = replace(build(), duration=10.0)
    vary = flight(values(one), 1)
    assert final_row(samara.fly(one, vary=vary)) == final_row(samara.fly(varied_scenario(one, vary)[0]))


@pytest.mark.long
def test_the_value_of_the_scenario_may_be_among_the_varied_ones():
    """A grid with the nominal value: its flight has the program of the others, and the same bits alone."""
    one = scenario(duration=0.3, **{"drones.vehicle": "crazyflie"})
    mass = one.drones[0].vehicle.mass
    batch = columns(samara.fly_many(one, 3, vary={"mass": mass * np.array([0.9, 1.0, 1.1])}))
    assert final_row(samara.fly(replace(one, seed=SEED + 1), vary={"mass": mass})) == batch[:, 1].tobytes()


@pytest.mark.long
def test_a_value_that_changes_a_branch_of_the_setup_has_the_same_bits():
    """Motors above 20 ms get a lead; the controller design takes another branch below that."""
    one = scenario(duration=0.3, **{"drones.vehicle": "crazyflie"})
    lags = {
        f"rotors.motor.{name}": np.array([0.010, 0.030, 0.012, 0.040])
        for name in ("time_constant_up", "time_constant_down")
    }
    batch = columns(samara.fly_many(one, 4, vary=lags))
    for k in range(4):
        single = samara.fly(replace(one, seed=SEED + k), vary=flight(lags, k))
        assert final_row(single) == batch[:, k].tobytes()


@pytest.mark.long
@pytest.mark.parametrize("action", [add_payload(0.1, (0.01, 0.0, -0.02)), fail_motor(0), gust((1.0, 0.0, 0.0), 0.1)])
def test_events_that_change_the_vehicle_or_the_wind_keep_the_bits(action):
    """Another vehicle, controller or wind after the event, with the same inputs."""
    one = dryden(scenario(duration=0.4, **{"drones.vehicle": "iris"}))
    one = replace(one, events=(Event(at(0.2), action),))
    vary = {"mass": spread_values(one.drones[0].vehicle.mass), "wind.sigma_aloft": np.array([1.4, 1.5, 1.6])}
    batch = columns(samara.fly_many(one, 3, vary=vary))
    assert final_row(samara.fly(replace(one, seed=SEED + 2), vary=flight(vary, 2))) == batch[:, 2].tobytes()


def test_a_batch_of_any_size_compiles_nothing_for_new_values():
    one = scenario(duration=0.1, **{"drones.vehicle": "crazyflie"})
    mass = one.drones[0].vehicle.mass
    samara.fly_many(one, 16, vary={"mass": spread_values(mass, 16)})
    initial_misses = batch_parameters._parametric_code.cache_info().misses
    samara.fly_many(one, 16, vary={"mass": 1.01 * spread_values(mass, 16)})
    assert batch_parameters._parametric_code.cache_info().misses == initial_misses


def test_invalid_names_and_values_are_an_error():
    one = scenario(duration=0.1)
    with pytest.raises(ValueError, match="no parameter 'weight'"):
        samara.fly(one, vary={"weight": 1.0})
    with pytest.raises(ValueError, match="vary: 'mass' has values of shape"):
        samara.fly(one, vary={"mass": float("nan")})
    with pytest.raises(ValueError, match="three numbers for each of 1 flights"):
        samara.fly(one, vary={"start_W": 1.0})
    with pytest.raises(ValueError, match=r"vary: .mass. = .*: expected numbers"):
        samara.fly(one, vary={"mass": "heavy"})
    with pytest.raises(ValueError, match="vary: 'mass' = -1: expected a positive mass"):
        samara.fly(one, vary={"mass": -1.0})
    with pytest.raises(ValueError, match="vary: 'mass' = 0: expected a positive mass"):
        samara.fly_many(one, 2, vary={"mass": [0.03, 0.0]})
    with pytest.raises(ValueError, match=r"vary: 'mass' = .*: expected one number for each flight"):
        samara.fly(one, vary={"mass": [1.0, 2.0]})
    two = replace(one, drones=(one.drones[0], replace(one.drones[0], name="other")))
    with pytest.raises(ValueError, match="expected one drone where parameters vary"):
        samara.fly(two, vary={"mass": 1.0})


# Several drones of one scenario that differ --------------------------------------------------------------------------------

DRONES = 4


def scatter(record, random):
    if isinstance(record, float):
        return record * random.uniform(0.8, 1.2)
    parts = [scatter(part, random) for part in record]
    return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)


def differing_drones():
    random, one = Random(1), scenario(duration=0.5, **{"drones.vehicle": "crazyflie"})
    vehicle = one.drones[0].vehicle
    drones = []
    for k in range(DRONES):
        rotors = tuple(rotor._replace(k_thrust=scatter(rotor.k_thrust, random)) for rotor in vehicle.rotors)
        changes = {"mass": scatter(vehicle.mass, random), "rotors": rotors}
        controller = controller_spec("geometric", position=random.uniform(1.6, 2.4))
        changed = vehicle.replace(changes | {"drag.linear": scatter(vehicle["drag"].linear, random)})
        drones.append(
            replace(one.drones[0], name=f"d{k}", vehicle=changed, controller=controller, start_W=Vec3(3.0 * k, 0, 0))
        )
    winds = tuple(
        Dryden.from_direction(random.uniform(1.0, 4.0), 0.3, sigma_aloft=random.uniform(1.1, 1.9)) for _ in drones
    )
    return replace(one, drones=tuple(drones), wind=winds[0]), winds


def fly(flight, **options):
    blocks = []
    simulation = Simulation(flight, lambda rows, logs: blocks.extend(rows), **options)
    simulation.run()
    return simulation.fleet.groups, concatenate_blocks(blocks)


@pytest.mark.long
def test_drones_that_differ_in_parameters_share_a_program_and_agree_with_separate_ones():
    flight, winds = differing_drones()
    groups, shared = fly(flight, variation=Variation(winds))
    assert [group.drones for group in groups] == [tuple(range(DRONES))]
    groups, separate = fly(flight)
    assert len(groups) == DRONES
    rows, single = (
        shared["/d0/state"][1],
        samara.fly(replace(flight, drones=flight.drones[:1])).drone_records[0].tables["state"].rows,
    )
    assert rows == pytest.approx(single, rel=1e-9, abs=1e-12)
    assert separate["/d0/state"][1].tobytes() == single.tobytes()


def test_the_wind_on_a_drone_differs_in_parameters_only():
    flight, winds = differing_drones()
    with pytest.raises(ValueError, match="the wind on one drone is NoWind"):
        Simulation(flight, variation=Variation((*winds[1:], NoWind())))


# Programs with parameters ---------------------------------------------------------------------------------------------------


def polynomial(coefficients, order):
    """x ← Σ cₖ xᵏ, with an expression of the coefficients only."""

    def body(x, offset):
        return (
            sum((c * x**k for k, c in enumerate(coefficients)), start=0.0) * (coefficients[0] / coefficients[1])
            + offset
        )

    return StepFunction(body, 0.0, 0.0)


def run(code, x, n):
    machine = code.machine(n)
    machine.carry[:] = x
    machine.run(2)
    return machine.carry[0].copy()


def test_inputs_follow_from_the_references_and_give_the_results_of_constants():
    drones = [((1.0, 2.0, c), 3) for c in (3.0, 3.5, 4.0)]
    references = [((1.0, 2.0, 3.0), 3), ((1.0, 2.0, 3.1), 3)]
    batch = run(batch_code(polynomial, drones, references), 0.1, 3)
    for k, drone in enumerate(drones):
        assert run(batch_code(polynomial, [drone], references), 0.1, 1)[0] == batch[k]
        assert run(batch_code(polynomial, [drone]), 0.1, 1)[0] == pytest.approx(batch[k], rel=1e-14)


def test_parameters_alone_are_computed_once_for_each_drone():
    code = batch_code(polynomial, [((1.0, 2.0, 3.0), 3), ((1.5, 2.5, 3.5), 3)])
    names = {instruction.operation for instruction in code._program.instructions}
    assert "divide" not in names  # c₀/c₁ is one row of the parameters
    assert len(code.lane_constants(2)) == 4  # c₀, c₁, c₂ and c₀/c₁


def test_a_drone_that_differs_in_another_parameter_has_a_separate_program():
    references = [((1.0, 2.0, 3.0), 3), ((1.0, 2.0, 3.1), 3)]
    different_drone = ((1.0, 2.5, 3.0), 3)
    with pytest.raises(batch_parameters.DifferentProgramsError) as different:
        batch_code(polynomial, [((1.0, 2.0, 3.2), 3), different_drone, ((1.0, 2.0, 3.3), 3)], references)
    assert different.value.classes == ((0, 2), (1,))
    single = run(batch_code(polynomial, [different_drone], references), 0.1, 1)
    assert single[0] == pytest.approx(run(batch_code(polynomial, [different_drone]), 0.1, 1)[0], rel=1e-14)


def test_records_are_split_into_structure_and_floats():
    vehicle = samara.vehicle("iris")
    structure, leaves = split_record((vehicle, 3, "name"))
    assert all(type(leaf) is float for leaf in leaves) and vehicle.mass in leaves
    heavier = replace_leaves((vehicle, 3, "name"), {leaves.index(vehicle.mass): 9.0})
    assert heavier[0] == vehicle.replace({"mass": 9.0}) and split_record(heavier).structure == structure
