"""The page in a real browser: headless Chromium, software rendering."""

import threading
import time
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from support.repository import do_without

import samara

pytest.importorskip("viser", reason="the page needs viser")

from figures.chromium import Browser, BrowserPage, find_chromium, wait_for

from samara.view.web.live import Live, endless
from samara.view.web.replay import Replay

SIZE = (560, 380)


@pytest.fixture(scope="module")
def browser():
    program = find_chromium()
    if program is None:
        do_without("Chromium is not installed")
    own = Browser(program, SIZE)
    yield own
    own.close()


class Shown:
    """A page being served, its simulation or recording running in a thread."""

    def __init__(self, shown: Live | Replay) -> None:
        self.shown, self.address = shown, shown.page.address
        self._thread = threading.Thread(target=shown.run)

    def __enter__(self) -> "Shown":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shown.close()
        self._thread.join()
        self.shown.take_down()


def _scenario(name: str, **changes: object) -> object:
    own = samara.load_scenario(name, changes)
    return endless(replace(own, drones=tuple(replace(drone, controller="geometric") for drone in own.drones)))


def _canvas(page: BrowserPage) -> np.ndarray:
    """What is seen left of the controls and below the browser's own messages, as numbers"""
    from PIL import Image

    return np.asarray(Image.open(BytesIO(page.picture())).convert("RGB"), dtype=int)[140:, : SIZE[0] // 3]


def _changed(page: BrowserPage, before: np.ndarray) -> float:
    """The part of the picture that is no longer what it was"""
    return float((np.abs(_canvas(page) - before) > 20).mean())


def _clock(page: BrowserPage) -> float:
    """The time that is written on the page  [s]"""
    return float(page.evaluate("document.querySelector('span[style*=\"20px\"]').textContent"))


def _filled(page: BrowserPage) -> set[str]:
    """The buttons of groups that are drawn filled"""
    return set(
        page.evaluate(
            "[...document.querySelectorAll('button')].filter(e => e.parentElement.childElementCount > 1"
            " && getComputedStyle(e).backgroundColor === 'rgb(0, 114, 178)').map(e => e.textContent.trim())"
        )
    )


def _settled(page: BrowserPage) -> np.ndarray:
    """The picture, once it no longer changes"""
    before = _canvas(page)
    for _ in range(60):
        time.sleep(0.25)
        now = _canvas(page)
        if np.abs(now - before).max() < 8:
            return now
        before = now
    raise AssertionError("the picture never comes to rest")


def test_the_page_shows_a_flight_and_its_buttons_work(browser):
    """It loads without an error and asks nobody but this machine; the drone moves; pause, step, speed and choices work."""
    staying = replace(_scenario("hover"), events=())  # it does not land again, however long the page takes to open
    with Shown(Live(staying, port=0)) as own:
        live, page = own.shown, browser.page(own.address, SIZE)
        page.wait("real time", 60.0)
        page.click_text("follow")
        page.click_text("Pause")
        page.wait("paused")
        assert live.paused
        page.click_text("Restart")
        wait_for(lambda: _clock(page) == 0.0, 30.0, "the drone on the ground")
        held = _clock(page)
        still = _settled(page)
        time.sleep(0.3)
        assert _clock(page) == held
        page.click_text("Step 10 ms")
        page.click_text("Step 10 ms")
        wait_for(lambda: 0.0 < _clock(page) - held < 0.031, 30.0, "the clock to go on by two steps")
        live.page.requests.put("speed", 10.0)
        page.click_text("Play")
        wait_for(lambda: _clock(page) > held + 4.0, 20.0, "four seconds at tenfold speed")
        page.click_text("Pause")
        page.wait("paused")
        wait_for(
            lambda: _changed(page, still) > 0.02, 60.0, "the drone, which has climbed, to be drawn over a smaller grid"
        )
        page.click_text("Restart")
        wait_for(lambda: _clock(page) < 0.1, 30.0, "another start")
        wait_for(lambda: _filled(page) == {"Pause", "follow"}, 30.0, "the buttons in force to be filled")
        page.evaluate("[...document.querySelectorAll('button')].find(e => e.textContent === 'Pause').focus()")
        page.key(" ", 32, "Space")  # the key plays; that the button has the focus does not press it too
        wait_for(lambda: _filled(page) == {"Play", "follow"}, 30.0, "the flight to go on")
        page.key("2", 50, "Digit2")
        wait_for(lambda: _filled(page) == {"Play", "onboard"}, 30.0, "the camera on board")
        for plotted in ("height [m]", "tilt [°]", "position error [m]", "rotor speeds [rad/s]"):
            assert plotted in page.text
        assert page.evaluate("document.querySelectorAll('.uplot canvas').length") >= 4
        assert page.complaints() == []
        own_address = own.address.removeprefix("http://")
        for address in page.asked_for():
            assert address.startswith((f"http://{own_address}", f"ws://{own_address}", "data:", "blob:")), address
        assert live.drawer.troubles == 0
        page.close()


@pytest.mark.long
def test_a_recording_is_scrubbed_by_its_slider(browser):
    """The right arrow key on the slider goes on, and what is drawn goes with it."""
    runs = [samara.fly("hover", settings={"duration": 3.0}, controller=name) for name in ("geometric", "pid")]
    with Shown(Replay(runs, ["geometric", "pid"], port=0)) as own:
        replay, page = own.shown, browser.page(own.address, SIZE)
        page.wait("of 3.0 s", 60.0)
        page.click_text("Pause")
        page.click_text("To the start")
        wait_for(lambda: _clock(page) == 0.0, 30.0, "the start")
        page.evaluate("document.querySelector('[role=slider]').focus()")
        for _ in range(20):
            page.key("ArrowRight", 39)
        wait_for(lambda: replay.time == pytest.approx(0.2), 30.0, "twenty steps of the slider")
        wait_for(lambda: _clock(page) == pytest.approx(0.2), 30.0, "the time on the page")
        page.click_text("Play")
        page.wait("at the end", 30.0)
        assert _clock(page) == 3.0
        assert page.complaints() == []
        page.close()


@pytest.mark.long
def test_a_hundred_drones(browser):
    """They are drawn, however slowly: the flight does not wait, and once it rests the page shows that moment."""
    scenario = _scenario("swarm", **{"drones.count": 100, "drones.columns": 10})
    with Shown(Live(scenario, port=0)) as own:
        live, page = own.shown, browser.page(own.address, SIZE)
        page.wait("real time", 60.0)
        drawn = live.drawer.drawn
        wait_for(lambda: live.drawer.drawn > drawn + 3, 60.0, "more pictures")
        live.page.requests.put("pause")
        wait_for(lambda: live.paused, 60.0, "a pause")
        wait_for(lambda: _clock(page) == round(live.simulation.time_us / 1e6, 2), 60.0, "the page to be up to date")
        assert page.complaints() == [] and live.drawer.troubles == 0
        page.close()


@pytest.mark.long
def test_a_page_comes_back_when_its_server_does(browser):
    """The server ends and another begins on the same port: the page connects by itself and shows the new flight."""
    first = Live(_scenario("hover"), port=0)
    port = first.page.server.get_port()
    with Shown(first) as own:
        page = browser.page(own.address, SIZE)
        page.wait("real time", 60.0)
    with Shown(Live(_scenario("swarm"), port=port)) as own:
        assert own.shown.page.server.get_port() == port
        page.wait("samara · swarm", 60.0)
        page.wait("real time", 60.0)
        wait_for(lambda: own.shown.page.clients == 1, 30.0, "one visitor")
        page.close()


@pytest.mark.long
def test_a_click_into_the_picture_sends_the_drone_to_that_place(browser):
    """The ray through the clicked pixel, from where the camera is along what it looks at, meets the ground there."""
    with Shown(Live(_scenario("hover"), port=0)) as own:
        live, page = own.shown, browser.page(own.address, SIZE)
        page.wait("real time", 60.0)
        page.click_text("free")
        wait_for(lambda: live.page.mode == "free", 30.0, "a free camera")
        page.click_text("Pause")
        page.wait("paused")
        _settled(page)
        x, y = 0.25 * SIZE[0], 0.8 * SIZE[1]
        page.mouse(x, y)
        page.wait("go to (", 10.0)
        (camera,) = (client.camera for client in live.page.server.get_clients().values())
        ahead = camera.look_at - camera.position
        ahead /= np.linalg.norm(ahead)
        right = np.cross(ahead, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        half = np.tan(camera.fov / 2.0)
        across, up = (2.0 * x / SIZE[0] - 1.0) * half * SIZE[0] / SIZE[1], (1.0 - 2.0 * y / SIZE[1]) * half
        ray = ahead + across * right + up * np.cross(right, ahead)
        hit = camera.position - ray * camera.position[2] / ray[2]
        told = live.simulation.logs[-1].message.partition("(")[2].partition(")")[0].split(", ")
        assert [float(number) for number in told[:2]] == pytest.approx(hit[:2], abs=0.05)
        page.close()
