// Lines of a width in pixels: the way flown, the plumb line to the ground, and streaks that drift with the wind.

import { corners } from "./gl.js";
import { add, norm, scale, sub, vec } from "./vectors.js";

const NUMBERS = 11; // place, direction, colour with opacity, side
const LAYOUT = [3, 3, 4, 1];
const SECONDS = 20; // of the way flown
const EVERY = 0.03; // [s]
const STREAKS = 110;

class Strip {
  constructor(gl, most) {
    this.gl = gl;
    this.corners = corners(gl, LAYOUT);
    this.numbers = new Float32Array(2 * most * NUMBERS);
    this.count = 0;
  }

  start() {
    this.count = 0;
  }

  point(p, along, [red, green, blue], alpha) {
    for (const side of [-1, 1])
      this.numbers.set([p.x, p.y, p.z, along.x, along.y, along.z, red, green, blue, alpha, side], this.count++ * NUMBERS);
  }

  draw() {
    this.corners.fill(this.numbers.subarray(0, this.count * NUMBERS), this.count);
    this.corners.draw(this.gl.TRIANGLE_STRIP);
  }
}

export class Trail {
  constructor(gl) {
    this.strip = new Strip(gl, SECONDS / EVERY + 4);
    this.clear();
  }

  clear() {
    this.points = [];
  }

  note(time, p) {
    const last = this.points.at(-1);
    if (last && time - last.time < EVERY) return;
    this.points.push({ time, p: { ...p } });
    while (this.points[0].time < time - SECONDS) this.points.shift();
  }

  draw(time, now, colour) {
    const points = [...this.points.map((own) => own.p), now];
    this.strip.start();
    points.forEach((p, i) => {
      const age = i < this.points.length ? (time - this.points[i].time) / SECONDS : 0;
      const along = sub(points[Math.min(i + 1, points.length - 1)], points[Math.max(i - 1, 0)]);
      this.strip.point(p, along, colour, 0.9 * (1 - age) ** 1.5);
    });
    if (points.length > 1) this.strip.draw();
  }
}

/** From the craft straight down, and a ring where that meets the ground. */
export class Plumb {
  constructor(gl) {
    this.strip = new Strip(gl, 64);
  }

  draw(p, radius, colour) {
    const high = Math.min(1, Math.max(0, p.z / radius - 1));
    this.strip.start();
    for (const z of [p.z, 0.004]) this.strip.point(vec(p.x, p.y, z), vec(0, 0, -0.05), colour, 0.5 * high);
    this.strip.draw();
    this.strip.start();
    for (let k = 0; k <= 40; k++) {
      const angle = (2 * Math.PI * k) / 40, aside = vec(Math.cos(angle), Math.sin(angle), 0);
      this.strip.point(add(vec(p.x, p.y, 0.004), scale(aside, radius)), vec(-aside.y * 0.05, aside.x * 0.05, 0), colour, 0.55 * high);
    }
    this.strip.draw();
  }
}

export class Streaks {
  constructor(gl) {
    this.gl = gl;
    this.corners = corners(gl, LAYOUT);
    this.numbers = new Float32Array(STREAKS * 6 * NUMBERS);
    this.size = 0;
  }

  /** In a box about the craft that the air drifts through. */
  draw(seconds, wind_W, centre, size, colour) {
    const speed = norm(wind_W), box = vec(size, size, 0.5 * size);
    const low = vec(centre.x - size / 2, centre.y - size / 2, Math.max(0.05, centre.z - size / 4));
    if (size !== this.size) this.places = Array.from({ length: STREAKS }, () => vec(...Array.from("xyz", () => size * Math.random())));
    this.size = size;
    const strength = Math.min(1, speed / 3);
    if (strength < 0.05) return;
    const along = scale(wind_W, Math.min(0.14, (0.12 * size) / speed));
    let count = 0;
    for (const own of this.places) {
      for (const axis of ["x", "y", "z"])
        own[axis] = wrapped(own[axis] + wind_W[axis] * seconds, low[axis], box[axis]);
      const rim = Math.min(...["x", "y", "z"].map((axis) => edge((own[axis] - low[axis]) / box[axis])));
      const tail = sub(own, along), alpha = 0.4 * strength * rim;
      for (const [p, side, opacity] of [
        [tail, -1, 0], [own, -1, alpha], [own, 1, alpha], [tail, -1, 0], [own, 1, alpha], [tail, 1, 0],
      ])
        this.numbers.set([p.x, p.y, p.z, along.x, along.y, along.z, ...colour, opacity, side], count++ * NUMBERS);
    }
    this.corners.fill(this.numbers, count);
    this.corners.draw();
  }
}

const wrapped = (value, low, size) => low + ((((value - low) % size) + size) % size);
const edge = (share) => Math.min(1, 6 * Math.min(share, 1 - share));
