"""The versions of what decides the bits of a flight."""

from importlib.metadata import PackageNotFoundError, version

from samara.core.version import __version__

DECIDING = ("numpy", "llvmlite")


def versions() -> dict[str, str]:
    """By package; empty where one is not installed"""
    return {"samara": __version__, **{name: version_of(name) for name in DECIDING}}


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
