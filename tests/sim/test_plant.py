"""The plant between two instants: the same values as `samara.step`, and contacts located to a microsecond."""

import math

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import CALM
from samara.sim.plant import Plant, plant_state, set_plant_state

DROP = 1.0  # [m]


def tumbling_state(vehicle):
    """A rotating drone in the air with different rotor speeds."""
    state, command = samara.hover(vehicle, (0.3, -0.2, 5.0))
    return state._replace(q_WB=quat_from_euler(0.3, -0.2, 1.0), omega_B=Vec3(0.5, -1.0, 2.0)), command


@pytest.mark.parametrize("name", ["crazyflie_documented", "hakoniwa", "hexarotor_x", "rigid_body_quadrotor"])
def test_fixed_steps_are_those_of_samara_step(name):
    """20 steps of 1 ms in three pieces: equal to RK4 in Python to rounding."""
    vehicle = samara.vehicle(name)
    state, command = tumbling_state(vehicle)
    plant = Plant(vehicle)
    set_plant_state(plant, 0, state)
    plant.command[:, 0] = command
    for start, end in ((0, 4000), (4000, 5000), (5000, 20_000)):
        plant.advance(start, end)
    for _ in range(20):
        state = samara.step(state, command, vehicle, dt=1e-3, environment=complete_environment(vehicle))
    expected = np.array(flatten(state), dtype=float)
    assert plant.state[:, 0] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_drones_of_a_batch_have_the_bits_of_single_drones():
    """Nineteen drones, full tiles and a remainder: each as if it were the only one."""
    vehicle = samara.vehicle("crazyflie_documented")
    _, command = samara.hover(vehicle)
    rng = np.random.default_rng(5)
    batch, single = Plant(vehicle, n=19), Plant(vehicle)
    starts = [tumbling_state(vehicle)[0]._replace(p_W=Vec3(*rng.uniform(2.0, 9.0, 3).tolist())) for _ in range(19)]
    for drone, state in enumerate(starts):
        set_plant_state(batch, drone, state)
        batch.command[:, drone] = np.array(command) * rng.uniform(0.8, 1.2)
        batch.environment[0, drone] = rng.uniform(-3.0, 3.0)
    inputs = batch.command.copy(), batch.environment.copy()
    batch.advance(0, 50_000)
    for drone, state in enumerate(starts):
        set_plant_state(single, 0, state)
        single.command[:, 0], single.environment[:, 0] = (array[:, drone] for array in inputs)
        single.advance(0, 50_000)
        assert (single.state[:, 0] == batch.state[:, drone]).all()


def test_commands_change_on_step_boundaries_exactly():
    """A command at 2.5 ms splits the step from 2 to 3 ms: the same as stepping 1, 1, 0.5 | 0.5, 1 ms by hand."""
    vehicle = samara.vehicle("crazyflie_documented")
    state, command = samara.hover(vehicle)
    increased = tuple(u + 0.1 for u in command)
    plant = Plant(vehicle)
    set_plant_state(plant, 0, state)
    plant.command[:, 0] = command
    plant.advance(0, 2500)
    plant.command[:, 0] = increased
    plant.advance(2500, 4000)
    for dt, step_command in ((1e-3, command), (1e-3, command), (5e-4, command), (5e-4, increased), (1e-3, increased)):
        state = samara.step(state, step_command, vehicle, dt=dt)
    assert plant.state[:, 0] == pytest.approx(np.array(flatten(state), dtype=float), rel=1e-13, abs=1e-13)


def touch_down_time(vehicle, height):
    """Free fall without drag and thrust: t = √(2h/g), h from the feet."""
    return math.sqrt(2.0 * height / vehicle["gravity"].acceleration)


@pytest.fixture(scope="module")
def ball():
    """A Crazyflie without aerodynamics and thrust: free fall has a closed form."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag", "damping")
    return vehicle.replace({"rotors.k_thrust": 1e-30, "rotors.k_torque": 0.0})


def foot_depth(vehicle):
    return -min(point.z for point in vehicle["contact"].points_B)


def test_rk45_finds_the_touch_down_to_a_microsecond(ball):
    """The first contact is at the time of the closed form."""
    plant = Plant(ball, integrator="rk45")
    set_plant_state(plant, 0, state_at_rest(ball, Vec3(0.0, 0.0, DROP + foot_depth(ball))))
    plant.advance(0, 600_000)
    assert plant.contact_times_us[0] == pytest.approx(1e6 * touch_down_time(ball, DROP), abs=1.0)
    assert len(plant.contact_times_us) >= 2, "it bounces"


@pytest.mark.parametrize("integrator", ["rk4", "rk45"])
def test_the_speed_of_a_touch_is_that_of_free_fall(ball, integrator):
    """v = √(2 g h), with rk4 to the error of a 1 ms step; a drone that stands has no impact."""
    plant = Plant(ball, n=2, integrator=integrator)
    set_plant_state(plant, 0, state_at_rest(ball, Vec3(0.0, 0.0, DROP + foot_depth(ball))))
    set_plant_state(plant, 1, state_at_rest(ball, Vec3(0.0, 0.0, foot_depth(ball) - 1e-5)))
    plant.advance(0, 100_500)
    assert (plant.impact_speed == 0.0).all()
    plant.advance(100_500, 600_250)
    g = ball["gravity"].acceleration
    assert plant.impact_speed[0] == pytest.approx(math.sqrt(2.0 * g * DROP), abs=1.1e-3 * g)
    assert plant.impact_speed[1] < 0.02


def impact_error(ball, dt_us):
    """|v_z| error just after the touch-down, of fixed steps against the adaptive plant."""
    end = round(1e6 * touch_down_time(ball, DROP)) + 8000
    fixed, exact = Plant(ball, physics_us=dt_us), Plant(ball, integrator="rk45")
    for plant in (fixed, exact):
        set_plant_state(plant, 0, state_at_rest(ball, Vec3(0.0, 0.0, DROP + foot_depth(ball))))
        plant.advance(0, end)
    return abs(float(fixed.state[5, 0] - exact.state[5, 0]))


def test_the_fixed_step_error_of_an_impact_is_of_first_order(ball):
    """A step across the touch-down misses its time by up to dt: the error falls with dt, not with dt⁴.

    Measured on the Crazyflie dropped from 1 m, in m/s: about 0.1 at 1 ms, 1e-3 at 20 µs.
    """
    coarse = max(impact_error(ball, dt) for dt in (1000, 900, 800))
    fine = max(impact_error(ball, dt) for dt in (20, 18, 16))
    assert 1e-3 < coarse < 1.0
    assert fine < 0.1 * coarse


def test_rk45_stands_still_where_rk4_does():
    """Two seconds on its feet: both settle at the height where the springs carry the weight."""
    vehicle = samara.vehicle("crazyflie_documented")
    ends = []
    for integrator in ("rk4", "rk45"):
        plant = Plant(vehicle, integrator=integrator, physics_us=500)
        set_plant_state(plant, 0, state_at_rest(vehicle, Vec3(0.0, 0.0, foot_depth(vehicle))))
        plant.advance(0, 2_000_000)
        ends.append(plant_state(plant, 0).p_W.z)
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)


def test_a_rate_that_is_not_finite_is_an_error():
    vehicle = samara.vehicle("crazyflie_documented")
    plant = Plant(vehicle, integrator="rk45")
    set_plant_state(plant, 0, samara.hover(vehicle)[0])
    plant.command[:, 0] = math.nan
    with pytest.raises(FloatingPointError, match=r"not finite at 1\.000"):
        plant.advance(1_000_000, 1_004_000)


def test_an_unknown_integrator_is_an_error():
    with pytest.raises(ValueError, match=r"integrator 'leapfrog': expected one of .*rk4, .*rk45"):
        Plant(samara.vehicle("crazyflie_documented"), integrator="leapfrog")


def test_the_environment_names_its_rows():
    vehicle = samara.vehicle("iris_documented")
    plant = Plant(vehicle)
    plant.environment[plant.environment_row("battery_connected"), 0] = 0.0
    environment = unflatten(complete_environment(vehicle), iter(plant.environment[:, 0].tolist()))
    assert environment == complete_environment(vehicle, CALM)._replace(battery_connected=0.0)
