// What the sticks and keys do, in words.

import { STICK_KEYS } from "./sticks.js";

const ARROWS = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };
const STICKS = { left: ["throttle", "yaw"], right: ["pitch", "roll"] };

/** For each mode: what the sticks command and what happens when they are released, then each axis, up or left first. */
export const MODES = {
  rate: {
    about: "Sticks set the angular rate; released, the attitude is held.",
    throttle: "more, less thrust", yaw: "yaw left, right", pitch: "pitch down, up", roll: "roll left, right",
  },
  angle: {
    about: "Sticks set the tilt; released, the vehicle levels and drifts.",
    throttle: "more, less thrust", yaw: "turn left, right", pitch: "tilt forward, back", roll: "tilt left, right",
  },
  hold: {
    about: "Sticks set the velocity; released, the position is held.",
    throttle: "climb, descend", yaw: "turn left, right", pitch: "fly forward, back", roll: "fly left, right",
  },
};

/** The keys as caps, and a description. */
function describeKeys(codes, text) {
  const caps = codes.map((code) => {
    const cap = document.createElement("kbd");
    cap.textContent = ARROWS[code] ?? code.replace(/^(Key|Digit)/, "");
    cap.dataset.code = code;
    return cap;
  });
  const row = document.createElement("div"), keys = document.createElement("span");
  keys.append(...caps);
  row.append(keys, ` ${text}`);
  return row;
}

const describeAxis = (mode, axis) =>
  describeKeys(Object.keys(STICK_KEYS).filter((code) => STICK_KEYS[code][0] === axis), MODES[mode][axis]);

/** Describe the mode, caption both sticks and list all keys: those of the sticks, then `actions`, pairs of text and keys. */
export function showLabels(root, mode, actions) {
  root.querySelector("#mode").textContent = MODES[mode].about;
  for (const [id, axes] of Object.entries(STICKS))
    root.querySelector(`#${id} + figcaption`).replaceChildren(...axes.map((axis) => describeAxis(mode, axis)));
  root.querySelector("#keys").replaceChildren(
    ...Object.values(STICKS).flat().map((axis) => describeAxis(mode, axis)),
    ...actions.map(([text, keys]) => describeKeys(Object.keys(keys), text)),
    describeKeys(["Tab", "Enter"], "select a motor, fail it"),
  );
}
