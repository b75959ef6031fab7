import { lagStep, speedFromCommand } from "./motor_model.js";
import { PARAMS_CRAZYFLIE } from "./params_crazyflie.js";
import { Quaternion, Vector3 } from "./vectors.js";

export { MotorModel } from "./motor_model.js";
export { CRAZYFLIE_PARAMS, PARAMS, PARAMS_CRAZYFLIE } from "./params_crazyflie.js";

const MOTORS = 4;
const RK4_STEP = 1e-3; // [s]: a longer step is made of several
const RECOMMENDED_STEP = 5e-3; // [s]: the document's "use dt <= 5 ms"
const LONGEST_STEP = 3600.0; // [s]: what is longer is a slip of the pen
const ALLOCATIONS = {
  documented: { rate: rateDocumented, wrench: wrenchDocumented },
  geometric: { rate: rateGeometric, wrench: wrenchGeometric },
};

const x = new Float64Array(STATES), k = new Float64Array(STATES), at = new Float64Array(STATES);
const next = new Float64Array(STATES), u = new Float64Array(MOTORS), e = new Float64Array(3);
const p = new Float64Array(LIMITS.length), w = new Float64Array(6);

const VECTOR = ["x", "y", "z"], QUATERNION = ["x", "y", "z", "w"];
const STATE = { p_W: VECTOR, v_W: VECTOR, q_WB: QUATERNION, omega_B: VECTOR, motorSpeeds: [..."0123"] };
const ALIASES = {
  position: "p_W",
  velocity: "v_W",
  orientation: "q_WB",
  orientationQuat: "q_WB",
  quaternion: "q_WB",
  angularVelocity: "omega_B",
};

/**
 *     p_W, v_W       position and velocity in the world [m, m/s], vectors
 *     q_WB           attitude, body to world, a quaternion
 *     omega_B        angular velocity in the body [rad/s], a vector
 *     motorSpeeds    [rad/s]: front left, front right, back right, back left
 *
 * The names that controllers written for the document's engine use are aliases: position, velocity, orientation,
 * orientationQuat, quaternion, angularVelocity.
 */
export class EngineState {
  constructor(p_W, v_W, q_WB, omega_B, motorSpeeds) {
    Object.assign(this, { p_W, v_W, q_WB, omega_B, motorSpeeds });
  }
}
for (const [alias, name] of Object.entries(ALIASES))
  Object.defineProperty(EngineState.prototype, alias, {
    get() { return this[name]; },
    set(value) { this[name] = value; },
  });

/**
 * A Crazyflie: four motor commands in [0, 1], step(dt), and an EngineState.
 *
 * Vectors and quaternions are THREE.Vector3 and THREE.Quaternion where the page has a global THREE or one is given as an
 * option, { THREE }; otherwise the small classes of vectors.js, which functions of three.js take as well.
 *
 * params are those of params_crazyflie.js that differ. allocation is how rotor speeds make torques: "documented", the
 * document's equations letter by letter, or "geometric", r x F and reaction torque of the airframe it draws.
 */
export class DronePhysicsEngine {
  #library;

  constructor(params = {}, { allocation = "documented", wind_W = [0.0, 0.0, 0.0], THREE = globalThis.THREE } = {}) {
    if (!Object.hasOwn(ALLOCATIONS, allocation))
      throw new RangeError(`allocation ${allocation}: expected one of ${Object.keys(ALLOCATIONS).join(", ")}`);
    this.params = checked(params);
    this.allocation = allocation;
    this.#library = THREE?.Vector3 && THREE?.Quaternion ? THREE : { Vector3, Quaternion };
    this.wind_W = new this.#library.Vector3(...numbers("wind_W", wind_W, VECTOR));
    this.reset();
  }

  /** A new state, and all commands 0; what is not named is 0. reset(engine.getState()) goes back to a state. */
  reset(initial = {}) {
    const values = {
      p_W: [0.0, 0.0, 0.0], v_W: [0.0, 0.0, 0.0], q_WB: [0.0, 0.0, 0.0, 1.0], omega_B: [0.0, 0.0, 0.0],
      motorSpeeds: [0.0, 0.0, 0.0, 0.0],
    };
    for (const [given, value] of Object.entries(initial)) {
      const name = Object.hasOwn(ALIASES, given) ? ALIASES[given] : given;
      if (!Object.hasOwn(STATE, name))
        throw new RangeError(`reset: ${given}: expected one of ${[...Object.keys(STATE), ...Object.keys(ALIASES)].join(", ")}`);
      values[name] = numbers(`reset: ${given}`, value, STATE[name]);
    }
    const { p_W, v_W, q_WB, omega_B, motorSpeeds } = values;
    if (!(Math.hypot(...q_WB) > 0.0)) throw new RangeError("reset: q_WB: expected numbers that are not all 0");
    if (motorSpeeds.some((speed) => speed < 0.0))
      throw new RangeError(`reset: motorSpeeds = ${motorSpeeds} rad/s: expected numbers that are not negative`);
    this.state = this.#state(p_W, v_W, q_WB, omega_B, motorSpeeds);
    load_state(this.state, x);
    unit(x, at);
    store_state(at, this.state);
    this.command = [0.0, 0.0, 0.0, 0.0];
  }

  /** Commands from 0 (omegaMin) to 1 (omegaMax), held until the next call; what is outside is cut, NaN is refused. */
  applyMotorCommands(u0, u1, u2, u3) {
    [u0, u1, u2, u3].forEach((own, i) => {
      if (typeof own !== "number" || Number.isNaN(own))
        throw new RangeError(`motor command u${i} is ${own}; expected a number within [0, 1]`);
    });
    this.command = [u0, u1, u2, u3].map((own) => Math.min(Math.max(own, 0.0), 1.0));
  }

  /** Through dt [s], commands held: RK4 in steps of at most 1 ms, then the motors' speeds by their closed form. */
  step(dt) {
    if (!(dt > 0.0 && dt <= LONGEST_STEP))
      throw new RangeError(`dt = ${dt} s: expected a positive number, at most ${LONGEST_STEP}`);
    if (dt > RECOMMENDED_STEP && !this.warned) {
      this.warned = true;
      console.warn(`a step of ${dt} s is longer than ${RECOMMENDED_STEP} s: the commands are held for all of it`);
    }
    const { omegaMin, omegaMax, tauMotor } = this.params, before = [...this.state.motorSpeeds];
    const steps = Math.ceil((dt / RK4_STEP) * (1.0 - 1e-9));
    this.#load();
    for (let i = 0; i < steps; i++) rungeKutta(ALLOCATIONS[this.allocation].rate, dt / steps);
    store_state(x, this.state);
    for (let i = 0; i < MOTORS; i++)
      this.state.motorSpeeds[i] = lagStep(
        before[i], speedFromCommand(this.command[i], omegaMin, omegaMax), dt, tauMotor);
  }

  /** A clone of the state: later steps do not change what was returned. */
  getState() {
    const { p_W, v_W, q_WB, omega_B, motorSpeeds } = this.state;
    return this.#state(part(p_W, VECTOR), part(v_W, VECTOR), part(q_WB, QUATERNION), part(omega_B, VECTOR), motorSpeeds);
  }

  /** Force [N] and torque [N m] of the rotors at their present speeds, body axes. */
  motorWrench() {
    const { Vector3 } = this.#library;
    this.#load();
    ALLOCATIONS[this.allocation].wrench(x, u, e, p, w);
    return { f_B: new Vector3(w[0], w[1], w[2]), tau_B: new Vector3(w[3], w[4], w[5]) };
  }

  #state(p_W, v_W, q_WB, omega_B, motorSpeeds) {
    const { Vector3, Quaternion } = this.#library;
    return new EngineState(
      new Vector3(...p_W), new Vector3(...v_W), new Quaternion(...q_WB), new Vector3(...omega_B), [...motorSpeeds]);
  }

  #load() {
    load_state(this.state, x);
    load_params(this.params, p);
    u.set(this.command);
    e[0] = this.wind_W.x;
    e[1] = this.wind_W.y;
    e[2] = this.wind_W.z;
  }
}

/** x becomes the state one step of the classical Runge-Kutta method later. */
function rungeKutta(rate, dt) {
  k.fill(0.0);
  next.set(x);
  for (let stage = 0; stage < 4; stage++) {
    for (let i = 0; i < STATES; i++) at[i] = x[i] + dt * NODE[stage] * k[i];
    rate(at, u, e, p, k);
    for (let i = 0; i < STATES; i++) next[i] += dt * WEIGHT[stage] * k[i];
  }
  unit(next, x);
}

function part(object, names) {
  return names.map((name) => object[name]);
}

/** The components of a vector or quaternion: an object of that name, or an array in the order x, y, z, w. */
function numbers(what, given, names) {
  const isArray = Array.isArray(given) || ArrayBuffer.isView(given);
  if (given === null || typeof given !== "object" || (isArray && given.length !== names.length))
    throw new RangeError(`${what} = ${given}: expected ${names.length} numbers`);
  const values = isArray ? [...given] : part(given, names);
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) throw new RangeError(`${what}.${names[i]} = ${value}: expected a finite number`);
  });
  return values;
}

/** The parameters with those of PARAMS_CRAZYFLIE for what is not given: known names, finite numbers. */
function checked({ motor = {}, maxThrustPerMotor, ...params }) { // the last is derived, and not read
  for (const [group, names, known] of [
    ["params", params, Object.keys(PARAMS_CRAZYFLIE)],
    ["params.motor", motor, ["omegaMin", "omegaMax", "tauMotor"]],
  ])
    for (const name of Object.keys(names))
      if (!known.includes(name)) throw new RangeError(`${group}.${name}: expected one of ${known.join(", ")}`);
  for (const name of Object.keys(motor))
    if (Object.hasOwn(params, name) && params[name] !== motor[name])
      throw new RangeError(`params.${name} and params.motor.${name} differ: expected one of them`);
  const whole = structuredClone({ ...PARAMS_CRAZYFLIE, ...params, ...motor });
  load_params(whole, p);
  LIMITS.forEach(([name, positive], i) => {
    if (!(p[i] < Infinity) || p[i] < 0.0 || (positive && p[i] === 0.0))
      throw new RangeError(`params.${name} = ${p[i]}: expected a ${positive ? "positive number" : "number, not negative"}`);
  });
  return whole;
}
