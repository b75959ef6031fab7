"""The cockpit page: its simulation under Node is Python's flight; in Chromium its keys fly it, and it requests nothing."""

import re

import numpy as np
import pytest
from figures.chromium import Browser, find_chromium, wait_for
from support.command import call
from support.node import run_script
from support.repository import skip_or_fail
from support.tricopter import tricopter

import samara
from samara.control.stick_modes import Sticks, stick_pilot
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.export.javascript import js_environment
from samara.vehicles.build import Provenance
from samara.view.cockpit.page import DEFAULT_VEHICLES, bundle_modules, cockpit_html, page_modules, write_cockpit

SIZE = (900, 600)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """The page's modules as files, with a hexarotor."""
    folder = tmp_path_factory.mktemp("cockpit")
    for name, text in page_modules([samara.vehicle("hexarotor_x")]).items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    vehicles = [samara.vehicle(name) for name in DEFAULT_VEHICLES]
    return write_cockpit(vehicles, tmp_path_factory.mktemp("page") / "fly.html")


# Its world ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ("rate", "angle", "hold"))
def test_a_second_of_the_page_is_that_of_python(modules, mode):
    """Controller and physics together, with constant sticks: every component of the state is Python's."""
    sticks = Sticks(0.1, 0.3, -0.2, 0.1)
    output = run_script(
        modules,
        """
        import { vehicles } from "./vehicles.js";
        import { World } from "./world.js";
        const numbers = (tree) => (typeof tree === "number" ? [tree] : Object.values(tree).flatMap(numbers));
        const world = new World(vehicles[0]);
        const start = { ...world.state.p_W };
        world.setMode(given.mode);
        for (let i = 0; i < 50; i++) world.advance(0.02 + 1e-9, given.sticks);
        console.log(JSON.stringify([world.ticks, start, numbers(world.state)]));
        """,
        {"mode": mode, "sticks": sticks._asdict()},
    )
    vehicle = samara.vehicle("hexarotor_x")
    pilot, simulator, environment = stick_pilot(vehicle, mode), samara.compile(vehicle), js_environment(vehicle)
    state, _ = samara.hover(vehicle)
    ticks, start, numbers = output
    state = state._replace(p_W=Vec3(**start))
    controller_state = pilot.initial_state(state)
    for _ in range(250):
        wrench, controller_state = pilot.desired_wrench(state, sticks, vehicle, controller_state)
        state = simulator.step(state, tuple(map(float, pilot.command(wrench, state, vehicle))), 1e-3, 4, environment)
    assert ticks == 1000
    expected = np.array(flatten(state))
    assert np.abs(np.array(numbers) - expected).max() <= 1e-9 * np.abs(expected).max()


def test_a_hexarotor_flies_on_without_a_motor_and_falls_without_three(modules):
    """The controller handles one known failure, but not three. After a reset the vehicle hovers again, with the failures."""
    output = run_script(
        modules,
        """
        import { vehicles } from "./vehicles.js";
        import { World } from "./world.js";
        const world = new World(vehicles[0]), none = { roll: 0, pitch: 0, yaw: 0, throttle: 0 };
        const run = (seconds) => {
          for (let i = 0; i < seconds / 0.05; i++) world.advance(0.05, none);
          return world.state.p_W.z;
        };
        world.toggle(1);
        const start = world.state.p_W.z, one = run(5);
        world.toggle(2);
        world.toggle(3);
        const three = run(3);
        world.reset();
        console.log(JSON.stringify([start, one, three, world.state.p_W.z, world.environment.motor_effectiveness]));
        """,
    )
    start, one, three, again, power = output
    assert one == pytest.approx(start, abs=0.2) and three < 0.3 and again == start
    assert power == [1, 0, 0, 0, 1, 1]


def test_wind_comes_from_where_it_is_said_to(modules):
    """From the west it blows east, exactly without gusts; with gusts it varies about that."""
    output = run_script(
        modules,
        """
        import { vehicles } from "./vehicles.js";
        import { World } from "./world.js";
        const world = new World(vehicles[0]), none = { roll: 0, pitch: 0, yaw: 0, throttle: 0 }, gusty = [];
        world.wind = { speed: 4, from: 270, gusts: false };
        world.advance(0.05, none);
        const steady = { ...world.environment.wind_W };
        world.wind.gusts = true;
        for (let i = 0; i < 800; i++) { world.advance(0.1, none); gusty.push(world.environment.wind_W.x); }
        console.log(JSON.stringify([steady, gusty]));
        """,
    )
    steady, gusty = output
    assert (steady["x"], steady["y"], steady["z"]) == pytest.approx((4.0, 0.0, 0.0), abs=1e-9)
    assert np.mean(gusty) == pytest.approx(4.0, abs=0.6) and 0.6 < np.std(gusty) < 1.4


def test_keys_ease_in_and_a_gamepad_is_read_as_pilots_hold_it(modules):
    """Mode 2: the left stick climbs and yaws, the right one tilts; a dead zone in the centre, pushed away is forward."""
    output = run_script(
        modules,
        """
        import { Sticks } from "./sticks.js";
        const heard = {}, window = { addEventListener: (kind, call) => (heard[kind] = call) };
        let axes = null;
        const pads = () => (axes ? [null, { id: "Pad (Vendor: 1)", axes }] : []);
        Object.defineProperty(globalThis, "navigator", { value: { getGamepads: pads }, configurable: true });
        const sticks = new Sticks(window), said = [];
        heard.keydown({ code: "KeyW", preventDefault() {} });
        said.push(sticks.read(0.05).throttle, sticks.read(10).throttle);
        heard.keyup({ code: "KeyW" });
        said.push(sticks.read(10).throttle);
        axes = [0.05, -1, 1, -1];
        said.push({ ...sticks.read(0.02) }, sticks.gamepad);
        sticks.dragged.roll = -0.5;
        said.push(sticks.read(0.02).roll);
        console.log(JSON.stringify(said));
        """,
    )
    eased, full, released, pad, name, dragged = output
    assert 0.0 < eased < 0.5 and (full, released, name, dragged) == (1, 0, "Pad", -0.5)
    assert pad == {"roll": 1, "pitch": 1, "yaw": 0, "throttle": 1}


def test_hoops_are_passed_in_their_order_and_from_behind_they_do_not_count(modules):
    output = run_script(
        modules,
        """
        import { Course } from "./course.js";
        const course = new Course({ extent: 0.3, speed: 5 });
        let time = 0;
        const pass = (k) => {
          const { centre: { x, y, z }, direction } = course.hoops[Math.abs(k)], way = Object.is(k, -0) ? -1 : 1;
          for (const s of [-0.5 * way, 0.5 * way]) course.update({ x: x + s * direction.x, y: y + s * direction.y, z }, time++);
          return course.next;
        };
        const said = [1, -0, 0, 0, 1, 2, 3, 4, 5, 0].map(pass);
        console.log(JSON.stringify([said, course.lastLap]));
        """,
    )
    assert output[0] == [0, 0, 1, 1, 2, 3, 4, 5, 0, 1]
    assert output[1] == 14.0


# The file -----------------------------------------------------------------------------------------------------------


def test_modules_become_one_script_in_the_order_they_need_each_other():
    modules = {
        "main": 'import { two } from "./b.js";\nimport * as a from "./a.js";\ntwo(a.one);\n',
        "b": 'import { one } from "./a.js";\nexport function two(x) {\n  return x + one;\n}\n',
        "a": "export const one = 1;\n",
        "idle": "export const none = 0;\n",
    }
    script = bundle_modules(modules, "main")
    assert re.findall(r"const module_(\w+)", script) == ["a", "b", "main"]
    assert "import" not in script and "export" not in script
    with pytest.raises(ValueError, match="modules import each other: a → b → a"):
        bundle_modules({"a": 'import { b } from "./b.js";\n', "b": 'import { a } from "./a.js";\n'}, "a")


def test_the_page_is_one_small_file_that_loads_nothing(page_file):
    text = page_file.read_text(encoding="utf-8")
    assert page_file.stat().st_size < 2_000_000
    assert "default-src 'none'" in text
    assert re.findall(r"<(?:link|img|iframe)\b|\bsrc=|\bimport ", text.replace("w3.org", "")) == []
    assert text.count("<script") == text.count("</script>") == 1
    assert cockpit_html([samara.vehicle(name) for name in DEFAULT_VEHICLES]) == text


def test_a_name_cannot_end_the_script():
    vehicle = samara.build_vehicle(
        "</script><b>",
        mass=0.03,
        inertia=(1.4e-5, 1.4e-5, 2.2e-5),
        rotors=samara.vehicle("crazyflie_documented").rotors,
        provenance=Provenance("<!-- </script>"),
    )
    text = cockpit_html([vehicle])
    assert text.count("</script>") == 1 and "<!--" not in text


def test_what_cannot_be_flown_is_refused():
    with pytest.raises(ValueError, match="'rigid_body_quadrotor': the page can fly only vehicles with rotors"):
        cockpit_html([samara.vehicle("rigid_body_quadrotor")])
    with pytest.raises(ValueError, match="without tilt servos"):
        cockpit_html([tricopter()])
    with pytest.raises(ValueError, match="samara_iris occurs twice"):
        cockpit_html([samara.vehicle("iris"), samara.vehicle("iris", mass=1.6)])
    with pytest.raises(ValueError, match="no vehicle; expected"):
        cockpit_html([])


def test_samara_export_web(monkeypatch, capsys, tmp_path):
    path = tmp_path / "new" / "fly.html"
    status, out, err = call(monkeypatch, capsys, "export", "web", "hakoniwa", "-o", str(path))
    assert (status, err) == (0, "") and "fly.html" in out and "MB" in out
    assert "samara_hakoniwa" in path.read_text(encoding="utf-8")


# In a browser -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(page_file):
    program = find_chromium()
    if program is None:
        skip_or_fail("Chromium is not installed")
    browser = Browser(program, SIZE)
    page = browser.page(page_file.as_uri(), SIZE)
    wait_for(lambda: page.evaluate("!!window.samara && samara.world.time > 0"), 60.0, "the page to fly")
    yield page
    browser.close()


def hold_key(page, code, number, condition, description):
    """Hold a key until a condition is true."""
    page.call("Input.dispatchKeyEvent", type="rawKeyDown", key=code, code=code, windowsVirtualKeyCode=number)
    try:
        wait_for(lambda: page.evaluate(condition), 60.0, description)
    finally:
        page.call("Input.dispatchKeyEvent", type="keyUp", key=code, code=code, windowsVirtualKeyCode=number)


def test_keys_fly_it(page):
    """W climbs, and released it hovers; the arrows fly it east, where its nose points; R restarts."""
    start = page.evaluate("samara.world.state.p_W.z")
    hold_key(page, "KeyW", 87, f"samara.world.state.p_W.z > {start} + 0.3", "a climb")
    hold_key(page, "ArrowUp", 38, "samara.world.state.v_W.x > 0.4", "forward flight")
    page.key("r", 82, "KeyR")
    wait_for(lambda: page.evaluate("Math.abs(samara.world.state.p_W.x)") < 0.2, 30.0, "the start")
    page.key("1", 49, "Digit1")
    assert page.evaluate("samara.world.mode") == "rate"
    page.key("3", 51, "Digit3")
    assert page.evaluate("document.querySelector('[data-mode=hold]').getAttribute('aria-pressed')") == "true"


def press(page, code, key=""):
    """Press and release a key, and return whether the page handled it."""
    return page.evaluate(
        f"(() => {{ const options = {{ code: {code!r}, key: {(key or code)!r}, bubbles: true, cancelable: true }};"
        "const handled = !window.dispatchEvent(new KeyboardEvent('keydown', options));"
        "window.dispatchEvent(new KeyboardEvent('keyup', options)); return handled; })()"
    )


def test_the_list_of_keys_names_every_key_that_the_page_handles(page):
    """H shows the list; besides the keys of the page it names those that fail a motor."""
    listed = set(page.evaluate("[...document.querySelectorAll('#keys kbd')].map(cap => cap.dataset.code)"))
    letters, digits = (f"Key{chr(65 + i)}" for i in range(26)), (f"Digit{i}" for i in range(10))
    arrows = (f"Arrow{direction}" for direction in ("Up", "Down", "Left", "Right"))
    others = (
        "Space",
        "Escape",
        "PageUp",
        "PageDown",
        "Home",
        "End",
        "BracketLeft",
        "BracketRight",
        "Minus",
        "Equal",
        "Slash",
    )
    handled = {code for code in (*letters, *digits, *arrows, *others) if press(page, code)}
    assert handled | {"Tab", "Enter"} == listed and {"KeyH", "KeyT", "KeyW", "Digit1"} < handled
    assert "show, hide the keys" in page.text
    press(page, "KeyH")
    press(page, "KeyP")
    assert "show, hide the keys" not in page.text
    assert page.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "false"
    page.evaluate("document.querySelector('[data-camera=follow]').click()")


def test_the_labels_of_the_sticks_follow_the_mode(page):
    captions = "[...document.querySelectorAll('.sticks figcaption')].map(caption => caption.innerText).join(' ')"
    for key, expected in (
        ("Digit1", ("more, less thrust", "pitch down, up", "roll left, right", "the attitude is held")),
        ("Digit2", ("more, less thrust", "tilt forward, back", "tilt left, right", "the vehicle levels")),
        ("Digit3", ("climb, descend", "fly forward, back", "fly left, right", "the position is held")),
    ):
        press(page, key)
        *stick_labels, about = expected
        assert [label for label in stick_labels if label not in page.evaluate(captions)] == []
        assert about in page.text


def test_the_camera_on_board_tilts_within_its_limits(page):
    """T tilts the view up by 5°, at most to 60°, G down, at least to 0°, and both only on board."""
    press(page, "KeyT")
    start = page.evaluate("samara.camera.tilt")
    assert "Camera tilt" not in page.text
    page.click_text("On board")
    elevation = (
        "(() => { const { ahead } = samara.camera.view({ ...samara.world.state, q_WB: { w: 1, x: 0, y: 0, z: 0 } },"
        " samara.world.vehicle.appearance, 0, 1.5);"
        " return Math.atan2(ahead.z, Math.hypot(ahead.x, ahead.y)) * 180 / Math.PI + 0; })()"  # + 0: no −0
    )
    assert page.evaluate(elevation) == pytest.approx(start, abs=1e-3)
    press(page, "KeyT")
    assert page.evaluate(elevation) == pytest.approx(start + 5, abs=1e-3) and f"{start + 5}° up" in page.text
    for key, limit in (("KeyT", 60), ("KeyG", 0)):
        for _ in range(15):
            press(page, key)
        assert page.evaluate(elevation) == pytest.approx(limit, abs=1e-3) and f"{limit}° up" in page.text
        assert page.evaluate("Number(document.getElementById('tilt').value)") == limit
    page.evaluate("document.querySelector('[data-camera=follow]').click()")


def test_another_craft_wind_and_a_broken_motor_are_chosen_on_the_page(page):
    page.evaluate(
        "Object.assign(document.getElementById('vehicle'), { value: 2 }).dispatchEvent(new Event('change'));"
        "Object.assign(document.getElementById('wind'), { value: 5 }).dispatchEvent(new Event('input'))"
    )
    assert page.evaluate("samara.world.vehicle.appearance.name") == DEFAULT_VEHICLES[2]
    assert "5.0 m/s from W" in page.text
    page.evaluate("document.querySelectorAll('.motor')[1].dispatchEvent(new MouseEvent('click'))")
    assert page.evaluate("samara.world.environment.motor_effectiveness") == [1, 0, 1, 1, 1, 1]
    wait_for(lambda: page.evaluate("document.querySelectorAll('.motor.failed').length") == 1, 30.0, "a broken motor")


def test_there_is_a_picture_of_sky_ground_and_shadow(page):
    """The sky is bluer than the ground, and the shadow is darker than the ground beside it."""
    from io import BytesIO

    from PIL import Image

    page.evaluate(
        "samara.selectVehicle(samara.vehicles[0]); samara.world.wind.speed = 0; document.body.classList.add('bare')"
    )
    page.evaluate("document.querySelectorAll('.card, header').forEach((card) => (card.style.visibility = 'hidden'))")
    page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 200))))"
    )
    pixels = np.asarray(Image.open(BytesIO(page.picture())).convert("RGB"), dtype=float)
    page.evaluate("document.querySelectorAll('.card, header').forEach((card) => (card.style.visibility = ''))")
    sky, ground = pixels[5:15].mean(axis=(0, 1)), pixels[300:, :200].mean(axis=(0, 1))
    assert sky[2] > sky[1] > sky[0] and ground[1] > ground[2] and sky.sum() > ground.sum() + 100
    assert pixels[450:, 250:650].sum(axis=2).min() < 0.75 * ground.sum()


def test_it_complains_of_nothing_and_asks_for_nothing(page, page_file):
    assert page.console_errors() == []
    assert page.requested_addresses() == [page_file.as_uri()]
