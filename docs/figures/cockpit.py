"""Screenshot of the cockpit page: a hexarotor with a failed motor, in wind. For `figures.gallery`."""

import tempfile
from pathlib import Path

import samara
from figures.chromium import Browser, find_chromium, wait_for
from samara.core.atomic_files import atomic_write
from samara.view.cockpit.page import DEFAULT_VEHICLES, write_cockpit

SIZE = (1280, 800)
NEXT_FRAME = "requestAnimationFrame"
FLY_HOOPS = """
(hoops, seconds) => {
  const { world, fly } = samara;
  for (let t = 0; t < seconds && samara.course().next < hoops; t += 0.02) {
    const { centre } = samara.course().hoops[samara.course().next], { p_W, q_WB } = world.state;
    const yaw = Math.atan2(2 * (q_WB.w * q_WB.z + q_WB.x * q_WB.y), 1 - 2 * (q_WB.y ** 2 + q_WB.z ** 2));
    const bearing = Math.atan2(centre.y - p_W.y, centre.x - p_W.x) - yaw;
    const error = Math.atan2(Math.sin(bearing), Math.cos(bearing));
    const clip = (value) => Math.max(-1, Math.min(1, value));
    fly(0.02, { roll: 0, pitch: 0.5, yaw: clip(-2 * error), throttle: clip(centre.z - p_W.z) });
  }
}
"""  # flies towards each hoop in order


def draw_cockpit(path: Path) -> None:
    """Draw fly.png."""
    program = find_chromium()
    if program is None:
        raise FileNotFoundError("Chromium not found; expected chromium, chromium-browser or google-chrome")
    browser = Browser(program, SIZE)
    try:
        with tempfile.TemporaryDirectory() as folder:
            html = write_cockpit([samara.vehicle(name) for name in DEFAULT_VEHICLES], Path(folder) / "fly.html")
            page = browser.page(html.as_uri(), SIZE)
            wait_for(lambda: page.evaluate("!!window.samara"), 60.0, "the page to start")
            page.evaluate("samara.scene.adaptResolution = () => {}; samara.scene.resolution = 1")
            page.evaluate("samara.selectVehicle(samara.vehicles[2])")
            page.evaluate("document.getElementById('wind').value = 3")
            page.evaluate("document.getElementById('wind').dispatchEvent(new Event('input'))")
            page.evaluate(f"({FLY_HOOPS})(2, 30); samara.world.toggle(1); ({FLY_HOOPS})(3, 1.3)")
            page.evaluate("document.getElementById('pause').click()")
            page.evaluate(f"new Promise((done) => {NEXT_FRAME}(() => {NEXT_FRAME}(() => setTimeout(done, 300))))")
            with atomic_write(path) as unfinished:
                page.picture(unfinished)
    finally:
        browser.close()
