"""Whether JAX has a GPU here: asked without waiting for JAX where there is no driver."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # one of them is there where JAX may find a GPU


@cache
def has_gpu() -> bool:
    """Found out once"""
    if not any(Path(own).exists() for own in DRIVERS) or not find_spec("jax"):
        return False
    import jax

    return bool(jax.default_backend() == "gpu")
