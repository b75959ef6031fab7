// Where the picture is taken from: behind the craft, from where a pilot would stand, or on board.

import { UP, add, angles, axes, lookAt, mix, norm, perspective, product, scale, sub, vec } from "./vectors.js";

export const CAMERAS = ["follow", "pilot", "onboard"];
const TILT = 0.15; // [rad]: an onboard camera looks up, as craft lean forward

export class Camera {
  constructor(element) {
    this.kind = "follow";
    this.turn = 0;
    this.rise = 0.3;
    this.zoom = 1;
    this.behind = null;
    this.eye = null;
    let from = null;
    element.addEventListener("pointerdown", (event) => (from = [event.clientX, event.clientY]));
    window.addEventListener("pointerup", () => (from = null));
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      this.turn -= (event.clientX - from[0]) * 0.006;
      this.rise = Math.max(-0.1, Math.min(1.4, this.rise + (event.clientY - from[1]) * 0.005));
      from = [event.clientX, event.clientY];
    });
    element.addEventListener("wheel", (event) => {
      this.zoom = Math.max(0.4, Math.min(5, this.zoom * Math.exp(event.deltaY * 0.001)));
      event.preventDefault();
    }, { passive: false });
  }

  /** Jump there instead of easing. */
  forget() {
    this.behind = this.eye = null;
  }

  /** The view of a state, eased over the seconds since the last one. */
  view(state, looks, seconds, aspect) {
    const [target, up, field] = this[`_${this.kind}`](state, looks, seconds);
    const near = this.kind === "onboard" ? 0.05 * looks.reach : 0.15 * looks.reach, far = 2000;
    const look = lookAt(this.eye, target, up), tall = Math.tan(field / 2);
    const screen = product(perspective(field, aspect, near, far), look);
    const row = (k) => vec(look[k], look[4 + k], look[8 + k]);
    return { eye: this.eye, toScreen: screen, right: scale(row(0), tall * aspect), above: scale(row(1), tall), ahead: scale(row(2), -1) };
  }

  _follow(state, looks, seconds) {
    const heading = angles(state.q_WB).heading, p = state.p_W;
    this.behind = this.behind === null ? heading : this.behind + wrap(heading - this.behind) * ease(seconds, 0.5);
    const angle = this.behind + this.turn, away = this.zoom * (4.6 * looks.extent + 0.35);
    const level = Math.cos(this.rise) * away;
    const wanted = add(p, vec(-Math.sin(angle) * level, -Math.cos(angle) * level, Math.sin(this.rise) * away));
    wanted.z = Math.max(wanted.z, 0.08);
    const moved = this.target ? sub(p, this.target) : vec(0, 0, 0);
    this.target = { ...p };
    this.eye = this.eye && norm(sub(wanted, this.eye)) < 4 * away ? mix(add(this.eye, moved), wanted, ease(seconds, 0.18)) : wanted;
    this.eye.z = Math.max(this.eye.z, 0.06);
    return [sub(p, vec(0, 0, 0.06 * away)), UP, 0.9];
  }

  _pilot(state, looks, seconds) {
    const back = Math.max(2.5, 12 * looks.extent);
    this.eye = vec(-back * Math.sin(this.turn + 0.4), -back * Math.cos(this.turn + 0.4), 1.5);
    const far = norm(sub(state.p_W, this.eye));
    return [state.p_W, UP, Math.min(0.95, Math.max(0.08, (this.zoom * 7 * looks.extent) / far + 0.1))];
  }

  _onboard(state, looks) {
    const [forward, , up] = axes(state.q_WB);
    this.eye = add(state.p_W, add(scale(forward, 0.45 * looks.reach), scale(up, 0.16 * looks.reach)));
    const ahead = add(scale(forward, Math.cos(TILT)), scale(up, Math.sin(TILT)));
    return [add(this.eye, ahead), up, 1.5];
  }
}

const ease = (seconds, time) => 1 - Math.exp(-seconds / time);
const wrap = (angle) => Math.atan2(Math.sin(angle), Math.cos(angle));
