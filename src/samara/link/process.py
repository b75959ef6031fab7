"""An autopilot's own process: started in a folder of its own, ended with everything it started, its words kept."""

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from samara.scenario.autopilot_types import AutopilotType, Executable

GRACE = 2.0  # [s], between the polite signal and the other
LAST_LINES = 5
ENDING = 0.5  # [s], from a connection that breaks to the end of its process
WITH_ITS_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"it cannot be started ({error.strerror}); expected an autopilot's binary")
"""


class Process:
    """A program running in `folder`, with some environment variables more; `log` is what it said."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        *,
        polite: bool = True,
    ) -> None:
        self.command, self._environment, self._polite = list(command), dict(environment or {}), polite
        self.folder = Path(tempfile.mkdtemp(prefix="samara-autopilot-"))
        for name, content in (files or {}).items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
        self.log = self.folder / "said.txt"
        self.running: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def start(self) -> None:
        """Starts it, or starts it again"""
        self.stop()
        try:
            with open(self.log, "wb") as said:
                self.running = subprocess.Popen(
                    _with_its_parent(self.command),
                    cwd=self.folder,
                    env={**os.environ, **self._environment},
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise ValueError(
                f"{self.command[0]}: cannot be started ({error}); expected an autopilot's binary"
            ) from None

    @property
    def ended(self) -> str:
        """How it ended, with its last words; "" while it runs"""
        code = None if self.running is None else self.running.poll()
        if code is None:
            return ""
        how = f"by signal {-code} ({_signal_name(-code)})" if code < 0 else f"with status {code}"
        words = " / ".join(self.last_words())
        return f"{Path(self.command[0]).name} ended {how}" + (f"; its last words: {words}" if words else "")

    def ended_soon(self) -> str:
        """How it ended; one whose connection broke is given a moment to do so"""
        if self.running is not None:
            with suppress(subprocess.TimeoutExpired):
                self.running.wait(ENDING)
        return self.ended

    def last_words(self, lines: int = LAST_LINES) -> list[str]:
        """The last lines it said"""
        try:
            said = self.log.read_bytes()[-4000:].decode(errors="replace")
        except OSError:
            return []
        return [line.strip() for line in said.splitlines() if line.strip()][-lines:]

    def stop(self) -> None:
        """Ends it and what it started"""
        own = self.running
        if own is None:
            return
        if own.poll() is None and self._polite:
            self._end(own, politely=True)
            with suppress(subprocess.TimeoutExpired):
                own.wait(GRACE)
        self._end(own, politely=False)
        own.wait()
        self.running = None  # not before: an interrupt on the way here leaves it to the next who ends it

    @staticmethod
    def _end(own: "subprocess.Popen[bytes]", *, politely: bool) -> None:
        """Ends it with all it started; where processes have no groups, as on Windows, it alone."""
        group = getattr(os, "killpg", None)
        with suppress(ProcessLookupError, PermissionError):
            if group is None:
                own.terminate() if politely else own.kill()
            else:
                group(own.pid, signal.SIGTERM if politely else signal.SIGKILL)

    def close(self) -> None:
        """Ends it and removes its folder"""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)


def _with_its_parent(command: list[str]) -> list[str]:
    """The command, on Linux such that the system kills it when the thread that started it is gone, however that ended

    A few lines of Python become the program: `preexec_fn` would run where the locks of other threads are shut for ever.
    """
    if sys.platform != "linux" or not sys.executable:
        return command
    return [sys.executable, "-I", "-S", "-c", WITH_ITS_PARENT, str(os.getpid()), *command]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return "no name"


def default_binary(autopilot_type: AutopilotType) -> str:
    (
        """The program of an autopilot that nobody names: that of its environment variable, else an installed one, else """
        ""
    )
    executable = autopilot_type.executable
    return "" if executable is None else os.environ.get(executable.variable, "") or find_installed(executable)


def find_installed(executable: Executable) -> str:
    """The program on the PATH, in its package's folder, or in a Python package; "" if it is not installed

    Relative entries of the PATH are passed over: a file in the working directory is not installed. Of several versions in
    one folder the newest is taken.
    """
    folders = [Path(folder) for folder in os.get_exec_path() if os.path.isabs(folder)]
    on_path = (path for folder in folders for name in executable.names for path in _newest_first(folder, name))
    for path in (*on_path, *map(Path, executable.paths), _package_file(executable)):
        if path is not None and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return ""


def _newest_first(folder: Path, pattern: str) -> list[Path]:
    """The files of a name, or of a pattern with a version in place of its star"""
    if "*" not in pattern:
        return [folder / pattern]
    return sorted(folder.glob(pattern), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], reverse=True)


def _package_file(executable: Executable) -> Path | None:
    package, file = executable.package_file or ("", "")
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or not spec.origin:
        return None
    return Path(spec.origin).parent / file


def require_binary(path: str | Path, what: str) -> Path:
    """The path of a program that is there and may be run"""
    own = Path(path).expanduser().resolve()
    if not own.is_file() or not os.access(own, os.X_OK):
        raise ValueError(f"{path}: is not a program that can be run; expected the binary of {what}")
    return own


NAME = "start.sh"


class Start(NamedTuple):
    """The program when nobody names one, the shell's lines that start "$program", and its environment and files."""

    program: str
    lines: tuple[str, ...]
    environment: Mapping[str, str] = {}
    files: Mapping[str, str | bytes] = {}
    remark: str = ""

    def script(self, variable: str) -> str:
        """The script: sh start.sh [program]; it runs in its own folder, where the files are

        The program is that in the environment variable `variable`, unless the variable or its name is empty.
        """
        default = f"${{{variable}:-{self.program}}}" if variable else self.program
        source = f"${variable} or {self.program}" if variable else self.program
        return "\n".join(
            [
                "#!/bin/sh",
                f"# sh {NAME} [program]: the program is {source} unless it is given.",
                f'wanted="${{1:-{default}}}"',
                'program="$(command -v "$wanted")" || { echo "$wanted: not found; expected: sh $0 PROGRAM" >&2; exit 1; }',
                'program="$(cd "$(dirname "$program")" && pwd)/$(basename "$program")"',
                'program="$(readlink -f "$program" 2>/dev/null || echo "$program")"',  # its files are where it is itself
                'cd "$(dirname "$0")" || exit 1',
                *(f"export {key}={shlex.quote(value)}" for key, value in self.environment.items()),
                *self.lines,
                "",
            ]
        )


class StartFolder:
    """A folder with the script and its files; removed when nothing else has come into it."""

    def __init__(self, start: Start, variable: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="samara-start-"))
        self._files = {NAME: start.script(variable), **start.files}
        for name, own in self._files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(own.encode() if isinstance(own, str) else own)
        (self.folder / NAME).chmod(0o755)
        self.words = f"sh {shlex.quote(str(self.folder / NAME))}" + (f" ({start.remark})" if start.remark else "")

    def close(self) -> None:
        """What the autopilot has written there since stays, with the script it was started by"""
        own = {part for name in map(Path, self._files) for part in (name, *name.parents)}
        if {path.relative_to(self.folder) for path in self.folder.rglob("*")} <= own:
            shutil.rmtree(self.folder, ignore_errors=True)
