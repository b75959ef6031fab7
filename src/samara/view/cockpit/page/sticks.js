// Stick positions from -1 to 1: from keys, which ease in and out, from a gamepad, or from two sticks on the page.

export const STICK_KEYS = {
  KeyW: ["throttle", 1], KeyS: ["throttle", -1], KeyA: ["yaw", -1], KeyD: ["yaw", 1],
  ArrowUp: ["pitch", 1], ArrowDown: ["pitch", -1], ArrowLeft: ["roll", -1], ArrowRight: ["roll", 1],
};
const PRESS_RATE = 5, RELEASE_RATE = 8; // [1/s]
const DEAD_ZONE = 0.08; // of a gamepad's stick
const NAMES = ["roll", "pitch", "yaw", "throttle"];

const neutral = () => ({ roll: 0, pitch: 0, yaw: 0, throttle: 0 });

export class Sticks {
  constructor(target = window) {
    this.values = neutral();
    this.dragged = {}; // positions of the sticks on the page
    this.pressed = new Set();
    this.gamepad = "";
    target.addEventListener("keydown", (event) => {
      if (!(event.code in STICK_KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
      this.pressed.add(event.code);
      event.preventDefault();
    });
    target.addEventListener("keyup", (event) => this.pressed.delete(event.code));
    target.addEventListener("blur", () => this.pressed.clear());
  }

  /** The stick positions, `seconds` after the last call. */
  read(seconds) {
    const targets = neutral();
    for (const code of this.pressed) targets[STICK_KEYS[code][0]] += STICK_KEYS[code][1];
    const pad = this.#readGamepad();
    for (const name of NAMES) {
      const current = this.values[name], target = targets[name];
      const maxStep = (Math.abs(target) > Math.abs(current) || target * current < 0 ? PRESS_RATE : RELEASE_RATE) * seconds;
      this.values[name] = current + Math.max(-maxStep, Math.min(maxStep, target - current));
      if (pad && (pad[name] !== 0 || (target === 0 && Math.abs(this.values[name]) < 0.02))) this.values[name] = pad[name];
      if (name in this.dragged) this.values[name] = this.dragged[name];
    }
    return this.values;
  }

  #readGamepad() {
    const gamepad = [...(navigator.getGamepads?.() ?? [])].find((pad) => pad && pad.axes.length >= 4);
    this.gamepad = gamepad ? gamepad.id.replace(/\s*\(.*/, "") : "";
    if (!gamepad) return null;
    const [yaw, throttle, roll, pitch] = gamepad.axes.map(applyExpo);
    return { roll, pitch: -pitch, yaw, throttle: -throttle };
  }
}

/** Apply a dead zone and an expo curve: fine around the centre, full at the end. */
function applyExpo(value) {
  const deflection = (Math.abs(value) - DEAD_ZONE) / (1 - DEAD_ZONE);
  return deflection <= 0 ? 0 : Math.sign(value) * (0.6 * deflection + 0.4 * deflection ** 3);
}
