"""The scan as one GPU kernel: in interpret mode the results of the Python loop, and lowered for CUDA without a GPU, because
interpret mode accepts programs that Triton refuses."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operations import BINARY, UNARY
from support.scans import (
    PATTERNS,
    SPRING,
    Flight,
    check_flight,
    check_spring,
    check_wall,
    closed_loop,
    open_loop,
    plain_crazyflie,
    run_python,
    spring,
)
from support.tricopter import tricopter

import samara
from samara.compiler.jax.folding_scalar import rk4_in_kernel, rk4_loop
from samara.compiler.jax.scan import Launch, compile_scan_pallas, flat_body, kernel_function
from samara.compiler.scan import Templates, compile_scan_python
from samara.compiler.stepper import Stepper
from samara.core import ops
from samara.core.integrate import rk4
from samara.core.tree import flatten
from samara.physics.rotors.blade_element import RotorAir
from samara.physics.rotors.rotor_air_effects import DYNAMIC_AIR

in_interpreter = partial(compile_scan_pallas, interpret=True)
ONE_KERNEL = "__gpu$xla.gpu.triton"


def lowered_for_cuda(flight: Flight, every: int, dtype: str = "float32", fast: bool = False) -> str:
    """Return the module that a GPU would compile, with Triton's program in it."""
    kernel = kernel_function(flight.body, flight.templates, dtype=dtype, fast=fast)
    operands = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, dtype), (flight.carry, flight.constants, flight.inputs)
    )
    traced = jax.jit(kernel, static_argnums=(3, 4)).trace(*operands, len(flight.inputs), every)
    return traced.lower(lowering_platforms=("cuda",)).as_text()


# Numbers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "steps", "every", "own_k", "own_u"), PATTERNS)
def test_a_spring_obeys_its_matrix(n, steps, every, own_k, own_u):
    """Linear recurrences, by matrix products drone by drone; 300 drones are three blocks of 128 and 84 copies."""
    check_spring(partial(in_interpreter, launch=Launch(block=128)), n, steps, every, own_k, own_u)


def test_4096_drones_are_sixteen_blocks():
    """A batch that fills its blocks, one factor per drone: x is multiplied by its factor."""
    run = in_interpreter(
        lambda x, held_inputs, inputs: ((x[0] * held_inputs[0],), ()), Templates((1.0,), (2.0,), ()), dtype="float32"
    )
    factors = np.linspace(0.5, 1.5, 4096, dtype=np.float32)
    end, outputs = run(np.ones((1, 4096)), [factors], None, 2, 2)
    assert np.array_equal(np.asarray(end)[0], factors * factors)
    assert outputs.shape == (1, 0, 4096)


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 4e-15), ("float32", 4e-6)])
def test_a_flight_is_that_of_the_python_loop(dtype, bound):
    """Seven drones of different mass in a block of eight, a different command at every step."""
    check_flight(in_interpreter, open_loop(plain_crazyflie(), 7, 6), 3, dtype, bound)


def test_the_controller_flies_inside_the_kernel():
    """Lee's controller at every step, its commands recorded: those of the Python loop."""
    check_flight(in_interpreter, closed_loop(plain_crazyflie(), 3, 4), 2, "float64", 1e-14)


def test_a_servo_tilts_its_rotor_in_the_kernel_too():
    check_flight(in_interpreter, open_loop(tricopter(), 3, 4), 2, "float64", 1e-13)


# A long step is a loop over its stages -----------------------------------------------------------------------------


def orbit(advance: Any) -> Any:
    """A planet around its sun, and a clock whose rate is a plain number."""

    def rate(x: Any) -> Any:
        away = ops.sqrt(x[0] * x[0] + x[1] * x[1])
        return x[2], x[3], -x[0] / (away * away * away), -x[1] / (away * away * away), 1.0

    return lambda x, held_inputs, inputs: (advance(rate, x, held_inputs[0]), ())


def test_a_loop_over_stages_equals_the_unrolled_step():
    """The four stages of RK4, in a loop and unrolled: equal to the last roundings, and the planet completes its orbit."""
    start = np.array([[1.0], [0.0], [0.0], [1.0], [0.0]])
    templates, steps = Templates((1.0, 0.0, 0.0, 1.0, 0.0), (0.1,), ()), 200
    dt = [np.array(2.0 * np.pi / steps)]
    ends = [
        np.asarray(in_interpreter(orbit(advance), templates, dtype="float64")(start, dt, None, steps, steps)[0])
        for advance in (rk4, rk4_loop)
    ]
    assert np.abs(ends[0] - ends[1]).max() < 1e-14
    assert np.abs(ends[1][:4] - start[:4]).max() < 1e-6
    assert ends[1][4, 0] == pytest.approx(2.0 * np.pi, rel=1e-14)


def airy_crazyflie() -> samara.Vehicle:
    return plain_crazyflie().replace({"rotors.radius": 0.0231}).with_effect(DYNAMIC_AIR, RotorAir(solidity=0.14))


def equation_counts(flight: Flight) -> tuple[int, int]:
    """Return the equation count of a kernel's step, and its operation count."""
    flat = flat_body(flight.body, flight.templates, "float32")
    leaves = [[jnp.zeros(1, "float32")] * len(flatten(part)) for part in flight.templates]
    return len(list(all_equations(jax.make_jaxpr(flat.step)(*leaves).jaxpr))), flat.work.operations


def test_long_stages_become_a_loop_and_short_ones_do_not():
    """With dynamic inflow the same work in a third of the equations; a plain step is unchanged, to the equation."""
    (rolled, work), (written, same_work) = (
        equation_counts(open_loop(airy_crazyflie(), 1, 1, advance)) for advance in (rk4_in_kernel, rk4)
    )
    assert rolled < 0.4 * written
    assert work == pytest.approx(same_work, rel=0.05)
    assert equation_counts(open_loop(plain_crazyflie(), 1, 1, rk4_in_kernel)) == equation_counts(
        open_loop(plain_crazyflie(), 1, 1)
    )


@pytest.mark.long
def test_a_flight_in_a_loop_over_stages_is_that_of_the_python_loop():
    flight = open_loop(airy_crazyflie(), 3, 4)
    in_kernel = open_loop(airy_crazyflie(), 3, 4, rk4_in_kernel)
    end, outputs = in_interpreter(in_kernel.body, in_kernel.templates, dtype="float64")(*in_kernel[2:], 4, 2)
    expected = compile_scan_python(flight.body, flight.templates, dtype="float64")(*flight[2:], 4, 2)
    assert np.allclose(end, expected[0], rtol=1e-14, atol=1e-14)
    assert np.allclose(outputs, expected[1], rtol=1e-14, atol=1e-14)
    assert lowered_for_cuda(in_kernel, 2).count(ONE_KERNEL) == 1


# Lowering for a GPU ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_recorded_flight_lowers_to_one_kernel(dtype):
    """Default effects with ground contact, commands at every step, every third state recorded, steps left over."""
    text = lowered_for_cuda(open_loop(samara.vehicle("crazyflie_documented"), 1000, 10), 3, dtype)
    assert text.count(ONE_KERNEL) == 1


@pytest.mark.parametrize("fast", [False, True])
def test_a_closed_loop_lowers_to_one_kernel(fast):
    text = lowered_for_cuda(closed_loop(plain_crazyflie(), 4096, 10), 10, fast=fast)
    assert text.count(ONE_KERNEL) == 1


def test_every_operation_lowers():
    """A controller or an effect may use everything in samara.core.ops."""

    def body(x: Any, held_inputs: Any, inputs: Any) -> tuple[Any, Any]:
        total = x[0] * 0.0 + 1.0
        for name in UNARY:
            total = total + getattr(ops, name)(x[0])
        for name in BINARY:
            total = total + getattr(ops, name)(x[0], held_inputs[0]) + getattr(ops, name)(x[0], 0.5)
        inside = ops.logical_and(total > 0.0, ops.logical_or(x[0] < 1.0, ops.equal(x[0], held_inputs[0])))
        table = ops.piecewise_linear(total, (0.0, 1.0, 2.0), (3.0, 1.0, 2.0))
        return (ops.where(inside, table, 1.0),), (ops.clamp(total, 0.0, held_inputs[0]),)

    flight = Flight(body, Templates((0.5,), (0.3,), (0.0,)), np.zeros((1, 256)), [np.zeros(())], np.zeros((4, 1)))
    assert lowered_for_cuda(flight, 2).count(ONE_KERNEL) == 1


@pytest.mark.long
def test_it_lowers_with_doubles_off_too():
    """On a GPU machine JAX has its defaults: float32, and integers of 32 bits."""
    run_python(
        {"JAX_ENABLE_X64": "0"},
        """
        from test_pallas_backend import *
        assert jnp.asarray(1.0).dtype == "float32"
        test_a_closed_loop_lowers_to_one_kernel(True)
        """,
    )


def all_equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr and of those inside it."""
    for step in jaxpr.eqns:
        yield step
        for inner in jax.tree.leaves(list(step.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            if hasattr(inner, "eqns"):
                yield from all_equations(inner)


def test_memory_is_touched_before_and_after_the_loop_only():
    """The carry is in registers: a loop loads its rows, the loop over the steps loads only that step's inputs, the records are
    stored in the loop over records, and a loop stores the rows at the end."""
    carry, held_inputs, inputs = jnp.zeros((2, 256)), [jnp.zeros(256)], jnp.zeros((12, 1))
    kernel = kernel_function(spring, SPRING, dtype="float64")
    traced = jax.make_jaxpr(kernel, static_argnums=(3, 4))(carry, held_inputs, inputs, 12, 4)
    (call,) = (step for step in all_equations(traced.jaxpr) if step.primitive.name == "pallas_call")
    kernel_jaxpr = call.params["jaxpr"]
    first, records, last = (step for step in kernel_jaxpr.eqns if step.primitive.name == "scan")
    (steps,) = (step for step in records.params["jaxpr"].jaxpr.eqns if step.primitive.name == "scan")

    def count_accesses(jaxpr: Any) -> dict[str, int]:
        names = [step.primitive.name for step in jaxpr.eqns]
        return {"loads": names.count("get"), "stores": names.count("swap")}

    assert count_accesses(kernel_jaxpr) == {"loads": len(held_inputs), "stores": 0}
    for loop, expected in ((first, {"loads": 1, "stores": 0}), (last, {"loads": 0, "stores": 1})):
        assert loop.params["length"] == len(carry)
        assert count_accesses(loop.params["jaxpr"].jaxpr) == expected
    assert count_accesses(records.params["jaxpr"].jaxpr) == {"loads": 0, "stores": 2}
    assert count_accesses(steps.params["jaxpr"].jaxpr) == {"loads": 1, "stores": 0}
    assert len(flatten(SPRING.carry)) == len(carry)


def test_a_block_is_a_power_of_two():
    with pytest.raises(ValueError, match="a block of 100 drones: expected a power of two"):
        compile_scan_pallas(spring, SPRING, dtype="float32", launch=Launch(block=100))


# The idle path ----------------------------------------------------------------------------------------------------------


def test_a_kernel_takes_the_idle_path_while_no_drone_touches_a_wall():
    """All drones of a block, or none of them."""
    check_wall(partial(in_interpreter, launch=Launch(block=4)), 7)


@pytest.mark.long
def test_a_kernel_takes_the_idle_path_in_the_air_only():
    """Two blocks of drones, one of which comes to the ground: the numbers of the kernel without the branch, in one kernel"""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag", "damping")
    scan = Stepper(vehicle, "euler", "pallas").rollout()
    state, command = samara.hover(vehicle)
    carry = np.repeat(np.array(flatten(state))[:, None], 16, axis=1)
    carry[2], carry[5] = np.where(np.arange(16) < 15, 1.0, 0.0685), -1.0
    inputs = np.tile(np.array(command), (60, 1))
    full_scan = scan._replace(idle_path=None)
    results = [
        in_interpreter(variant.body, variant.templates, variant.idle_path, dtype="float64", launch=Launch(block=8))(
            carry, [1e-3], inputs, 60, 20
        )
        for variant in (scan, full_scan)
    ]
    for branched, plain in zip(*results, strict=True):
        assert np.asarray(branched) == pytest.approx(np.asarray(plain), rel=1e-13, abs=1e-13)
    heights = np.asarray(results[0][1])[:, 2]
    assert heights[0, 15] < 0.06 and heights[0, 14] > 0.9
    assert np.asarray(results[0][0])[5, 15] > -0.9  # it was stopped
    kernel = kernel_function(scan.body, scan.templates, scan.idle_path, dtype="float32", fast=True)
    operands = jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), "float32"), (carry, [1e-3], inputs))
    text = jax.jit(kernel, static_argnums=(3, 4)).trace(*operands, 60, 20).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count(ONE_KERNEL) == 1
