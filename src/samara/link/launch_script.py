"""How a person starts an autopilot that is waited for: a script in a folder, its parameters beside it."""

import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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
