"""Growth of memory and work: not with compiles or the length of a flight, and linear in the drone count."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.core.coerce import first_duplicate
from samara.record import recording
from samara.record.channels import build_channels
from samara.record.load import load_long_run
from samara.record.metrics.recorded import REDUCTIONS, RunningSum
from samara.record.recorder import Recorder, Stream
from samara.record.run import check_expectations, run_from_recording
from samara.record.streams import RecordedStream, Recording
from samara.scenario.scenario import Expectations
from samara.sim.fly import scenario_streams
from samara.vehicles.writer import vehicle_toml

COMPILE = """
import gc, samara

vehicle = samara.vehicle("crazyflie_documented")
state, command = samara.hover(vehicle)

def resident_size(times):
    for _ in range(times):
        samara.compile(vehicle).step(state, command, 1e-3)
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096

sizes = [resident_size(n) for n in (8, 12, 12, 12)]  # the first until what is freed is enough for the next
print(min(after - before for before, after in zip(sizes, sizes[1:])))
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the resident memory")
def test_compiling_again_and_again_takes_no_more_memory():
    """Twelve more simulators, none of them retained: less than 0.2 MB each; LLVM's passes alone once took 0.7.

    Three times twelve: memory is freed in steps of some megabytes, and a leak would be in every twelve.
    """
    ended = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 12 * 200_000


class CountingStreams(dict):
    """Streams that count their reads."""

    looked = 0

    def items(self):
        for item in super().items():
            CountingStreams.looked += 1
            yield item


def test_a_recording_is_sorted_by_drone_in_one_pass():
    """Fifty drones with three streams each: 150 reads, not 7,500; each drone gets its streams only."""
    names, text = [f"d{i}" for i in range(50)], vehicle_toml(samara.vehicle("crazyflie")).encode()
    tables = {
        f"/{name}/{stream}": RecordedStream(("t",), ("s",), "", np.array([i]), np.array([[float(i)]]))
        for i, name in enumerate(names)
        for stream in ("state", "command", "state/more")
    }
    drones = json.dumps([{"name": name, "controller": "pid"} for name in names])
    files = {f"vehicle/{name}.toml": text for name in names}
    run = run_from_recording(Recording(Path("x"), 0, {"drones": drones}, files, CountingStreams(tables), (), True, ""))
    assert CountingStreams.looked == len(tables)
    assert all(set(track.tables) == {"state", "command"} for track in run.drone_records)
    assert [float(track.tables["state"].rows[0, 0]) for track in run.drone_records] == list(range(50))


# Long flights -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A flight with estimates, a battery and wind, in memory and in its file."""
    path = tmp_path_factory.mktemp("flown") / "run.mcap"
    wind = {"model": "turbulence", "speed": 2.0, "from_deg": 240.0, "sigma": 0.5, "tau": 1.0}
    return samara.fly(
        "battery_sag", out=path, settings={"duration": 6.0, "drones.estimator": "noisy", "wind": wind}
    ), path


@pytest.fixture
def piecewise(flown, monkeypatch):
    """The same flight, read a few hundred rows at a time and thinned"""
    monkeypatch.setattr(recording, "PIECE_ROWS", 300)
    return load_long_run(flown[1], max_rows=500)


def test_metrics_of_pieces_are_those_of_the_whole(flown, piecewise):
    """Sums are equal to the rounding of their order; first, last, smallest and largest values to the bit."""
    complete, pieces = flown[0].metrics, piecewise.metrics
    for name in sorted(set(REDUCTIONS) - {"rate_spectrum", "command_spectrum"}):
        complete_value, piecewise_value = getattr(complete, name), getattr(pieces, name)
        if isinstance(complete_value, RunningSum):
            assert complete_value.samples == piecewise_value.samples, name
            assert piecewise_value.total == pytest.approx(complete_value.total, rel=1e-12, abs=1e-12), name
        else:
            assert repr(complete_value) == repr(piecewise_value), name
    for name in ("energy", "squared_estimate_error", "wind_speed", "distance", "squared_command_rate", "squared_error"):
        assert getattr(complete, name).total > 0.0
    assert repr(piecewise.summary()) == repr(flown[0].summary())
    expect = Expectations(
        max_tilt_deg=60.0, max_error=0.5, min_height=-0.1, final_position=(0.0, 0.0, 1.0), position_tolerance=0.5
    )
    assert check_expectations(piecewise, expect) == check_expectations(flown[0], expect)


def test_a_thinned_flight_keeps_its_peaks(flown, piecewise):
    """Of every column the smallest and the largest value, at their times; rows of the same time stay together."""
    complete, thinned = flown[0].drone_records[0], piecewise.drone_records[0]
    assert max(len(table.rows) for table in complete.tables.values()) > 1000
    for name, table in thinned.tables.items():
        full = complete.tables[name]
        assert 0 < len(table.rows) <= 500
        assert np.array_equal(table.rows.min(axis=0), full.rows.min(axis=0))
        assert np.array_equal(table.rows.max(axis=0), full.rows.max(axis=0))
        assert np.isin(table.times_us, full.times_us).all()
        assert table.times_us[[0, -1]].tolist() == full.times_us[[0, -1]].tolist()
    assert thinned.error.max() == complete.error.max() and thinned.tilt.max() == complete.tilt.max()
    estimates, states = thinned.tables["estimate"], thinned.tables["state"]
    complete_index = np.searchsorted(complete.tables["state"].times_us, estimates.times_us, side="right") - 1
    thinned_index = np.searchsorted(states.times_us, estimates.times_us, side="right") - 1
    assert np.array_equal(states.rows[thinned_index], complete.tables["state"].rows[complete_index])


def test_a_flight_that_fits_is_not_thinned(flown):
    """Read in one piece, it is the complete run."""
    one, other = flown[0].drone_records[0], samara.load_run(flown[1], all_rows=False).drone_records[0]
    assert other.merged_metrics is None
    assert all(np.array_equal(table.rows, other.tables[name].rows) for name, table in one.tables.items())


def peak(path):
    """Peak bytes of reading and evaluating a recording"""
    tracemalloc.start()
    run = load_long_run(path, max_rows=200)
    check_expectations(run, Expectations(max_tilt_deg=30.0, max_error=1.0))
    repr(run.summary())
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak_bytes


def test_judging_a_flight_four_times_as_long_takes_no_more_memory(tmp_path, monkeypatch):
    """A second of hover repeated: 1 MB more rows in the longer file, and none of them in memory."""
    monkeypatch.setattr(recording, "PIECE_ROWS", 250)
    run = samara.fly("hover", settings={"duration": 1.0})
    tables = {f"/{run.drone_records[0].name}/{name}": table for name, table in run.drone_records[0].tables.items()}
    streams = [Stream(topic, table.fields, table.units, table.schema_name) for topic, table in tables.items()]
    for seconds in (8, 32):
        with Recorder(tmp_path / f"{seconds}.mcap", streams, run.metadata, run.attachments) as recorder:
            for second in range(seconds):
                later = 2_000_000 * second
                recorder.write({topic: (table.times_us + later, table.rows) for topic, table in tables.items()})
    peak(tmp_path / "8.mcap")  # one-time imports and caches
    short, long = peak(tmp_path / "8.mcap"), peak(tmp_path / "32.mcap")
    more = sum(24 * table.rows.nbytes for table in tables.values())
    assert more > 1_000_000
    assert long < short + 0.1 * more


# Crowds -------------------------------------------------------------------------------------------------------------------


class CountingName(str):
    """A name that counts its comparisons."""

    compared = 0

    def __eq__(self, other):
        CountingName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_are_looked_through_once():
    """A thousand distinct names: about one comparison each, where a search among all took a million."""
    names = [CountingName(f"drone{k}") for k in range(1000)]
    assert first_duplicate(names) is None
    assert CountingName.compared < len(names)
    assert first_duplicate([*names, "drone7", "drone3"]) == "drone7"


def test_drones_of_one_kind_share_what_is_recorded_of_them():
    """Names, units and offsets are stored once for all drones; only topic and channel differ."""
    scenario = samara.load_scenario("swarm")
    streams = [stream for stream in scenario_streams(scenario) if stream.topic.endswith("/state")]
    tracks = [build_channels(streams).layouts[stream.topic] for stream in streams]
    assert len(streams) > 10
    assert len({id(entry.fields) for entry in streams}) == len({id(entry.layout.offsets) for entry in tracks}) == 1
    assert (
        len({entry.layout.channel for entry in tracks})
        == len({entry.layout.record.tobytes() for entry in tracks})
        == len(tracks)
    )


def test_an_idle_recorder_holds_no_chunk(tmp_path):
    """Once closed; of earlier chunks only their summary."""
    stream = Stream("/drone/state", ("x",), ("m",), "samara.State")
    with Recorder(tmp_path / "run.mcap", [stream], {}, {"big": bytes(100_000)}) as recorder:
        for k in range(3):
            recorder.write({stream.topic: (np.array([k]), np.array([[1.0]]))})
        assert max(len(chunk.record) for chunk in recorder._chunks) < 200
        assert not recorder._opening.data
    assert not recorder._memory.size
