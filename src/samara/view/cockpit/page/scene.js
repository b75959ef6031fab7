// The picture: sky, ground with the craft's shadow, the craft, its turning propellers, its way, and the wind.

import { corners, depthMap, program, use } from "./gl.js";
import { Plumb, Streaks, Trail } from "./ribbons.js";
import { DEPTH, DISC, GROUND, RIBBON, SKY, SOLID, SUN } from "./shaders.js";
import { craftTriangles, discs, rgb } from "./shapes.js";
import { add, axes, lookAt, orthographic, placed, product, scale, unit, vec } from "./vectors.js";

const TO_SUN = unit(vec(...SUN));
const MAP = 1024; // pixels of the shadow map
const SLOW = 24, COARSEST = 0.5; // pictures a second, and pixels for one of the page's
const TURNS = 0.03; // of a propeller's speed: faster no eye follows
const BLURRED = 0.25; // of the top speed: from there on a propeller is a disc
const WAY = rgb("#d55e00"), AIR = [1, 1, 1], PLUMB = rgb("#22313f"), DEAD = rgb("#c8102e");
const HERE = placed([vec(1, 0, 0), vec(0, 1, 0), vec(0, 0, 1)], vec(0, 0, 0));

export class Scene {
  constructor(canvas) {
    const gl = canvas.getContext("webgl2", { antialias: true, alpha: false, powerPreference: "high-performance" });
    if (!gl) throw new Error("This browser has no WebGL 2, in which the flight is drawn.");
    this.canvas = canvas;
    this.gl = gl;
    this.empty = gl.createVertexArray();
    for (const [name, shaders] of Object.entries({ sky: SKY, ground: GROUND, solid: SOLID, disc: DISC, depth: DEPTH, ribbon: RIBBON }))
      this[name] = program(gl, shaders);
    this.body = corners(gl, [3, 3, 3]);
    this.hoops = corners(gl, [3, 3, 3]);
    this.map = depthMap(gl, MAP);
    this.trail = new Trail(gl);
    this.plumb = new Plumb(gl);
    this.streaks = new Streaks(gl);
    this.sharpness = Math.min(2, window.devicePixelRatio || 1); // pixels drawn for one of the page's
  }

  /** Another craft. */
  take(looks) {
    this.looks = looks;
    this.body.fill(craftTriangles(looks));
    this.discs = discs(looks);
    this.turns = looks.rotors.map(() => 0);
    this.trail.clear();
  }

  /** As many pixels as the window has; its width over its height. */
  fit() {
    const { canvas, sharpness } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((size) => Math.max(1, Math.round(size * sharpness)));
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    return width / height;
  }

  /** A machine that is too slow for the picture gets a coarser one. */
  keepUp(picturesPerSecond) {
    if (picturesPerSecond < SLOW) this.sharpness = Math.max(COARSEST, 0.75 * this.sharpness);
  }

  draw(world, course, view, seconds) {
    const { gl, looks } = this, { state } = world, p = state.p_W;
    const toWorld = placed(axes(state.q_WB), p), light = this.#light(p);
    looks.rotors.forEach(({ spin }, i) => (this.turns[i] += spin * state.rotor_speed[i] * TURNS * seconds));
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    gl.disable(gl.BLEND);
    this.#shadow(light, toWorld);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    gl.bindTexture(gl.TEXTURE_2D, this.map.texture);
    const shared = { ...view, toLight: light, shadows: 0 };
    gl.depthMask(false);
    this.#plain(this.sky, shared, gl.TRIANGLES, 3);
    gl.depthMask(true);
    const spread = 0.002 + 0.004 * Math.min(6, Math.max(0, p.z) / looks.extent / 4);
    this.#plain(this.ground, { ...shared, spread, fine: looks.extent < 0.2 ? 1 : 0 }, gl.TRIANGLE_STRIP, 4);
    use(gl, this.solid, { ...shared, toWorld });
    this.body.draw();
    if (course.changed) this.hoops.fill(course.triangles());
    use(gl, this.solid, { ...shared, toWorld: HERE });
    this.hoops.draw();
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthMask(false);
    this.#ribbons(world, view, seconds);
    this.#propellers(world, view, toWorld);
    gl.depthMask(true);
  }

  #light(p) {
    const size = 1.3 * this.looks.extent;
    return product(orthographic(size, 60), lookAt(add(p, scale(TO_SUN, 10)), p, vec(0, 1, 0)));
  }

  #shadow(toScreen, toWorld) {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, null);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.map.frame);
    gl.viewport(0, 0, MAP, MAP);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    use(gl, this.depth, { toScreen, toWorld, disc: 0 });
    this.body.draw();
    gl.bindVertexArray(this.empty);
    for (const disc of this.discs) {
      use(gl, this.depth, { toScreen, toWorld: product(toWorld, disc), disc: 1 });
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    }
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }

  #plain(own, values, mode, count) {
    use(this.gl, own, values);
    this.gl.bindVertexArray(this.empty);
    this.gl.drawArrays(mode, 0, count);
  }

  #ribbons(world, view, seconds) {
    const { gl, looks } = this, p = world.state.p_W, size = [this.canvas.width, this.canvas.height];
    const pixel = this.canvas.width / Math.max(1, this.canvas.clientWidth);
    use(gl, this.ribbon, { ...view, size, width: 1.2 * pixel });
    this.plumb.draw(p, 0.45 * looks.extent, PLUMB);
    this.streaks.draw(seconds, world.environment.wind_W, p, Math.max(3, 14 * looks.extent), AIR);
    use(gl, this.ribbon, { ...view, size, width: 3.5 * pixel });
    this.trail.draw(world.time, p, WAY);
  }

  #propellers(world, view, toWorld) {
    const { gl, looks } = this;
    gl.bindVertexArray(this.empty);
    looks.rotors.forEach(({ disc, top_speed }, i) => {
      const blur = Math.min(1, Math.abs(world.state.rotor_speed[i]) / (BLURRED * top_speed));
      const paint = world.broken.has(i) ? DEAD : rgb(looks.parts[disc].colour);
      use(gl, this.disc, { ...view, toWorld: product(toWorld, this.discs[i]), turn: this.turns[i], blur, paint });
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    });
  }
}
