// The page: controls, keys, and the loop that simulates and draws.

import { Camera, CAMERAS, MAX_TILT } from "./camera.js";
import { Course } from "./course.js";
import { vehicles } from "./vehicles.js";
import { Gauges, compass, makeDraggable } from "./gauges.js";
import { showLabels } from "./labels.js";
import { Scene } from "./scene.js";
import { Sticks } from "./sticks.js";
import { World } from "./world.js";

const GAUGES_PERIOD = 1 / 20; // [s]
const TILT_STEP = 5; // [°]

const find = (id) => document.getElementById(id);
const world = new World(vehicles[0]), sticks = new Sticks(), camera = new Camera(find("canvas"));
const gauges = new Gauges(document, (motor) => world.toggle(motor));
let paused = false, scene = null, course = null;

function selectVehicle(vehicle) {
  world.setVehicle(vehicle);
  scene.setAppearance(vehicle.appearance);
  gauges.setAppearance(vehicle.appearance);
  course = new Course(vehicle.appearance);
  camera.reset();
  find("vehicle").value = vehicles.indexOf(vehicle);
  find("about").textContent = `${vehicle.appearance.description}, ${formatMass(vehicle.appearance.mass)}`;
}

const formatMass = (kilograms) => (kilograms < 0.1 ? `${(1e3 * kilograms).toFixed(0)} g` : `${kilograms.toFixed(2)} kg`);

function restart() {
  world.reset();
  course.restart();
  scene.trail.clear();
  camera.reset();
}

function highlight(group, value) {
  for (const button of document.querySelectorAll(`[data-${group}]`))
    button.setAttribute("aria-pressed", button.dataset[group] === value);
}

function setMode(mode) {
  world.setMode(mode);
  highlight("mode", mode);
  showLabels(document, mode, ACTIONS);
}

function setCamera(mode) {
  camera.mode = mode;
  camera.reset();
  highlight("camera", mode);
  find("tilt-label").hidden = mode !== "onboard";
}

function setTilt(degrees) {
  camera.tilt = Math.max(0, Math.min(MAX_TILT, degrees));
  find("tilt").value = camera.tilt;
  find("tilt-text").textContent = `${camera.tilt}° up`;
}

function tiltBy(degrees) {
  if (camera.mode === "onboard") setTilt(camera.tilt + degrees);
}

function toggleKeys() {
  find("keys").hidden = !find("keys").hidden;
  find("help").setAttribute("aria-pressed", !find("keys").hidden);
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

const ACTIONS = [
  ["rate, angle, hold mode", { Digit1: () => setMode("rate"), Digit2: () => setMode("angle"), Digit3: () => setMode("hold") }],
  ["next camera", { KeyC: () => setCamera(CAMERAS[(CAMERAS.indexOf(camera.mode) + 1) % CAMERAS.length]) }],
  ["tilt the camera on board up, down", { KeyT: () => tiltBy(TILT_STEP), KeyG: () => tiltBy(-TILT_STEP) }],
  ["restart", { KeyR: restart }],
  ["pause, resume", { KeyP: () => setPaused(!paused) }],
  ["show, hide the keys", { KeyH: toggleKeys }],
];
const KEYS = Object.assign({}, ...ACTIONS.map(([, keys]) => keys));

function listen() {
  find("vehicle").append(...vehicles.map(({ appearance }, i) => new Option(appearance.name.replaceAll("_", " "), i)));
  find("vehicle").addEventListener("change", (event) => {
    selectVehicle(vehicles[event.target.value]);
    event.target.blur(); // the arrow keys control the vehicle
  });
  for (const button of document.querySelectorAll("[data-mode]")) button.addEventListener("click", () => setMode(button.dataset.mode));
  for (const button of document.querySelectorAll("[data-camera]")) button.addEventListener("click", () => setCamera(button.dataset.camera));
  for (const id of ["wind", "from", "gusts"]) {
    find(id).addEventListener("input", setWind);
    find(id).addEventListener("change", (event) => event.target.blur());
  }
  find("pause").addEventListener("click", () => setPaused(!paused));
  find("restart").addEventListener("click", restart);
  find("help").addEventListener("click", toggleKeys);
  Object.assign(find("tilt"), { max: MAX_TILT, step: TILT_STEP });
  find("tilt").addEventListener("input", (event) => setTilt(Number(event.target.value)));
  find("tilt").addEventListener("change", (event) => event.target.blur());
  makeDraggable(find("left"), sticks.dragged, "yaw", "throttle");
  makeDraggable(find("right"), sticks.dragged, "roll", "pitch");
  window.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !(event.code in KEYS)) return;
    KEYS[event.code]();
    event.preventDefault();
  });
}

/** Advance the flight by the time of one picture. */
function advance(seconds, stickPositions) {
  world.advance(seconds, stickPositions);
  course.update(world.state.p_W, world.time);
  scene.trail.add(world.time, world.state.p_W);
}

/** Fly for some seconds at once: for programs that control the page. */
function fly(seconds, stickPositions) {
  for (let i = 0; i < Math.round(seconds / 0.02); i++) advance(0.02, stickPositions);
  camera.reset();
}

let lastFrame = null, gaugesShown = 0, frames = 0, rateStart = 0, rate = "";

function frame(now) {
  const seconds = lastFrame === null ? 0 : Math.max(0, (now - lastFrame) / 1e3);
  lastFrame = now;
  const stickPositions = sticks.read(seconds);
  if (!paused) advance(seconds, stickPositions);
  const view = camera.view(world.state, world.vehicle.appearance, seconds, scene.fit());
  scene.draw(world, course, view, paused ? 0 : Math.min(seconds, 0.1));
  frames += 1;
  if (now - rateStart > 1e3) {
    rate = ((1e3 * frames) / (now - rateStart)).toFixed(0);
    scene.adaptResolution(Number(rate));
    [frames, rateStart] = [0, now];
  }
  if (now - gaugesShown > 1e3 * GAUGES_PERIOD) {
    gaugesShown = now;
    gauges.show(world, stickPositions, rate);
    find("lap").textContent = course.text;
    find("upset").hidden = !world.isUpset;
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
  selectVehicle(vehicles[0]);
  setMode("hold");
  setCamera("follow");
  setTilt(camera.tilt);
  setWind();
  window.samara = { world, sticks, camera, scene, vehicles, selectVehicle, fly, course: () => course };
  requestAnimationFrame(frame);
}

start();
