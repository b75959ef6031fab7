"""Parameter files with characters lost, moved and inserted: a vehicle or a VehicleError, and never anything else."""

import random
import re
from contextlib import suppress

import pytest
from vehicles.test_ardupilot_frame import HEAVY
from vehicles.test_betaflight_diff import OWN as DIFF
from vehicles.test_drone_models_file import OWN as MODELS
from vehicles.test_px4_file import QGROUNDCONTROL, SCRIPT, SHOWN
from vehicles.test_rotorpy_file import OWN as ROTORPY

from samara import vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.ardupilot import ardupilot_frame
from samara.vehicles.exchange.betaflight import betaflight_diff
from samara.vehicles.exchange.drone_models_file import drone_models_file
from samara.vehicles.exchange.imported_vehicle import build_imported, scale_positions
from samara.vehicles.exchange.px4 import px4_parameter_file
from samara.vehicles.exchange.rotorpy_file import rotorpy_file
from samara.vehicles.parts.uncertain import exact_value

READERS = {
    "ardupilot": (HEAVY, ardupilot_frame),
    "betaflight": (DIFF, betaflight_diff),
    "drone-models": (MODELS, drone_models_file),
    "qgroundcontrol": (QGROUNDCONTROL, px4_parameter_file),
    "param show": (SHOWN, px4_parameter_file),
    "script": (SCRIPT, px4_parameter_file),
    "rotorpy": (ROTORPY, rotorpy_file),
}
PUT_IN = (
    *("nan", "inf", "-1", "0", "1e308", "1e-308", "true", "null", "1e12", "-0.0", "9" * 30, "é", "\u2028", "#", "="),
    *("[", "]", "{", "}", "'", '"', "\n", "()", "[]", "mmix 9 9 9 9 9", "**", "*", "/", "np.array([1,2,3])"),
)


def mangle(text, draw):
    for _ in range(draw.randint(1, 4)):
        position = draw.randrange(len(text))
        numbers = list(re.finditer(r"-?\d+\.?\d*(?:e-?\d+)?", text))
        if draw.random() < 0.5 and numbers:
            number = draw.choice(numbers)
            text = text[: number.start()] + draw.choice(PUT_IN) + text[number.end() :]
        else:
            text = text[:position] + draw.choice(("", *PUT_IN)) + text[position + draw.randint(0, 12) :]
        text = text or " "
    return text


@pytest.mark.parametrize("name", READERS)
def test_a_mangled_file_is_a_vehicle_or_a_vehicle_error(name):
    text, reader = READERS[name]
    draw, similar = random.Random(name), vehicle("iris_documented")
    for _ in range(60):
        damaged = mangle(text, draw)
        with suppress(VehicleError):
            read = scale_positions(reader(damaged, "own.file"), exact_value(0.2))
            build_imported(read, similar if len(read.rotors) == 4 else None)
