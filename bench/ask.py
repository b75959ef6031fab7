"""A peer measured in an environment of its own, bench/.venv, which `make bench` makes from peers.txt."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PYTHON = HERE / ".venv" / "bin" / "python"
MODULES = {  # what must be importable for each peer to be measured
    "Crazyflow": "crazyflow.sim",
    "RotorPy": "rotorpy.vehicles.multirotor",
    "RotorPy's batch": "torch, torchdiffeq, roma",
    "Crocoddyl": "crocoddyl",
}


class PeerError(RuntimeError):
    """A peer cannot be measured; a table without its row would look complete"""


def ask(peer: str, arguments: Iterable[Any], python: Path = PYTHON, given: str = "", **environment: str) -> Any:
    """What the peers' Python prints last, as JSON"""
    try:
        done = subprocess.run(
            [python, *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "PYTHONPATH": "", **environment},
        )
    except OSError as error:
        raise PeerError(
            f"{peer} cannot be measured: {python} does not run ({error.strerror}); try make bench"
        ) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise PeerError(f"{peer} cannot be measured: {said[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def check(python: Path = PYTHON) -> None:
    """Every peer can be imported: seen before minutes are spent on measuring"""
    for peer, modules in MODULES.items():
        ask(peer, ["-c", f"import {modules}; print(1)"], python)
