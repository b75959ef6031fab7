"""Small costs of a flight: the Crazyflie engine, random draws, and a recording beside the MCAP library's own."""

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
    """The rows of the bench: seconds of each, the best of many."""
    engine = DroneEngine()
    draws = np.arange(62_500)
    with tempfile.TemporaryDirectory() as folder:
        written, read, by_library, read_by_library = recording(Path(folder))
    return [
        {"row": "DroneEngine.step(0.005)", "seconds": best(lambda: [engine.step(0.005) for _ in range(100)]) / 100},
        {"row": "sixteen normals of one drone", "seconds": best(lambda: normals(1, "wind", 3, 9, 16), 300)},
        {"row": "a million normals", "seconds": best(lambda: normals(1, "wind", draws, 0, 16), 5)},
        {"row": "recording a second of one drone", "seconds": written},
        {"row": "the same by the MCAP library", "seconds": by_library},
        {"row": f"reading {SECONDS} seconds", "seconds": read},
        {"row": "the same by the MCAP library", "seconds": read_by_library},
    ]


def recording(folder: Path) -> tuple[float, float, float, float]:
    """Seconds to write one second and to read all of them, ours and the library's, on the same messages."""
    path = folder / "run.mcap"
    seconds = iter(range(SECONDS))
    rng = np.random.default_rng(0)

    def second_of(second: int) -> dict[str, Any]:
        return {
            own.topic: (
                second * 1_000_000 + np.arange(rate) * (1_000_000 // rate),
                rng.normal(size=(rate, len(own.fields))),
            )
            for own, rate in STREAMS
        }

    blocks = [second_of(second) for second in range(SECONDS)]
    with Recorder(path, [own for own, _ in STREAMS]) as recorder:
        written = best(lambda: recorder.write(blocks[next(seconds)]), SECONDS)
    messages: list[Any] = []
    with path.open("rb") as file:
        read_by_library = best(lambda: messages.extend(make_reader(file).iter_messages(log_time_order=False)), 1)
    with (folder / "again.mcap").open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start()
        channel = writer.register_channel("/again", "protobuf", 0)
        each = len(messages) // SECONDS

        def write() -> None:
            for _, _, message in messages[:each]:
                writer.add_message(channel, message.log_time, message.data, message.publish_time)

        by_library = best(write, SECONDS)
        writer.finish()
    return written, best(lambda: read_recording(path), 3), by_library, read_by_library


if __name__ == "__main__":
    for own in parts():
        print(f"{own['row']:40s} {1e6 * own['seconds']:12.1f} µs")
