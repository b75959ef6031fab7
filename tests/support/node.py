"""Node on this machine, and what a module prints in it."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.repository import do_without


def node() -> str:
    found = shutil.which("node")
    if found is None:
        do_without("Node is not installed")
    return found


def printed(folder: Path, script: str, given: Any = None, read: Callable[[str], Any] = json.loads) -> Any:
    """What a script in a folder of modules says; `given` is what it finds in `given`"""
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "given.js").write_text(f"export const given = {json.dumps(given)};\n")
    (folder / "script.js").write_text(f'import {{ given }} from "./given.js";\n{script}')
    done = subprocess.run([node(), "script.js"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return read(done.stdout)
