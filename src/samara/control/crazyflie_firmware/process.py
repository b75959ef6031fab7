"""A drone's firmware in a process of its own, which ends with whoever started it."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from samara.control.crazyflie_firmware import worker
from samara.control.crazyflie_firmware.conversions import FIELDS
from samara.control.crazyflie_firmware.motors import Curve
from samara.control.crazyflie_firmware.names import PREFIX
from samara.core.optional_dependencies import MissingExtraError

MODULE = "cffirmware"
TOLD = worker.told_by(FIELDS)
MOST = 64  # at once: each is a process, and a thousand flights side by side would be a thousand of them


def module_folder(what: str) -> str:
    """Where the bindings are installed; MissingExtraError where they are not"""
    try:
        spec = importlib.util.find_spec(MODULE)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        raise MissingExtraError(
            f"{what} is the Crazyflie firmware's own: it needs {MODULE}, which is built from Bitcraze's crazyflie-firmware "
            "with `make bindings_python`"
        )
    file = Path(spec.origin)
    return str(file.parent.parent if file.name == "__init__.py" else file.parent)


class FirmwareError(ChildProcessError):
    """The firmware's process is of no use, or gone; the message is one sentence."""


class FirmwareProcess:
    """`tick(numbers, supply)` → PWM of four motors; `curve` is what the build takes its motors for."""

    def __init__(self, controller: str) -> None:
        self._controller = controller
        if len(_RUNNING) >= MOST:
            raise FirmwareError(
                f"{PREFIX}{controller}: {len(_RUNNING)} drones have a firmware each; expected at most {MOST} at once"
            )
        folder = module_folder(f"{PREFIX}{controller}")
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        root = str(Path(worker.__file__).parents[3])
        paths = os.pathsep.join(own for own in (root, os.environ.get("PYTHONPATH", "")) if own)
        self._process = subprocess.Popen(
            [sys.executable, "-P", worker.__file__, str(os.getpid()), folder, MODULE, controller, ",".join(FIELDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,  # an interrupt is for the one who waits for it
        )
        _RUNNING.add(self._process)
        self.close = weakref.finalize(self, _end, self._process, self._said)
        about = self._introduction()
        self.kind: str = about["kind"]
        self.curve = Curve(tuple(about["curve"][0]), *about["curve"][1:])

    def _introduction(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        about: dict[str, Any] = json.loads(line)
        if "error" in about:
            self.close()
            raise FirmwareError(f"{PREFIX}{self._controller}: {about['error']}")
        return about

    def tick(self, numbers: Sequence[float], supply: float) -> tuple[float, ...]:
        """One millisecond of the firmware"""
        asks, answers = self._process.stdin, self._process.stdout
        assert asks is not None and answers is not None
        try:
            asks.write(TOLD.pack(*numbers, supply))
            asks.flush()
            said = answers.read(worker.SAID.size)
        except (OSError, ValueError):  # it has ended, or was closed
            said = b""
        if len(said) < worker.SAID.size:
            raise self._gone()
        return worker.SAID.unpack(said)

    def _gone(self) -> FirmwareError:
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)
        words = "" if self._said.closed else _last_words(self._said)
        self.close()
        how = "by signal" if code is not None and code < 0 else "with status"
        ended = "" if code is None else f" {how} {abs(code)}"
        return FirmwareError(
            f"{PREFIX}{self._controller}: the firmware's process ended{ended}" + (f": {words}" if words else "")
        )


_RUNNING: "set[subprocess.Popen[bytes]]" = set()


def require_firmware(controller: str) -> None:
    """One sentence where the bindings are missing, or have not what this controller needs"""
    FirmwareProcess(controller).close()


def _last_words(said: IO[bytes]) -> str:
    said.seek(0)
    lines = [line.strip() for line in said.read()[-4000:].decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _end(process: "subprocess.Popen[bytes]", said: IO[bytes]) -> None:
    """Ends it; what it said goes with it."""
    _RUNNING.discard(process)
    process.kill()
    process.wait()
    for own in (process.stdin, process.stdout):
        if own is not None:
            with suppress(OSError):
                own.close()
    said.close()
