const x = new Float64Array(STATES), u = new Float64Array(COMMANDS), e = new Float64Array(ENVIRONMENT);
const k = new Float64Array(STATES), at = new Float64Array(STATES), next = new Float64Array(STATES);

function load(state, command, environment) {
  if (command.length !== COMMANDS)
    throw new RangeError(`command has ${command.length} numbers; ${NAME} takes ${COMMANDS}`);
  load_state(state, x);
  u.set(command);
  load_environment(environment, e);
}

/** The rate of change of every number of the state, per second: an object like the state. */
export function derivative(state, command, environment = CALM) {
  const out = atRest();
  load(state, command, environment);
  rate(x, u, e, k);
  store_state(k, out);
  return out;
}

/**
 * One step of the classical Runge-Kutta method over dt [s], with constant command and environment. Changes the state it is
 * given and returns it. Numbers that are not finite are not detected: they propagate.
 */
export function step(state, command, environment, dt) {
  load(state, command, environment);
  k.fill(0.0);
  next.set(x);
  for (let stage = 0; stage < 4; stage++) {
    for (let i = 0; i < STATES; i++) at[i] = x[i] + dt * NODE[stage] * k[i];
    rate(at, u, e, k);
    for (let i = 0; i < STATES; i++) next[i] += dt * WEIGHT[stage] * k[i];
  }
  unit(next, x);
  store_state(x, state);
  return state;
}
