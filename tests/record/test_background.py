"""Chunks that are written beside a flight are those that were handed over, and what goes wrong with them is told."""

import _thread
import threading
import time

import numpy as np
import pytest

import samara
from samara.record import derived_outputs
from samara.record.recorder import Background, LogLine, Recorder, RecordingError, Stream
from samara.record.streams import Block

STATE = Stream("/a/state", ("x", "y"), ("m", "m"), "samara.State")


def second(k):
    times_us = 1_000_000 * k + 10_000 * np.arange(100)
    return [Block(("/a/state",), times_us, np.random.default_rng(k).normal(size=(100, 2, 1)))], [
        LogLine(1_000_000 * k, "info", "me", f"second {k}")
    ]


class Slow:
    """A recorder that waits to be told to go on"""

    def __init__(self):
        self.begun, self.go_on, self.taken = threading.Semaphore(0), threading.Semaphore(0), []

    def write_blocks(self, blocks, logs):
        self.begun.release()
        self.go_on.acquire()
        self.taken.append(logs[0].message)


def test_the_file_is_the_same(tmp_path):
    """Byte for byte that of a recorder who is waited for"""
    paths = tmp_path / "direct.mcap", tmp_path / "behind.mcap"
    with Recorder(paths[0], [STATE]) as direct, Recorder(paths[1], [STATE]) as own, Background(own) as behind:
        for k in range(20):
            direct.write_blocks(*second(k))
            behind.write_blocks(*second(k))
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_one_chunk_is_written_and_one_waits_while_the_next_is_flown_and_no_more():
    slow, returned = Slow(), []
    behind = Background(slow)

    def fly():
        for k in range(4):
            behind.write_blocks(*second(k))
            returned.append(k)

    flight = threading.Thread(target=fly)
    flight.start()
    slow.begun.acquire()
    slow.go_on.release()  # the first is written, so the second is being written and the third may wait
    slow.begun.acquire()
    assert slow.taken == ["second 0"] and returned[:1] == [0] and 3 not in returned
    slow.go_on.release(3)
    flight.join()
    behind.close()
    assert slow.taken == [f"second {k}" for k in range(4)] and returned == [0, 1, 2, 3]
    assert not behind._thread.is_alive()


def test_what_cannot_be_recorded_is_raised_by_a_later_call(tmp_path):
    """As a recorder raises it; what came before and after is in the file, but for what was handed over with that call."""
    with Recorder(tmp_path / "run.mcap", [STATE]) as own:
        behind = Background(own)
        behind.write_blocks(*second(1))
        behind.write_blocks(*second(0))
        while behind._chunks:
            time.sleep(1e-3)
        with pytest.raises(RecordingError, match=r"^/a/state: times run from 0 to 990000 µs after 1990000 µs; "):
            behind.write_blocks(*second(2))
        behind.write_blocks(*second(3))
        behind.write_blocks(*second(0))
        with pytest.raises(RecordingError, match="after 3990000 µs; "):
            behind.close()
        behind.close()
    recording = samara.record.recording.read_recording(own.path)
    assert recording.complete
    assert [line.message for line in recording.logs] == ["second 1", "second 3"]


def test_a_chunk_that_is_handed_over_again_is_written_once():
    """Ctrl-C came after it was taken and before the flight knew."""
    slow, chunk = Slow(), second(0)
    with Background(slow) as behind:
        behind.write_blocks(*chunk)
        behind.write_blocks(*chunk)
        slow.go_on.release(2)
    assert slow.taken == ["second 0"]


@pytest.mark.usefixtures("signals_heard")
def test_ctrl_c_waits_for_the_chunk_that_is_being_written():
    """Whoever closes the file afterwards must find nobody writing to it."""
    slow = Slow()
    behind = Background(slow)
    behind.write_blocks(*second(0))
    slow.begun.acquire()

    def interrupting():
        while not behind._closing:
            time.sleep(1e-3)
        _thread.interrupt_main()
        slow.go_on.release()

    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=interrupting).start()
        behind.close()
    assert slow.taken == ["second 0"] and not behind._thread.is_alive()


@pytest.mark.parametrize("name", ["crazyflie", "iris"])
def test_outputs_of_a_flight_have_the_bits_of_arrays(name):
    """The code of a flight against the equations on arrays: without a battery, and with one whose voltage is iterated for."""
    vehicle, random = samara.vehicle(name), np.random.default_rng(0)
    state, command = samara.hover(vehicle)
    around = derived_outputs.environment_of(vehicle)
    for m, drones in ((21, 2), (3, 1)):
        states, commands, environments = (
            np.array(derived_outputs.flatten(own), float)[None, :, None]
            + 0.02 * random.normal(size=(m, len(derived_outputs.flatten(own)), drones))
            for own in (state, command, around)
        )
        arrays = derived_outputs.output_rows(states, commands, environments, vehicle)
        assert arrays.shape == (m, len(derived_outputs.output_fields(vehicle)), drones)
        assert derived_outputs.output_code(vehicle).rows(states, commands, environments).tobytes() == arrays.tobytes()
