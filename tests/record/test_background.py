"""Chunks written in the background are those passed to the recorder, and their errors are raised."""

import _thread
import threading
import time

import numpy as np
import pytest

import samara
from samara.record import derived_outputs
from samara.record.recorder import BackgroundRecorder, LogLine, Recorder, RecordingError, Stream
from samara.record.streams import StreamBlock

STATE = Stream("/a/state", ("x", "y"), ("m", "m"), "samara.State")


def chunk_of_second(k):
    times_us = 1_000_000 * k + 10_000 * np.arange(100)
    return [StreamBlock(("/a/state",), times_us, np.random.default_rng(k).normal(size=(100, 2, 1)))], [
        LogLine(1_000_000 * k, "info", "me", f"second {k}")
    ]


class BlockedRecorder:
    """A recorder that waits for a semaphore before it writes."""

    def __init__(self):
        self.has_begun, self.may_write, self.written = threading.Semaphore(0), threading.Semaphore(0), []

    def write_blocks(self, blocks, logs):
        self.has_begun.release()
        self.may_write.acquire()
        self.written.append(logs[0].message)


def test_the_file_is_the_same(tmp_path):
    """Byte for byte that of a synchronous recorder."""
    paths = tmp_path / "direct.mcap", tmp_path / "behind.mcap"
    with (
        Recorder(paths[0], [STATE]) as direct,
        Recorder(paths[1], [STATE]) as recorder,
        BackgroundRecorder(recorder) as background,
    ):
        for k in range(20):
            direct.write_blocks(*chunk_of_second(k))
            background.write_blocks(*chunk_of_second(k))
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_one_chunk_is_written_and_one_waits_while_the_next_is_simulated():
    slow, returned = BlockedRecorder(), []
    background = BackgroundRecorder(slow)

    def fly():
        for k in range(4):
            background.write_blocks(*chunk_of_second(k))
            returned.append(k)

    flight = threading.Thread(target=fly)
    flight.start()
    slow.has_begun.acquire()
    slow.may_write.release()  # the first is written, so the second is being written and the third may wait
    slow.has_begun.acquire()
    assert slow.written == ["second 0"] and returned[:1] == [0] and 3 not in returned
    slow.may_write.release(3)
    flight.join()
    background.close()
    assert slow.written == [f"second {k}" for k in range(4)] and returned == [0, 1, 2, 3]
    assert not background._thread.is_alive()


def test_an_error_is_raised_by_a_later_call(tmp_path):
    """As the recorder raises it; earlier and later chunks are in the file, except for the one passed with that call."""
    with Recorder(tmp_path / "run.mcap", [STATE]) as recorder:
        background = BackgroundRecorder(recorder)
        background.write_blocks(*chunk_of_second(1))
        background.write_blocks(*chunk_of_second(0))
        while background._chunks:
            time.sleep(1e-3)
        with pytest.raises(RecordingError, match=r"^/a/state: times run from 0 to 990000 µs after 1990000 µs; "):
            background.write_blocks(*chunk_of_second(2))
        background.write_blocks(*chunk_of_second(3))
        background.write_blocks(*chunk_of_second(0))
        with pytest.raises(RecordingError, match="after 3990000 µs; "):
            background.close()
        background.close()
    recording = samara.record.recording.read_recording(recorder.path)
    assert recording.complete
    assert [line.message for line in recording.logs] == ["second 1", "second 3"]


def test_a_chunk_that_is_passed_twice_is_written_once():
    """Ctrl-C came after it was queued and before the caller knew."""
    slow, chunk = BlockedRecorder(), chunk_of_second(0)
    with BackgroundRecorder(slow) as background:
        background.write_blocks(*chunk)
        background.write_blocks(*chunk)
        slow.may_write.release(2)
    assert slow.written == ["second 0"]


@pytest.mark.usefixtures("signals_heard")
def test_ctrl_c_waits_for_the_chunk_that_is_being_written():
    """The file must not be closed while the thread writes to it."""
    slow = BlockedRecorder()
    background = BackgroundRecorder(slow)
    background.write_blocks(*chunk_of_second(0))
    slow.has_begun.acquire()

    def interrupt():
        while not background._closing:
            time.sleep(1e-3)
        _thread.interrupt_main()
        slow.may_write.release()

    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=interrupt).start()
        background.close()
    assert slow.written == ["second 0"] and not background._thread.is_alive()


@pytest.mark.parametrize("name", ["crazyflie", "iris"])
def test_outputs_of_a_flight_have_the_bits_of_arrays(name):
    """The compiled outputs against the equations on arrays: without a battery, and with one whose voltage is iterated."""
    vehicle, rng = samara.vehicle(name), np.random.default_rng(0)
    state, command = samara.hover(vehicle)
    environment = derived_outputs.complete_environment(vehicle)
    for m, drones in ((21, 2), (3, 1)):
        states, commands, environments = (
            np.array(derived_outputs.flatten(tree), float)[None, :, None]
            + 0.02 * rng.normal(size=(m, len(derived_outputs.flatten(tree)), drones))
            for tree in (state, command, environment)
        )
        arrays = derived_outputs.output_rows(states, commands, environments, vehicle)
        assert arrays.shape == (m, len(derived_outputs.output_fields(vehicle)), drones)
        assert (
            derived_outputs.compiled_outputs(vehicle).rows(states, commands, environments).tobytes() == arrays.tobytes()
        )
