"""The page as documents show it: moments of flights, photographed in a headless Chromium. For `figures.gallery`."""

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
from samara.view.web.live import Live, endless
from samara.view.web.replay import Replay

SIZE = (1280, 880)
PATIENCE = 120.0  # [s] with a machine that draws in software


def draw_viewer(folder: Path) -> None:
    """viewer_live.png, viewer_failure.png, viewer_swarm.png, viewer_replay.png, viewer_eyes.png"""
    program = find_chromium()
    if program is None:
        raise FileNotFoundError("there is no Chromium here; expected chromium, chromium-browser or google-chrome")
    browser = Browser(program, SIZE)
    try:
        for name, shown, tab in _moments():
            with _open(browser, shown) as page:
                _open_tab(page, tab)
                _photograph(page, folder / f"viewer_{name}.png")
    finally:
        browser.close()


def _moments() -> Iterator[tuple[str, Live | Replay, str]]:
    """The pictures' names, pages and the tab that is open"""
    windy = Event(at(10.0), wind_step((3.0, -1.0, 0.0)))
    yield "live", _live(replace(load_scenario("waypoints"), events=(windy,)), 13.6), "Plots"
    yield "failure", _live(load_scenario("motor_failure"), 3.6), "Instruments"
    yield "swarm", _live(load_scenario("swarm", {"drones.count": 100, "drones.columns": 10}), 7.0), "Instruments"
    calm: dict[str, object] = {"drones.vehicle": "crazyflie", "drones.controller": "lqr"}
    runs = [fly(load_scenario("figure8", calm | own)) for own in ({}, {"wind.speed": 0.8})]
    replay = Replay(runs, ["calm", "wind 0.8 m/s"], port=0)
    replay.time, replay.playing = 9.5, False
    yield "replay", replay, "Plots"
    garden = Path(__file__).with_name("garden.toml")
    eyes = Replay([fly(parse_scenario(garden.read_text("utf-8"), garden.name))], port=0)
    eyes.time, eyes.playing = 1.0, False
    yield "eyes", eyes, "Plots"


def _live(scenario: object, seconds: float) -> Live:
    live = Live(endless(scenario), port=0)  # type: ignore[arg-type]
    live.fly_to(seconds)
    return live


@contextmanager
def _open(browser: Browser, shown: Live | Replay) -> Iterator[BrowserPage]:
    thread = threading.Thread(target=shown.run)
    thread.start()
    try:
        page = browser.page(shown.page.address, SIZE)
        page.wait("paused", PATIENCE)
        yield page
        page.close()
    finally:
        shown.close()
        thread.join()
        shown.take_down()


def _open_tab(page: BrowserPage, name: str) -> None:
    """By the mouse: a tab listens to nothing else"""
    where = f"[...document.querySelectorAll('[role=tab]')].find(own => own.textContent.trim() === {name!r})"
    place = page.evaluate(f"(() => {{ const at = {where}.getBoundingClientRect(); return [at.x + 9, at.y + 9]; }})()")
    page.mouse(*place)


def _photograph(page: BrowserPage, path: Path) -> None:
    """Without the browser's word about drawing in software, once nothing changes any more"""
    page.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(own => own.click())")
    before = [b""]

    def rests() -> bool:
        last, before[0] = before[0], page.picture()
        return bool(last) and _numbers(last) == _numbers(before[0])

    for _ in range(3):  # models are loaded one after the other
        wait_for(rests, PATIENCE, "the picture to come to rest")
    with atomic_write(path) as unfinished:
        Image.open(BytesIO(before[0])).convert("RGB").save(unfinished, "PNG", optimize=True)


def _numbers(picture: bytes) -> bytes:
    return np.asarray(Image.open(BytesIO(picture)).convert("RGB")).tobytes()
