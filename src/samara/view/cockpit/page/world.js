// A craft in the air: physics at 1 kHz, its pilot every 4 ms, wind, motors that break. Knows nothing of pages and pictures.

import { gaussMarkov } from "./air.js";

const DT = 1e-3; // [s]
const LONGEST = 0.1; // [s]: a page that was away does not catch up
const GUST = 0.25, GUST_TIME = 1.2; // of the mean wind, [s]
const FALLEN_FOR = 1.0; // [s] upside down on the ground

export class World {
  constructor(craft) {
    this.mode = "hold";
    this.wind = { speed: 0, from: 270, gusts: true }; // [m/s], degrees from north it comes from
    this.take(craft);
  }

  /** Another craft, hovering; broken motors are whole again. */
  take(craft) {
    this.craft = craft;
    this.broken = new Set();
    this.reset();
  }

  reset() {
    const { state, command } = this.craft.hover();
    this.state = state;
    this.state.p_W.z = Math.max(1.2, 4 * this.craft.looks.extent);
    this.command = [...command];
    this.environment = this.craft.calm();
    this.gust = { x: 0, y: 0, z: 0 };
    this.time = 0;
    this.ticks = 0;
    this.owed = 0;
    this.down = 0;
    this.craft.begin(this.state);
    this.#power();
  }

  setMode(mode) {
    this.mode = mode;
  }

  /** Breaks a motor, or mends it. */
  toggle(motor) {
    if (!this.broken.delete(motor)) this.broken.add(motor);
    this.#power();
  }

  /** Through the seconds since the last picture; the sticks are held. */
  advance(seconds, sticks) {
    this.owed += Math.min(seconds, LONGEST);
    const every = Math.round(this.craft.pilotPeriod / DT);
    for (; this.owed >= DT; this.owed -= DT) {
      if (this.ticks % every === 0) this.#steer(sticks);
      this.craft.step(this.state, this.command, this.environment, DT);
      this.ticks += 1;
    }
    this.time = this.ticks * DT;
    if (!Number.isFinite(this.state.p_W.z + this.state.q_WB.w)) this.reset();
    this.down = this.#upsideDown() ? this.down + seconds : 0;
  }

  get fallen() {
    return this.down > FALLEN_FOR;
  }

  #steer(sticks) {
    const [failed = -1] = this.broken.size === 1 ? this.broken : [];
    this.command.splice(0, Infinity, ...this.craft.fly(this.mode, this.state, sticks, failed));
    const { speed, from, gusts } = this.wind, angle = (from * Math.PI) / 180;
    for (const axis of ["x", "y", "z"]) {
      const sigma = gusts ? GUST * speed * (axis === "z" ? 0.5 : 1) : 0;
      this.gust[axis] = gaussMarkov(this.gust[axis], normal(), this.craft.pilotPeriod, sigma, GUST_TIME);
    }
    const wind_W = this.environment.wind_W;
    wind_W.x = -speed * Math.sin(angle) + this.gust.x;
    wind_W.y = -speed * Math.cos(angle) + this.gust.y;
    wind_W.z = this.gust.z;
  }

  #power() {
    this.environment.motor_power = this.environment.motor_power.map((_, i) => (this.broken.has(i) ? 0 : 1));
  }

  #upsideDown() {
    const { x, y } = this.state.q_WB;
    return 1 - 2 * (x * x + y * y) < 0 && this.state.p_W.z < 2 * this.craft.looks.extent;
  }
}

/** Box and Muller's: a number from the standard normal distribution. */
function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}
