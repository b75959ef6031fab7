/** One motor: d omega / dt = (command - omega) / tau, with its time constant [s] and its present speed [rad/s]. */
export class MotorModel {
  constructor(tau = TAU, speed = 0.0) {
    if (!(tau > 0.0 && tau < Infinity)) throw new RangeError(`tau = ${tau} s: expected a positive number`);
    if (!Number.isFinite(speed)) throw new RangeError(`speed = ${speed} rad/s: expected a finite number`);
    this.tau = tau;
    this.speed = speed;
  }

  /** The speed after dt [s] under a held command [rad/s], exact for any dt; it is kept and returned. */
  step(command, dt) {
    if (!Number.isFinite(command)) throw new RangeError(`command = ${command} rad/s: expected a finite number`);
    if (!(dt > 0.0 && dt < Infinity)) throw new RangeError(`dt = ${dt} s: expected a positive number`);
    this.speed = lagStep(this.speed, command, dt, this.tau);
    return this.speed;
  }
}
