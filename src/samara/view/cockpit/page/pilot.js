const m = new Float64Array(CONTROLLER_STATE_SIZE), m_next = new Float64Array(CONTROLLER_STATE_SIZE);
const r = new Float64Array(4), a = new Float64Array(4), command = new Float64Array(COMMANDS);

export const pilotPeriod = PILOT_PERIOD;

/** Initialise the controller to hold the state. */
export function begin(state) {
  load_state(state, x);
  initial_controller_state(x, m);
}

/** The command for sticks { roll, pitch, yaw, throttle } in a mode, once per period; `failed` is the index of a failed motor, or -1. */
export function fly(mode, state, sticks, failed = -1) {
  load_state(state, x);
  r[0] = sticks.roll;
  r[1] = sticks.pitch;
  r[2] = sticks.yaw;
  r[3] = sticks.throttle;
  WRENCH[mode](x, r, m, a, m_next);
  m.set(m_next);
  ALLOCATE[failed + 1](a, x, command);
  return command;
}
