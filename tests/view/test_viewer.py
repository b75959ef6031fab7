"""The page in a real browser: headless Chromium, software rendering."""

import threading
import time
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from support.repository import skip_or_fail

import samara

pytest.importorskip("viser", reason="the page needs viser")

from figures.chromium import Browser, BrowserPage, find_chromium, wait_for

from samara.view.web.live import Live, extend_duration
from samara.view.web.replay import ReplayViewer

SIZE = (560, 380)


@pytest.fixture(scope="module")
def browser():
    program = find_chromium()
    if program is None:
        skip_or_fail("Chromium is not installed")
    chromium = Browser(program, SIZE)
    yield chromium
    chromium.close()


class Shown:
    """A served page, with its simulation or recording running in a thread."""

    def __init__(self, viewer: Live | ReplayViewer) -> None:
        self.shown, self.address = viewer, viewer.page.address
        self._thread = threading.Thread(target=viewer.run)

    def __enter__(self) -> "Shown":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shown.close()
        self._thread.join()
        self.shown.shut_down()


def _scenario(name: str, **changes: object) -> object:
    scenario = samara.load_scenario(name, changes)
    return extend_duration(
        replace(scenario, drones=tuple(replace(drone, controller="geometric") for drone in scenario.drones))
    )


def _canvas(page: BrowserPage) -> np.ndarray:
    """Return the picture left of the controls and below the browser's messages as an array."""
    from PIL import Image

    return np.asarray(Image.open(BytesIO(page.picture())).convert("RGB"), dtype=int)[140:, : SIZE[0] // 3]


def _changed_fraction(page: BrowserPage, before: np.ndarray) -> float:
    """Return the fraction of the picture that has changed."""
    return float((np.abs(_canvas(page) - before) > 20).mean())


def _clock(page: BrowserPage) -> float:
    """Return the time shown on the page [s]."""
    return float(page.evaluate("document.querySelector('span[style*=\"20px\"]').textContent"))


def _filled_buttons(page: BrowserPage) -> set[str]:
    """Return the buttons of groups that are drawn filled."""
    return set(
        page.evaluate(
            "[...document.querySelectorAll('button')].filter(e => e.parentElement.childElementCount > 1"
            " && getComputedStyle(e).backgroundColor === 'rgb(0, 114, 178)').map(e => e.textContent.trim())"
        )
    )


def _settled_picture(page: BrowserPage) -> np.ndarray:
    """Return the picture once it is constant."""
    previous = _canvas(page)
    for _ in range(60):
        time.sleep(0.25)
        current = _canvas(page)
        if np.abs(current - previous).max() < 8:
            return current
        previous = current
    raise AssertionError("the picture never becomes constant")


def test_the_page_shows_a_flight_and_its_buttons_work(browser):
    """It loads without errors and contacts only this machine; the drone moves; pause, step, speed and choices work."""
    scenario = replace(_scenario("hover"), events=())  # the drone does not land, however long the page takes to open
    with Shown(Live(scenario, port=0)) as served:
        live, page = served.shown, browser.page(served.address, SIZE)
        page.wait("real time", 60.0)
        page.click_text("follow")
        page.click_text("Pause")
        page.wait("paused")
        assert live.paused
        page.click_text("Restart")
        wait_for(lambda: _clock(page) == 0.0, 30.0, "the drone on the ground")
        paused_time = _clock(page)
        paused_picture = _settled_picture(page)
        time.sleep(0.3)
        assert _clock(page) == paused_time
        page.click_text("Step 10 ms")
        page.click_text("Step 10 ms")
        wait_for(lambda: 0.0 < _clock(page) - paused_time < 0.031, 30.0, "the clock to advance by two steps")
        live.page.requests.put("speed", 10.0)
        page.click_text("Play")
        wait_for(lambda: _clock(page) > paused_time + 4.0, 20.0, "four seconds at tenfold speed")
        page.click_text("Pause")
        page.wait("paused")
        wait_for(
            lambda: _changed_fraction(page, paused_picture) > 0.02,
            60.0,
            "the drone, which has climbed, to be drawn over a smaller grid",
        )
        page.click_text("Restart")
        wait_for(lambda: _clock(page) < 0.1, 30.0, "another start")
        wait_for(lambda: _filled_buttons(page) == {"Pause", "follow"}, 30.0, "the buttons in force to be filled")
        page.evaluate("[...document.querySelectorAll('button')].find(e => e.textContent === 'Pause').focus()")
        page.key(" ", 32, "Space")  # the key plays; the focused button is not pressed in addition
        wait_for(lambda: _filled_buttons(page) == {"Play", "follow"}, 30.0, "the flight to continue")
        page.key("2", 50, "Digit2")
        wait_for(lambda: _filled_buttons(page) == {"Play", "onboard"}, 30.0, "the camera on board")
        for title in ("height [m]", "tilt [°]", "position error [m]", "rotor speeds [rad/s]"):
            assert title in page.text
        assert page.evaluate("document.querySelectorAll('.uplot canvas').length") >= 4
        assert page.console_errors() == []
        host = served.address.removeprefix("http://")
        for address in page.requested_addresses():
            assert address.startswith((f"http://{host}", f"ws://{host}", "data:", "blob:")), address
        assert live.drawer.error_count == 0
        page.close()


@pytest.mark.long
def test_a_recording_is_scrubbed_by_its_slider(browser):
    """The right arrow key on the slider advances the time, and the picture follows."""
    runs = [samara.fly("hover", settings={"duration": 3.0}, controller=name) for name in ("geometric", "pid")]
    with Shown(ReplayViewer(runs, ["geometric", "pid"], port=0)) as served:
        replay, page = served.shown, browser.page(served.address, SIZE)
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
        assert page.console_errors() == []
        page.close()


@pytest.mark.long
def test_a_hundred_drones(browser):
    """They are drawn, however slowly: the flight does not wait, and after a pause the page shows that moment."""
    scenario = _scenario("swarm", **{"drones.count": 100, "drones.columns": 10})
    with Shown(Live(scenario, port=0)) as served:
        live, page = served.shown, browser.page(served.address, SIZE)
        page.wait("real time", 60.0)
        drawn_before = live.drawer.drawn_count
        wait_for(lambda: live.drawer.drawn_count > drawn_before + 3, 60.0, "more pictures")
        live.page.requests.put("pause")
        wait_for(lambda: live.paused, 60.0, "a pause")
        wait_for(lambda: _clock(page) == round(live.simulation.time_us / 1e6, 2), 60.0, "the page to be up to date")
        assert page.console_errors() == [] and live.drawer.error_count == 0
        page.close()


@pytest.mark.long
def test_a_page_comes_back_when_its_server_does(browser):
    """The server ends and another starts on the same port: the page reconnects and shows the new flight."""
    first = Live(_scenario("hover"), port=0)
    port = first.page.server.get_port()
    with Shown(first) as served:
        page = browser.page(served.address, SIZE)
        page.wait("real time", 60.0)
    with Shown(Live(_scenario("swarm"), port=port)) as served:
        assert served.shown.page.server.get_port() == port
        page.wait("samara · swarm", 60.0)
        page.wait("real time", 60.0)
        wait_for(lambda: served.shown.page.clients == 1, 30.0, "one visitor")
        page.close()


@pytest.mark.long
def test_a_click_into_the_picture_sends_the_drone_to_that_place(browser):
    """The drone flies to the intersection of the ray through the clicked pixel with the ground."""
    with Shown(Live(_scenario("hover"), port=0)) as served:
        live, page = served.shown, browser.page(served.address, SIZE)
        page.wait("real time", 60.0)
        page.click_text("free")
        wait_for(lambda: live.page.mode == "free", 30.0, "a free camera")
        page.click_text("Pause")
        page.wait("paused")
        _settled_picture(page)
        x, y = 0.25 * SIZE[0], 0.8 * SIZE[1]
        page.mouse(x, y)
        page.wait("go to (", 10.0)
        (camera,) = (client.camera for client in live.page.server.get_clients().values())
        forward = camera.look_at - camera.position
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        half = np.tan(camera.fov / 2.0)
        horizontal, up = (2.0 * x / SIZE[0] - 1.0) * half * SIZE[0] / SIZE[1], (1.0 - 2.0 * y / SIZE[1]) * half
        ray = forward + horizontal * right + up * np.cross(right, forward)
        hit = camera.position - ray * camera.position[2] / ray[2]
        coordinates = live.simulation.logs[-1].message.partition("(")[2].partition(")")[0].split(", ")
        assert [float(number) for number in coordinates[:2]] == pytest.approx(hit[:2], abs=0.05)
        page.close()


@pytest.mark.long
def test_on_an_upright_phone_the_panel_is_below_the_picture(browser):
    """The drone, which the camera keeps in the centre of the picture, is visible whether the panel is open or collapsed."""
    boxes = (
        "[document.querySelector('canvas[data-engine]'), document.querySelector('.mantine-Paper-root')]"
        ".map(e => e.getBoundingClientRect()).map(({x, y, width, height}) => [x, y, width, height])"
    )
    with Shown(Live(_scenario("hover"), port=0)) as served:
        page = browser.page(served.address, (390, 844))
        page.wait("real time", 60.0)
        wait_for(lambda: page.evaluate(boxes)[0][3] < 844, 30.0, "the picture to make way for the panel")
        picture, panel = page.evaluate(boxes)
        assert picture == pytest.approx([0, 0, 390, panel[1]], abs=1.0)
        assert panel == pytest.approx([0, 0.55 * 844, 390, 0.45 * 844], abs=1.0)
        page.mouse(150, panel[1] + 28)
        wait_for(lambda: page.evaluate(boxes)[1][3] < 60, 30.0, "the panel to collapse")
        wait_for(
            lambda: sum(page.evaluate(boxes)[i][3] for i in (0, 1)) == pytest.approx(844, abs=1.0), 30.0, "a picture"
        )
        page.close()
