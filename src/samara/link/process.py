"""An autopilot's process: started in a temporary folder, ended with its child processes, its output saved to a file."""

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

SIGTERM_TIMEOUT = 2.0  # [s], from SIGTERM to SIGKILL
LAST_LINES = 5
EXIT_TIMEOUT = 0.5  # [s], from the loss of a connection to the exit of its process
PARENT_DEATH_SCRIPT = """
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
    """A program that runs in `folder` with additional environment variables; `log` is the file with its output.

    Args:
        command: program and arguments.
        environment: variables added to the current environment.
        files: files to write into `folder`, by relative path.
        sigterm_first: send SIGTERM before SIGKILL.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        *,
        sigterm_first: bool = True,
    ) -> None:
        self.command, self._environment, self._sigterm_first = list(command), dict(environment or {}), sigterm_first
        self.folder = Path(tempfile.mkdtemp(prefix="samara-autopilot-"))
        for name, content in (files or {}).items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
        self.log = self.folder / "said.txt"
        self.running: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def start(self) -> None:
        """Start or restart the process."""
        self.stop()
        try:
            with open(self.log, "wb") as output:
                self.running = subprocess.Popen(
                    _command_with_parent_death_signal(self.command),
                    cwd=self.folder,
                    env={**os.environ, **self._environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise ValueError(
                f"{self.command[0]}: cannot be started ({error}); expected an autopilot's binary"
            ) from None

    @property
    def exit_report(self) -> str:
        """Exit status and last output; "" while the process runs."""
        code = None if self.running is None else self.running.poll()
        if code is None:
            return ""
        how = f"by signal {-code} ({_signal_name(-code)})" if code < 0 else f"with status {code}"
        output = " / ".join(self.last_output())
        return f"{Path(self.command[0]).name} ended {how}" + (f"; its last output: {output}" if output else "")

    def wait_exit_report(self) -> str:
        """Return `exit_report` after a short wait: a process whose connection broke may be about to exit."""
        if self.running is not None:
            with suppress(subprocess.TimeoutExpired):
                self.running.wait(EXIT_TIMEOUT)
        return self.exit_report

    def output(self) -> str:
        """Return everything that it has written so far."""
        try:
            return self.log.read_bytes().decode(errors="replace")
        except OSError:
            return ""

    def last_output(self, lines: int = LAST_LINES) -> list[str]:
        """Return the last non-empty lines of its output."""
        return [line.strip() for line in self.output()[-4000:].splitlines() if line.strip()][-lines:]

    def stop(self) -> None:
        """End the process and its child processes."""
        process = self.running
        if process is None:
            return
        if process.poll() is None and self._sigterm_first:
            self._signal_group(process, terminate=True)
            with suppress(subprocess.TimeoutExpired):
                process.wait(SIGTERM_TIMEOUT)
        self._signal_group(process, terminate=False)
        process.wait()
        self.running = None  # last: after an interrupt during the waits above, a later call can still end the process

    @staticmethod
    def _signal_group(process: "subprocess.Popen[bytes]", *, terminate: bool) -> None:
        """Signal the process group; on systems without process groups, such as Windows, only the process."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32" or not hasattr(os, "killpg"):
                process.terminate() if terminate else process.kill()
            else:
                os.killpg(process.pid, signal.SIGTERM if terminate else signal.SIGKILL)

    def close(self) -> None:
        """End the process and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)


def _command_with_parent_death_signal(command: list[str]) -> list[str]:
    """Wrap the command such that Linux kills the process when the thread that started it ends, for whatever reason.

    A short Python script sets PR_SET_PDEATHSIG and executes the program. `preexec_fn` is not an option: it runs with locks that
    other threads may hold for ever.
    """
    if sys.platform != "linux" or not sys.executable:
        return command
    return [sys.executable, "-I", "-S", "-c", PARENT_DEATH_SCRIPT, str(os.getpid()), *command]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return "no name"


def default_binary(autopilot_type: AutopilotType) -> str:
    """Return the default program of an autopilot: its environment variable, else an installed program, else ""."""
    executable = autopilot_type.executable
    return "" if executable is None else os.environ.get(executable.variable, "") or find_installed(executable)


def find_installed(executable: Executable) -> str:
    """Find a program on the PATH, in its package's folder or in a Python package; return "" if it is not installed.

    Relative entries of the PATH are ignored: a file in the working directory is not installed. If a folder holds several
    versions, the newest is returned.
    """
    folders = [Path(folder) for folder in os.get_exec_path() if os.path.isabs(folder)]
    on_path = (path for folder in folders for name in executable.names for path in _newest_first(folder, name))
    for path in (*on_path, *map(Path, executable.paths), _package_file(executable)):
        if path is not None and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return ""


def _newest_first(folder: Path, pattern: str) -> list[Path]:
    """Return the files that match a name, or a pattern whose star stands for a version, newest first."""
    if "*" not in pattern:
        return [folder / pattern]
    return sorted(folder.glob(pattern), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], reverse=True)


def _package_file(executable: Executable) -> Path | None:
    package, file = executable.package_file or ("", "")
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or not spec.origin:
        return None
    return Path(spec.origin).parent / file


def require_binary(path: str | Path, program: str) -> Path:
    """Return the resolved path of an executable file; raise ValueError if it is none."""
    resolved = Path(path).expanduser().resolve()
    if not resolved.is_file() or not os.access(resolved, os.X_OK):
        raise ValueError(f"{path}: is not a program that can be run; expected the binary of {program}")
    return resolved


SCRIPT_NAME = "start.sh"


class StartScript(NamedTuple):
    """A start script: default program, shell lines that start "$program", environment and files."""

    program: str
    lines: tuple[str, ...]
    environment: Mapping[str, str] = {}
    files: Mapping[str, str | bytes] = {}
    note: str = ""

    def script(self, variable: str) -> str:
        """Return the text of the script `sh start.sh [program]`, which runs in the folder with its files.

        The default program is the environment variable `variable`, or `program` if that is unset or `variable` is empty.
        """
        default = f"${{{variable}:-{self.program}}}" if variable else self.program
        source = f"${variable} or {self.program}" if variable else self.program
        return "\n".join(
            [
                "#!/bin/sh",
                f"# sh {SCRIPT_NAME} [program]: the default program is {source}.",
                f'name="${{1:-{default}}}"',
                'program="$(command -v "$name")" || { echo "$name: not found; expected: sh $0 PROGRAM" >&2; exit 1; }',
                'program="$(cd "$(dirname "$program")" && pwd)/$(basename "$program")"',
                'program="$(readlink -f "$program" 2>/dev/null || echo "$program")"',  # its data files are next to the target
                'cd "$(dirname "$0")" || exit 1',
                *(f"export {key}={shlex.quote(value)}" for key, value in self.environment.items()),
                *self.lines,
                "",
            ]
        )


class StartFolder:
    """A folder with a start script and its files."""

    def __init__(self, start: StartScript, variable: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="samara-start-"))
        self._files = {SCRIPT_NAME: start.script(variable), **start.files}
        for name, content in self._files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        (self.folder / SCRIPT_NAME).chmod(0o755)
        self.command_line = f"sh {shlex.quote(str(self.folder / SCRIPT_NAME))}" + (
            f" ({start.note})" if start.note else ""
        )

    def close(self) -> None:
        """Remove the folder unless the autopilot has written files to it."""
        own_paths = {part for name in map(Path, self._files) for part in (name, *name.parents)}
        if {path.relative_to(self.folder) for path in self.folder.rglob("*")} <= own_paths:
            shutil.rmtree(self.folder, ignore_errors=True)
