"""One source, every backend: each public function of the physics is the same function of floats, NumPy arrays, JAX
arrays, CasADi expressions and SymPy numbers, and its gradients are finite and agree.

Functions are found by introspection and their arguments drawn from their annotations: a new one is covered without anyone
remembering it, and one without declared ranges fails.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from support.backend_comparison import compare
from support.sampling import build_case, structures
from support.vehicle_parameters import ONE_OF_EACH

import samara.core.algebra
import samara.physics
import samara.physics.effect
import samara.physics.frames
import samara.physics.multirotor
from samara.physics.types import Vehicle


def public_functions() -> Iterator[Any]:
    """Yield the functions of algebra, frames and every phenomenon, without those that only handle vehicles and arrays."""
    modules = [samara.core.algebra, samara.physics.frames, samara.physics.effect, samara.physics.multirotor]
    packages = pkgutil.walk_packages(samara.physics.__path__, "samara.physics.")
    modules += [importlib.import_module(module.name) for module in packages if module.name.count(".") == 3]
    for module in modules:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            gives = inspect.signature(function).return_annotation
            is_public = function.__module__ == module.__name__ and not name.startswith("_")
            # `replace_tilt_angles` fills a record, `step` checks floats and integrates
            if (
                is_public
                and gives not in (tuple[str, ...], Vehicle, None)
                and name not in ("replace_tilt_angles", "step")
            ):
                yield function


def every_case() -> Iterator[Any]:
    for function in public_functions():
        for vehicle_name in structures(function):
            name = f"{function.__module__[7:]}.{function.__name__}"
            marks = [pytest.mark.long] if vehicle_name and vehicle_name not in ONE_OF_EACH else []
            yield pytest.param(
                function, vehicle_name, id=f"{name}-{vehicle_name}" if vehicle_name else name, marks=marks
            )


@pytest.mark.parametrize(("function", "vehicle_name"), every_case())
def test_every_backend_computes_the_same_values_and_gradients(function, vehicle_name, record_property):
    record_property("worst", compare(build_case(function, vehicle_name)))
