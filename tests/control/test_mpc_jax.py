"""The controller in flight in JAX: one tick, non-finite inputs and whole flights against the compiled one of the CPU."""

import numpy as np
import pytest

import samara
from samara.control.mpc import MPC
from samara.control.mpc.flight import BatchController, shift_inputs, split_shift
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference
from samara.plan.trajectory import figure8, hover
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates

CRAZYFLIE = samara.vehicle("crazyflie")  # slow motors and a moment of airspeed: both observers run
N, PERIOD, RATE = 4, 0.01, 100.0
FIGURE_EIGHT = figure8((0.0, 0.0, 1.5), half_length=1.0, speed=1.0)
FIELDS = len(flatten(Reference(ZERO)))


def make_controller(**options):
    return MPC(CRAZYFLIE, **{"horizon": 8, "integrator": "euler", "period": PERIOD, "yaw_weight": 4.0, **options})


def random_states(rng):
    """(components, N) near hover, with attitudes of a norm slightly above 1"""
    hover_state = samara.hover(CRAZYFLIE)[0]
    states = [
        hover_state._replace(
            p_W=Vec3(*rng.uniform(-0.5, 0.5, 3)),
            v_W=Vec3(*rng.uniform(-1.5, 1.5, 3)),
            q_WB=quat_from_euler(*rng.uniform(-0.6, 0.6, 3)) * 1.001,
            omega_B=Vec3(*rng.uniform(-3.0, 3.0, 3)),
            rotor_speed=tuple(rng.uniform(0.8, 1.2) * speed for speed in hover_state.rotor_speed),
        )
        for _ in range(N)
    ]
    return np.array([flatten(state) for state in states]).T


def references_ahead(look_ahead, tick):
    """(instants, fields, N): a figure of eight, each flight delayed relative to the previous one"""
    flights = [
        [flatten(FIGURE_EIGHT.evaluate(PERIOD * tick + 0.3 * k + time)) for time in look_ahead.tolist()]
        for k in range(N)
    ]
    return np.moveaxis(np.array(flights), 0, 2)


class CompiledController:
    """The controller as a stage calls it, with folded scalars of N flights, and its state between ticks."""

    def __init__(self, controller, dtype):
        import jax
        import jax.numpy as jnp

        from samara.compiler.jax.arrays import precision
        from samara.compiler.jax.folding_scalar import fold_tree, new_trace, unfold_leaves
        from samara.control.mpc.batch_jax import MpcBatchState, flight_controller

        self.controller, self.dtype, self._precision = controller, dtype, precision
        self.flight, hover_state = flight_controller(controller, CRAZYFLIE), samara.hover(CRAZYFLIE)[0]
        instants = (Reference(ZERO),) * len(controller.look_ahead)

        def tick(controller_state, states, ahead):
            trace = new_trace(dtype)
            command, next_state = self.flight(
                fold_tree(hover_state, [*states], trace),
                fold_tree(instants, [*ahead.reshape(-1, N)], trace),
                CRAZYFLIE,
                fold_tree(self.flight.start, [row for rows in controller_state for row in rows], trace),
            )
            rows = (unfold_leaves((field,)) for field in next_state)
            return jnp.stack(unfold_leaves(command)), MpcBatchState(
                *(jnp.stack(leaves) if leaves else jnp.zeros((0, N), dtype) for leaves in rows)
            )

        # these options speed up compilation and do not change the results
        options = {"xla_disable_hlo_passes": "fusion", "xla_backend_optimization_level": "0"}
        self._tick = jax.jit(tick, compiler_options=options)
        self.restart()

    def restart(self):
        with self._precision(self.dtype):
            self.state = self.flight.initial_state(N, self.dtype)

    def run(self, states, ahead):
        """Return commands (channels, N) after one tick."""
        with self._precision(self.dtype):
            command, self.state = self._tick(self.state, states.astype(self.dtype), ahead.astype(self.dtype))
        assert command.dtype == self.dtype and {field.dtype.name for field in self.state} == {self.dtype}
        return np.asarray(command)


@pytest.fixture(scope="module")
def double():
    pytest.importorskip("jax")
    return CompiledController(
        make_controller(control_iterations=2, tolerance=200.0), "float64"
    )  # some problems converge at once, some do not


def require_same_ticks(compiled, tolerance, corrupt=lambda tick, states, ahead: None):
    compiled.restart()
    arrays, rng = compiled.controller.batch_controller(CRAZYFLIE, N), np.random.default_rng(0)
    for tick in range(6):
        states, ahead = random_states(rng), references_ahead(compiled.controller.look_ahead, tick)
        corrupt(tick, states, ahead)
        arrays.run(states, ahead)
        np.testing.assert_allclose(
            compiled.run(states, ahead), arrays.command, rtol=0, atol=tolerance, err_msg=f"{tick}"
        )
        predicted = np.asarray(compiled.state.prediction).reshape(arrays.prediction.shape)
        np.testing.assert_allclose(predicted, arrays.prediction, rtol=0, atol=tolerance, err_msg=f"{tick}")
        assert np.ptp(arrays.command) > 0.01


@pytest.mark.long
def test_a_tick_in_jax_is_the_compiled_tick(double):
    require_same_ticks(double, 1e-11)
    assert not np.asarray(double.state.fallbacks).any()


@pytest.mark.long
def test_a_plan_that_turns_over_is_replaced_in_jax_too(double, monkeypatch):
    check, answers = BatchController._plan_turns_over, []
    monkeypatch.setattr(BatchController, "_plan_turns_over", lambda self: answers.append(check(self)) or answers[-1])

    def spin(tick, states, ahead):
        states[10:12] *= 4.0

    require_same_ticks(double, 1e-10, spin)
    assert any(answers) and not all(answers)


@pytest.mark.long
def test_non_finite_inputs_in_jax_are_answered_with_hover_and_counted(double):
    """A velocity, an attitude of length 0, a rotor speed, a reference, and a rate at which no plan has a finite cost."""

    def corrupt(tick, states, ahead):
        if tick == 1:
            states[4, 1], states[6:10, 0] = np.nan, 0.0
        if tick == 2:
            states[14, 2], ahead[3, 1, 0] = np.inf, np.nan
        if tick == 4:
            states[10, 3] = 1e30

    with pytest.warns(RuntimeWarning, match="hovering instead") as warnings_raised:
        require_same_ticks(double, 1e-11, corrupt)
    fallbacks = np.asarray(double.state.fallbacks)
    assert (fallbacks > 0).all() and fallbacks.sum() == len(warnings_raised)


@pytest.mark.long
def test_a_flight_in_jax_does_not_depend_on_the_others_of_its_batch(double):
    commands = []
    for seed in (1, 2):
        double.restart()
        rng, other_rng = np.random.default_rng(0), np.random.default_rng(seed)
        for tick in range(3):
            states, ahead = random_states(rng), references_ahead(double.controller.look_ahead, tick)
            states[:, :3] = random_states(other_rng)[:, :3]
            states[0, 0] = np.nan
            commands.append(double.run(states, ahead))
    first, second = np.split(np.array(commands), 2)
    np.testing.assert_array_equal(first[:, :, 3], second[:, :, 3])
    assert np.abs(first[:, :, 1] - second[:, :, 1]).max() > 0.01


def fly_task(controller, task, start_W):
    drone = Drone("drone", CRAZYFLIE, task, start_W=start_W, airborne=True, controller=controller)
    return samara.fly(Scenario("closed loop", (drone,), 2.0, rates=Rates(control=RATE)))


def make_python_controller(compiled):
    """Return a controller that calls JAX, with the interface that `samara.fly` expects of functions."""
    compiled.restart()

    def control(state, reference, vehicle, controller_state):
        states = np.repeat(np.array(flatten(state))[:, None], N, axis=1)
        ahead = np.stack([np.broadcast_to(leaf, len(control.look_ahead)) for leaf in flatten(reference)], axis=1)
        return tuple(compiled.run(states, np.repeat(ahead[:, :, None], N, axis=2))[:, 0].tolist())

    control.look_ahead = compiled.controller.look_ahead
    return control


def largest_position_error(compiled, task, start_W):
    in_jax, by_name = (
        fly_task(controller, task, start_W) for controller in (make_python_controller(compiled), compiled.controller)
    )
    assert np.ptp(by_name.position, axis=0).max() > 0.1
    return np.abs(in_jax.position - by_name.position).max()


TASKS = {
    "hover": (hover((0.3, -0.2, 1.2)), Vec3(0.0, 0.0, 1.0)),
    "figure8": (FIGURE_EIGHT, Vec3(*(float(x) for x in FIGURE_EIGHT.evaluate(0.0).p_W))),
}


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_two_seconds_of_flight_by_jax_are_those_of_the_compiled_controller(double, task):
    assert largest_position_error(double, *TASKS[task]) < 1e-9


@pytest.mark.long
def test_in_single_precision_it_flies_the_same_figure_of_eight():
    pytest.importorskip("jax")
    single = CompiledController(make_controller(max_iterations=4, tolerance=0.0), "float32")
    require_same_ticks(single, 2e-4)
    assert largest_position_error(single, *TASKS["figure8"]) < 1e-4


def test_a_step_keeps_the_types_of_its_state_in_a_scan():
    """By tracing alone: a scan rejects a state of other types, and a step that branches on values."""
    jax = pytest.importorskip("jax")
    from samara.control.mpc.batch_jax import flight_controller

    controller = make_controller()
    flight, hover_values = flight_controller(controller, CRAZYFLIE), np.array(flatten(samara.hover(CRAZYFLIE)[0]))
    state = flight.initial_state(N, "float32")

    def loop(controller_state):
        states = jax.numpy.asarray(np.tile(hover_values[:, None], N), "float32")
        ahead = jax.numpy.zeros((9, FIELDS, 1), "float32")
        return jax.lax.scan(lambda carry, _: flight.step(carry, states, ahead)[::-1], controller_state, None, length=3)

    after, commands = jax.eval_shape(loop, state)
    assert commands.shape == (3, 4, N) and commands.dtype == "float32"
    assert [(x.shape, x.dtype) for x in after] == [(x.shape, x.dtype) for x in state]


def test_flights_of_several_drones_have_rows_of_two_axes():
    """Rows and results are in the order of arrays (drones, flights); `step` is a stub"""
    jnp = pytest.importorskip("jax.numpy")
    from samara.compiler.jax.folding_scalar import fold_tree, new_trace, unfold_leaves
    from samara.control.mpc.batch_jax import FlightController, MpcBatchState

    hover_state, start = samara.hover(CRAZYFLIE)[0], MpcBatchState((), (), (0.0,) * 4, *((),) * 5, 0.0, 0.0)

    def step(controller_state, states, ahead):
        return states[:4] + ahead[1, :4], controller_state._replace(fallbacks=controller_state.fallbacks + states[:1])

    rng, instants = np.random.default_rng(3), (Reference(ZERO),) * 2
    states, ahead = (
        rng.normal(size=(len(flatten(hover_state)), 2, 3)),
        rng.normal(size=(2, len(flatten(instants[0])), 2, 1)),
    )
    trace = new_trace(jnp.dtype("float32"))
    state, references = fold_tree(hover_state, [*jnp.asarray(states)], trace), [*jnp.asarray(ahead.reshape(-1, 2, 1))]
    controller = FlightController(start, step)
    command, after = controller(state, fold_tree(instants, references, trace), CRAZYFLIE, start)
    np.testing.assert_allclose(np.stack(unfold_leaves(command)), states[:4] + ahead[1, :4], rtol=1e-5)
    np.testing.assert_allclose(unfold_leaves((after.fallbacks,))[0], states[0], rtol=1e-5)


def test_a_vehicle_with_another_state_is_refused():
    pytest.importorskip("jax")
    from samara.control.mpc.batch_jax import flight_controller

    with pytest.raises(ValueError, match=r"MPC\('crazyflie'.*for vehicle 'hexarotor_x': expected an MPC"):
        flight_controller(make_controller(), samara.vehicle("hexarotor_x"))


@pytest.mark.parametrize("seconds", [0.0, 0.004, 0.05, 0.12, 0.3, 9.0])
def test_shifted_inputs_are_those_of_linear_interpolation(seconds):
    """The last input is held."""
    controls, dt = np.random.default_rng(0).normal(size=(6, 4)), 0.05
    times = seconds + dt * np.arange(6)
    expected = np.stack([np.interp(times, dt * np.arange(6), column) for column in controls.T], axis=1)
    assert shift_inputs(controls, *split_shift(seconds, dt, 6)) == pytest.approx(expected, abs=1e-13)


@pytest.mark.long
def test_with_rotor_inputs_the_torque_observer_runs_once_a_tick():
    """On arrays and on named tuples, for a vehicle with a moment of airspeed."""
    controller = make_controller(inputs="rotors", horizon=4)
    arrays, rng, controller_states = (
        controller.batch_controller(CRAZYFLIE, N),
        np.random.default_rng(1),
        [controller.initial_state] * N,
    )
    for tick in range(3):
        states, ahead = random_states(rng), references_ahead(controller.look_ahead, tick)
        arrays.run(states, ahead)
        for k in range(N):
            state = unflatten(samara.hover(CRAZYFLIE)[0], iter(states[:, k].tolist()))
            reference = unflatten(Reference(ZERO), iter(ahead[:, :, k].T))
            command, controller_states[k] = controller(state, reference, CRAZYFLIE, controller_states[k])
            np.testing.assert_array_equal(arrays.command[:, k], command)
