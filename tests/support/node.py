"""Node.js on this machine, and the output of modules that it runs."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.repository import skip_or_fail


def node() -> str:
    path = shutil.which("node")
    if path is None:
        skip_or_fail("Node is not installed")
    return path


def run_script(folder: Path, script: str, given: Any = None, parse: Callable[[str], Any] = json.loads) -> Any:
    """Run a script in a folder of modules and parse its output; the script reads `given` as `given`."""
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "given.js").write_text(f"export const given = {json.dumps(given)};\n")
    (folder / "script.js").write_text(f'import {{ given }} from "./given.js";\n{script}')
    process = subprocess.run([node(), "script.js"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return parse(process.stdout)
