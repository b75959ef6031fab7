const m = new Float64Array(MEMORY), after = new Float64Array(MEMORY);
const r = new Float64Array(4), a = new Float64Array(4), told = new Float64Array(COMMANDS);

export const pilotPeriod = PILOT_PERIOD;

/** Hold what there is. */
export function begin(state) {
  load_state(state, x);
  begin_memory(x, m);
}

/** The command for sticks { roll, pitch, yaw, throttle } in a mode, once a period; failed is the motor it does without, or -1. */
export function fly(mode, state, sticks, failed = -1) {
  load_state(state, x);
  r[0] = sticks.roll;
  r[1] = sticks.pitch;
  r[2] = sticks.yaw;
  r[3] = sticks.throttle;
  ASK[mode](x, r, m, a, after);
  m.set(after);
  SHARE[failed + 1](a, x, told);
  return told;
}
