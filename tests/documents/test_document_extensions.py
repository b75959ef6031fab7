"""Extensions listed in documents 000 and 002, on their classes: each is the vehicle's effect, and nothing else."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import samara
from samara import Environment, Vec3
from samara.control.allocation import command_for_wrench, least_squares_allocation
from samara.core.tree import flatten
from samara.documents.engine import CrazyflieParams, DroneEngine, engine_vehicle
from samara.documents.rigid_body import RigidBodyQuadrotor
from samara.physics.multirotor import derivative
from samara.physics.rotors.propulsion import supply_voltage
from samara.physics.types import CALM, initial_effects
from samara.vehicles.build import with_effects

PACK = {"capacity": 864.0, "resistance": 0.05}
ALL = {
    "battery": PACK,
    "ground_effect": True,
    "rotor_drag": {"coefficient": 1e-7},
    "drag": {"frame": "body", "linear": [0.01, 0.01, 0.01], "quadratic": [0.02, 0.02, 0.02]},
}
WIND = Vec3(1.5, -0.7, 0.2)


def test_an_effect_that_needs_a_simulation_is_refused_with_its_reason():
    """Downwash comes from other drones, and propwash's gusts from a simulation: on a single vehicle they would do nothing."""
    with pytest.raises(ValueError, match=r"'downwash' is the air that other drones blow down.*samara\.fly"):
        DroneEngine(effects=["downwash"])
    assert not DroneEngine(effects={"downwash": False}).vehicle.has("downwash")
    with pytest.raises(ValueError, match=r"propwash.gusts = 0.16: only samara\.fly draws these gusts"):
        engine_vehicle(
            CrazyflieParams(), effects={"rotor_air": True, "propwash": {"drag_area": 1e-3, "distance": 0.02}}
        )
    calm = {"propwash": {"drag_area": 1e-3, "distance": 0.02, "gusts": 0.0}}
    assert engine_vehicle(CrazyflieParams(), effects=calm).has("propwash")


# Document 000 ------------------------------------------------------------------------------------------------------


BLADES = {"rotor_air": True, "flapping": {"blade_inertia": 1e-8}}  # takes seconds to compile


@pytest.mark.parametrize(
    "effects",
    [{"battery": PACK}, ALL, pytest.param(BLADES, marks=pytest.mark.long)],
    ids=["battery", "all", "blades"],
)
def test_the_engine_flies_the_vehicle_with_those_effects_switched_on(effects):
    """RK4 in Python, 1 ms at a time, on the vehicle of `switch_on`; wind included."""
    engine = DroneEngine(effects=effects, wind_W=WIND)
    vehicle = with_effects(engine_vehicle(CrazyflieParams()), effects)
    assert engine.vehicle == vehicle
    engine.reset(p_W=Vec3(0.0, 0.0, 0.08), motorSpeeds=(1500.0,) * 4)
    state, command = engine.state, (0.62, 0.6, 0.58, 0.6)
    engine.apply_motor_commands(*command)
    engine.step(0.004)
    for _ in range(4):
        state = samara.step(state, command, vehicle, 1e-3, environment=Environment(wind_W=WIND))
    assert flatten(engine.state) == pytest.approx(flatten(state), rel=1e-6, abs=1e-9)  # the lag's closed form: 1e-7
    bare = DroneEngine()
    bare.reset(p_W=Vec3(0.0, 0.0, 0.08), motorSpeeds=(1500.0,) * 4)
    bare.apply_motor_commands(*command)
    bare.step(0.004)
    assert abs(engine.state.v_W.z - bare.state.v_W.z) > 1e-7


def test_on_a_battery_full_throttle_slows_as_it_empties():
    """ω settles at ω_max V/V_full, with the V of the bus at that moment, and V falls."""
    engine, reached = DroneEngine(effects={"battery": {**PACK, "capacity": 60.0}}), []
    engine.apply_motor_commands(1.0, 1.0, 1.0, 1.0)
    for _ in range(3):
        for _ in range(200):
            engine.step(0.005)
        volts = supply_voltage(engine.state, engine.command, engine.vehicle, CALM)
        reached.append((engine.get_state().motorSpeeds[0], 2500.0 * volts / 4.2))
    speeds, limits = np.array(reached).T
    assert speeds == pytest.approx(limits, rel=2e-3)  # it follows the falling voltage by 15 ms
    assert (np.diff(speeds) < -50.0).all()


def test_the_engine_stands_on_a_floor_when_it_has_one():
    """At rest on its feet from the first step; without a floor it falls."""
    standing, falling = (DroneEngine(CrazyflieParams(omegaMin=0.0), effects=effects) for effects in (["contact"], ()))
    start = standing.state.p_W
    for engine in (standing, falling):
        for _ in range(20):
            engine.step(0.005)
    assert standing.state.p_W == pytest.approx(start, abs=1e-9) and 0.019 < start.z < 0.02
    assert falling.state.v_W.z < -0.6


def test_the_wind_may_change_between_steps_and_an_environment_has_its_own():
    """Carried along by the drag: m v̇ = −D (v − w); a given environment replaces the engine's wind."""
    engine = DroneEngine()
    engine.wind_W = (2.0, 0.0, 0.0)
    engine.step(0.005)
    pushed = engine.state.v_W.x
    assert pushed == pytest.approx(2.0 * (1.0 - math.exp(-0.1 / 0.028 * 0.005)), rel=1e-9)
    engine.reset()
    engine.step(0.005, CALM)
    assert engine.state.v_W.x == pytest.approx(0.0, abs=1e-20)
    with pytest.raises(ValueError, match="wind_W"):
        engine.wind_W = (1.0, math.nan, 0.0)


def test_the_rotor_speeds_have_the_documents_name():
    """`engine.state.motorSpeeds` is `engine.get_state().motorSpeeds`, and the state is still Samara's."""
    engine = DroneEngine()
    engine.reset(motorSpeeds=(1.0, 2.0, 3.0, 4.0))
    assert (
        engine.state.motorSpeeds == engine.get_state().motorSpeeds == engine.state.rotor_speed == (1.0, 2.0, 3.0, 4.0)
    )
    assert (
        isinstance(engine.state, samara.State) and engine.state._replace(p_W=Vec3(1.0, 0.0, 0.0)).motorSpeeds[3] == 4.0
    )


def test_a_failed_motor_slows_down_in_the_engine_too():
    """effectiveness 0: ω e^{−t/τ}, for every command; the closed form of a step includes it."""
    engine = DroneEngine()
    engine.reset(motorSpeeds=(1500.0,) * 4)
    engine.apply_motor_commands(0.6, 0.6, 0.6, 0.6)
    engine.step(0.005, Environment(motor_effectiveness=(0.0, 1.0, 1.0, 0.5)))
    target, left = 1620.0, math.exp(-0.005 / 0.015)
    expected = [goal + (1500.0 - goal) * left for goal in (0.0, target, target, 0.5 * target)]
    assert engine.state.motorSpeeds == pytest.approx(expected, rel=1e-13)


# Document 002 ------------------------------------------------------------------------------------------------------

MOTORS = {"motor_lag": 0.05, "rotor_radius": 0.12}


@pytest.mark.parametrize(
    ("effects", "options"),
    [
        ({"damping": {"linear": [0.02, 0.02, 0.01]}}, {}),
        ({"contact": True}, {}),
        ({"ground_effect": True, "rotor_air": True, "battery": True}, MOTORS),
        ({"rotor_air": True, "flapping": {"blade_inertia": 1e-5}}, MOTORS),
        ({"slung_load": {"mass": 0.2, "length": 0.6}}, {}),
    ],
    ids=lambda names: "-".join(names),
)
def test_dynamics_are_the_derivative_of_the_vehicle_with_its_effects(effects, options):
    """ẋ against `samara.derivative` at a random state, one by one and as a batch, angles and quaternion, in a wind of t."""
    quad = RigidBodyQuadrotor(effects=effects, wind_W=lambda t: (t, 0.5, -0.1), **options)
    rng = np.random.default_rng(3)
    motors = 500.0 + 50.0 * rng.random(len(quad.vehicle.rotors))
    effect_states = quad.effect_states()
    columns = [
        np.concatenate([0.1 * rng.normal(size=12) + [0, 0, 0.3, *[0] * 9], motors, effect_states]) for _ in range(3)
    ]
    u, t = [quad.hover_thrust() * 1.1, 0.01, -0.02, 0.003], 2.0
    around = Environment(wind_W=Vec3(2.0, 0.5, -0.1))
    allocation = least_squares_allocation(quad.vehicle)
    for x in columns:
        state = quad.state(x)
        assert state.effects == initial_effects(quad.vehicle)
        command = command_for_wrench(u[0], Vec3(*u[1:]), state, quad.vehicle, allocation)
        expected = derivative(state, command, quad.vehicle, around)
        quaternion_rates = quad.dynamics(t, quad.quaternion_state(x), u)
        assert quaternion_rates == pytest.approx(np.array(flatten(expected), dtype=float), rel=1e-9, abs=1e-9)
        angles = quad.dynamics(t, x, u)
        assert np.delete(angles, [6, 7, 8]) == pytest.approx(
            np.delete(quaternion_rates, [6, 7, 8, 9]), rel=1e-12, abs=1e-12
        )
    batch_rates = quad.dynamics(t, np.array(columns).T, u)
    assert pytest.approx(np.array([quad.dynamics(t, x, u) for x in columns]), rel=1e-10, abs=1e-10) == batch_rates.T


def test_a_wind_of_time_carries_the_body_along():
    """m v̇ = −D (v − w(t)) with w = A sin ωt: the particular solution plus the transient, in closed form."""
    quad = RigidBodyQuadrotor(g=0.0, wind_W=lambda t: (3.0 * math.sin(2.0 * t), 0.0, 0.0))
    sol = solve_ivp(lambda t, x: quad.dynamics(t, x, [0, 0, 0, 0]), [0, 4], np.zeros(12), rtol=1e-10, atol=1e-12)
    k, w, t = 0.1 / 1.2, 2.0, 4.0
    expected = 3.0 * k / (k * k + w * w) * (k * math.sin(w * t) - w * math.cos(w * t) + w * math.exp(-k * t))
    assert sol.y[3, -1] == pytest.approx(expected, rel=1e-8)
    assert quad.wind_W(0.5).tolist() == [3.0 * math.sin(1.0), 0.0, 0.0]


def test_near_the_ground_less_is_needed_and_the_battery_pays_for_it():
    """With ground effect the same speeds push harder at 0.1 m than at 10 m; the charge in x falls by P/(V capacity)."""
    quad = RigidBodyQuadrotor(effects=["ground_effect", "battery"], **MOTORS)
    speeds = samara.hover(quad.vehicle, (0.0, 0.0, 100.0))[0].rotor_speed
    rates = []
    for height in (0.1, 10.0):
        x = np.concatenate([[0, 0, height], np.zeros(9), speeds, quad.effect_states()])
        rates.append(quad.dynamics(0.0, x, [quad.hover_thrust(), 0, 0, 0]))
    assert rates[0][5] > 0.3 and abs(rates[1][5]) < 0.05
    (pack,) = quad.vehicle["battery"]
    volts = supply_voltage(quad.state(x), speeds, quad.vehicle, CALM)
    power = sum(r.k_torque * w**3 for r, w in zip(quad.vehicle.rotors, speeds, strict=True))
    assert rates[1][16] == pytest.approx(-power / volts / pack.capacity, rel=1e-9)


def test_linear_momentum_is_m_v():
    """Force is its rate: m v̇ of `dynamics`, by a difference along a flight; k states at once."""
    quad = RigidBodyQuadrotor()
    x = np.arange(12.0) / 10.0
    u, dt = [14.0, 0.0, 0.0, 0.0], 1e-6
    assert quad.linear_momentum(x) == pytest.approx(1.2 * x[3:6], rel=1e-15)
    ahead = quad.linear_momentum(x + dt * quad.dynamics(0.0, x, u)) - quad.linear_momentum(x)
    assert ahead / dt == pytest.approx(quad.m * quad.dynamics(0.0, x, u)[3:6], rel=1e-6)
    assert pytest.approx(np.array([1.2 * x[3:6], 2.4 * x[3:6]])) == quad.linear_momentum(np.array([x, 2 * x]).T).T


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"effects": ["ground_effect"]}, "effects = ground_effect: .* expected motor_lag and rotor_radius too"),
        ({"effects": ["ground_effect"], "motor_lag": 0.05}, "effects = ground_effect: .* expected rotor_radius too"),
        ({"effects": ["arms"]}, "effects = arms: these need rotors: expected motor_lag too"),
        ({"effects": ["damping"]}, r"damping.linear is missing: .*; as in effects={'damping': {'linear': ...}}"),
        ({"effects": ["downwash"]}, "effect 'downwash' is the air that other drones blow down"),
        ({"effects": ["tail"]}, "effect 'tail': expected one of .* battery"),
        ({"effects": "battery"}, "effects = 'battery': expected a list of names"),
        ({"effects": ["battery"]}, "effects = battery: these need rotors: expected motor_lag too"),
        ({"rotor_radius": 0.1}, "rotor_radius = 0.1 and no motor_lag: expected both, or neither"),
        ({"wind_W": (1.0, 2.0)}, r"wind_W has the shape \(2,\)"),
    ],
)
def test_an_extension_that_cannot_be_is_refused_in_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        RigidBodyQuadrotor(**options)
