"""Draw the pictures of the documentation: `make gallery`; or some of them:
`PYTHONPATH=docs python -m figures.gallery docs/images [names …]`.

Some pictures show measurements that are not part of Samara. `SAMARA_FLIGHTS` names the folder of NanoBench's flights
(`validation`), `SAMARA_INTERACTION` that of Neural-Swarm2's tables (`neighbours`), `SAMARA_PROPELLERS` that of the UIUC's
propellers (`rotor`). Screenshots of the viewer need Chromium.
"""

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from samara.core.atomic_files import atomic_write

FLIGHTS, INTERACTION, PROPELLERS = "SAMARA_FLIGHTS", "SAMARA_INTERACTION", "SAMARA_PROPELLERS"
WAYPOINTS = ((0, 0, 1), (4, 0, 1.5), (4, 3, 3), (0, 3, 1), (-2, 1, 2), (1, -2, 1.5))  # as in docs/howto/plan-fastest.md
YAW_DEG = (0, 0, 90, 180, 180, 270)
CONTROLLERS = ("pid", "geometric", "mellinger", "lqr", "indi", "mpc")
MAX_GIF_BYTES = 2_500_000  # [bytes], limit for readers of the README


def _external_folder(variable: str, pictures: str) -> str:
    """Return the folder that a variable names; print a message and return "" if it is not set."""
    folder = os.environ.get(variable, "")
    if not folder:
        print(f"         {variable} is not set: {pictures} unchanged", flush=True)
    return folder


def conventions(folder: Path) -> None:
    """frames.png, angles.png, numbering-quad.png, numbering-hexa-octo.png"""
    from figures.conventions import draw_conventions

    draw_conventions(folder)


def architecture(folder: Path) -> None:
    """architecture.png: the folders of the package"""
    from figures.architecture import draw_architecture

    draw_architecture(folder / "architecture.png")


def trajectories(folder: Path) -> None:
    """trajectories.png: one trajectory of each type"""
    from figures.trajectories import EXAMPLES, draw_trajectories

    draw_trajectories(EXAMPLES, folder / "trajectories.png")


def plan(folder: Path) -> None:
    """plan.png: the fastest trajectory of docs/howto/plan-fastest.md"""
    from samara import vehicle
    from samara.plan.time_optimal import PlanLimits, plan_fastest
    from samara.view.plot.plan import draw_plan

    model, limits = vehicle("iris"), PlanLimits(0.9, math.radians(60.0), math.radians(573.0))
    yaw = tuple(math.radians(angle_deg) for angle_deg in YAW_DEG)
    draw_plan(plan_fastest(WAYPOINTS, model, limits=limits, yaw=yaw).trajectory, model, limits, folder / "plan.png")


def controllers(folder: Path) -> None:
    """controllers.png: all controllers in three winds"""
    from samara import vehicle
    from samara.comparison.controllers import compare_on_trajectory

    entries = compare_on_trajectory(vehicle("iris"), CONTROLLERS, winds=(0.0, 4.0, 8.0))
    entries.plot(folder / "controllers.png")


def validation(folder: Path) -> None:
    """validation.png of docs/evidence/prediction.md: vehicles against real flights"""
    from figures.validation import write_validation

    if flights := _external_folder(FLIGHTS, "validation.png is"):
        write_validation(flights, folder.parent)


def campaign(folder: Path) -> None:
    """campaign_rates.png: the campaign of docs/howto/campaigns.md"""
    from figures.campaign import draw_campaign

    draw_campaign(folder)


def identify(folder: Path) -> None:
    """identify_plan.png, identify_numbers.png, identify_predicted.png"""
    from figures.identify import draw_identify

    draw_identify(folder)


def flight(folder: Path) -> None:
    """flight.png: the overview that `samara fly` draws"""
    from samara.sim.fly import fly
    from samara.view.plot.plots import draw_run

    draw_run(fly("waypoints"), folder / "flight.png")


def film(folder: Path) -> None:
    """flight.gif: nine seconds of a race with the chase camera; and render.png, the figure of eight from the side"""
    from figures.race_flight import fly_race
    from samara.sim.fly import fly
    from samara.view.film.render import Film, render

    path = render(fly_race(0.8), folder / "flight.gif", Film(12.5, (480, 320), 1.0, "chase", stop=9.0))
    if path.stat().st_size > MAX_GIF_BYTES:
        raise ValueError(f"{path}: has {path.stat().st_size} bytes; expected at most {MAX_GIF_BYTES}")
    render(fly("figure8"), folder / "render.png", Film(size=(960, 560), camera="fixed"))


def plots(folder: Path) -> None:
    """plots-attitude.png, plots-swarm.png"""
    from samara.sim.fly import fly
    from samara.view.plot.plots import draw

    draw(fly("swarm"), "position", folder / "plots-swarm.png")
    draw(fly("figure8"), "attitude", folder / "plots-attitude.png")


def wind(folder: Path) -> None:
    """wind.png: spectra of turbulence, gusts, and the mean wind over height"""
    from figures.wind import draw_wind

    draw_wind(folder / "wind.png")


def neighbours(folder: Path) -> None:
    """stack.png, obstacle_course.png, and beside measurements ground_effect.png and downwash.png"""
    from figures.neighbours import draw_downwash, draw_ground_effect, draw_stack
    from samara.sim.fly import fly
    from samara.view.film.render import Film, render

    draw_stack(fly("stack"), folder / "stack.png")
    render(fly("obstacle_course"), folder / "obstacle_course.png", Film(camera="fixed"))
    if tables := _external_folder(INTERACTION, "ground_effect.png and downwash.png are"):
        draw_ground_effect(Path(tables), folder / "ground_effect.png")
        draw_downwash(Path(tables), folder / "downwash.png")


def rotor(folder: Path) -> None:
    """rotor_inflow.png, airspeed_moment.png, and beside measurements rotor_bem.png"""
    from figures.airspeed_moment import draw_airspeed_moment
    from figures.rotor_inflow import SHOWN, draw_inflow
    from samara.propeller.blade import read_uiuc
    from samara.view.plot.rotor import draw_rotors

    draw_inflow(folder / "rotor_inflow.png")
    draw_airspeed_moment(folder / "airspeed_moment.png")
    if propeller_folder := _external_folder(PROPELLERS, "rotor_bem.png is"):
        propellers = read_uiuc(propeller_folder)
        draw_rotors([propellers[name] for name in SHOWN], folder / "rotor_bem.png")


def structure(folder: Path) -> None:
    """structure.png, slung_load.png, propwash.png: vibrating arms, a slung load, descents into the drone's own wake"""
    from figures.propwash import draw_propwash
    from figures.slung_load import draw_slung_load
    from figures.structure import draw_structure
    from samara.sim.fly import fly

    draw_structure(folder / "structure.png")
    draw_slung_load(fly("slung_load"), folder / "slung_load.png")
    draw_propwash(folder / "propwash.png")


def estimators(folder: Path) -> None:
    """estimators-ekf.png: errors of the Kalman filter of `sensors`, and their estimated deviations"""
    from samara.sim.fly import fly
    from samara.view.plot.plots import draw

    draw(fly("sensors"), "estimate", folder / "estimators-ekf.png")


def cameras(folder: Path) -> None:
    """cameras.png: the images of one instant"""
    from figures.cameras import draw_cameras

    draw_cameras(folder)


def sensors(folder: Path) -> None:
    """sensors-allan.png, sensors-eyes.png: ten gyroscopes at rest, and a garden by depth camera and lidar"""
    from figures.sensors import draw_allan, draw_eyes

    draw_allan(folder)
    draw_eyes(folder)


def viewer(folder: Path) -> None:
    """viewer_live.png, viewer_failure.png, viewer_replay.png, viewer_eyes.png: the page in a browser"""
    from figures.chromium import find_chromium
    from figures.viewer import draw_viewer

    if find_chromium() is None:
        print("         Chromium not found: the pictures of the viewer are unchanged", flush=True)
        return
    draw_viewer(folder)


def cockpit(folder: Path) -> None:
    """fly.png: the cockpit page in a browser"""
    from figures.chromium import find_chromium
    from figures.cockpit import draw_cockpit

    if find_chromium() is None:
        print("         Chromium not found: fly.png is unchanged", flush=True)
        return
    draw_cockpit(folder / "fly.png")


def report(folder: Path) -> None:
    """report.png: charts of a report in a browser, with the values under the pointer"""
    from figures.chromium import Browser, find_chromium
    from samara.sim.fly import fly
    from samara.view.report.report import ReportRun, write_report

    program = find_chromium()
    if program is None:
        print("         Chromium not found: report.png is unchanged", flush=True)
        return
    with tempfile.TemporaryDirectory() as work_folder:
        path = write_report([ReportRun("run.mcap", fly("wind"))], Path(work_folder) / "report.html")
        browser = Browser(program, (1180, 760))
        try:
            page = browser.page(path.as_uri(), (1180, 760))
            page.wait("Reproduce")
            page.evaluate("document.querySelector('.pair').scrollIntoView({block: 'start'}); scrollBy(0, -60)")
            left, top = page.evaluate(
                "(() => { const r = document.querySelector('canvas').getBoundingClientRect(); return [r.left, r.top]; })()"
            )
            page.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + 360.0, y=top + 60.0)
            time.sleep(1.0)
            with atomic_write(folder / "report.png") as unfinished:
                page.picture(unfinished)
        finally:
            browser.close()


def vehicles(folder: Path) -> None:
    """vehicles.svg: the vehicles as notebooks show them"""
    from samara import vehicle, vehicle_names
    from samara.view.report.html_repr import vehicle_svg
    from samara.view.report.page import Html, element

    size, gap, columns = 170.0, 26.0, 4
    shapes = []
    for k, name in enumerate(vehicle_names()):
        x, y = size * (k % columns), (size + gap) * (k // columns)
        svg = vehicle_svg(vehicle(name), size)
        shapes.append(Html(f'<g transform="translate({x:g} {y + gap:g})">{svg}</g>'))
        label = {"x": f"{x + 0.5 * size:g}", "y": f"{y + 18.0:g}", "text_anchor": "middle", "font_size": 13}
        shapes.append(element("text", name, **label, font_family="sans-serif", fill="#66727d"))
    rows = math.ceil(len(vehicle_names()) / columns)
    box = f"0 0 {columns * size:g} {rows * (size + gap):g}"
    with atomic_write(folder / "vehicles.svg") as temporary:
        document = element("svg", shapes, xmlns="http://www.w3.org/2000/svg", viewBox=box)
        temporary.write_text(document + "\n", encoding="utf-8")


PICTURES: dict[str, Callable[[Path], None]] = {
    draw.__name__: draw
    for draw in (
        conventions,
        architecture,
        trajectories,
        plan,
        controllers,
        validation,
        identify,
        campaign,
        flight,
        film,
        plots,
        wind,
        neighbours,
        rotor,
        structure,
        estimators,
        sensors,
        cameras,
        viewer,
        cockpit,
        report,
        vehicles,
    )
}


def draw_gallery(folder: str | Path, names: Sequence[str] = ()) -> None:
    """Draw all pictures, or the named ones, into a folder; print each with its time."""
    for name in names:
        if name not in PICTURES:
            raise ValueError(f"no picture {name!r}; expected one of {', '.join(PICTURES)}")
    for name in names or PICTURES:
        start = time.perf_counter()
        PICTURES[name](Path(folder))
        print(f"{time.perf_counter() - start:6.1f} s {name}: {PICTURES[name].__doc__}", flush=True)


if __name__ == "__main__":
    draw_gallery(sys.argv[1] if len(sys.argv) > 1 else "docs/images", sys.argv[2:])
