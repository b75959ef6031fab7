"""The loop of a flight: the effect of each operation on memory, at the instants it is due, at every width."""

import numpy as np
import pytest

from samara.compiler.compiled_step import CompiledStep, Precision
from samara.compiler.llvm.codegen import vector_width
from samara.compiler.llvm.flight_loop import DONE, ROW_FIELDS, ArrayPrecision, FlightLoop, Operation, RowCall
from samara.core.random import derive_key, normals

WIDTHS = (1, vector_width("float64"))
ONE, TWO = 1, 2


def schedule(*rows):
    """Rows of (time_us, steps, due, dt)."""
    table = np.zeros((len(rows), len(ROW_FIELDS)), dtype=np.int64)
    for k, (time_us, steps, due, dt) in enumerate(rows):
        table[k, :3] = time_us, steps, due
        table.view(float)[k, 3:] = dt, time_us / 1e6
    return table


def run_loop(operations, rows, n, width, start=(0, 0), precision=None):
    memory = ArrayPrecision(precision) if precision else ArrayPrecision()
    walk = FlightLoop(tuple(operations), width, memory)
    memory.update_copies()
    end = (len(rows) - 1, len(operations))
    stopped = walk.run(rows.ctypes.data, start, end, (0, n), n, holds_lock=True)
    memory.write_back()
    return stopped


@pytest.mark.parametrize("width", WIDTHS)
def test_operations_run_in_order_when_one_of_their_bits_is_due(width):
    a, b, c = (np.full((2, 2 * width), float(k)) for k in range(3))
    operations = [Operation("copy", ONE, (b, a, 2)), Operation("copy", TWO, (c, b, 2))]
    assert run_loop(operations, schedule((0, 0, TWO, 0.0), (1, 0, ONE, 0.0)), 2 * width, width) == DONE
    assert (a == 2.0).all() and (b == 2.0).all()


def test_it_begins_and_ends_at_an_operation_of_a_row():
    """From the second operation of the first row: the first runs in the next row only."""
    a, b, c = (np.full((1, 1), float(k)) for k in range(3))
    operations = [Operation("copy", ONE, (b, a, 1)), Operation("copy", ONE, (c, b, 1))]
    walk, rows = FlightLoop(tuple(operations), 1, ArrayPrecision()), schedule((0, 0, ONE, 0.0), (1, 0, ONE, 0.0))
    assert walk.run(rows.ctypes.data, (0, 1), (0, 2), (0, 1), 1, holds_lock=True) == DONE
    assert (a[0, 0], b[0, 0]) == (0.0, 2.0)
    assert walk.run(rows.ctypes.data, (1, 0), (1, 1), (0, 1), 1, holds_lock=False) == DONE
    assert a[0, 0] == 2.0


@pytest.mark.parametrize("width", WIDTHS)
def test_calls_that_share_a_counter_share_the_tiles(width):
    """Each call takes the remaining tiles: the first call all of them, the second none."""
    source, target = np.ones((1, 4 * width)), np.zeros((1, 4 * width))
    walk, rows = (
        FlightLoop((Operation("add", ONE, (source, target, 1)),), width, ArrayPrecision()),
        schedule((0, 0, ONE, 0.0)),
    )
    taken = np.array([width], dtype=np.int64)  # the first tile is taken
    for _ in range(2):
        lanes = (0, 3 * width), 4 * width
        assert (
            walk.run(rows.ctypes.data, (0, 0), (0, 1), *lanes, holds_lock=False, tile_counter=taken.ctypes.data) == DONE
        )
    assert target.reshape(4, width).tolist() == [[0.0] * width, [1.0] * width, [1.0] * width, [0.0] * width]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_gives_the_row_of_its_tick_and_takes_one(width):
    """Row ⌊(t − offset)/period⌋ − first; one for all lanes, or one for each; from a field on."""
    n = 3 * width
    table, shared = np.arange(24.0 * n).reshape(4, 6, n), np.arange(24.0).reshape(4, 6)
    per_lane, uniform, stored = np.zeros((6, n)), np.zeros((6, n)), np.zeros((4, 8, n))
    first, table_address = np.array([5], dtype=np.int64), np.array([stored.ctypes.data], dtype=np.int64)
    tick = 100, 30, first
    operations = [
        Operation("take", ONE, (table, per_lane, 6, *tick)),
        Operation("take_shared", ONE, (shared, uniform, 6, *tick)),
        Operation("put", ONE, (per_lane, table_address, 6, 8, 2, *tick)),
    ]
    run_loop(operations, schedule((730, 0, ONE, 0.0)), n, width)
    np.testing.assert_array_equal(per_lane, table[2])
    np.testing.assert_array_equal(uniform, np.repeat(shared[2][:, None], n, axis=1))
    np.testing.assert_array_equal(stored[2, 2:], table[2])
    assert not stored[:2].any() and not stored[3:].any() and not stored[2, :2].any()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [1, 4, 7])
def test_draws_are_those_of_samara_random_bit_for_bit(width, count):
    n, seeds = 2 * width, 3 + np.arange(2 * width)
    keys = np.array([derive_key(int(seed), "wind") for seed in seeds], dtype=np.int64).T.copy()
    numbers, target = np.arange(n, dtype=np.int64) * 7, np.zeros((count + 1, n))
    for tick in (0, 1, 12_345, 2**33 + 5):
        row = schedule((20_000 * tick + 19_999, 0, ONE, 0.0))
        run_loop([Operation("draw", ONE, (keys, numbers, target, count, 20_000))], row, n, width)
        expected = [normals(int(seed), "wind", int(k), tick, count) for seed, k in zip(seeds, numbers, strict=True)]
        assert target[:count].tobytes() == np.ascontiguousarray(np.array(expected).T).tobytes()
    assert not target[count:].any()


def test_draws_in_the_tails_too():
    """2000 ticks of 64 normals: the largest is beyond 4, where the tail formula of the inverse applies."""
    keys, numbers = np.array([derive_key(1, "x")], dtype=np.int64).T.copy(), np.zeros(1, dtype=np.int64)
    target, draws = np.zeros((64, 1)), []
    walk = FlightLoop((Operation("draw", ONE, (keys, numbers, target, 64, 1)),), 1, ArrayPrecision())
    for tick in range(2000):
        walk.run(schedule((tick, 0, ONE, 0.0)).ctypes.data, (0, 0), (0, 1), (0, 1), 1, holds_lock=True)
        draws.append(target[:, 0].copy())
    expected = normals(1, "x", np.zeros(2000, dtype=int), np.arange(2000), 64)
    assert np.array(draws).tobytes() == expected.tobytes()
    assert np.abs(expected).max() > 4.0


@pytest.mark.parametrize("n", [1, WIDTHS[1]])
def test_the_row_sets_count_and_length_of_the_steps(n):
    """x ← x + v dt, three times 0.25 s and twice 0.5 s, with a v per lane."""
    machine = CompiledStep(lambda x, held_inputs: x + held_inputs[0] * held_inputs[1], 0.0, (0.0, 0.0)).machine(n)
    machine.held_inputs[0] = 1.0 + np.arange(n)
    operation = Operation("step", ONE, (machine, machine.held_inputs[1]))
    run_loop([operation], schedule((0, 3, ONE, 0.25), (1, 2, ONE, 0.5), (2, 5, TWO, 1.0)), n, n if n > 1 else 1)
    np.testing.assert_array_equal(machine.carry[0], 1.75 * (1.0 + np.arange(n)))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("precision", [Precision(), Precision("float32", True)])
def test_a_call_reads_and_writes_rows_wherever_they_are(width, precision):
    """(a, b) ← (b, a + b): a row may be read and written, and rows of one array in any order."""
    n, rows = 2 * width, np.arange(4.0)[:, None] + 10.0 * np.arange(2 * width)
    code, other = (
        CompiledStep(
            lambda state, held_inputs: (held_inputs[1], held_inputs[0] + held_inputs[1]), (0.0, 0.0), (0.0, 0.0)
        ),
        rows.copy(),
    )
    call = RowCall(code, [(rows, 3, 1), (rows, 0, 1)], [(rows, 3, 1), (rows, 0, 1)])
    run_loop([Operation("call", ONE, (call,))], schedule((0, 0, ONE, 0.0)), n, width, precision=precision)
    np.testing.assert_array_equal(rows[3], other[0])
    np.testing.assert_array_equal(rows[0], other[3] + other[0])
    np.testing.assert_array_equal(rows[1:3], other[1:3])


@pytest.mark.parametrize("width", WIDTHS)
def test_a_call_is_skipped_only_where_its_condition_holds_in_all_lanes(width):
    sums, gate = np.zeros((1, 2 * width)), np.zeros((1, 2 * width))
    gate[0, -1] = 1.0
    code = CompiledStep(
        lambda state, held_inputs: (held_inputs[0] + 1.0,),
        (0.0,),
        (0.0, 0.0),
        skip_when=lambda held_inputs: held_inputs[1] < 0.5,
    )
    call = RowCall(code, [(sums, 0, 1), (gate, 0, 1)], [(sums, 0, 1)])
    run_loop([Operation("call", ONE, (call,))], schedule((0, 0, ONE, 0.0)), 2 * width, width)
    assert sums[0].tolist() == [0.0] * width + [1.0] * width


@pytest.mark.parametrize("width", WIDTHS)
def test_a_watch_stops_the_loop_if_a_number_is_not_0(width):
    """Row 1, operation 1 of 3: later operations of the row do not run, and the loop can be resumed."""
    flag, now, time_row = np.zeros((1, width)), np.zeros((1, width)), np.zeros((1, width))
    one = np.zeros((1, width))
    one[0, -1] = 1.0
    operations = [
        Operation("copy", TWO, (one, flag, 1)),
        Operation("watch", ONE, (flag,)),
        Operation("clock", ONE, (time_row,)),
    ]
    rows = schedule((1, 0, ONE, 0.0), (2, 0, ONE | TWO, 0.0), (3, 0, ONE, 0.0))
    stopped = run_loop(operations, rows, width, width)
    assert divmod(stopped, 3) == (1, 1)
    assert time_row[0, 0] == 1e-6 and not now.any()
    flag[:] = 0.0
    operations[0] = Operation("copy", TWO, (now, flag, 1))
    assert run_loop(operations, rows, width, width, start=(1, 2)) == DONE
    assert time_row[0, 0] == 3e-6


def test_single_precision_copies_arrays_with_shared_rows_and_writes_them_back():
    width = vector_width("float32")
    both = np.zeros((3, width))
    both[0], both[2] = 0.1, 7.0
    operation = Operation("copy", ONE, (both[:1], both[1:2], 1))
    run_loop([operation], schedule((0, 0, ONE, 0.0)), width, width, precision=Precision("float32", True))
    assert (both[1] == np.float32(0.1)).all() and (both[2] == 7.0).all()


def test_non_contiguous_arrays_and_missing_arguments_are_refused():
    rows = np.zeros((4, 6))
    with pytest.raises(ValueError, match=r"of shape \(4, 3\) whose rows are not contiguous"):
        FlightLoop((Operation("copy", ONE, (rows[:, :3], rows, 4)),), 1, ArrayPrecision())
    with pytest.raises(ValueError, match="copy: 2 arguments; expected source, target, fields"):
        FlightLoop((Operation("copy", ONE, (rows, rows)),), 1, ArrayPrecision())
