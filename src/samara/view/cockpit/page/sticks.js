// What the pilot asks for, from -1 to 1: keys that ease in and out, a gamepad, or two sticks on the page dragged with a finger.

const KEYS = {
  KeyW: ["throttle", 1], KeyS: ["throttle", -1], KeyA: ["yaw", -1], KeyD: ["yaw", 1],
  ArrowUp: ["pitch", 1], ArrowDown: ["pitch", -1], ArrowLeft: ["roll", -1], ArrowRight: ["roll", 1],
};
const EASE = 5, BACK = 8; // 1/s
const DEAD = 0.08; // of a gamepad's stick
const NAMES = ["roll", "pitch", "yaw", "throttle"];

const neutral = () => ({ roll: 0, pitch: 0, yaw: 0, throttle: 0 });

export class Sticks {
  constructor(target = window) {
    this.values = neutral();
    this.dragged = {}; // of the sticks on the page
    this.pressed = new Set();
    this.gamepad = "";
    target.addEventListener("keydown", (event) => {
      if (!(event.code in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
      this.pressed.add(event.code);
      event.preventDefault();
    });
    target.addEventListener("keyup", (event) => this.pressed.delete(event.code));
    target.addEventListener("blur", () => this.pressed.clear());
  }

  /** The sticks after so many seconds. */
  read(seconds) {
    const wanted = neutral();
    for (const code of this.pressed) wanted[KEYS[code][0]] += KEYS[code][1];
    const pad = this.#pad();
    for (const name of NAMES) {
      const own = this.values[name], to = wanted[name];
      const most = (Math.abs(to) > Math.abs(own) || to * own < 0 ? EASE : BACK) * seconds;
      this.values[name] = own + Math.max(-most, Math.min(most, to - own));
      if (pad && (pad[name] !== 0 || (to === 0 && Math.abs(this.values[name]) < 0.02))) this.values[name] = pad[name];
      if (name in this.dragged) this.values[name] = this.dragged[name];
    }
    return this.values;
  }

  #pad() {
    const found = [...(navigator.getGamepads?.() ?? [])].find((own) => own && own.axes.length >= 4);
    this.gamepad = found ? found.id.replace(/\s*\(.*/, "") : "";
    if (!found) return null;
    const [yaw, throttle, roll, pitch] = found.axes.map(curve);
    return { roll, pitch: -pitch, yaw, throttle: -throttle };
  }
}

/** Nothing near the middle, fine about it, all at the end. */
function curve(value) {
  const far = (Math.abs(value) - DEAD) / (1 - DEAD);
  return far <= 0 ? 0 : Math.sign(value) * (0.6 * far + 0.4 * far ** 3);
}
