"""Pictures of an identification, from the flight that docs/howto/identify.md plans, flies and identifies:
`PYTHONPATH=docs python -m figures.identify docs/images`."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import samara
from samara.core.atomic_files import atomic_write
from samara.identify import cross_validate, identify, plan_flight, read_log, write_plan
from samara.physics.types import Vehicle
from samara.view.plot import identify as draw
from samara.view.plot.identify import draw_flight_plan
from samara.view.plot.style import samara_style

SECONDS, WIND = 60.0, 1.0
DPI = 95  # [dots per inch]


def guess(truth: Vehicle) -> Vehicle:
    """Return the vehicle with measured mass and size, but wrong motor data and inertia."""
    rotors = tuple(
        rotor._replace(
            k_thrust=1.2 * rotor.k_thrust,
            k_torque=0.8 * rotor.k_torque,
            motor=rotor.motor._replace(
                time_constant_up=1.5 * rotor.motor.time_constant_up,
                time_constant_down=1.5 * rotor.motor.time_constant_down,
            ),
        )
        for rotor in truth.rotors
    )
    return truth.replace(rotors=rotors, inertia_B=1.3 * truth.inertia_B)


def draw_identify(folder: str | Path) -> None:
    """Draw identify_plan.png, identify_numbers.png and identify_predicted.png."""
    truth = samara.vehicle("crazyflie").without_effect("damping")
    plan = plan_flight(truth, SECONDS)
    draw_flight_plan(plan, Path(folder) / "identify_plan.png")
    with tempfile.TemporaryDirectory() as work_folder:
        samara.save_vehicle(truth, Path(work_folder) / "real.toml")
        scenario, _ = write_plan(plan, work_folder, "real.toml")
        recording = Path(work_folder) / "flight.mcap"
        samara.fly(scenario, out=recording, settings={"wind.speed": WIND})
        logs = read_log(recording)
    start = guess(truth)
    identification = identify(logs, start)
    (prediction, *_) = cross_validate(identification.flights, start, predictor=False)
    _save(draw.parameter_figure(identification.vehicles), Path(folder) / "identify_numbers.png")
    _save(draw.prediction_figure(prediction, "physical, trimmed"), Path(folder) / "identify_predicted.png")


def _save(figure: Any, path: Path) -> None:
    with atomic_write(path) as temporary, samara_style():
        figure.savefig(temporary, format="png", dpi=DPI)


if __name__ == "__main__":
    draw_identify(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
