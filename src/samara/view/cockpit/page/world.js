// Simulation of a vehicle: physics at 1 kHz, controller every 4 ms, wind, motor failures. Independent of the page.

import { gaussMarkov } from "./air.js";

const DT = 1e-3; // [s]
const MAX_ADVANCE = 0.1; // [s]: a page that was hidden does not catch up
const GUST_INTENSITY = 0.25, GUST_TIME = 1.2; // relative to the mean wind, and correlation time [s]
const UPSET_TIME = 1.0; // [s] upside down on the ground

export class World {
  constructor(vehicle) {
    this.mode = "hold";
    this.wind = { speed: 0, from: 270, gusts: true }; // speed [m/s], direction of origin [° from north]
    this.setVehicle(vehicle);
  }

  /** Start another vehicle in hover, with all motors working. */
  setVehicle(vehicle) {
    this.vehicle = vehicle;
    this.failedMotors = new Set();
    this.reset();
  }

  reset() {
    const { state, command } = this.vehicle.hover();
    this.state = state;
    this.state.p_W.z = Math.max(1.2, 4 * this.vehicle.appearance.extent);
    this.command = [...command];
    this.environment = this.vehicle.calm();
    this.gust = { x: 0, y: 0, z: 0 };
    this.time = 0;
    this.ticks = 0;
    this.pendingTime = 0;
    this.upsetTime = 0;
    this.vehicle.begin(this.state);
    this.#updateMotorPower();
  }

  setMode(mode) {
    this.mode = mode;
  }

  /** Fail a motor, or restore it. */
  toggle(motor) {
    if (!this.failedMotors.delete(motor)) this.failedMotors.add(motor);
    this.#updateMotorPower();
  }

  /** Advance by the time since the last picture, with constant sticks. */
  advance(seconds, sticks) {
    this.pendingTime += Math.min(seconds, MAX_ADVANCE);
    const ticksPerControl = Math.round(this.vehicle.pilotPeriod / DT);
    for (; this.pendingTime >= DT; this.pendingTime -= DT) {
      if (this.ticks % ticksPerControl === 0) this.#control(sticks);
      this.vehicle.step(this.state, this.command, this.environment, DT);
      this.ticks += 1;
    }
    this.time = this.ticks * DT;
    if (!Number.isFinite(this.state.p_W.z + this.state.q_WB.w)) this.reset();
    this.upsetTime = this.#isUpsideDown() ? this.upsetTime + seconds : 0;
  }

  get isUpset() {
    return this.upsetTime > UPSET_TIME;
  }

  #control(sticks) {
    const [failed = -1] = this.failedMotors.size === 1 ? this.failedMotors : [];
    this.command.splice(0, Infinity, ...this.vehicle.fly(this.mode, this.state, sticks, failed));
    const { speed, from, gusts } = this.wind, angle = (from * Math.PI) / 180;
    for (const axis of ["x", "y", "z"]) {
      const sigma = gusts ? GUST_INTENSITY * speed * (axis === "z" ? 0.5 : 1) : 0;
      this.gust[axis] = gaussMarkov(this.gust[axis], normal(), this.vehicle.pilotPeriod, sigma, GUST_TIME);
    }
    const wind_W = this.environment.wind_W;
    wind_W.x = -speed * Math.sin(angle) + this.gust.x;
    wind_W.y = -speed * Math.cos(angle) + this.gust.y;
    wind_W.z = this.gust.z;
  }

  #updateMotorPower() {
    this.environment.motor_effectiveness = this.environment.motor_effectiveness.map((_, i) => (this.failedMotors.has(i) ? 0 : 1));
  }

  #isUpsideDown() {
    const { x, y } = this.state.q_WB;
    return 1 - 2 * (x * x + y * y) < 0 && this.state.p_W.z < 2 * this.vehicle.appearance.extent;
  }
}

/** A standard normal number, by the Box–Muller method. */
function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}
