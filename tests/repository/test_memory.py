"""What memory and work grow with: not with compiles or with the length of a flight, and with its drones only as they do."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.core.coerce import first_twice
from samara.record import recording
from samara.record.channels import contents_of
from samara.record.load import load_long_run
from samara.record.metrics.recorded import REDUCTIONS, Sum
from samara.record.recorder import Recorder, Stream
from samara.record.run import check_expectations, run_from
from samara.record.streams import Recording, Table
from samara.scenario.scenario import Expect
from samara.sim.fly import all_streams
from samara.vehicles.writer import vehicle_toml

COMPILE = """
import gc, samara

vehicle = samara.vehicle("crazyflie_documented")
state, command = samara.hover(vehicle)

def grown(times):
    for _ in range(times):
        samara.compile(vehicle).step(state, command, 1e-3)
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096

sizes = [grown(8), grown(12), grown(12), grown(12)]  # the first until what is freed is enough for the next
print(min(after - before for before, after in zip(sizes, sizes[1:])))
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the resident memory")
def test_compiling_again_and_again_takes_no_more_memory():
    """Twelve simulators more, none of them kept: less than 0.2 MB each, where LLVM's passes alone were once 0.7.

    Three times twelve: what is freed comes back in lumps of some megabytes, and a leak is in every twelve.
    """
    ended = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 12 * 200_000


class Counted(dict):
    """Streams that count how many of them were looked at."""

    looked = 0

    def items(self):
        for item in super().items():
            Counted.looked += 1
            yield item


def test_a_recording_is_sorted_by_drone_in_one_pass():
    """Fifty drones with three streams each: 150 looks, not 7,500; each drone gets its own, and no stream of streams."""
    names, text = [f"d{i}" for i in range(50)], vehicle_toml(samara.vehicle("crazyflie")).encode()
    tables = {
        f"/{name}/{stream}": Table(("t",), ("s",), "", np.array([i]), np.array([[float(i)]]))
        for i, name in enumerate(names)
        for stream in ("state", "command", "state/more")
    }
    drones = json.dumps([{"name": name, "controller": "pid"} for name in names])
    files = {f"vehicle/{name}.toml": text for name in names}
    run = run_from(Recording(Path("x"), 0, {"drones": drones}, files, Counted(tables), (), True, ""))
    assert Counted.looked == len(tables)
    assert all(set(track.tables) == {"state", "command"} for track in run.tracks)
    assert [float(track.tables["state"].rows[0, 0]) for track in run.tracks] == list(range(50))


# Long flights -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A flight with estimates, a battery and wind, in memory and in its file."""
    path = tmp_path_factory.mktemp("flown") / "run.mcap"
    wind = {"kind": "turbulence", "speed": 2.0, "from_deg": 240.0, "sigma": 0.5, "tau": 1.0}
    return samara.fly(
        "battery_sag", out=path, settings={"duration": 6.0, "drones.estimator": "noisy", "wind": wind}
    ), path


@pytest.fixture
def in_pieces(flown, monkeypatch):
    """The same flight, read a few hundred rows at a time, of which few are kept"""
    monkeypatch.setattr(recording, "PIECE", 300)
    return load_long_run(flown[1], most=500)


def test_metrics_of_pieces_are_those_of_the_whole(flown, in_pieces):
    """Sums add up to the rounding of their order; what is first, last, least or largest is so to the bit."""
    whole, pieces = flown[0].metrics, in_pieces.metrics
    for name in sorted(set(REDUCTIONS) - {"rate_spectrum", "command_spectrum"}):
        one, other = getattr(whole, name), getattr(pieces, name)
        if isinstance(one, Sum):
            assert one.samples == other.samples, name
            assert other.total == pytest.approx(one.total, rel=1e-12, abs=1e-12), name
        else:
            assert repr(one) == repr(other), name
    for name in ("energy", "squared_estimate_error", "wind_speed", "distance", "squared_command_rate", "squared_error"):
        assert getattr(whole, name).total > 0.0
    assert repr(in_pieces.summary()) == repr(flown[0].summary())
    expect = Expect(max_tilt_deg=60.0, max_error=0.5, min_height=-0.1, final_position=(0.0, 0.0, 1.0), within=0.5)
    assert check_expectations(in_pieces, expect) == check_expectations(flown[0], expect)


def test_a_thinned_flight_keeps_its_peaks(flown, in_pieces):
    """Of every column the least and the largest value, at their times; rows that belong together stay together."""
    whole, few = flown[0].tracks[0], in_pieces.tracks[0]
    assert max(len(table.rows) for table in whole.tables.values()) > 1000
    for name, table in few.tables.items():
        full = whole.tables[name]
        assert 0 < len(table.rows) <= 500
        assert np.array_equal(table.rows.min(axis=0), full.rows.min(axis=0))
        assert np.array_equal(table.rows.max(axis=0), full.rows.max(axis=0))
        assert np.isin(table.times_us, full.times_us).all()
        assert table.times_us[[0, -1]].tolist() == full.times_us[[0, -1]].tolist()
    assert few.error.max() == whole.error.max() and few.tilt.max() == whole.tilt.max()
    told, true = few.tables["estimate"], few.tables["state"]
    held = np.searchsorted(whole.tables["state"].times_us, told.times_us, side="right") - 1
    kept = np.searchsorted(true.times_us, told.times_us, side="right") - 1
    assert np.array_equal(true.rows[kept], whole.tables["state"].rows[held])


def test_a_flight_that_fits_is_not_thinned(flown):
    """Read in one piece, it is the run it always was."""
    one, other = flown[0].tracks[0], samara.load_run(flown[1], whole=False).tracks[0]
    assert other.merged_metrics is None
    assert all(np.array_equal(table.rows, other.tables[name].rows) for name, table in one.tables.items())


def peak(path):
    """Bytes that reading and judging a recording took at once"""
    tracemalloc.start()
    run = load_long_run(path, most=200)
    check_expectations(run, Expect(max_tilt_deg=30.0, max_error=1.0))
    repr(run.summary())
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held


def test_judging_a_flight_four_times_as_long_takes_no_more_memory(tmp_path, monkeypatch):
    """A second of hover said again and again: 1 MB of rows more in the longer file, and none of them in memory."""
    monkeypatch.setattr(recording, "PIECE", 250)
    run = samara.fly("hover", settings={"duration": 1.0})
    tables = {f"/{run.tracks[0].name}/{name}": table for name, table in run.tracks[0].tables.items()}
    streams = [Stream(topic, table.fields, table.units, table.kind) for topic, table in tables.items()]
    for seconds in (8, 32):
        with Recorder(tmp_path / f"{seconds}.mcap", streams, run.metadata, run.attachments) as recorder:
            for second in range(seconds):
                later = 2_000_000 * second
                recorder.write({topic: (table.times_us + later, table.rows) for topic, table in tables.items()})
    peak(tmp_path / "8.mcap")  # what is imported and cached once
    short, long = peak(tmp_path / "8.mcap"), peak(tmp_path / "32.mcap")
    more = sum(24 * table.rows.nbytes for table in tables.values())
    assert more > 1_000_000
    assert long < short + 0.1 * more


# Crowds -------------------------------------------------------------------------------------------------------------------


class Compared(str):
    """A name that counts how often it is compared with another."""

    compared = 0

    def __eq__(self, other):
        Compared.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_are_looked_through_once():
    """A thousand names of their own: hardly one comparison each, where looking each up among all took a million."""
    names = [Compared(f"drone{k}") for k in range(1000)]
    assert first_twice(names) is None
    assert Compared.compared < len(names)
    assert first_twice([*names, "drone7", "drone3"]) == "drone7"


def test_drones_of_one_kind_share_what_is_recorded_of_them():
    """Names, units and the places of numbers are there once for all drones; only topic and channel are each one's own."""
    scenario = samara.load_scenario("swarm")
    streams = [own for own in all_streams(scenario) if own.topic.endswith("/state")]
    tracks = [contents_of(streams).tracks[own.topic] for own in streams]
    assert len(streams) > 10
    assert len({id(own.fields) for own in streams}) == len({id(own.layout.places) for own in tracks}) == 1
    assert (
        len({own.layout.channel for own in tracks})
        == len({own.layout.record.tobytes() for own in tracks})
        == len(tracks)
    )


def test_an_idle_recorder_holds_no_chunk(tmp_path):
    """Once closed, and of the chunks before only what the summary says of them."""
    stream = Stream("/drone/state", ("x",), ("m",), "samara.State")
    with Recorder(tmp_path / "run.mcap", [stream], {}, {"big": bytes(100_000)}) as recorder:
        for k in range(3):
            recorder.write({stream.topic: (np.array([k]), np.array([[1.0]]))})
        assert max(len(own.record) for own in recorder._chunks) < 200
        assert not recorder._opened.data
    assert not recorder._memory.size
