import { lagStep, speedFromCommand } from "./motor_model.js";
import { PARAMS_CRAZYFLIE } from "./params_crazyflie.js";

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

/**
 * A Crazyflie: four motor commands in [0, 1], step(dt), and a state under these names:
 *
 *     p_W, v_W       position and velocity in the world [m, m/s]: { x, y, z }
 *     q_WB           attitude, body to world: { x, y, z, w }
 *     omega_B        angular velocity in the body [rad/s]
 *     motorSpeeds    [rad/s]: front left, front right, back right, back left
 *
 * The objects are plain; THREE.Vector3 and THREE.Quaternion can copy() them, or take their places in engine.state.
 *
 * params are those of params_crazyflie.js that differ. allocation is how rotor speeds make torques: "documented", the
 * document's equations letter by letter, or "geometric", r x F and reaction torque of the airframe it draws.
 */
export class DronePhysicsEngine {
  constructor(params = {}, { allocation = "documented", wind_W = { x: 0.0, y: 0.0, z: 0.0 } } = {}) {
    if (!Object.hasOwn(ALLOCATIONS, allocation))
      throw new RangeError(`allocation ${allocation}: expected one of ${Object.keys(ALLOCATIONS).join(", ")}`);
    this.params = checked(params);
    this.allocation = allocation;
    this.wind_W = { ...wind_W };
    this.reset();
  }

  /** A new state, and all commands 0; reset(engine.getState()) goes back to a state. */
  reset({ p_W, v_W, q_WB, omega_B, motorSpeeds } = {}) {
    this.state = {
      p_W: three(p_W),
      v_W: three(v_W),
      q_WB: { x: 0.0, y: 0.0, z: 0.0, w: 1.0, ...only(q_WB, ["x", "y", "z", "w"]) },
      omega_B: three(omega_B),
      motorSpeeds: [...(motorSpeeds ?? [0.0, 0.0, 0.0, 0.0])],
    };
    load_state(this.state, x);
    if (!x.every(Number.isFinite)) throw new RangeError("a state has numbers that are not finite");
    if (this.state.motorSpeeds.length !== MOTORS) throw new RangeError(`motorSpeeds: expected ${MOTORS} numbers`);
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

  /** The state as it is; later steps do not change what was returned. */
  getState() {
    const { p_W, v_W, q_WB, omega_B, motorSpeeds } = this.state;
    return {
      p_W: three(p_W),
      v_W: three(v_W),
      q_WB: only(q_WB, ["x", "y", "z", "w"]),
      omega_B: three(omega_B),
      motorSpeeds: [...motorSpeeds],
    };
  }

  /** Force [N] and torque [N m] of the rotors at their present speeds, body axes. */
  motorWrench() {
    this.#load();
    ALLOCATIONS[this.allocation].wrench(x, u, e, p, w);
    return { f_B: { x: w[0], y: w[1], z: w[2] }, tau_B: { x: w[3], y: w[4], z: w[5] } };
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

function only(own, names) {
  return own === undefined ? {} : Object.fromEntries(names.map((name) => [name, own[name]]));
}

function three(own) {
  return { x: 0.0, y: 0.0, z: 0.0, ...only(own, ["x", "y", "z"]) };
}

/** The parameters with those of PARAMS_CRAZYFLIE for what is not given: known names, finite numbers. */
function checked(params) {
  for (const name of Object.keys(params))
    if (!Object.hasOwn(PARAMS_CRAZYFLIE, name))
      throw new RangeError(`params.${name}: expected one of ${Object.keys(PARAMS_CRAZYFLIE).join(", ")}`);
  const whole = structuredClone({ ...PARAMS_CRAZYFLIE, ...params });
  load_params(whole, p);
  LIMITS.forEach(([name, positive], i) => {
    if (!(p[i] < Infinity) || p[i] < 0.0 || (positive && p[i] === 0.0))
      throw new RangeError(`params.${name} = ${p[i]}: expected a ${positive ? "positive number" : "number, not negative"}`);
  });
  return whole;
}
