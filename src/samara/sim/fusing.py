"""An estimator that listens to sensors, on the drones of a group, as machine code."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.backends.machine import CompiledStep, Machine
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.estimate.fusion import Estimate, Fusion, Sample, Variances
from samara.physics.types import BODY, State
from samara.sensors.sensor import Sensor
from samara.sim.measuring import Measuring
from samara.sim.plant import CODES


class Fusing:
    """`estimate` (13, n) and `variances` (15, n) of n drones, from what their sensors said.

    The prediction and each sensor's correction are machine codes of their own on the same memory: only what is due is run.
    """

    def __init__(
        self, fusion: Fusion, measuring: Sequence[Measuring], drones: np.ndarray, *, seeds: Sequence[int] = ()
    ) -> None:
        by_name = {own.sensor.name: own for own in measuring}
        self.fusion, self.drones, n = fusion, drones, len(drones)
        self.seeds = tuple(seeds) or (0,) * n
        for name in fusion.needs:
            if name not in by_name:
                raise ValueError(
                    f"the estimator {fusion.name} listens to {name!r}; expected it among the drone's sensors"
                )
        self._driver, *self._aids = (by_name[name] for name in fusion.needs)
        self._predict = _prediction(fusion).machine(n)
        self.known = self._predict.carry
        self._correct, self._none = [], np.zeros(n)
        for own in self._aids:
            code = _correction(fusion, own.sensor)
            held = np.zeros((len(own.said) + 1, n))
            self._correct.append(Machine(code, n, self.known, held))
        self.estimate, self.variances = self.known[:BODY], self.known[BODY : len(flatten(_template(fusion)[0]))]

    @property
    def dt(self) -> np.ndarray:
        """The time since the last update  [s]"""
        own: np.ndarray = self._predict.held[-1:]
        return own

    def operations(self, due: int) -> list[Operation]:
        """estimate ← update(samples, memory, dt), as parts of a program; what was fresh has been heard"""
        operations = []
        for own, machine, gate in zip(
            (self._driver, *self._aids), (self._predict, *self._correct), (-2, *(-1 for _ in self._aids)), strict=True
        ):
            fresh = machine.held[gate:][:1]
            operations += [
                Operation("copy", due, (own.said, machine.held, len(own.said))),
                Operation("copy", due, (own.fresh, fresh, 1)),
                Operation("copy", due, (self._none, own.fresh, 1)),
                Operation("run", due, (machine,))
                if machine is self._predict
                else Operation("run_where", due, (machine, fresh)),
            ]
        return operations

    def start(self, lane: int, state: State) -> None:
        """Tells one drone where it begins, as well as it can know"""
        seed, number = self.seeds[lane], int(self.drones[lane])
        drawn = normals(seed, "estimator start", number, 0, self.fusion.start_normals).tolist()
        memory = self.fusion.initial(state, drawn)
        self.known[:, lane] = flatten((self.fusion.estimate(memory), memory))

    def update(self, dt: float) -> None:
        """estimate ← update(samples, memory, dt); what was fresh has been heard"""
        held = self._predict.held
        held[:-2], held[-2], held[-1] = self._driver.said, self._driver.fresh, dt
        self._driver.fresh[:] = 0.0
        self._predict.run()
        for own, machine in zip(self._aids, self._correct, strict=True):
            if own.fresh.any():
                machine.held[:-1], machine.held[-1] = own.said, own.fresh
                own.fresh[:] = 0.0
                machine.run()

    def memory(self) -> Any:
        """The estimator's memory of all drones, its components as arrays"""
        return unflatten(_template(self.fusion), iter(self.known))[1]


def _template(fusion: Fusion) -> Any:
    """The shape of what is known of one drone: (estimate, memory)"""
    memory = fusion.initial(State(*Estimate()[:4]), (0.0,) * fusion.start_normals)
    return Estimate(variances=Variances() if fusion.knows_variances else ()), memory


@lru_cache(maxsize=CODES)
def _prediction(fusion: Fusion) -> CompiledStep:
    def predict(own: Any, held: Any) -> Any:
        memory = fusion.predict(Sample(*held[:2]), own[1], held[2])
        return fusion.estimate(memory), memory

    return CompiledStep(predict, _template(fusion), (fusion.driver.reading, 0.0, 0.0))


@lru_cache(maxsize=8 * CODES)
def _correction(fusion: Fusion, aid: Sensor) -> CompiledStep:
    def correct(own: Any, held: Any) -> Any:
        memory = fusion.correct(aid, Sample(*held), own[1])
        return fusion.estimate(memory), memory

    return CompiledStep(correct, _template(fusion), (aid.reading, 0.0))
