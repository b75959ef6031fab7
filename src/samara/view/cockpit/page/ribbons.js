// Lines with a width in pixels: the path flown, the plumb line to the ground, and streaks that drift with the wind.

import { vertexList } from "./gl.js";
import { add, norm, scale, sub, vec } from "./vectors.js";

const VERTEX_SIZE = 11; // position, direction, colour with opacity, side
const LAYOUT = [3, 3, 4, 1];
const TRAIL_DURATION = 20; // [s]
const TRAIL_PERIOD = 0.03; // [s]
const STREAK_COUNT = 110;

class Strip {
  constructor(gl, maxPoints) {
    this.gl = gl;
    this.vertices = vertexList(gl, LAYOUT);
    this.numbers = new Float32Array(2 * maxPoints * VERTEX_SIZE);
    this.count = 0;
  }

  start() {
    this.count = 0;
  }

  point(p, direction, [red, green, blue], alpha) {
    for (const side of [-1, 1])
      this.numbers.set([p.x, p.y, p.z, direction.x, direction.y, direction.z, red, green, blue, alpha, side], this.count++ * VERTEX_SIZE);
  }

  draw() {
    this.vertices.fill(this.numbers.subarray(0, this.count * VERTEX_SIZE), this.count);
    this.vertices.draw(this.gl.TRIANGLE_STRIP);
  }
}

export class Trail {
  constructor(gl) {
    this.strip = new Strip(gl, TRAIL_DURATION / TRAIL_PERIOD + 4);
    this.clear();
  }

  clear() {
    this.points = [];
  }

  add(time, p) {
    const last = this.points.at(-1);
    if (last && time - last.time < TRAIL_PERIOD) return;
    this.points.push({ time, p: { ...p } });
    while (this.points[0].time < time - TRAIL_DURATION) this.points.shift();
  }

  draw(time, now, colour) {
    const points = [...this.points.map((point) => point.p), now];
    this.strip.start();
    points.forEach((p, i) => {
      const age = i < this.points.length ? (time - this.points[i].time) / TRAIL_DURATION : 0;
      const direction = sub(points[Math.min(i + 1, points.length - 1)], points[Math.max(i - 1, 0)]);
      this.strip.point(p, direction, colour, 0.9 * (1 - age) ** 1.5);
    });
    if (points.length > 1) this.strip.draw();
  }
}

/** A line from the vehicle straight down, and a ring on the ground. */
export class Plumb {
  constructor(gl) {
    this.strip = new Strip(gl, 64);
  }

  draw(p, radius, colour) {
    const visibility = Math.min(1, Math.max(0, p.z / radius - 1));
    this.strip.start();
    for (const z of [p.z, 0.004]) this.strip.point(vec(p.x, p.y, z), vec(0, 0, -0.05), colour, 0.5 * visibility);
    this.strip.draw();
    this.strip.start();
    for (let k = 0; k <= 40; k++) {
      const angle = (2 * Math.PI * k) / 40, radial = vec(Math.cos(angle), Math.sin(angle), 0);
      this.strip.point(add(vec(p.x, p.y, 0.004), scale(radial, radius)), vec(-radial.y * 0.05, radial.x * 0.05, 0), colour, 0.55 * visibility);
    }
    this.strip.draw();
  }
}

export class Streaks {
  constructor(gl) {
    this.gl = gl;
    this.vertices = vertexList(gl, LAYOUT);
    this.numbers = new Float32Array(STREAK_COUNT * 6 * VERTEX_SIZE);
    this.size = 0;
  }

  /** Draw streaks in a box around the vehicle, which drift with the air. */
  draw(seconds, wind_W, centre, size, colour) {
    const speed = norm(wind_W), box = vec(size, size, 0.5 * size);
    const low = vec(centre.x - size / 2, centre.y - size / 2, Math.max(0.05, centre.z - size / 4));
    if (size !== this.size) this.heads = Array.from({ length: STREAK_COUNT }, () => vec(...Array.from("xyz", () => size * Math.random())));
    this.size = size;
    const strength = Math.min(1, speed / 3);
    if (strength < 0.05) return;
    const direction = scale(wind_W, Math.min(0.14, (0.12 * size) / speed));
    let count = 0;
    for (const head of this.heads) {
      for (const axis of ["x", "y", "z"])
        head[axis] = wrap(head[axis] + wind_W[axis] * seconds, low[axis], box[axis]);
      const fade = Math.min(...["x", "y", "z"].map((axis) => fadeEdge((head[axis] - low[axis]) / box[axis])));
      const tail = sub(head, direction), alpha = 0.4 * strength * fade;
      for (const [p, side, opacity] of [
        [tail, -1, 0], [head, -1, alpha], [head, 1, alpha], [tail, -1, 0], [head, 1, alpha], [tail, 1, 0],
      ])
        this.numbers.set([p.x, p.y, p.z, direction.x, direction.y, direction.z, ...colour, opacity, side], count++ * VERTEX_SIZE);
    }
    this.vertices.fill(this.numbers, count);
    this.vertices.draw();
  }
}

const wrap = (value, low, size) => low + ((((value - low) % size) + size) % size);
const fadeEdge = (fraction) => Math.min(1, 6 * Math.min(fraction, 1 - fraction));
