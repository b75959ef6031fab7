// Hoops to fly direction in order, and the lap time. Hoops are not solid.

import { rgb, torus } from "./shapes.js";
import { add, dot, norm, scale, sub, vec } from "./vectors.js";

const HOOP_COUNT = 6;
const HEIGHTS = [0, 0.5, 1, 0.3, 0.8, 0.2];
const NEXT_COLOUR = rgb("#e8590c"), HOOP_COLOUR = rgb("#f4f6f7"), TUBE_FRACTION = 0.045;

export class Course {
  constructor({ extent, speed }) {
    this.radius = Math.max(0.32, 2.1 * extent);
    const courseRadius = Math.max(2.6, 1.8 * speed), minHeight = Math.max(1.2, 4 * extent);
    this.hoops = HEIGHTS.map((height, k) => {
      const angle = (2 * Math.PI * (k + 0.75)) / HOOP_COUNT;
      return {
        centre: vec(courseRadius * Math.sin(angle), courseRadius * (1 - Math.cos(angle)), minHeight + height * 0.28 * courseRadius),
        direction: vec(Math.cos(angle), Math.sin(angle), 0),
      };
    });
    this.bestLap = null;
    this.restart();
  }

  restart() {
    this.next = 0;
    this.lapStart = null;
    this.lastLap = null;
    this.previous = null;
    this.changed = true;
  }

  /** Update with the position of the vehicle: whether it has passed the next hoop since the last call. */
  update(p, time) {
    const { centre, direction } = this.hoops[this.next], previous = this.previous;
    this.previous = { ...p };
    if (!previous) return;
    const distanceBefore = dot(sub(previous, centre), direction), distanceAfter = dot(sub(p, centre), direction);
    if (!(distanceBefore < 0 && distanceAfter >= 0)) return;
    const crossing = add(previous, scale(sub(p, previous), distanceBefore / (distanceBefore - distanceAfter)));
    if (norm(sub(crossing, centre)) > this.radius) return;
    this.next = (this.next + 1) % HOOP_COUNT;
    this.changed = true;
    if (this.next !== 1) return;
    if (this.lapStart !== null) {
      this.lastLap = time - this.lapStart;
      this.bestLap = this.bestLap === null ? this.lastLap : Math.min(this.bestLap, this.lastLap);
    }
    this.lapStart = time;
  }

  get text() {
    const lap = this.lastLap === null ? "" : ` · lap ${this.lastLap.toFixed(1)} s, best ${this.bestLap.toFixed(1)} s`;
    return `hoop ${this.next + 1} of ${HOOP_COUNT}${lap}`;
  }

  /** Triangles of the hoops; the next hoop has a different colour. */
  triangles() {
    this.changed = false;
    return new Float32Array(this.hoops.flatMap(({ centre, direction }, k) =>
      torus(centre, direction, this.radius, TUBE_FRACTION * this.radius, k === this.next ? NEXT_COLOUR : HOOP_COLOUR)));
  }
}
