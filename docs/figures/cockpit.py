"""The page to fly in as documents show it: a hexarotor that has lost a motor, in wind. For `figures.gallery`."""

import tempfile
from pathlib import Path

import samara
from figures.chromium import Browser, find_chromium, wait_for
from samara.core.atomic_files import atomic_write
from samara.view.cockpit.page import DEFAULT, write_cockpit

SIZE = (1280, 800)
PICTURE = "requestAnimationFrame"
CHASE = """
(hoops, seconds) => {
  const { world, fly } = samara;
  for (let t = 0; t < seconds && samara.course().next < hoops; t += 0.02) {
    const { centre } = samara.course().hoops[samara.course().next], { p_W, q_WB } = world.state;
    const yaw = Math.atan2(2 * (q_WB.w * q_WB.z + q_WB.x * q_WB.y), 1 - 2 * (q_WB.y ** 2 + q_WB.z ** 2));
    const aside = Math.atan2(centre.y - p_W.y, centre.x - p_W.x) - yaw, off = Math.atan2(Math.sin(aside), Math.cos(aside));
    const within = (value) => Math.max(-1, Math.min(1, value));
    fly(0.02, { roll: 0, pitch: 0.5, yaw: within(-2 * off), throttle: within(centre.z - p_W.z) });
  }
}
"""  # flies towards each hoop in turn


def draw_cockpit(path: Path) -> None:
    """fly.png"""
    program = find_chromium()
    if program is None:
        raise FileNotFoundError("there is no Chromium here; expected chromium, chromium-browser or google-chrome")
    browser = Browser(program, SIZE)
    try:
        with tempfile.TemporaryDirectory() as folder:
            written = write_cockpit([samara.vehicle(name) for name in DEFAULT], Path(folder) / "fly.html")
            page = browser.page(written.as_uri(), SIZE)
            wait_for(lambda: page.evaluate("!!window.samara"), 60.0, "the page to start")
            page.evaluate("samara.scene.keepUp = () => {}; samara.scene.sharpness = 1; samara.take(samara.crafts[2])")
            page.evaluate("document.getElementById('wind').value = 3")
            page.evaluate("document.getElementById('wind').dispatchEvent(new Event('input'))")
            page.evaluate(f"({CHASE})(2, 30); samara.world.toggle(1); ({CHASE})(3, 1.3)")
            page.evaluate("document.getElementById('pause').click()")
            page.evaluate(f"new Promise((done) => {PICTURE}(() => {PICTURE}(() => setTimeout(done, 300))))")
            with atomic_write(path) as unfinished:
                page.picture(unfinished)
    finally:
        browser.close()
