// Hoops of light to fly through, one after the other, and how long a lap takes. They are not solid.

import { rgb, torus } from "./shapes.js";
import { add, dot, norm, scale, sub, vec } from "./vectors.js";

const HOOPS = 6;
const HEIGHTS = [0, 0.5, 1, 0.3, 0.8, 0.2];
const NEXT = rgb("#e8590c"), OTHER = rgb("#f4f6f7"), TUBE = 0.045;

export class Course {
  constructor({ extent, speed }) {
    this.radius = Math.max(0.32, 2.1 * extent);
    const wide = Math.max(2.6, 1.8 * speed), low = Math.max(1.2, 4 * extent);
    this.hoops = HEIGHTS.map((height, k) => {
      const angle = (2 * Math.PI * (k + 0.75)) / HOOPS;
      return {
        centre: vec(wide * Math.sin(angle), wide * (1 - Math.cos(angle)), low + height * 0.28 * wide),
        through: vec(Math.cos(angle), Math.sin(angle), 0),
      };
    });
    this.best = null;
    this.restart();
  }

  restart() {
    this.next = 0;
    this.started = null;
    this.last = null;
    this.from = null;
    this.changed = true;
  }

  /** Where the craft is now: whether it went through the next hoop since it was here last. */
  note(p, time) {
    const { centre, through } = this.hoops[this.next], from = this.from;
    this.from = { ...p };
    if (!from) return;
    const before = dot(sub(from, centre), through), after = dot(sub(p, centre), through);
    if (!(before < 0 && after >= 0)) return;
    const at = add(from, scale(sub(p, from), before / (before - after)));
    if (norm(sub(at, centre)) > this.radius) return;
    this.next = (this.next + 1) % HOOPS;
    this.changed = true;
    if (this.next !== 1) return;
    if (this.started !== null) {
      this.last = time - this.started;
      this.best = this.best === null ? this.last : Math.min(this.best, this.last);
    }
    this.started = time;
  }

  get text() {
    const lap = this.last === null ? "" : ` · lap ${this.last.toFixed(1)} s, best ${this.best.toFixed(1)} s`;
    return `hoop ${this.next + 1} of ${HOOPS}${lap}`;
  }

  /** The hoops as triangles, the next one in its colour. */
  triangles() {
    this.changed = false;
    return new Float32Array(this.hoops.flatMap(({ centre, through }, k) =>
      torus(centre, through, this.radius, TUBE * this.radius, k === this.next ? NEXT : OTHER)));
  }
}
