"""Measure small costs of a flight: the Crazyflie engine, random draws, and a recording beside the MCAP library."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from timing import best

from samara.core.random import normals
from samara.documents.engine import DroneEngine
from samara.record.recorder import Recorder, Stream
from samara.record.recording import read_recording

SECONDS = 30
FIELDS = ("p_W.x", "p_W.y", "p_W.z", "q_WB.w", "q_WB.x", "q_WB.y", "q_WB.z", *(f"x[{i}]" for i in range(23)))
STREAMS = (
    (Stream("/drone0/state", FIELDS, ("m",) * len(FIELDS), "samara.State"), 100),
    (Stream("/drone0/command", ("u[0]", "u[1]"), ("1", "1"), "samara.Command"), 250),
    (Stream("/drone0/wind", ("x", "y", "z"), ("m/s",) * 3, "samara.Wind"), 100),
)


def parts() -> list[dict[str, Any]]:
    """Measure the rows of the bench: the best of many runs, in seconds."""
    engine = DroneEngine()
    draws = np.arange(62_500)
    with tempfile.TemporaryDirectory() as folder:
        write_seconds, read_seconds, library_write_seconds, library_read_seconds = recording(Path(folder))
    return [
        {"row": "DroneEngine.step(0.005)", "seconds": best(lambda: [engine.step(0.005) for _ in range(100)]) / 100},
        {"row": "sixteen normals of one drone", "seconds": best(lambda: normals(1, "wind", 3, 9, 16), 300)},
        {"row": "a million normals", "seconds": best(lambda: normals(1, "wind", draws, 0, 16), 5)},
        {"row": "recording a second of one drone", "seconds": write_seconds},
        {"row": "the same by the MCAP library", "seconds": library_write_seconds},
        {"row": f"reading {SECONDS} seconds", "seconds": read_seconds},
        {"row": "the same by the MCAP library", "seconds": library_read_seconds},
    ]


def recording(folder: Path) -> tuple[float, float, float, float]:
    """Measure the seconds to write one second and to read all, by Samara and by the MCAP library, on the same messages."""
    path = folder / "run.mcap"
    seconds = iter(range(SECONDS))
    rng = np.random.default_rng(0)

    def make_blocks(second: int) -> dict[str, Any]:
        return {
            stream.topic: (
                second * 1_000_000 + np.arange(rate) * (1_000_000 // rate),
                rng.normal(size=(rate, len(stream.fields))),
            )
            for stream, rate in STREAMS
        }

    blocks = [make_blocks(second) for second in range(SECONDS)]
    with Recorder(path, [stream for stream, _ in STREAMS]) as recorder:
        write_seconds = best(lambda: recorder.write(blocks[next(seconds)]), SECONDS)
    messages: list[Any] = []
    with path.open("rb") as file:
        library_read_seconds = best(lambda: messages.extend(make_reader(file).iter_messages(log_time_order=False)), 1)
    with (folder / "again.mcap").open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start()
        channel = writer.register_channel("/again", "protobuf", 0)
        messages_per_second = len(messages) // SECONDS

        def write() -> None:
            for _, _, message in messages[:messages_per_second]:
                writer.add_message(channel, message.log_time, message.data, message.publish_time)

        library_write_seconds = best(write, SECONDS)
        writer.finish()
    return write_seconds, best(lambda: read_recording(path), 3), library_write_seconds, library_read_seconds


if __name__ == "__main__":
    for row in parts():
        print(f"{row['row']:40s} {1e6 * row['seconds']:12.1f} µs")
