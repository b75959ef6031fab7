"""Optional packages: the command that installs an extra, and the error raised when one is missing."""

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

DISTRIBUTION = "samara-flight"
"""Name on the Python package index. The distribution `samara` there is another project with the same import name."""

FIRST_PYTHON_WITHOUT_WHEELS = {"ros2": ("cyclonedds", (3, 14))}
"""By extra: the package that has no wheels from this Python version on. pyproject.toml has the same as a marker."""

_PACKAGE = Path(__file__).parents[1]


class MissingExtraError(ImportError):
    """A feature needs a package that is not installed; the message has the command that installs it."""


def is_checkout() -> bool:
    """Return whether the package was imported from a source checkout, not from an installed wheel."""
    source = _PACKAGE.parent
    return source.name == "src" and (source.parent / "pyproject.toml").is_file()


def install_hint(extra: str) -> str:
    """Return the command that installs an extra: "pip install 'samara-flight[gym]'", or "pip install -e '.[gym]'"."""
    command = f"pip install -e '.[{extra}]'" if is_checkout() else f"pip install '{DISTRIBUTION}[{extra}]'"
    package, version = FIRST_PYTHON_WITHOUT_WHEELS.get(extra, ("", (4, 0)))
    if sys.version_info[:2] >= version:
        running = ".".join(str(part) for part in sys.version_info[:2])
        return f"{command}, with a Python older than {version[0]}.{version[1]}; {package} has no wheels for Python {running}"
    return command


def missing_extra(feature: str, package: str, extra: str) -> MissingExtraError:
    """Return the error "<feature> needs <package>: <command that installs the extra>"."""
    return MissingExtraError(f"{feature} needs {package}: {install_hint(extra)}")


def import_extra(module: str, feature: str, package: str, extra: str) -> Any:
    """Import a module of an optional package, or raise MissingExtraError."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_extra(feature, package, extra) from error


def import_scipy(module: str, feature: str) -> Any:
    """Import a module of SciPy for a feature of campaigns."""
    return import_extra(f"scipy.{module}", feature, "SciPy", "sweep")


def warn_of_other_distribution(folder: Path = _PACKAGE.parent) -> None:
    """Warn if the distribution `samara`, another project, is installed: its files are mixed with ours, or hide them."""
    # the names in the folders, not importlib.metadata: `import samara` has to stay quick
    for path in dict.fromkeys((str(folder), *sys.path)):
        try:
            names = os.listdir(path or ".")
        except OSError:  # not there, or an archive
            continue
        for name in names:
            if name.startswith("samara-") and name.endswith(".dist-info"):
                version = name.removeprefix("samara-").removesuffix(".dist-info")
                mixed = path == str(folder)
                problem = (
                    f"its files are mixed with those of {DISTRIBUTION}" if mixed else f"it may hide {DISTRIBUTION}"
                )
                message = (
                    f"the distribution samara {version} in {path} is another project with the same import name, and {problem}:"
                    f" install {DISTRIBUTION} in an environment of its own"
                )
                warnings.warn(message, RuntimeWarning, stacklevel=3)
