"""Compiled code equals Python: every backend gives the results of Python floats, for one drone, a few and thousands."""

import numpy as np
import pytest
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara.compiler.scan import scan
from samara.control.geometric import geometric
from samara.core.integrate import rk4
from samara.core.tree import flatten, leaf_names, unflatten
from samara.physics.multirotor import derivative
from samara.physics.types import Environment, Reference, State

BENCH = samara.vehicle("crazyflie_documented").without_effect("contact", "damping")
FULL = samara.vehicle("iris_documented")


def random_states(vehicle, n: int, seed: int = 0) -> State:
    """Return n drones near hover: tumbling, moving, at other heights and rotor speeds."""
    rng = np.random.default_rng(seed)
    trim, _ = samara.hover(vehicle)
    rows = np.array(flatten(trim), dtype=float)[:, None] * np.ones(n)
    rows[:6] += rng.normal(scale=0.3, size=(6, n))
    rows[6:10] += rng.normal(scale=0.3, size=(4, n))
    rows[6:10] /= np.linalg.norm(rows[6:10], axis=0)
    rows[10:13] += rng.normal(scale=2.0, size=(3, n))
    rotors = slice(13, 13 + len(vehicle.rotors))
    rows[rotors] *= rng.uniform(0.8, 1.2, size=rows[rotors].shape)
    return unflatten(trim, iter(rows))


def drone(state: State, k: int) -> State:
    return unflatten(state, iter(float(leaf[k]) for leaf in flatten(state)))


def stack_leaves(state: State) -> np.ndarray:
    return np.array([np.atleast_1d(leaf) for leaf in flatten(state)])


def relative_error(a: np.ndarray, b: np.ndarray) -> float:
    return float((np.abs(a - b) / np.maximum(1.0, np.abs(a))).max())


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_llvm_steps_every_vehicle_as_python_does(name):
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    state = state._replace(omega_B=samara.Vec3(0.5, -0.3, 0.2), v_W=samara.Vec3(1.0, -2.0, 0.5))
    expected = state
    for _ in range(5):
        expected = samara.step(expected, command, vehicle, 1e-3)
    result = samara.compile(vehicle, backend="llvm").step(state, command, 1e-3, steps=5)
    assert relative_error(stack_leaves(expected), stack_leaves(result)) <= 1e-12


@pytest.mark.parametrize("n", [1, 7, 4096])
def test_a_batch_is_its_drones_bit_for_bit(n):
    """Strict IEEE: alone, in a full tile or in the remainder, a drone's values have the same bits."""
    sim = samara.compile(BENCH, backend="llvm")
    batch = random_states(BENCH, n)
    command = tuple(np.random.default_rng(1).uniform(0.3, 0.8, size=(4, n)))
    batch_result = sim.step(batch, command, 1e-3, steps=3)
    for k in {0, n // 2, n - 1}:
        single_result = sim.step(drone(batch, k), tuple(float(u[k]) for u in command), 1e-3, steps=3)
        assert [float(leaf[k]) for leaf in flatten(batch_result)] == flatten(single_result)


def test_the_order_of_the_drones_makes_no_difference():
    sim = samara.compile(BENCH, backend="llvm")
    batch, order = random_states(BENCH, 37), np.random.default_rng(2).permutation(37)
    command = samara.hover(BENCH)[1]
    shuffled = unflatten(batch, iter(leaf[order] for leaf in flatten(batch)))
    a, b = sim.step(batch, command, 1e-3, steps=4), sim.step(shuffled, command, 1e-3, steps=4)
    assert all((x[order] == y).all() for x, y in zip(flatten(a), flatten(b), strict=True))


@pytest.mark.parametrize("backend", ["python", "numpy", "llvm", "jax"])
@pytest.mark.parametrize("n", [1, 7, 4096])
def test_every_backend_agrees_to_a_trillionth(backend, n):
    batch, command = random_states(BENCH, n), samara.hover(BENCH)[1]
    expected = unflatten(batch, iter(np.asarray(leaf) for leaf in flatten(batch)))
    for _ in range(4):
        expected = rk4(lambda s: derivative(s, command, BENCH), expected, 1e-3)
    result = samara.compile(BENCH, backend=backend).step(batch, command, 1e-3, steps=4)
    assert relative_error(stack_leaves(expected), stack_leaves(result)) <= 1e-12


@pytest.mark.parametrize("n", [1, pytest.param(7, marks=pytest.mark.long), 4096])
@pytest.mark.parametrize("backend", ["llvm", "jax", "pallas"])
def test_single_precision_is_right_to_single_precision(backend, n):
    """Ten steps of a millisecond in float32: relative error within 1e-5 of double. Without a GPU, Pallas interprets."""
    batch, command = random_states(BENCH, n), samara.hover(BENCH)[1]
    double = samara.compile(BENCH, backend="llvm").step(batch, command, 1e-3, steps=10)
    single = samara.compile(BENCH, backend=backend, dtype="float32").step(batch, command, 1e-3, steps=10)
    assert all(np.asarray(leaf).dtype == np.float32 for leaf in flatten(single))
    assert relative_error(stack_leaves(double), stack_leaves(single)) <= 1e-5


@pytest.mark.long
def test_contraction_changes_only_the_last_digits():
    batch, command = random_states(FULL, 16), samara.hover(FULL)[1]
    strict, fast = (
        samara.compile(FULL, backend="llvm", fast=fast).step(batch, command, 1e-3, 10) for fast in (False, True)
    )
    assert relative_error(stack_leaves(strict), stack_leaves(fast)) <= 1e-11


@pytest.mark.long
def test_wind_ground_and_density_reach_the_compiled_step():
    environment = Environment(wind_W=samara.Vec3(4.0, -3.0, 1.0), air_density=1.0)
    state, command = samara.hover(FULL)
    expected = samara.step(state, command, FULL, 1e-3, environment=environment)
    result = samara.compile(FULL, backend="llvm").step(state, command, 1e-3, environment=environment)
    assert relative_error(stack_leaves(expected), stack_leaves(result)) <= 1e-12
    calm = samara.compile(FULL, backend="llvm").step(state, command, 1e-3)
    assert abs(result.v_W.x - calm.v_W.x) > 1e-5


@pytest.mark.parametrize("backend", ["numpy", "llvm", "jax"])
def test_parameters_vary_from_drone_to_drone_without_compiling_again(backend):
    """Masses and thrust coefficients as arrays: each drone flies as a vehicle built with its parameters."""
    n = 9
    rng = np.random.default_rng(3)
    mass = rng.uniform(0.02, 0.04, n)
    k_thrust = rng.uniform(2e-8, 4e-8, n)
    sim = samara.compile(BENCH, backend=backend, vary=("mass", "rotors.k_thrust", "drag.linear"))
    batch, command = random_states(BENCH, n), samara.hover(BENCH)[1]
    fleet = BENCH.replace({"mass": mass, "rotors.k_thrust": k_thrust})
    batch_result = sim.step(batch, command, 1e-3, steps=3, vehicle=fleet)
    for k in range(n):
        vehicle = BENCH.replace({"mass": float(mass[k]), "rotors.k_thrust": float(k_thrust[k])})
        single_state = drone(batch, k)
        for _ in range(3):
            single_state = samara.step(single_state, command, vehicle, 1e-3)
        assert (
            relative_error(stack_leaves(single_state)[:, 0], np.array([leaf[k] for leaf in flatten(batch_result)]))
            <= 1e-12
        )


@pytest.mark.parametrize("backend", ["python", "llvm", "jax"])
def test_a_rollout_is_its_steps(backend):
    """A different command at every step; every third state recorded; the last two steps are included."""
    rng = np.random.default_rng(4)
    state, trim = samara.hover(BENCH)
    commands = np.array(trim) + rng.uniform(-0.1, 0.1, size=(11, 4))
    run = samara.compile(BENCH, backend=backend).rollout(state, commands, 2e-3, record_every=3)
    expected, recorded = state, []
    for k, command in enumerate(commands):
        expected = samara.step(expected, tuple(command.tolist()), BENCH, 2e-3)
        if (k + 1) % 3 == 0:
            recorded.append(stack_leaves(expected)[:, 0])
    assert relative_error(stack_leaves(expected), stack_leaves(run.final)) <= 1e-12
    assert relative_error(np.array(recorded).T, np.array(flatten(run.states))) <= 1e-12
    assert run.time == pytest.approx([6e-3, 12e-3, 18e-3])


@pytest.mark.parametrize("backend", ["python", "llvm", "jax"])
def test_a_controller_compiles_into_the_loop(backend):
    """Closed loop in one call: the same states as controller and plant called in turn."""
    vehicle = samara.vehicle("hakoniwa").without_effect("contact")
    control = geometric(vehicle)
    state, _ = samara.hover(vehicle)
    reference = Reference(samara.Vec3(0.5, -0.4, 1.3), yaw=0.2)
    rows = np.tile(flatten(reference), (20, 1))
    run = samara.compile(vehicle, backend=backend, controller=control).rollout(
        state, reference=rows, dt=2e-3, record_every=5
    )
    expected = state
    for _ in range(20):
        command, _ = control(expected, reference, vehicle, ())
        expected = samara.step(expected, command, vehicle, 2e-3)
    assert relative_error(stack_leaves(expected), stack_leaves(run.final)) <= 1e-12
    assert len(run.commands) == 4


def test_step_into_works_in_place():
    sim = samara.compile(BENCH, backend="llvm")
    state, command = samara.hover(BENCH)
    state = state._replace(omega_B=samara.Vec3(1.0, 0.0, 0.0))
    one, many = state.to_numpy(), np.tile(state.to_numpy()[:, None], (1, 21))
    sim.step_into(one, command, 1e-3, steps=2)
    sim.step_into(many, command, 1e-3, steps=2)
    expected = stack_leaves(sim.step(state, command, 1e-3, steps=2))
    assert (one == expected[:, 0]).all()
    assert (many == expected).all()


@pytest.mark.parametrize(
    "name", ["crazyflie_documented", pytest.param("iris_documented", marks=pytest.mark.long), "rigid_body_quadrotor"]
)
def test_the_jacobian_is_exact(name):
    """∂x'/∂x and ∂x'/∂u of the step against central differences whose steps balance rounding and curvature."""
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    state = state._replace(omega_B=samara.Vec3(0.5, -0.3, 0.2), v_W=samara.Vec3(1.0, -2.0, 0.5))
    numbers = [
        0.7 if name.endswith("charge") else leaf for name, leaf in zip(leaf_names(state), flatten(state), strict=True)
    ]
    state = unflatten(state, iter(numbers))  # off the knee of the battery's table, where slopes are one-sided
    sim = samara.compile(vehicle, backend="llvm")
    a, b = sim.linearize(state, command, 5e-3)
    x, u = np.array(flatten(state)), np.array(command)

    def after(x_now, u_now):
        return np.array(flatten(sim.step(unflatten(state, iter(x_now.tolist())), tuple(u_now.tolist()), 5e-3)))

    for matrix, at, vary in ((a, x, 0), (b, u, 1)):
        for k in range(len(at)):
            h = 1e-5 * max(1.0, abs(at[k]))
            shift = np.zeros(len(at))
            shift[k] = h
            up, down = (after(x + s, u) if vary == 0 else after(x, u + s) for s in (shift, -shift))
            assert matrix[:, k] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)


def test_in_the_tangent_space_attitude_has_three_dimensions():
    """A small rotation δθ of the attitude before the step changes the state after it as the reduced matrix predicts."""
    from samara.core.algebra import conjugate, quat_exp, quat_log

    vehicle = samara.vehicle("hakoniwa").without_effect("contact")
    state, command = samara.hover(vehicle)
    state = state._replace(omega_B=samara.Vec3(0.7, -0.4, 0.3), v_W=samara.Vec3(1.0, 2.0, 0.5))
    sim = samara.compile(vehicle, backend="llvm")
    a, b = sim.linearize(state, command, 1e-2, tangent=True)
    assert a.shape == (16, 16)
    assert b.shape == (16, 4)
    turn = samara.Vec3(1e-6, -2e-6, 1.5e-6)
    before = sim.step(state, command, 1e-2)
    after = sim.step(state._replace(q_WB=state.q_WB * quat_exp(turn)), command, 1e-2)
    moved = a[:, 6:9] @ np.array(turn)
    assert np.array(quat_log(conjugate(before.q_WB) * after.q_WB)) == pytest.approx(moved[6:9], rel=1e-4)
    assert np.array(after.v_W - before.v_W) == pytest.approx(moved[3:6], rel=1e-3, abs=1e-12)


def test_scan_runs_forwards_and_backwards():
    """A discounted sum, and the same from the end: closed forms."""

    def body(carry, x):
        return carry * 0.5 + x, carry

    inputs = np.array([1.0, 2.0, 4.0])
    total, outputs = scan(body, 0.0, inputs)
    assert total == 1 * 0.25 + 2 * 0.5 + 4
    assert outputs.tolist() == [0.0, 1.0, 2.5]
    total, outputs = scan(body, 0.0, inputs, reverse=True)
    assert total == 4 * 0.25 + 2 * 0.5 + 1
    assert outputs.tolist() == [4.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: samara.compile(BENCH, backend="cuda"), "backend 'cuda': expected one of"),
        (lambda: samara.compile(BENCH, dtype="float16"), "dtype 'float16': expected one of"),
        (lambda: samara.compile(BENCH, integrator="rk5"), "integrator 'rk5': expected one of"),
        (
            lambda: samara.compile(BENCH, integrator="semi_implicit").linearize(*samara.hover(BENCH), 1e-3),
            "linearize: integrator 'semi_implicit': expected one of euler, midpoint, rk4",
        ),
        (lambda: samara.compile(BENCH, effects=("gravity", "magic")), "effects names 'magic'"),
        (lambda: samara.compile(BENCH, vary=("rotors.colour",)), "no parameter 'rotors.colour'"),
    ],
)
def test_unknown_names_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_wrong_shapes_and_numbers_get_one_sentence():
    sim = samara.compile(BENCH, backend="llvm")
    state, command = samara.hover(BENCH)
    batch = random_states(BENCH, 5)
    with pytest.raises(ValueError, match="command has 3 numbers; vehicle 'crazyflie_documented'"):
        sim.step(state, command[:3], 1e-3)
    with pytest.raises(ValueError, match=r"command\[2\] is nan"):
        sim.step(state, (0.5, 0.5, float("nan"), 0.5), 1e-3)
    with pytest.raises(ValueError, match="a batch is arrays of one length"):
        sim.step(batch, (np.zeros(4), 0.5, 0.5, 0.5), 1e-3)
    with pytest.raises(ValueError, match=r"commands: expected shape \(steps, 4\)"):
        sim.rollout(state, np.zeros((10, 3)), 1e-3)
    broken = batch._replace(v_W=batch.v_W._replace(y=np.array([0.0, 0.0, np.nan, 0.0, 0.0])))
    with pytest.raises(FloatingPointError, match="of drone 2 is nan"):
        sim.step(broken, command, 1e-3)


def test_the_root_of_a_square_is_the_absolute_value():
    """√(x²) = |x|: CasADi turns it into an operation for that."""
    from samara.compiler.compiled_step import CompiledStep
    from samara.core.ops import sqrt

    machine = CompiledStep(lambda carry, held_inputs: (sqrt(held_inputs[0] * held_inputs[0]),), (0.0,), (1.0,)).machine(
        3
    )
    machine.held_inputs[0] = (-3.0, 0.0, 2.0)
    machine.run()
    assert machine.carry[0].tolist() == [3.0, 0.0, 2.0]


def test_removed_effects_are_not_in_the_code():
    from samara.compiler.trace.folding_tape import trace_program

    def size(vehicle):
        state, command = samara.hover(vehicle)
        body = trace_program(lambda s, u: (rk4(lambda x: derivative(x, u, vehicle), s, 1e-3),), state, command)
        return len(body.instructions)

    assert size(BENCH) < 0.4 * size(samara.vehicle("crazyflie_documented"))
    assert leaf_names(samara.hover(BENCH)[0])[-1] == "rotor_speed[3]"


def test_a_buffer_that_does_not_fit_is_refused():
    """step_into writes through a pointer: another shape, dtype or memory order must never reach it."""
    sim = samara.compile(BENCH, backend="llvm")
    state, command = samara.hover(BENCH)
    x = state.to_numpy()
    for wrong in (
        x.astype("float32"),
        x[:-1].copy(),
        np.tile(x, 2)[::2],
        np.tile(x[:, None], (1, 8)).T.copy(),
        x[:, None].astype("f4"),
    ):
        with pytest.raises(ValueError, match="buffer has shape"):
            sim.step_into(wrong, command, 1e-3)
    with pytest.raises(ValueError, match="command has 5 numbers"):
        sim.step_into(x, (*command, 0.5), 1e-3)
    with pytest.raises(ValueError, match="must have length 8"):
        sim.step_into(np.tile(x[:, None], (1, 8)), tuple(np.full(4, u) for u in command), 1e-3)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_memory_that_may_not_be_written_is_not_written(backend, tmp_path):
    """A file mapped read-only, a `bytes`, an array made read-only after its first step: each is refused and unchanged."""
    sim = samara.compile(BENCH, backend=backend)
    state, command = samara.hover(BENCH)
    x = state.to_numpy() + 0.1
    np.save(tmp_path / "x.npy", x)
    original = x.tobytes()
    mapped, frozen, frozen_later = np.load(tmp_path / "x.npy", mmap_mode="r"), np.frombuffer(original), x.copy()
    sim.step_into(frozen_later, command, 1e-3)
    after = frozen_later.tobytes()
    frozen_later.flags.writeable = False
    for reshape in (lambda array: array, lambda array: array.reshape(-1, 1)):
        for array, before in ((mapped, original), (frozen, original), (frozen_later, after)):
            with pytest.raises(ValueError, match=r"not writable; expected .* writable"):
                sim.step_into(reshape(array), command, 1e-3)
            assert array.tobytes() == before
    assert original == x.tobytes()


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_other_byte_orders_and_unaligned_buffers_are_refused(backend):
    """The same letter "d" in the other byte order, or unaligned doubles, are not native numbers."""
    sim = samara.compile(BENCH, backend=backend)
    state, command = samara.hover(BENCH)
    x = state.to_numpy()
    shifted = np.empty(x.nbytes + 1, np.uint8)[1:].view(float)
    for wrong in (x.astype(x.dtype.newbyteorder()), shifted, x.reshape(1, 1, -1), list(x), memoryview(x)):
        with pytest.raises(ValueError, match=r"^buffer .*expected"):
            sim.step_into(wrong, command, 1e-3)
    buffer = x.copy()
    sim.step_into(buffer, command, 1e-3)
    with pytest.raises(ValueError, match="byte order"):
        sim.step_into(buffer.view(buffer.dtype.newbyteorder()), command, 1e-3)


@pytest.mark.parametrize("steps", [-1, 2**64, 10**400, 1.5, True, "3", None])
def test_step_counts_are_integers(steps):
    sim = samara.compile(BENCH, backend="llvm")
    state, command = samara.hover(BENCH)
    for call in (
        lambda: sim.step(state, command, 1e-3, steps=steps),
        lambda: sim.step_into(state.to_numpy(), command, 1e-3, steps=steps),
        lambda: sim.rollout(state, np.tile(command, (4, 1)), record_every=steps),
    ):
        with pytest.raises(ValueError, match=r"^(steps|record_every) is .*; expected a whole number"):
            call()
    assert sim.step(state, command, 1e-3, steps=np.int32(0)) == state


def test_the_code_uses_the_widest_registers():
    """On a CPU with AVX-512 or AVX2 the batch kernel works in zmm or ymm registers, and calls nothing."""
    from samara.compiler.llvm.codegen import vector_width
    from samara.compiler.llvm.scan import ScanShape, scan_kernel
    from samara.compiler.trace.folding_tape import trace_program

    state, command = samara.hover(BENCH)
    body = trace_program(lambda s, u, i: (rk4(lambda x: derivative(x, u, BENCH), s, 1e-3), ()), state, command, ())
    width = vector_width("float32")
    kernel = scan_kernel(body, ScanShape(len(flatten(state)), (True,) * 4, 0, True, 0), "float32", width)
    assembly = kernel.assembly
    loop = assembly[assembly.index("scan:") : assembly.index("advance:")]
    register = {16: "zmm", 8: "ymm", 4: ""}[width]
    assert loop.count(register) > 500
    assert "call" not in loop
