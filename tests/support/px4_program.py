"""A program that stands in for PX4 as a process: its arguments, its ports and its lockstep, with motors that never turn.

    px4 -d -i INSTANCE ETC

It binds the two UDP ports that PX4 binds, connects to the simulator's TCP port, and answers each HIL_SENSOR by one
HIL_ACTUATOR_CONTROLS of the same time. It is written on the standard library, so that several start at once in no time.
"""

import sys
from pathlib import Path

SOURCE = r"""
import os, socket, struct, sys
from pathlib import Path

def checksum(data):
    crc = 0xFFFF
    for byte in data:
        byte ^= crc & 0xFF
        byte = (byte ^ (byte << 4)) & 0xFF
        crc = (crc >> 8) ^ (byte << 8) ^ (byte << 3) ^ (byte >> 4)
    return crc & 0xFFFF

def controls(count, time_us):
    payload = struct.pack("<QQ16fB", time_us, 1, *[0.0] * 16, 129)
    body = struct.pack("<BBBBBBHB", len(payload), 0, 0, count & 0xFF, 1, 1, 93, 0) + payload
    return b"\xfd" + body + struct.pack("<H", checksum(body + bytes([47])))

instance = int(sys.argv[sys.argv.index("-i") + 1])
ports = []
for port in (14580 + instance, 18570 + instance):
    ports.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    ports[-1].bind(("127.0.0.1", port))
wire = socket.create_connection(("127.0.0.1", 4560 + instance), timeout=60.0)
report = Path(FOLDER) / f"px4-{instance}"
heard, count = b"", 0
while data := wire.recv(65536):
    heard += data
    while len(heard) >= 10 and len(heard) >= 12 + heard[1]:
        frame, heard = heard[: 12 + heard[1]], heard[12 + heard[1] :]
        if frame[7:10] == b"\x6b\0\0":  # HIL_SENSOR
            time_us = int.from_bytes(frame[10:18], "little")
            new = report.with_suffix(".new")  # before the answer: with the last one the flight ends, and this process
            new.write_text(f"{os.getpid()} {os.getcwd()} {count + 1} {time_us}")
            new.rename(report)
            wire.sendall(controls(count, time_us))
            count += 1
"""


def write_px4_program(folder: Path) -> Path:
    """Write the program into a folder. Each instance N reports there, in px4-N: process, folder, answers, last time [µs]."""
    program = folder / "px4"
    program.write_text(f"#!{sys.executable} -S\nFOLDER = {str(folder)!r}\n{SOURCE}")
    program.chmod(0o755)
    return program


def read_reports(folder: Path) -> list[tuple[int, str, int, int]]:
    """Return process, folder, answers and last time of each instance that has answered, in the order of the instances."""
    reports = []
    for path in sorted(folder.glob("px4-[0-9]")):
        process, working_folder, answers, time_us = path.read_text().split()
        reports.append((int(process), working_folder, int(answers), int(time_us)))
    return reports
