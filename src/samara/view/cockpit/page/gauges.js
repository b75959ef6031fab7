// The instruments: values, an artificial horizon, the motors from above, and the stick positions.

import { angles } from "./vectors.js";

const SVG = "http://www.w3.org/2000/svg";
const COMPASS_POINTS = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"];
const PITCH_SCALE = 1.1; // [px/°]
const RING_LENGTH = 2 * Math.PI * 13;

export const compass = (degrees) => COMPASS_POINTS[Math.round(degrees / 45) % 8];

export function element(name, attributes = {}, parent = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent?.append(node);
  return node;
}

export class Gauges {
  constructor(root, onMotorClick) {
    this.root = root;
    this.onMotorClick = onMotorClick;
    this.horizon = root.querySelector("#horizon");
    this.bank = root.querySelector("#bank");
  }

  /** Draw the motors of a vehicle in its layout, forward up. */
  setAppearance(appearance) {
    const figure = this.root.querySelector("#motors");
    figure.replaceChildren();
    const size = 62 / Math.max(...appearance.rotors.map(({ r_B: [x, y] }) => Math.max(Math.abs(x), Math.abs(y))), 1e-3);
    this.motors = appearance.rotors.map(({ r_B: [x, y], spin, top_speed }, i) => {
      const centre = [-y * size * 0.74, -x * size * 0.74];
      element("line", { x1: 0, y1: 0, x2: centre[0], y2: centre[1], class: "arm" }, figure);
      const group = element("g", { class: `motor ${spin > 0 ? "ccw" : "cw"}`, transform: `translate(${centre})` });
      group.setAttribute("tabindex", "0");
      group.setAttribute("role", "button");
      element("title", {}, group);
      element("circle", { r: 13, class: "track" }, group);
      const ring = element("circle", { r: 13, class: "ring", "stroke-dasharray": RING_LENGTH, transform: "rotate(-90)" }, group);
      element("text", { class: "number", y: 4 }, group).textContent = i;
      element("path", { d: "M-6 -6L6 6M6 -6L-6 6", class: "cross" }, group);
      const press = (event) => {
        if (event.key && event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.onMotorClick(i);
      };
      group.addEventListener("click", press);
      group.addEventListener("keydown", press);
      return { group, ring, top_speed };
    });
    const nose = element("path", { d: "M0 -15L6 -5L-6 -5Z", class: "nose" });
    figure.append(nose, ...this.motors.map(({ group }) => group));
  }

  #write(id, text) {
    const node = this.root.querySelector(`#${id}`);
    if (node.textContent !== text) node.textContent = text;
  }

  show(world, sticks, frames) {
    const { state, failedMotors } = world, { roll, pitch, heading } = angles(state.q_WB), degrees = 180 / Math.PI;
    const course = (heading * degrees + 360) % 360;
    this.#write("height", state.p_W.z.toFixed(state.p_W.z < 10 ? 2 : 1));
    this.#write("speed", Math.hypot(state.v_W.x, state.v_W.y).toFixed(1));
    this.#write("climb", formatSigned(state.v_W.z));
    this.#write("heading", `${course.toFixed(0).padStart(3, "0")}° ${compass(course)}`);
    this.#write("away", Math.hypot(state.p_W.x, state.p_W.y).toFixed(1));
    this.#write("clock", `${Math.floor(world.time / 60)}:${(world.time % 60).toFixed(1).padStart(4, "0")}`);
    this.#write("rate", frames);
    const battery = state.battery?.[0];
    this.root.querySelector("#battery").hidden = !battery;
    if (battery) this.#write("charge", (100 * battery.charge).toFixed(1));
    this.horizon.setAttribute("transform", `rotate(${-roll * degrees}) translate(0 ${pitch * degrees * PITCH_SCALE})`);
    this.bank.setAttribute("transform", `rotate(${-roll * degrees})`);
    this.motors.forEach(({ group, ring, top_speed }, i) => {
      const fraction = Math.max(0, Math.min(1, state.rotor_speed[i] / top_speed));
      ring.setAttribute("stroke-dashoffset", RING_LENGTH * (1 - fraction));
      group.classList.toggle("failed", failedMotors.has(i));
      group.firstChild.textContent = `Motor ${i}: ${state.rotor_speed[i].toFixed(0)} rad/s. Click to ${failedMotors.has(i) ? "restore" : "fail"} it.`;
    });
    for (const [id, x, y] of [["left", "yaw", "throttle"], ["right", "roll", "pitch"]])
      this.root.querySelector(`#${id} .knob`).setAttribute("transform", `translate(${26 * sticks[x]} ${-26 * sticks[y]})`);
  }
}

const formatSigned = (value) => `${value < -0.05 ? "−" : value > 0.05 ? "+" : ""}${Math.abs(value).toFixed(1)}`;

/** Make a stick on the page draggable: its two values are in `dragged` until it is released. */
export function makeDraggable(figure, dragged, x, y) {
  const move = (event) => {
    const box = figure.getBoundingClientRect(), half = box.width / 2;
    const clip = (value) => Math.max(-1, Math.min(1, value));
    dragged[x] = clip((event.clientX - box.left - half) / (half * 0.72));
    dragged[y] = clip(-(event.clientY - box.top - half) / (half * 0.72));
  };
  figure.addEventListener("pointerdown", (event) => {
    figure.setPointerCapture(event.pointerId);
    move(event);
  });
  figure.addEventListener("pointermove", (event) => figure.hasPointerCapture(event.pointerId) && move(event));
  for (const release of ["pointerup", "pointercancel"])
    figure.addEventListener(release, () => {
      delete dragged[x];
      delete dragged[y];
    });
}
