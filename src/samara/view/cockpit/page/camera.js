// Cameras: behind the vehicle, at a pilot on the ground, or on board.

import { UP, add, angles, axes, lookAt, mix, norm, perspective, product, scale, sub, vec } from "./vectors.js";

export const CAMERAS = ["follow", "pilot", "onboard"];
export const MAX_TILT = 60; // [°]

export class Camera {
  constructor(element) {
    this.mode = "follow";
    this.azimuth = 0;
    this.elevation = 0.3;
    this.tilt = 10; // [°]: the camera on board is tilted up, because vehicles tilt forward
    this.zoom = 1;
    this.followHeading = null;
    this.eye = null;
    let lastPointer = null;
    element.addEventListener("pointerdown", (event) => (lastPointer = [event.clientX, event.clientY]));
    window.addEventListener("pointerup", () => (lastPointer = null));
    window.addEventListener("pointermove", (event) => {
      if (!lastPointer) return;
      this.azimuth -= (event.clientX - lastPointer[0]) * 0.006;
      this.elevation = Math.max(-0.1, Math.min(1.4, this.elevation + (event.clientY - lastPointer[1]) * 0.005));
      lastPointer = [event.clientX, event.clientY];
    });
    element.addEventListener("wheel", (event) => {
      this.zoom = Math.max(0.4, Math.min(5, this.zoom * Math.exp(event.deltaY * 0.001)));
      event.preventDefault();
    }, { passive: false });
  }

  /** Jump to the next view instead of easing. */
  reset() {
    this.followHeading = this.eye = null;
  }

  /** The view of a state, eased over the seconds since the last view. */
  view(state, appearance, seconds, aspect) {
    const [target, up, field] = this[`_${this.mode}`](state, appearance, seconds);
    const near = this.mode === "onboard" ? 0.05 * appearance.radius : 0.15 * appearance.radius, far = 2000;
    const look = lookAt(this.eye, target, up), halfHeight = Math.tan(field / 2);
    const screen = product(perspective(field, aspect, near, far), look);
    const row = (k) => vec(look[k], look[4 + k], look[8 + k]);
    return { eye: this.eye, toScreen: screen, right: scale(row(0), halfHeight * aspect), above: scale(row(1), halfHeight), ahead: scale(row(2), -1) };
  }

  _follow(state, appearance, seconds) {
    const heading = angles(state.q_WB).heading, p = state.p_W;
    this.followHeading = this.followHeading === null ? heading : this.followHeading + wrap(heading - this.followHeading) * ease(seconds, 0.5);
    const angle = this.followHeading + this.azimuth, distance = this.zoom * (4.6 * appearance.extent + 0.35);
    const horizontal = Math.cos(this.elevation) * distance;
    const desired = add(p, vec(-Math.sin(angle) * horizontal, -Math.cos(angle) * horizontal, Math.sin(this.elevation) * distance));
    desired.z = Math.max(desired.z, 0.08);
    const motion = this.target ? sub(p, this.target) : vec(0, 0, 0);
    this.target = { ...p };
    this.eye = this.eye && norm(sub(desired, this.eye)) < 4 * distance ? mix(add(this.eye, motion), desired, ease(seconds, 0.18)) : desired;
    this.eye.z = Math.max(this.eye.z, 0.06);
    return [sub(p, vec(0, 0, 0.06 * distance)), UP, 0.9];
  }

  _pilot(state, appearance, seconds) {
    const radius = Math.max(2.5, 12 * appearance.extent);
    this.eye = vec(-radius * Math.sin(this.azimuth + 0.4), -radius * Math.cos(this.azimuth + 0.4), 1.5);
    const distance = norm(sub(state.p_W, this.eye));
    return [state.p_W, UP, Math.min(0.95, Math.max(0.08, (this.zoom * 7 * appearance.extent) / distance + 0.1))];
  }

  _onboard(state, appearance) {
    const [forward, , up] = axes(state.q_WB);
    this.eye = add(state.p_W, add(scale(forward, 0.45 * appearance.radius), scale(up, 0.16 * appearance.radius)));
    const tilt = (this.tilt * Math.PI) / 180;
    const ahead = add(scale(forward, Math.cos(tilt)), scale(up, Math.sin(tilt)));
    return [add(this.eye, ahead), up, 1.5];
  }
}

const ease = (seconds, time) => 1 - Math.exp(-seconds / time);
const wrap = (angle) => Math.atan2(Math.sin(angle), Math.cos(angle));
