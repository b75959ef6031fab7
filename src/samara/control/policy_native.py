"""A policy's C on this machine: compiled, measured, and flown as a controller, in float as on a flight controller."""

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from samara.control.policy_c import PREFIX, Exported, read_of_reference
from samara.control.policy_file import Policy
from samara.core.tree import flatten
from samara.physics.types import Command, Reference, State, Vehicle


class Measured(NamedTuple):
    """Bytes of code, without the weights, as this machine's compiler makes them for size; and the time of a call  [s]"""

    code_bytes: int
    seconds: float


class PolicyInC:
    """`controller(state, reference, vehicle, memory) → command, memory`, called every `period` [s], by the C of a policy

    What the C keeps in its struct is handed on as the memory: one controller flies as many drones as there are.
    """

    def __init__(self, policy: Policy, exported: Exported, library: ctypes.CDLL, period: float) -> None:
        self._library, self._period, self._rotors = library, ctypes.c_float(period), policy.rotors
        self._reads, self._held = read_of_reference(policy), exported.memory_bytes // 4
        start = (ctypes.c_float * self._held)()
        library[f"{PREFIX}_start"](start)
        self.initial_memory = tuple(start)

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, memory: Any) -> tuple[Command, Any]:
        asked = flatten(tuple(getattr(reference, f"{name}_W") for name in self._reads))
        known, wanted, held = _floats(flatten(state[:5])), _floats([*asked, reference.yaw]), _floats(memory)
        command = (ctypes.c_float * self._rotors)()
        self._library[f"{PREFIX}_act"](known, wanted, held, self._period, command)
        return tuple(command), tuple(held)


def _floats(numbers: Sequence[float]) -> Any:
    return (ctypes.c_float * len(numbers))(*numbers)


def compiled(source: Path, into: Path, *options: str) -> ctypes.CDLL:
    """The C as a library of this machine; FileNotFoundError where there is no compiler"""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler, cc, on this machine")
    command = [compiler, "-std=c99", "-O2", "-shared", "-fPIC", *options, str(source), "-o", str(into), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cc: {done.stderr.strip().splitlines()[0] if done.stderr.strip() else done.returncode}")
    return ctypes.CDLL(str(into))


def measured(exported: Exported, calls: int = 2000) -> Measured | None:
    """Size and time on this CPU; None where there is no compiler"""
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = compiled(exported.source, Path(folder) / "policy.so")
        except (FileNotFoundError, RuntimeError):
            return None
        small = Path(folder) / "policy.o"
        made = subprocess.run(
            ["cc", "-std=c99", "-Os", "-c", str(exported.source), "-o", str(small)], capture_output=True, check=False
        )
        code = max(0, small.stat().st_size - 4 * exported.parameters) if made.returncode == 0 else 0
        numbers = [(ctypes.c_float * count)() for count in (64, 16, exported.memory_bytes // 4, 64)]
        numbers[0][6] = 1.0  # of the quaternion
        act, start, dt = library.samara_policy_act, library.samara_policy_start, ctypes.c_float(0.01)
        started = _best(calls, start, numbers[2])  # next to nothing but the call itself
        seconds = _best(calls, act, numbers[0], numbers[1], numbers[2], dt, numbers[3]) - started
    return Measured(code, max(0.0, seconds))


def _best(calls: int, function: Any, *given: Any) -> float:
    """The shortest mean time of a call among ten  [s]"""
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(calls // 10):
            function(*given)
        times.append((time.perf_counter() - begin) / (calls // 10))
    return min(times)
