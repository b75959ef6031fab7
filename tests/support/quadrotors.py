"""Quadrotors of every origin: shipped ones, one of each import format, and three assembled from parts."""

import tempfile
from pathlib import Path

from vehicles.test_drone_models_file import OWN as DRONE_MODELS
from vehicles.test_rotorpy_file import OWN as ROTORPY
from vehicles.test_urdf import sparrow

import samara
from samara.physics.types import Vehicle
from samara.vehicles.exchange.formats import read_aircraft
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list

VEHICLE_TESTS = Path(__file__).resolve().parents[1] / "vehicles"
IMPORTED = {
    "rotorpy": ("own_params.py", ROTORPY, None),
    "drone_models": ("params.toml", DRONE_MODELS, None),
    "gym_pybullet_drones": ("sparrow.urdf", sparrow(), "crazyflie"),
    "xacro": ("wren.xacro", None, None),
    "sdf": ("models/heron/model.sdf", None, None),
}
"""By format: the name of the file, its text if it is not stored, and the vehicle that has what it lacks."""
PARTS = {
    "whoop_65mm": {
        "mass": 0.026,
        "diagonal": 0.065,
        "motors": "0802 19000KV",
        "props": "1.2x1.0x4",
        "battery": "1S300",
    },
    "racer_5inch": {"mass": 0.65, "diagonal": 0.22, "motors": "2207 1950KV", "props": "5.1x4.3x3", "battery": "6S1300"},
    "survey_10inch": {"mass": 2.064, "diagonal": 0.5, "motors": "2216 920KV", "props": "10x4.5", "battery": "4S5000"},
}
"""By name: the options of `samara vehicle new`."""
SHIPPED = ("crazyflie", "crazyflie_brushless", "crazyflie_documented", "hakoniwa", "iris", "iris_documented")
QUADROTORS = (*SHIPPED, *IMPORTED, *PARTS)


def quadrotor(name: str) -> Vehicle:
    """Load, import or assemble one of `QUADROTORS`."""
    if name in PARTS:
        return assemble(parts_list(name, name=name, **PARTS[name]))
    if name in SHIPPED:
        return samara.vehicle(name)
    file_name, text, defaults = IMPORTED[name]
    with tempfile.TemporaryDirectory() as folder:
        path = VEHICLE_TESTS / file_name
        if text is not None:
            path = Path(folder) / file_name
            path.write_text(text, encoding="utf-8")
        return build_imported(read_aircraft(path), samara.vehicle(defaults) if defaults else None)
