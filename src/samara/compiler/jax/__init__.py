"""Run programs with JAX, also as one GPU kernel."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # at least one exists on systems with a GPU that JAX supports


@cache
def has_gpu() -> bool:
    """Whether JAX has a GPU; without a driver JAX is not imported."""
    if not any(Path(driver).exists() for driver in DRIVERS) or not find_spec("jax"):
        return False
    import jax

    return bool(jax.default_backend() == "gpu")
