// How long a step of 1 ms of an exported module takes: the best of ten runs  [us]
import { pathToFileURL } from "node:url";

const STEPS = 10000;
const module = await import(pathToFileURL(process.argv[2]));

function stepper() {
  if (module.DronePhysicsEngine) {
    const engine = new module.DronePhysicsEngine();
    engine.applyMotorCommands(0.57, 0.57, 0.57, 0.57);
    return () => engine.step(1e-3);
  }
  const environment = module.calm(), state = module.atRest(), command = new Array(module.COMMANDS).fill(0.5);
  state.p_W.z = 1e3;
  return () => module.step(state, command, environment, 1e-3);
}

let best = Infinity;
for (let run = 0; run < 10; run++) {
  const step = stepper(), before = performance.now();
  for (let i = 0; i < STEPS; i++) step();
  best = Math.min(best, ((performance.now() - before) / STEPS) * 1e3);
}
console.log(best);
