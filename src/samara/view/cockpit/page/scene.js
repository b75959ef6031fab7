// The picture: sky, ground with the vehicle's shadow, the vehicle, its propellers, its path, and the wind.

import { createProgram, depthMap, useProgram, vertexList } from "./gl.js";
import { Plumb, Streaks, Trail } from "./ribbons.js";
import { DEPTH, DISC, GROUND, RIBBON, SKY, SOLID, SUN } from "./shaders.js";
import { vehicleTriangles, discMatrices, rgb } from "./shapes.js";
import { add, axes, lookAt, orthographic, product, scale, transform, unit, vec } from "./vectors.js";

const TO_SUN = unit(vec(...SUN));
const SHADOW_MAP_SIZE = 1024; // [px]
const MIN_FRAME_RATE = 24, MIN_RESOLUTION = 0.5; // [1/s], and drawn pixels per CSS pixel
const DRAWN_SPEED = 0.03; // relative to a propeller's speed, which is too fast to see
const BLUR_SPEED = 0.25; // relative to the top speed: a faster propeller is drawn as a disc
const TRAIL_COLOUR = rgb("#d55e00"), STREAK_COLOUR = [1, 1, 1], PLUMB_COLOUR = rgb("#22313f"), FAILED_COLOUR = rgb("#c8102e");
const IDENTITY = transform([vec(1, 0, 0), vec(0, 1, 0), vec(0, 0, 1)], vec(0, 0, 0));

export class Scene {
  constructor(canvas) {
    const gl = canvas.getContext("webgl2", { antialias: true, alpha: false, powerPreference: "high-performance" });
    if (!gl) throw new Error("This browser does not support WebGL 2, which the page needs.");
    this.canvas = canvas;
    this.gl = gl;
    this.empty = gl.createVertexArray();
    for (const [name, shaders] of Object.entries({ sky: SKY, ground: GROUND, solid: SOLID, disc: DISC, depth: DEPTH, ribbon: RIBBON }))
      this[name] = createProgram(gl, shaders);
    this.body = vertexList(gl, [3, 3, 3]);
    this.hoops = vertexList(gl, [3, 3, 3]);
    this.map = depthMap(gl, SHADOW_MAP_SIZE);
    this.trail = new Trail(gl);
    this.plumb = new Plumb(gl);
    this.streaks = new Streaks(gl);
    this.resolution = Math.min(2, window.devicePixelRatio || 1); // drawn pixels per CSS pixel
  }

  /** Draw another vehicle. */
  setAppearance(appearance) {
    this.appearance = appearance;
    this.body.fill(vehicleTriangles(appearance));
    this.discs = discMatrices(appearance);
    this.bladeAngles = appearance.rotors.map(() => 0);
    this.trail.clear();
  }

  /** Adapt the canvas to the window; return its aspect ratio. */
  fit() {
    const { canvas, resolution } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((size) => Math.max(1, Math.round(size * resolution)));
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    return width / height;
  }

  /** Reduce the resolution on a machine that draws too slowly. */
  adaptResolution(frameRate) {
    if (frameRate < MIN_FRAME_RATE) this.resolution = Math.max(MIN_RESOLUTION, 0.75 * this.resolution);
  }

  draw(world, course, view, seconds) {
    const { gl, appearance } = this, { state } = world, p = state.p_W;
    const toWorld = transform(axes(state.q_WB), p), light = this.#lightMatrix(p);
    appearance.rotors.forEach(({ spin }, i) => (this.bladeAngles[i] += spin * state.rotor_speed[i] * DRAWN_SPEED * seconds));
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    gl.disable(gl.BLEND);
    this.#drawShadowMap(light, toWorld);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    gl.bindTexture(gl.TEXTURE_2D, this.map.texture);
    const shared = { ...view, toLight: light, shadows: 0 };
    gl.depthMask(false);
    this.#drawWithoutVertices(this.sky, shared, gl.TRIANGLES, 3);
    gl.depthMask(true);
    const spread = 0.002 + 0.004 * Math.min(6, Math.max(0, p.z) / appearance.extent / 4);
    this.#drawWithoutVertices(this.ground, { ...shared, spread, fine: appearance.extent < 0.2 ? 1 : 0 }, gl.TRIANGLE_STRIP, 4);
    useProgram(gl, this.solid, { ...shared, toWorld });
    this.body.draw();
    if (course.changed) this.hoops.fill(course.triangles());
    useProgram(gl, this.solid, { ...shared, toWorld: IDENTITY });
    this.hoops.draw();
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthMask(false);
    this.#drawRibbons(world, view, seconds);
    this.#drawPropellers(world, view, toWorld);
    gl.depthMask(true);
  }

  #lightMatrix(p) {
    const size = 1.3 * this.appearance.extent;
    return product(orthographic(size, 60), lookAt(add(p, scale(TO_SUN, 10)), p, vec(0, 1, 0)));
  }

  #drawShadowMap(toScreen, toWorld) {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, null);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.map.frame);
    gl.viewport(0, 0, SHADOW_MAP_SIZE, SHADOW_MAP_SIZE);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    useProgram(gl, this.depth, { toScreen, toWorld, disc: 0 });
    this.body.draw();
    gl.bindVertexArray(this.empty);
    for (const disc of this.discs) {
      useProgram(gl, this.depth, { toScreen, toWorld: product(toWorld, disc), disc: 1 });
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    }
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }

  #drawWithoutVertices(program, values, mode, count) {
    useProgram(this.gl, program, values);
    this.gl.bindVertexArray(this.empty);
    this.gl.drawArrays(mode, 0, count);
  }

  #drawRibbons(world, view, seconds) {
    const { gl, appearance } = this, p = world.state.p_W, size = [this.canvas.width, this.canvas.height];
    const pixel = this.canvas.width / Math.max(1, this.canvas.clientWidth);
    useProgram(gl, this.ribbon, { ...view, size, width: 1.2 * pixel });
    this.plumb.draw(p, 0.45 * appearance.extent, PLUMB_COLOUR);
    this.streaks.draw(seconds, world.environment.wind_W, p, Math.max(3, 14 * appearance.extent), STREAK_COLOUR);
    useProgram(gl, this.ribbon, { ...view, size, width: 3.5 * pixel });
    this.trail.draw(world.time, p, TRAIL_COLOUR);
  }

  #drawPropellers(world, view, toWorld) {
    const { gl, appearance } = this;
    gl.bindVertexArray(this.empty);
    appearance.rotors.forEach(({ disc, top_speed }, i) => {
      const blur = Math.min(1, Math.abs(world.state.rotor_speed[i]) / (BLUR_SPEED * top_speed));
      const paint = world.failedMotors.has(i) ? FAILED_COLOUR : rgb(appearance.parts[disc].colour);
      useProgram(gl, this.disc, { ...view, toWorld: product(toWorld, this.discs[i]), turn: this.bladeAngles[i], blur, paint });
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    });
  }
}
