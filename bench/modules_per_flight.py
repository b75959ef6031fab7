"""Count the `samara` modules that `samara.fly("hover")` runs through, and their lines.

    PYTHONPATH=src python bench/modules_per_flight.py            the counts, and the modules by package
    PYTHONPATH=src python bench/modules_per_flight.py waypoints  the same for another scenario

A module counts when one of its Python functions runs during the call. Every module that the flight imports is imported
before, so that imports do not count. The first call of a process loads, traces and compiles; the second reuses the results.
"""

import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import samara

SOURCE = Path(samara.__file__).parent
LIST_IMPORTS = "import sys, samara; samara.fly(sys.argv[1]); print(*sys.modules)"


def modules_of_flight(scenario: str) -> dict[str, int]:
    """Fly the scenario; return the modules that ran, by their path in the package, with their line counts."""
    files: set[str] = set()

    def record_file(frame: FrameType, event: str, argument: Any) -> None:
        files.add(frame.f_code.co_filename)

    fly = samara.fly
    sys.setprofile(record_file)
    try:
        fly(scenario)
    finally:
        sys.setprofile(None)
    paths = sorted(Path(name) for name in files if Path(name).is_relative_to(SOURCE))
    return {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in paths}


if __name__ == "__main__":
    scenario_name = sys.argv[1] if len(sys.argv) > 1 else "hover"
    import_list = subprocess.run(
        [sys.executable, "-c", LIST_IMPORTS, scenario_name], capture_output=True, text=True, check=True
    )
    for name in import_list.stdout.split():
        with suppress(ImportError):  # an alias of another module
            import_module(name)
    calls = {"first": modules_of_flight(scenario_name), "second": modules_of_flight(scenario_name)}
    for call, modules in calls.items():
        print(f"{call} call: {len(modules)} modules, {sum(modules.values())} lines")
    packages: dict[str, list[str]] = defaultdict(list)
    for path in calls["first"]:
        packages[Path(path).parts[0]].append(path.partition("/")[2] + ("" if path in calls["second"] else " (first)"))
    for package, package_modules in packages.items():
        print(f"{package} {len(package_modules)}: {', '.join(package_modules)}")
