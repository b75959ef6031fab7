"""Screenshots of the viewer at moments of flights, taken in a headless Chromium. For `figures.gallery`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from figures.chromium import Browser, BrowserPage, find_chromium, wait_for
from samara.core.atomic_files import atomic_write
from samara.scenario.events import Event, at, wind_step
from samara.scenario.file import load_scenario, parse_scenario
from samara.sim.fly import fly
from samara.view.web.live import Live, extend_duration
from samara.view.web.replay import ReplayViewer

SIZE = (1280, 880)
TIMEOUT = 120.0  # [s], for a machine that draws in software


def draw_viewer(folder: Path) -> None:
    """Draw viewer_live.png, viewer_failure.png, viewer_replay.png and viewer_eyes.png."""
    program = find_chromium()
    if program is None:
        raise FileNotFoundError("Chromium not found; expected chromium, chromium-browser or google-chrome")
    browser = Browser(program, SIZE)
    try:
        for name, viewer, tab in _moments():
            with _open(browser, viewer) as page:
                _open_tab(page, tab)
                _photograph(page, folder / f"viewer_{name}.png")
    finally:
        browser.close()


def _moments() -> Iterator[tuple[str, Live | ReplayViewer, str]]:
    """Yield the name of each picture, its viewer and the tab to open."""
    wind_event = Event(at(10.0), wind_step((3.0, -1.0, 0.0)))
    yield "live", _live(replace(load_scenario("waypoints"), events=(wind_event,)), 13.6), "Plots"
    yield "failure", _live(load_scenario("motor_failure"), 3.6), "Instruments"
    calm: dict[str, object] = {"drones.vehicle": "crazyflie", "drones.controller": "lqr"}
    runs = [fly(load_scenario("figure8", calm | change)) for change in ({}, {"wind.speed": 0.8})]
    replay = ReplayViewer(runs, ["calm", "wind 0.8 m/s"], port=0)
    replay.time, replay.playing = 9.5, False
    yield "replay", replay, "Plots"
    garden = Path(__file__).with_name("garden.toml")
    vision_replay = ReplayViewer([fly(parse_scenario(garden.read_text("utf-8"), garden.name))], port=0)
    vision_replay.time, vision_replay.playing = 1.0, False
    yield "eyes", vision_replay, "Plots"


def _live(scenario: object, seconds: float) -> Live:
    live = Live(extend_duration(scenario), port=0)  # type: ignore[arg-type]
    live.fly_until(seconds)
    return live


@contextmanager
def _open(browser: Browser, viewer: Live | ReplayViewer) -> Iterator[BrowserPage]:
    thread = threading.Thread(target=viewer.run)
    thread.start()
    try:
        page = browser.page(viewer.page.address, SIZE)
        page.wait("paused", TIMEOUT)
        yield page
        page.close()
    finally:
        viewer.close()
        thread.join()
        viewer.shut_down()


def _open_tab(page: BrowserPage, name: str) -> None:
    """Open a tab with the mouse, the only input that tabs accept."""
    tab_expression = f"[...document.querySelectorAll('[role=tab]')].find(tab => tab.textContent.trim() === {name!r})"
    position = page.evaluate(
        f"(() => {{ const box = {tab_expression}.getBoundingClientRect(); return [box.x + 9, box.y + 9]; }})()"
    )
    page.mouse(*position)


def _photograph(page: BrowserPage, path: Path) -> None:
    """Take a screenshot without the browser's notice about software rendering, once the picture is constant."""
    page.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(button => button.click())")
    latest = [b""]

    def is_constant() -> bool:
        previous, latest[0] = latest[0], page.picture()
        return bool(previous) and _pixels(previous) == _pixels(latest[0])

    for _ in range(3):  # models are loaded one after the other
        wait_for(is_constant, TIMEOUT, "a constant picture")
    with atomic_write(path) as unfinished:
        Image.open(BytesIO(latest[0])).convert("RGB").save(unfinished, "PNG", optimize=True)


def _pixels(picture: bytes) -> bytes:
    return np.asarray(Image.open(BytesIO(picture)).convert("RGB")).tobytes()
