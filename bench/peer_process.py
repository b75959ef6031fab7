"""Run peers in a separate environment, bench/.venv, which `make bench` creates from peers.txt."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PYTHON = HERE / ".venv" / "bin" / "python"
PEER_MODULES = {  # modules that must be importable to measure each peer
    "Crazyflow": "crazyflow.sim",
    "RotorPy": "rotorpy.vehicles.multirotor",
    "RotorPy's batch": "torch, torchdiffeq, roma",
    "Crocoddyl": "crocoddyl",
}


class PeerError(RuntimeError):
    """A peer cannot be measured; a table without its row would look complete."""


def run_peer(
    peer: str, arguments: Iterable[Any], python: Path = PYTHON, input_text: str = "", **environment: str
) -> Any:
    """Run the peers' Python; return the last line that it prints, parsed as JSON. `input_text` is its standard input."""
    try:
        process = subprocess.run(
            [python, *arguments],
            input=input_text,
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
    if process.returncode:
        error_lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        raise PeerError(f"{peer} cannot be measured: {error_lines[-1]}")
    return json.loads(process.stdout.splitlines()[-1])


def check_peers(python: Path = PYTHON) -> None:
    """Import every peer, so that a missing one is reported before minutes of measuring."""
    for peer, modules in PEER_MODULES.items():
        run_peer(peer, ["-c", f"import {modules}; print(1)"], python)
