"""The scan in JAX: results of the Python loop, gradients of a whole flight, a batch over several devices, and literals that
cost nothing."""

import math
from collections import Counter
from functools import partial
from operator import neg
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operations import BINARY, UNARY
from support.scans import (
    PATTERNS,
    SPRING,
    check_flight,
    check_spring,
    check_wall,
    closed_loop,
    max_relative_difference,
    open_loop,
    plain_crazyflie,
    run_python,
    spring,
)

import samara
from samara.compiler.jax.arrays import precision
from samara.compiler.jax.folding_scalar import (
    FoldingScalar,
    count_operations,
    fold_tree,
    new_trace,
    unfold_leaves,
    used_equations,
)
from samara.compiler.jax.scan import compile_scan_jax, flat_body, xla_options
from samara.compiler.scan import Templates
from samara.compiler.stepper import Stepper
from samara.core import ops
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import rotor_wrench
from samara.physics.types import CALM

# Literals -------------------------------------------------------------------------------------------------------------


def equations(function: Any, *arguments: Any) -> Counter[str]:
    """Count the operations in the trace of a function of folded scalars."""

    def on_arrays(*values: Any) -> list[Any]:
        trace = new_trace(jnp.float32)
        return unfold_leaves(tuple(function(*(FoldingScalar(x, trace) for x in values))))

    traced = jax.make_jaxpr(on_arrays)(*(jnp.float32(x) for x in arguments))
    return Counter(step.primitive.name for step in used_equations(traced.jaxpr))


def test_zeros_and_ones_written_in_the_source_are_free():
    """0 and 1 are the neutral elements: none of these needs an operation."""
    neutral = equations(lambda x: [x + 0.0, 0.0 + x, x - 0, 1.0 * x, x * 1, x / 1.0, x**1, neg(neg(x))], 2.0)
    absorbing = equations(lambda x: [x * 0.0, 0 * x, 0.0 / x], 2.0)
    assert neutral == absorbing == Counter()
    assert equations(lambda x: [0.0 - x, -1.0 * x, x / -1.0], 2.0) == {"neg": 1}
    assert equations(lambda x, y: [x - neg(y), y + neg(neg(x))], 2.0, 3.0)["add"] == 1


def test_an_upright_rotor_costs_five_products():
    """By hand: Ω², T = kF Ω², Q = kM Ω², τ = (y T, −x T, ∓Q). The zeros of its axis and height, its spin and the density
    ratio at sea level cost nothing."""
    vehicle = plain_crazyflie()
    state = state_at_rest(vehicle)

    def one_rotor(speed: Any) -> list[Any]:
        load = rotor_loads(state._replace(rotor_speed=(speed,) * 4), vehicle, CALM)[0]
        return flatten(rotor_wrench(load, vehicle.rotors[0]))

    assert equations(one_rotor, 1500.0)["mul"] == 5
    unfolded_trace = jax.make_jaxpr(one_rotor)(1500.0)
    assert sum(step.primitive.name == "mul" for step in unfolded_trace.jaxpr.eqns) > 15


def test_common_subexpressions_are_computed_once():
    """x y and y x are one value, and a value that is used twice is computed once."""
    assert equations(lambda x, y: [(x * y) + (y * x), ops.sqrt(x * y), ops.sqrt(y * x)], 2.0, 3.0) == {
        "mul": 1,
        "add": 1,
        "sqrt": 1,
    }


def test_a_step_without_its_zeros_has_half_the_operations():
    """The figure behind the GPU's speed, as a regression test."""
    flight = open_loop(plain_crazyflie(), 1, 1)
    work, fast = (flat_body(flight.body, flight.templates, "float32", fast).work for fast in (False, True))
    leaves = [[jnp.zeros(1)] * len(flatten(part)) for part in flight.templates]

    def plain(*groups: Any) -> list[Any]:
        trees = (unflatten(part, iter(group)) for part, group in zip(flight.templates, groups, strict=True))
        return flatten(flight.body(*trees))

    without = count_operations(jax.make_jaxpr(plain)(*leaves).jaxpr)
    assert work.operations < 0.5 * without.operations
    assert work.operations <= 680
    assert work.instructions <= 465
    assert fast.instructions <= 420


def test_a_zero_at_run_time_propagates_nan():
    """0 · NaN = NaN: only literal zeros fold, and drone 1 does not affect its neighbours."""
    run = compile_scan_jax(spring, SPRING, dtype="float64")
    carry = np.array([[1.0, math.nan, 1.0], [0.0, 0.0, 0.0]])
    end, _ = run(carry, [0.0], np.zeros((1, 1)), 1)
    assert np.isnan(end).tolist() == [[False, True, False], [False, True, False]]


@pytest.mark.parametrize("name", ["crazyflie_documented", "iris_documented"])
def test_folding_changes_no_bit(name):
    """The derivative in folded scalars is that of JAX arrays to the last bit, operation by operation: only the sign of a zero
    may change. And both are NumPy's to rounding."""
    vehicle = samara.vehicle(name)
    rng = np.random.default_rng(5)
    state, command = samara.hover(vehicle)
    leaves = [np.asarray(x + 0.01 * rng.normal(size=16)) for x in flatten(state)]
    arrays = [jnp.asarray(x) for x in leaves]
    by_numpy = derivative(unflatten(state, iter(leaves)), command, vehicle)
    by_jax = derivative(unflatten(state, iter(arrays)), command, vehicle)
    by_folding = derivative(fold_tree(state, arrays, new_trace(jnp.float64)), command, vehicle)
    for a, b, c in zip(flatten(by_numpy), flatten(by_jax), unfold_leaves(by_folding), strict=True):
        assert np.array_equal(np.broadcast_to(b, 16), np.broadcast_to(c, 16))
        assert max_relative_difference(c, a) <= 1e-12  # the battery's voltage amplifies rounding errors


def test_every_operation_takes_folded_scalars():
    """All of samara.core.ops on folded scalars and on one with a literal, against Python floats; a condition has no
    truth value."""
    knots = ((0.0, 0.5, 1.0), (1.0, 3.0, 2.0))
    x, y = 0.6, 0.35

    def everything(*arguments: Any) -> list[Any]:
        trace = new_trace(jnp.float64)
        a, b = (FoldingScalar(array, trace) for array in arguments)
        results = [getattr(ops, name)(a) for name in UNARY]
        results += [getattr(ops, name)(*pair) for name in BINARY for pair in ((a, b), (a, y), (x, b))]
        both, either = ops.logical_and(a > y, b > x), ops.logical_or(a > y, b > x)
        results += [ops.where(condition, 1.0, 2.0) for condition in (both, either, ops.equal(a, x), ops.equal(a, b))]
        with pytest.raises(TypeError, match="neither true nor false"):
            bool(both)
        return unfold_leaves((*results, ops.wrap_angle(a + 7.0), ops.piecewise_linear(a, *knots)))

    expected = [getattr(ops, name)(x) for name in UNARY] + [
        getattr(ops, name)(x, y) for name in BINARY for _ in range(3)
    ]
    expected += [2.0, 1.0, 1.0, 2.0, ops.wrap_angle(x + 7.0), np.interp(x, *knots)]
    assert jax.jit(everything)(x, y) == pytest.approx(expected, rel=4e-16)


def test_fast_divides_once_per_divisor():
    """x/m, y/m, z/m is one reciprocal and three products if `fast`, and within 1.5 roundings of the quotient."""

    def thirds(x: Any, m: Any, fast: bool) -> list[Any]:
        trace = new_trace(jnp.float64, fast)
        numbers = [FoldingScalar(number, trace) for number in (x, x + 1.0, x + 2.0)]
        return unfold_leaves(
            tuple([number / FoldingScalar(m, trace) for number in numbers] + [number / 3.0 for number in numbers])
        )

    x, m = np.random.default_rng(6).uniform(0.1, 10.0, (2, 1000))
    strict, fast = (jax.make_jaxpr(partial(thirds, fast=fast))(x, m).jaxpr.eqns for fast in (False, True))
    assert [sum(step.primitive.name == "div" for step in steps) for steps in (strict, fast)] == [6, 1]
    quotients, products = (np.array(thirds(jnp.asarray(x), jnp.asarray(m), fast)) for fast in (False, True))
    exact = np.array([(x + k) / d for d in (m, 3.0) for k in (0.0, 1.0, 2.0)])
    assert np.array_equal(quotients[:3], exact[:3])  # XLA multiplies by the reciprocal of a literal
    assert np.abs(products / exact - 1.0).max() <= 1.5 * np.finfo(float).eps


def test_fast_combines_consecutive_literal_factors():
    """dt/2 · (f / m) is one product, 2 · (x / 2) none at all, and f / m is no longer computed."""

    def on_arrays(x: Any) -> list[Any]:
        f = FoldingScalar(x, new_trace(jnp.float64, fast=True))
        return unfold_leaves((0.0005 * (f / 0.028), 2.0 * (f / 2.0)))

    traced = jax.make_jaxpr(on_arrays)(1.0)
    assert [step.primitive.name for step in used_equations(traced.jaxpr)] == ["mul"]
    assert on_arrays(jnp.asarray(3.0)) == pytest.approx([0.0005 * (3.0 / 0.028), 3.0], rel=2.3e-16)


# The scan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "steps", "every", "own_k", "own_u"), PATTERNS)
def test_a_spring_obeys_its_matrix(n, steps, every, own_k, own_u):
    """Linear recurrences, by matrix products drone by drone."""
    check_spring(compile_scan_jax, n, steps, every, own_k, own_u)


def test_without_inputs_a_scan_runs_on_its_own():
    """No inputs, no outputs: a decay by 0.9 per step."""
    run = compile_scan_jax(
        lambda x, held_inputs, inputs: ((x[0] * 0.9,), ()), Templates((1.0,), (), ()), dtype="float64"
    )
    end, outputs = run(np.array([[1.0, 2.0]]), [], None, 10, 5)
    assert np.asarray(end)[0] == pytest.approx([0.9**10, 2.0 * 0.9**10], rel=1e-15)
    assert outputs.shape == (2, 0, 2)


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 4e-15), ("float32", 4e-6)])
def test_a_flight_is_that_of_the_python_loop(dtype, bound):
    """Seven drones of different mass, a different command at every step."""
    check_flight(compile_scan_jax, open_loop(plain_crazyflie(), 7, 20), 5, dtype, bound)


@pytest.mark.long
def test_a_drone_on_the_ground_is_that_of_the_python_loop():
    """All default effects: contact with friction, damping. XLA compiles it without its fusion pass."""
    vehicle = samara.vehicle("crazyflie_documented")
    flight = open_loop(vehicle, 3, 20)
    flight.carry[2] = 0.0199  # the feet are 20 mm below the centre of mass
    check_flight(compile_scan_jax, flight, 10, "float64", 4e-15)


def test_a_batch_takes_the_idle_path_while_no_drone_touches_a_wall():
    """All drones of the batch, or none."""
    check_wall(compile_scan_jax, 7)


@pytest.mark.long
@pytest.mark.parametrize("lowest", [1.0, 0.0685])
def test_a_batch_takes_the_idle_path_while_all_are_in_the_air(lowest):
    """Results of the scan without the branch, whether or not one of them touches the ground."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag", "damping")
    scan = Stepper(vehicle, "euler", "jax").rollout()
    state, command = samara.hover(vehicle)
    carry = np.repeat(np.array(flatten(state))[:, None], 5, axis=1)
    carry[2], carry[5] = [1.0, 1.0, 1.0, 1.0, lowest], -1.0
    inputs = np.tile(np.array(command), (60, 1))
    results = [
        compile_scan_jax(scan.body, scan.templates, quiet, dtype="float64")(carry, [1e-3], inputs, 60, 20)
        for quiet in (scan.idle_path, None)
    ]
    for guarded, plain in zip(*results, strict=True):
        assert np.asarray(guarded) == pytest.approx(np.asarray(plain), rel=1e-13, abs=1e-13)
    assert (np.asarray(results[0][0])[5, 4] > -0.9) == (lowest < 0.1)  # the ground stopped it


def test_doubles_need_no_switch_and_floats_stay_floats():
    """With JAX's doubles off a float64 scan still is one, to 1e-12; and a float32 trace contains no double even if JAX has
    them on."""
    flight = closed_loop(samara.vehicle("crazyflie_documented"), 1, 1)
    leaves = [[jnp.zeros(1, jnp.float32)] * len(flatten(part)) for part in flight.templates]
    step = flat_body(flight.body, flight.templates, "float32").step
    kinds = {str(x.aval.dtype) for eqn in jax.make_jaxpr(step)(*leaves).jaxpr.eqns for x in eqn.outvars}
    assert kinds == {"float32", "bool"}
    run_python(
        {"JAX_ENABLE_X64": "0"},
        """
        import jax
        from test_jax_backend import *
        assert not jax.config.jax_enable_x64 and jnp.asarray(1.0).dtype == "float32"
        check_spring(compile_scan_jax, 7, 12, 4, True, True)
        assert jnp.asarray(1.0).dtype == "float32"
        """,
    )


# Gradients and devices ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_gradient_through_500_steps_is_the_slope():
    """d/dθ of the position of a tumbling drone after half a second, by its start, its mass and its commands: JAX backwards
    through the scan, against central differences computed as one batch."""
    vehicle = plain_crazyflie()
    flight = open_loop(vehicle, 1, 500)
    weights = np.random.default_rng(7).uniform(0.5, 1.5, 6)
    start, schedule = flight.carry[:, 0], flight.inputs[:, :, 0]
    theta0 = np.concatenate([start, [vehicle.mass], np.ones(4)])

    def loss(theta: Any) -> Any:
        state, mass, scale = theta[:17], theta[17], theta[18:]
        commands = tuple(schedule[:, i][(...,) + (None,) * (theta.ndim - 1)] * scale[i] for i in range(4))
        begin = unflatten(flight.templates.carry, iter(state))
        end, _ = samara.scan(lambda x, u: flight.body(x, (mass,), u), begin, commands)
        return sum(w * x for w, x in zip(weights, (*end.p_W, *end.v_W), strict=True))

    small = {"xla_disable_hlo_passes": "fusion"}  # compiles in a third of the time
    gradient = jax.jit(jax.grad(loss), compiler_options=small)(jnp.asarray(theta0))
    width = 1e-4 * np.maximum(1.0, np.abs(theta0))
    width[17] *= vehicle.mass
    shifts = np.concatenate([k * np.diag(width) for k in (1.0, -1.0, 2.0, -2.0)], axis=1)
    by_shift = jax.jit(loss, compiler_options=small)(theta0[:, None] + shifts)
    ahead, behind, far_ahead, far_behind = np.split(np.asarray(by_shift), 4)
    slope = (8.0 * (ahead - behind) - (far_ahead - far_behind)) / (12.0 * width)
    error = np.asarray(gradient) - slope
    assert np.abs(slope).min() > 1e-6
    assert np.abs(error).max() <= 5e-11 * np.abs(slope).max()


@pytest.mark.long
def test_a_batch_over_eight_devices_is_the_batch_on_one():
    """Drones are independent: split over eight devices nothing is communicated, and results stay on their device."""
    run_python(
        {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_ENABLE_X64": "1"},
        """
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        from support.scans import *
        from test_jax_backend import *
        assert len(jax.devices()) == 8
        over = NamedSharding(Mesh(np.array(jax.devices()), ("drones",)), PartitionSpec(None, "drones"))
        body, templates, carry, held, inputs = open_loop(plain_crazyflie(), 64, 3)
        alone = compile_scan_python(body, templates, dtype="float64")(carry, held, inputs, 3, 1)
        run = compile_scan_jax(body, templates, dtype="float64")
        cut = run(jax.device_put(carry, over), held, inputs, 3, 1)
        for a, b in zip(alone, cut):
            assert len(b.sharding.device_set) == 8 and b.addressable_shards[0].data.shape[-1] == 8
            assert max_relative_difference(b, a) <= 4e-15
        rollout = jax.jit(lambda mass, held, pushes: samara.scan(lambda x, u: spring(x, held, u), mass, pushes))
        row = NamedSharding(over.mesh, PartitionSpec("drones"))
        x = jax.device_put(np.ones(64), row)
        text = rollout.lower(Mass(x, x), (x,), (np.zeros(5),)).compile().as_text()
        words = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
        assert "while" in text and not any(word in text for word in words)
        """,
    )


def test_numpy_and_jax_are_all_it_needs():
    """A GPU machine may have neither CasADi, SciPy, llvmlite, Typer nor Rich."""
    run_python(
        {},
        """
        import sys
        for absent in ("casadi", "scipy", "llvmlite", "typer", "rich", "matplotlib", "sympy"):
            sys.modules[absent] = None  # importing it raises ImportError
        import samara
        from samara.compiler.jax import scan as jax_scan
        from samara.compiler import scan
        from samara.control.geometric import geometric
        vehicle = samara.vehicle("crazyflie_documented")
        samara.hover(vehicle), geometric(vehicle)
        """,
    )


def test_a_large_body_is_compiled_without_fusion_on_a_processor_alone():
    """Fusion would take a minute instead of seconds; a small body, and one for a GPU, are fused."""
    without = {"xla_disable_hlo_passes": "fusion"}
    assert [xla_options(count, "cpu") for count in (1500, 1501)] == [None, without]
    assert xla_options(10_000, "gpu") is None


def test_doubles_are_enabled_for_float64_only():
    """Independent of JAX's setting; singles leave it unchanged."""
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    for already in (False, True):
        with enable(already):
            with precision("float64"):
                assert jnp.zeros(1).dtype == "float64"
            with precision("float32"):
                assert jnp.result_type(float) == ("float64" if already else "float32")


def test_a_product_used_only_in_a_sum_is_fused_with_it():
    """x y + 1 is one instruction; x y, x y + 1 and x y − 2 together are three."""
    fused = count_operations(jax.make_jaxpr(lambda x, y: x * y + 1.0)(2.0, 3.0).jaxpr)
    shared = count_operations(jax.make_jaxpr(lambda x, y: (p := x * y, p + 1.0, p - 2.0))(2.0, 3.0).jaxpr)
    assert (fused.operations, fused.instructions) == (2, 1)
    assert (shared.operations, shared.instructions) == (3, 3)
