"""Start and end of `samara view`: the clock starts with the first browser, and signals end it like Ctrl-C."""

import contextlib
import signal
import threading
import time

import pytest
from typer.testing import CliRunner

import samara
from samara.cli import app, view
from samara.cli.console import SIGNALS, handle_interrupts

pytest.importorskip("viser", reason="the page needs viser")

from support.visitor import Visitor, wait_until_true

from samara.view.web.live import Live, extend_duration
from samara.view.web.replay import ReplayViewer

INSTANT_US = 10_000  # the longest time between two instants of the scenario


def _running(viewer: Live | ReplayViewer, **options: bool) -> threading.Thread:
    thread = threading.Thread(target=lambda: viewer.run(**options))
    thread.start()
    return thread


def _end(viewer: Live | ReplayViewer, thread: threading.Thread) -> None:
    viewer.close()
    thread.join()
    viewer.shut_down()


def test_the_clock_starts_when_the_first_browser_shows_the_page():
    """Without a browser the clock is at 0; the first browser that has drawn a picture starts it for good."""
    live = Live(extend_duration(samara.load_scenario("hover")), port=0, speed=10.0)
    thread = _running(live, wait=True)
    try:
        wait_until_true(lambda: live.waiting, 20.0, "the loop")
        time.sleep(0.2)
        assert live.simulation.time_us == 0
        visitor = Visitor(live.page.server.get_port())
        wait_until_true(lambda: live.simulation.time_us > 0, 20.0, "the clock")
        visitor.close()
        wait_until_true(lambda: not live.page.clients, 20.0, "the visitor to be gone")
        time_left = live.simulation.time_us
        wait_until_true(lambda: live.simulation.time_us > time_left, 20.0, "the flight to continue")
    finally:
        _end(live, thread)


@pytest.mark.parametrize("speed", [0.5, 4.0])
def test_simulated_time_is_the_wall_clock_times_the_speed(monkeypatch, speed):
    """t = speed × wall-clock time to the next instant of the flight, on a clock that the test sets."""
    live = Live(extend_duration(samara.load_scenario("hover")), port=0, speed=speed)
    wall = [100.0]
    monkeypatch.setattr("samara.view.web.live.time.perf_counter", lambda: wall[0])
    try:
        live._restart_clock()
        for elapsed in (0.1, 0.3):
            wall[0] = 100.0 + elapsed
            live._advance()
            assert 0 <= live.simulation.time_us - 1e6 * speed * elapsed < INSTANT_US
    finally:
        monkeypatch.undo()
        live.shut_down()


def test_without_waiting_it_starts_at_once():
    live = Live(extend_duration(samara.load_scenario("hover")), port=0, speed=10.0)
    thread = _running(live)
    try:
        wait_until_true(lambda: live.simulation.time_us > 0, 20.0, "the clock")
    finally:
        _end(live, thread)


def test_a_recording_plays_only_while_somebody_looks():
    replay = ReplayViewer([samara.fly("hover", settings={"duration": 1.0})], port=0)
    thread = _running(replay)
    try:
        time.sleep(0.2)
        assert replay.time == 0.0
        visitor = Visitor(replay.page.server.get_port())
        wait_until_true(lambda: replay.time > 0.0, 20.0, "the timeline")
        visitor.close()
    finally:
        _end(replay, thread)


@pytest.mark.parametrize("number", SIGNALS)
def test_every_signal_that_ends_a_program_is_an_interrupt(number, signals_heard):
    previous = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), handle_interrupts():
        signal.raise_signal(number)
    assert signal.getsignal(number) is previous


def test_an_ignored_signal_stays_ignored():
    """As under nohup, where programs outlive their terminal."""
    previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with handle_interrupts() as interrupts:
            signal.raise_signal(signal.SIGTERM)
        assert not interrupts.received
    finally:
        signal.signal(signal.SIGTERM, previous)


class Closing:
    """A page that ends as soon as it runs, and records its arguments."""

    address = "http://127.0.0.1:0"

    def __init__(self, interrupt: signal.Signals | None = None) -> None:
        self.page, self.interrupt, self.waited, self.closed = self, interrupt, None, False

    def run(self, *, wait: bool) -> None:
        self.waited = wait
        if self.interrupt is not None:
            signal.raise_signal(self.interrupt)

    def shut_down(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("words", "waits"), (([], True), (["--no-wait"], False)))
def test_the_command_waits_unless_told_not_to(monkeypatch, words, waits):
    page = Closing()
    monkeypatch.setattr(view, "_live", lambda *how: page)
    CliRunner().invoke(app, ["view", "hover", "--no-browser", *words])
    assert page.waited is waits and page.closed


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_closes_the_page_with_a_word(monkeypatch, number, signals_heard):
    page = Closing(number)
    monkeypatch.setattr(view, "_live", lambda *how: page)
    result = CliRunner().invoke(app, ["view", "hover", "--no-browser"])
    assert (result.exit_code, page.closed) == (0, True) and "the page is closed" in result.output


def test_an_interrupt_that_is_swallowed_while_the_page_is_made_still_ends_it(monkeypatch, signals_heard):
    """An exception raised in a callback of the compiler is lost; the page must still close after Ctrl-C."""
    page = Closing()

    def make(*how: object) -> Closing:
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        return page

    monkeypatch.setattr(view, "_live", make)
    result = CliRunner().invoke(app, ["view", "hover", "--no-browser"])
    assert page.waited is None and page.closed and "the page is closed" in result.output
