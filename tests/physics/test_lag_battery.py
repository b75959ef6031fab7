"""Motors with a lag on a battery: their speed range and power, and every motor with every battery."""

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.optimize import brentq
from support.traced_flights import fly, make_rotor, record_state, record_states

import samara
from samara import Environment
from samara.core.tree import flatten
from samara.documents.conventions import bus_current_a, plant_outputs
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import BatteryState, Ideal, Thevenin, VoltageSource, voltage_under_power
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.propulsion import supply_voltage
from samara.physics.types import CALM
from samara.scenario.batteries import battery_status, reduce_cells
from samara.vehicles.build import with_effects
from samara.vehicles.check import VehicleError, check_vehicle
from samara.vehicles.limits import thrust_limits

PACK = Thevenin(864.0, (0.0, 0.1, 0.5, 0.9, 1.0), (3.0, 3.6, 3.8, 4.1, 4.2), 0.05, 0.02, 500.0)  # 240 mA h
EFFICIENCY = 0.6


def lag_vehicle(battery, name="crazyflie_documented"):
    """A vehicle with lag motors on a battery."""
    vehicle = samara.vehicle(name).replace({"rotors.motor.efficiency": EFFICIENCY})
    return with_effects(vehicle, {"battery": {"model": type(battery).__name__.lower(), **battery._asdict()}})


def set_charge_states(state, vehicle, *packs):
    at = vehicle.index("battery")
    return state._replace(effects=(*state.effects[:at], packs, *state.effects[at + 1 :]))


# The speeds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("volts", [4.2, 3.7, 3.0, 0.5])
def test_the_fastest_speed_is_proportional_to_the_voltage(volts):
    """Rated at 4.2 V, a motor settles at Ω_max V/4.2 under full command, and at Ω_min V/4.2 under none."""
    vehicle = lag_vehicle(Ideal(volts)).replace({"rotors.motor.full_voltage": 4.2})
    for command, speed in ((1.0, 2500.0), (0.0, 300.0)):
        state = record_state(vehicle, fly(vehicle, state_at_rest(vehicle), (command,) * 4, 0.6)[-1])
        assert state.rotor_speed == pytest.approx((speed * volts / 4.2,) * 4, rel=1e-12)


def test_a_commanded_speed_is_reached_as_long_as_the_voltage_allows_it():
    """A motor with a commanded speed in rad/s reaches it on a sagging supply, up to Ω_max V/V_full."""
    motor = Lag(0.0, 2000.0, 0.03, 0.03, full_voltage=10.0)
    vehicle = samara.build_vehicle(
        "two speeds",
        mass=1.0,
        inertia=(0.01, 0.01, 0.01),
        rotors=[make_rotor(motor=motor)._replace(inertia=0.0)],
        actuation="speed",
        battery=Ideal(8.0),
    )
    for command, reached in ((900.0, 900.0), (1599.0, 1599.0), (1900.0, 1600.0)):
        state = state_at_rest(vehicle)._replace(rotor_speed=(reached,))
        assert derivative(state, (command,), vehicle).rotor_speed == pytest.approx((0.0,), abs=1e-9)


def test_drones_of_a_batch_may_be_rated_differently():
    """V_full of 0 (the battery's, 3.5 V), 4.2 V and 3.7 V side by side: Ω̇ = (Ω_max V/V_full − Ω)/τ of each."""
    vehicle = lag_vehicle(Ideal(3.5)).replace({"rotors.motor.full_voltage": np.array([0.0, 4.2, 3.7])})
    rate = derivative(state_at_rest(vehicle), (1.0,) * 4, vehicle).rotor_speed[0]
    assert rate == pytest.approx(2500.0 * 3.5 / np.array([3.5, 4.2, 3.7]) / 0.015, rel=1e-14)


def test_a_supply_at_its_rated_voltage_changes_no_bit():
    """V = V_full is a factor of exactly 1: the same states as without a battery, to the last bit."""
    vehicle = lag_vehicle(Ideal(3.7))
    bare = vehicle.without_effect("battery")
    command = (0.7, 0.62, 0.66, 0.68)
    ends = [
        samara.compile(flown_vehicle).step(samara.hover(flown_vehicle)[0], command, 1e-3, 500)
        for flown_vehicle in (vehicle, bare)
    ]
    first, second = (flatten(end._replace(effects=())) for end in ends)
    assert first == second


def test_full_throttle_settles_where_motor_and_battery_agree():
    """Ω = Ω_max V/4.2 and V = V₀ − R (P/η)/V with P = 4 kM Ω³: SciPy's root, the flight's end and the controllers' limit."""
    vehicle = lag_vehicle(PACK._replace(capacity=1e9, polarisation_capacitance=1e9))  # one that does not empty
    rotor = vehicle.rotors[0]

    def excess(voltage):
        speed = 2500.0 * voltage / 4.2
        return voltage - 4.2 + 0.05 * 4.0 * rotor.k_torque * speed**3 / EFFICIENCY / voltage

    voltage = brentq(excess, 2.1, 4.2, xtol=1e-14)
    assert 3.0 < voltage < 3.9  # it sags
    state = record_state(vehicle, fly(vehicle, state_at_rest(vehicle), (1.0,) * 4, 0.8)[-1])
    assert state.rotor_speed == pytest.approx((2500.0 * voltage / 4.2,) * 4, rel=1e-8)
    most = rotor.k_thrust * (2500.0 * voltage / 4.2) ** 2
    assert [limits.high for limits in thrust_limits(vehicle)] == pytest.approx([most] * 4, rel=1e-12)


def test_hover_asks_more_of_a_battery_that_sags_and_is_refused_by_one_that_cannot():
    """u = (Ω V_full/V − Ω_min)/(Ω_max − Ω_min) gives the same Ω; thrust over weight falls with (V/V_full)²."""
    full, low = lag_vehicle(Ideal(4.2)), lag_vehicle(Ideal(3.5)).replace({"rotors.motor.full_voltage": 4.2})
    (above, more), (state, command) = samara.hover(low), samara.hover(full)
    assert above.rotor_speed == state.rotor_speed
    assert more == pytest.approx([(w * 4.2 / 3.5 - 300.0) / 2200.0 for w in state.rotor_speed], rel=1e-13)
    assert samara.thrust_to_weight(low) / samara.thrust_to_weight(full) == pytest.approx((3.5 / 4.2) ** 2, rel=1e-9)
    with pytest.raises(ValueError, match="cannot hover: rotor 0 would have to turn at"):
        samara.hover(low.replace({"battery.voltage": 2.0}))
    assert command[0] < more[0] < 1.0


# The power ---------------------------------------------------------------------------------------------------------


def test_the_voltage_under_a_load_of_constant_power_is_kirchhoffs():
    """V + R P/V = V₀ over 10 000 random loads; beyond V₀²/4R the source stays at its maximum power."""
    rng = np.random.default_rng(1)
    source = VoltageSource(rng.uniform(3.0, 25.0, 10000), 10.0 ** rng.uniform(-3.0, 0.0, 10000))
    most = source.voltage**2 / (4.0 * source.resistance)
    power = most * rng.uniform(0.0, 1.0, 10000)
    voltage = voltage_under_power(source, power)
    assert voltage + source.resistance * power / voltage == pytest.approx(source.voltage, rel=1e-12)
    assert (voltage >= 0.5 * source.voltage).all()
    assert voltage_under_power(source, 3.0 * most) == pytest.approx(0.5 * source.voltage, rel=1e-15)


def test_the_energy_taken_from_the_battery_is_rotor_power_over_efficiency_and_heat():
    """capacity ∫ OCV dSOC = ∫ (Σ kM Ω³/η + I² R0 + V1²/R1) dt + ½ C1 ΔV1², over a flight of changing commands (Simpson)."""
    vehicle = lag_vehicle(PACK)
    state, hovering = samara.hover(vehicle)
    state = set_charge_states(state, vehicle, BatteryState(0.85, 0.03))
    dt, spent, first = 5e-4, 0.0, state.effects[vehicle.index("battery")][0]
    for factor in (1.25, 0.8, 1.1):
        records = fly(vehicle, state, tuple(factor * u for u in hovering), 0.6, dt=dt)
        states = record_states(vehicle, records)
        (battery_state,) = states.effects[vehicle.index("battery")]
        ocv = np.interp(battery_state.charge, PACK.table_charge, PACK.table_voltage) - battery_state.polarisation
        air = sum(vehicle.rotors[0].k_torque * speed**3 for speed in states.rotor_speed) / EFFICIENCY
        current = (ocv - np.sqrt(ocv**2 - 4.0 * 0.05 * air)) / (2.0 * 0.05)
        assert current.max() > 3.0
        spent += simpson(air + current**2 * 0.05 + battery_state.polarisation**2 / 0.02, dx=dt)
        state = record_state(vehicle, records[-1])
    last = state.effects[vehicle.index("battery")][0]
    assert 0.5 < last.charge < first.charge < 0.9  # a straight piece of the table: 3.8 V at .5, 4.1 V at .9
    mean = 3.8 + 0.3 / 0.4 * (0.5 * (first.charge + last.charge) - 0.5)
    stored = 0.5 * 500.0 * (last.polarisation**2 - first.polarisation**2)
    assert 864.0 * (first.charge - last.charge) * mean == pytest.approx(spent + stored, rel=1e-9)


def test_the_current_of_the_bus_is_power_over_voltage():
    """I = Σ kM Ω³ / (η V), on a supply and on a battery; a failed motor and a disconnected battery have no current."""
    for battery in (Ideal(4.2), PACK):
        vehicle = lag_vehicle(battery)
        state, command = samara.hover(vehicle)
        air = sum(vehicle.rotors[0].k_torque * speed**3 for speed in state.rotor_speed) / EFFICIENCY
        voltage = supply_voltage(state, command, vehicle, CALM)
        assert bus_current_a(state, command, vehicle) == pytest.approx(air / voltage, rel=1e-12)
        dead = Environment(motor_effectiveness=(0.0, 1.0, 1.0, 1.0))
        voltage = supply_voltage(state, command, vehicle, dead)
        assert bus_current_a(state, command, vehicle, dead) == pytest.approx(0.75 * air / voltage, rel=1e-12)
        currents = [rotor.bus_current_a for rotor in plant_outputs(state, command, vehicle, dead).rotors]
        assert currents == pytest.approx([0.0, *[0.25 * air / voltage] * 3], rel=1e-12)
        cut = Environment(battery_connected=0.0)
        assert bus_current_a(state, command, vehicle, cut) == supply_voltage(state, command, vehicle, cut) == 0.0
        coasting = [-speed / 0.015 for speed in state.rotor_speed]  # towards standing still, with the lag
        assert derivative(state, command, vehicle, cut).rotor_speed == pytest.approx(coasting, rel=1e-14)


def test_rotors_that_the_air_turns_give_nothing_back():
    """Falling fast, blade rotors are driven by the air (Q < 0): no current flows, and none back into the battery."""
    vehicle = with_effects(lag_vehicle(PACK), {"rotor_air": {"model": "momentum"}})
    state = samara.hover(vehicle)[0]._replace(v_W=samara.Vec3(0.0, 0.0, -25.0), rotor_speed=(300.0,) * 4)
    from samara.physics.rotors.propulsion import rotor_loads

    assert max(load.torque for load in rotor_loads(state, vehicle, CALM)) < 0.0
    assert bus_current_a(state, (0.0,) * 4, vehicle) == 0.0


def test_a_lost_cell_slows_motors_that_lag():
    """Two of three cells: V/V_full = 2/3 of every speed, though the battery is as full as it can be."""
    for battery in (Ideal(12.6), PACK._replace(resistance=1e-9)):
        complete = lag_vehicle(battery)
        reduced = reduce_cells(complete, 2.0 / 3.0)
        state = state_at_rest(complete)._replace(rotor_speed=(1000.0,) * 4)
        rates = [derivative(state, (1.0,) * 4, flown_vehicle).rotor_speed[0] for flown_vehicle in (complete, reduced)]
        assert rates == pytest.approx([(2500.0 - 1000.0) / 0.015, (2500.0 * 2.0 / 3.0 - 1000.0) / 0.015], rel=1e-6)
        assert reduce_cells(reduced, 1.0) == reduced


# A flight ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sagging_flight(tmp_path_factory):
    """The vehicle of the Crazyflie engine in hover on a pack that is soon empty."""
    path = tmp_path_factory.mktemp("sag") / "sag.toml"
    path.write_text(
        """schema = 1
name = "sag"
duration = 8.0

[[drones]]
name = "drone"
vehicle = "crazyflie_documented"
start = [0, 0, 1]
airborne = true
effects = { battery = { capacity = 40.0, resistance = 0.05 } }

[[events]]
at = 4.0
do = "fail_cell"
cells = 10
"""
    )
    return samara.fly(samara.load_scenario(path))


def test_crazyflie_engine_vehicle_flies_until_its_battery_sags(sagging_flight):
    """At constant height and rotor speed the commands rise as the voltage falls: u = (Ω V_full/V − Ω_min)/(Ω_max −
    Ω_min), with V from the recorded charge, R0 I and the lost cell."""
    track = sagging_flight["drone"]
    assert not sagging_flight.crashed
    assert track.charge[0] == 1.0 and track.charge[-1] < 0.6 and (np.diff(track.charge) <= 0.0).all()
    assert np.abs(track.position[:, 2] - 1.0).max() < 0.05
    for time, left in ((3.9, 1.0), (7.9, 0.9)):
        state_index, command_index = (np.searchsorted(times, time) for times in (track.time, track.command_time))
        (battery_state,) = record_state(track.vehicle, track.tables["state"].rows[state_index]).effects[
            track.vehicle.index("battery")
        ]
        speed = track.rotor_speed[state_index].mean()
        source = (
            left * np.interp(battery_state.charge, PACK.table_charge, PACK.table_voltage) - battery_state.polarisation
        )
        power = 4.0 * 7.24e-10 * speed**3
        voltage = brentq(lambda v, s=source, p=power: v - s + 0.05 * p / v, 0.6 * source, source, xtol=1e-12)
        assert track.command[command_index].mean() == pytest.approx((speed * 4.2 / voltage - 300.0) / 2200.0, rel=2e-3)


def test_a_sagging_flight_replays_to_the_bit(sagging_flight, tmp_path):
    """Recorded, loaded and replayed from its commands, including the state of the battery."""
    again = samara.replay(sagging_flight.save(tmp_path / "sag.mcap"))
    first, second = (run["drone"].tables["state"] for run in (sagging_flight, again))
    assert first.fields == second.fields
    assert all((first[field] == second[field]).all() for field in first.fields)


# Every motor with every battery ------------------------------------------------------------------------------------

BATTERIES = {
    "none": None,
    "ideal": Ideal(11.1),
    "thevenin": (PACK._replace(table_voltage=(9.0, 10.8, 11.4, 12.3, 12.6)),),
    "two": (
        PACK._replace(table_voltage=(9.0, 10.8, 11.4, 12.3, 12.6)),
        PACK._replace(table_voltage=(9.0, 10.8, 11.4, 12.0, 12.2), resistance=0.1),
    ),
}
MOTORS = {
    "normalized": Lag(50.0, 1500.0, 0.03, 0.05, efficiency=0.7),
    "speed": Lag(0.0, 1500.0, 0.03, 0.03, efficiency=0.7),
    "duty": DcMotor(0.008, 0.1, efficiency=0.95),
}


def vehicle_with_battery(actuation, battery, actuator):
    rotors = []
    for x, y, spin in ((1, 1, -1), (1, -1, 1), (-1, -1, -1), (-1, 1, 1)):
        hub = samara.Vec3(0.15 * x, 0.15 * y, 0.0)
        upright = make_rotor(spin=spin, r_B=hub, axis_B=samara.Vec3(0.0, 0.0, 1.0))
        rotors.append(upright._replace(motor=MOTORS[actuation]))
    options = {"actuator": samara.physics.rotors.actuator.SecondOrder(40.0, 0.7, 1e6)} if actuator else {}
    return samara.build_vehicle(
        f"{actuation} craft",
        mass=0.8,
        inertia=(0.006, 0.006, 0.01),
        rotors=rotors,
        actuation=actuation,
        battery=battery,
        effects=options,
    )


@pytest.mark.parametrize("actuator", [False, True], ids=["direct", "actuator"])
@pytest.mark.parametrize("battery", BATTERIES)
@pytest.mark.parametrize("actuation", MOTORS)
def test_every_motor_hovers_on_every_battery(actuation, battery, actuator, tmp_path):
    """Checked, written to a file and read back, trimmed, stepped, metered, for every motor, actuator and battery."""
    if actuation == "duty" and battery == "none":
        with pytest.raises(VehicleError, match="battery is missing"):
            vehicle_with_battery(actuation, None, actuator)
        return
    vehicle = check_vehicle(vehicle_with_battery(actuation, BATTERIES[battery], actuator))
    samara.save_vehicle(vehicle, tmp_path / "craft.toml")
    assert samara.vehicle(tmp_path / "craft.toml") == vehicle
    state, command = samara.hover(vehicle)
    rate = derivative(state, command, vehicle)
    assert rate.rotor_speed == pytest.approx((0.0,) * 4, abs=1e-6)
    assert (*rate.v_W, *rate.omega_B) == pytest.approx((0.0,) * 6, abs=1e-9)
    after = samara.step(state, command, vehicle, 1e-3)
    assert np.isfinite(flatten(after)).all()
    if battery == "none":
        return
    status = battery_status(state, command, vehicle, CALM)
    current = bus_current_a(state, command, vehicle)
    assert current > 0.0 and sum(pack_status.current for pack_status in status) == pytest.approx(current, rel=1e-9)


@pytest.mark.parametrize("backend", ["llvm", "jax"])
def test_compiled_steps_drain_the_battery_as_the_equations_do(backend):
    """Four motors of the documented Crazyflie on two packs: the compiled step is the Python step."""
    vehicle = with_effects(samara.vehicle("crazyflie_documented"), {"battery": [PACK._asdict(), PACK._asdict()]})
    state, _ = samara.hover(vehicle)
    expected = state
    for _ in range(5):
        expected = samara.step(expected, (0.8, 0.7, 0.75, 0.7), vehicle, 1e-3)
    compiled = samara.compile(vehicle, backend=backend).step(state, (0.8, 0.7, 0.75, 0.7), 1e-3, 5)
    assert np.array(flatten(compiled), dtype=float) == pytest.approx(np.array(flatten(expected)), rel=1e-9, abs=1e-9)


def test_a_body_driven_by_a_wrench_refuses_a_battery():
    """Nothing would draw current from it."""
    with pytest.raises(VehicleError, match="battery is given; actuation 'wrench' expects none"):
        with_effects(samara.vehicle("rigid_body_quadrotor"), {"battery": PACK._asdict()})


@pytest.mark.parametrize(
    ("battery", "sentence"),
    [
        ({"model": "lead"}, "battery\\[0\\].model = 'lead': expected one of ideal, thevenin"),
        ({"voltage": 3.0}, "battery\\[0\\].voltage = 3.0: expected only the keys model, capacity"),
        ({"capacity": -1.0}, "battery\\[0\\].capacity = -1.0 C: expected a positive number"),
        (7, "battery = 7: expected true, false, a table"),
        ([{"model": "ideal"}, {}], "battery has 2 entries: expected an ideal battery to be the only one"),
    ],
)
def test_a_battery_that_cannot_be_gets_one_sentence(battery, sentence):
    with pytest.raises(VehicleError, match=sentence):
        with_effects(samara.vehicle("crazyflie_documented"), {"battery": battery})


def test_the_usual_battery_hovers_ten_minutes_and_sags_by_a_twentieth():
    """The default of `battery = true`: I t = capacity at hover, and R0 + R1 take 5 % of the full voltage."""
    for name in ("crazyflie", "crazyflie_documented", "hexarotor_x"):
        vehicle = samara.vehicle(name)
        if vehicle.structure.actuation.name == "duty":
            continue
        equipped = with_effects(vehicle, {"battery": True})
        (pack,) = equipped["battery"]
        speeds = samara.hover(vehicle)[0].rotor_speed
        power = sum(r.k_torque * w**3 for r, w in zip(vehicle.rotors, speeds, strict=True))
        current = power / pack.table_voltage[-1]
        assert pack.capacity == pytest.approx(600.0 * current, rel=1e-12)
        total = pack.resistance + pack.polarisation_resistance
        assert total * current == pytest.approx(0.05 * pack.table_voltage[-1], rel=1e-12)
