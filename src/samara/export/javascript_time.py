"""How long a step of an exported module takes where Node is installed."""

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parent / "js" / "time.mjs"
PATIENCE = 20.0  # [s]


def microseconds_a_step(module: Path) -> float | None:
    """The best of ten runs [µs]; None without Node, or with one that does not take ES modules for what they are"""
    node = shutil.which("node")
    if node is None:
        return None
    try:
        done = subprocess.run([node, SCRIPT, module.absolute()], capture_output=True, text=True, timeout=PATIENCE)
        return float(done.stdout)
    except (ValueError, OSError, subprocess.TimeoutExpired):
        return None
