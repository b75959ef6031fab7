// The page: its controls, its keys, and the loop that flies and draws.

import { Camera, CAMERAS } from "./camera.js";
import { Course } from "./course.js";
import { crafts } from "./crafts.js";
import { Gauges, compass, draggable } from "./gauges.js";
import { Scene } from "./scene.js";
import { Sticks } from "./sticks.js";
import { World } from "./world.js";

const GAUGES_EVERY = 1 / 20; // [s]

const find = (id) => document.getElementById(id);
const world = new World(crafts[0]), sticks = new Sticks(), camera = new Camera(find("canvas"));
const gauges = new Gauges(document, (motor) => world.toggle(motor));
let paused = false, scene = null, course = null;

function take(craft) {
  world.take(craft);
  scene.take(craft.looks);
  gauges.take(craft.looks);
  course = new Course(craft.looks);
  camera.forget();
  find("vehicle").value = crafts.indexOf(craft);
  find("about").textContent = `${craft.looks.about}, ${mass(craft.looks.mass)}`;
}

const mass = (kilograms) => (kilograms < 0.1 ? `${(1e3 * kilograms).toFixed(0)} g` : `${kilograms.toFixed(2)} kg`);

function restart() {
  world.reset();
  course.restart();
  scene.trail.clear();
  camera.forget();
}

function choose(group, value) {
  for (const own of document.querySelectorAll(`[data-${group}]`))
    own.setAttribute("aria-pressed", own.dataset[group] === value);
}

function setMode(mode) {
  world.setMode(mode);
  choose("mode", mode);
}

function setCamera(kind) {
  camera.kind = kind;
  camera.forget();
  choose("camera", kind);
}

function setWind() {
  world.wind.speed = Number(find("wind").value);
  world.wind.from = Number(find("from").value);
  world.wind.gusts = find("gusts").checked;
  const { speed, from } = world.wind;
  find("wind-text").textContent = speed === 0 ? "calm" : `${speed.toFixed(1)} m/s from ${compass(from)}`;
  find("vane").setAttribute("transform", `rotate(${from + 180})`);
  find("vane").classList.toggle("calm", speed === 0);
}

function setPaused(value) {
  paused = value;
  find("pause").setAttribute("aria-pressed", paused);
}

const KEYS = {
  Digit1: () => setMode("rate"),
  Digit2: () => setMode("angle"),
  Digit3: () => setMode("hold"),
  KeyC: () => setCamera(CAMERAS[(CAMERAS.indexOf(camera.kind) + 1) % CAMERAS.length]),
  KeyR: restart,
  KeyP: () => setPaused(!paused),
};

function listen() {
  find("vehicle").append(...crafts.map(({ looks }, i) => new Option(looks.name.replaceAll("_", " "), i)));
  find("vehicle").addEventListener("change", (event) => {
    take(crafts[event.target.value]);
    event.target.blur(); // its arrow keys belong to the craft
  });
  for (const own of document.querySelectorAll("[data-mode]")) own.addEventListener("click", () => setMode(own.dataset.mode));
  for (const own of document.querySelectorAll("[data-camera]")) own.addEventListener("click", () => setCamera(own.dataset.camera));
  for (const id of ["wind", "from", "gusts"]) {
    find(id).addEventListener("input", setWind);
    find(id).addEventListener("change", (event) => event.target.blur());
  }
  find("pause").addEventListener("click", () => setPaused(!paused));
  find("restart").addEventListener("click", restart);
  draggable(find("left"), sticks.dragged, "yaw", "throttle");
  draggable(find("right"), sticks.dragged, "roll", "pitch");
  window.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !(event.code in KEYS)) return;
    KEYS[event.code]();
  });
}

/** One picture's worth of flight. */
function flyOn(seconds, told) {
  world.advance(seconds, told);
  course.note(world.state.p_W, world.time);
  scene.trail.note(world.time, world.state.p_W);
}

/** Through seconds of flight at once: for who drives the page by a program. */
function fly(seconds, told) {
  for (let i = 0; i < Math.round(seconds / 0.02); i++) flyOn(0.02, told);
  camera.forget();
}

let last = null, shown = 0, frames = 0, counted = 0, rate = "";

function frame(now) {
  const seconds = last === null ? 0 : Math.max(0, (now - last) / 1e3);
  last = now;
  const told = sticks.read(seconds);
  if (!paused) flyOn(seconds, told);
  const view = camera.view(world.state, world.craft.looks, seconds, scene.fit());
  scene.draw(world, course, view, paused ? 0 : Math.min(seconds, 0.1));
  frames += 1;
  if (now - counted > 1e3) {
    rate = ((1e3 * frames) / (now - counted)).toFixed(0);
    scene.keepUp(Number(rate));
    [frames, counted] = [0, now];
  }
  if (now - shown > 1e3 * GAUGES_EVERY) {
    shown = now;
    gauges.show(world, told, rate);
    find("lap").textContent = course.text;
    find("fallen").hidden = !world.fallen;
    find("pad").textContent = sticks.gamepad;
  }
  requestAnimationFrame(frame);
}

function start() {
  try {
    scene = new Scene(find("canvas"));
  } catch (error) {
    find("problem").textContent = error.message;
    find("problem").hidden = false;
    return;
  }
  listen();
  take(crafts[0]);
  setMode("hold");
  setCamera("follow");
  setWind();
  window.samara = { world, sticks, camera, scene, crafts, take, fly, course: () => course };
  requestAnimationFrame(frame);
}

start();
