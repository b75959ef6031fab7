"""Check `RigidBodyQuadrotor` against seven laws and print the table of the rigid-body document.

    PYTHONPATH=docs python -m tools.rigid_body_checks

The conditions are those under which a law holds; the document leaves some of them out. Angular momentum is constant in the
world and not in the body, energy without thrust and torque as well as without drag, and only a torque about z spins in place.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from samara.core.types import Array
from samara.documents.rigid_body import RigidBodyQuadrotor

NO_COMMAND = np.zeros(4)  # no thrust, no torque
TUMBLING = np.array([0.0, 0.0, 0.0, 1.0, -1.0, 2.0, 0.4, -0.3, 1.1, 3.0, -2.0, 4.0])


class Check(NamedTuple):
    """A named law, the largest deviation from it, and the deviation that arithmetic and solver explain."""

    name: str
    deviation: float
    allowed: float

    @property
    def passed(self) -> bool:
        return self.deviation <= self.allowed  # False for NaN


def seven_checks() -> list[Check]:
    """Run all checks in the document's order; a check that raises has failed."""
    checks = []
    for name, (law, allowed) in LAWS.items():
        try:
            deviation = law()
        except (ArithmeticError, ValueError):
            deviation = float("inf")
        checks.append(Check(name, deviation, allowed))
    return checks


def table(checks: list[Check]) -> str:
    """Format the document's table; a failed check states its deviation."""
    lines = [
        f"✓ PASS  | {check.name}"
        if check.passed
        else f"✗ FAIL  | {check.name}: deviation {check.deviation:.3g}, allowed {check.allowed:.0e}"
        for check in checks
    ]
    passed = sum(check.passed for check in checks)
    return "\n".join([*lines, "", f"Total: {passed}/{len(checks)} tests passed"])


def rotation_matrices_are_rotations() -> float:
    """Rᵀ R = 1, det R = 1, and R = Rz(ψ) Ry(θ) Rx(φ) by SciPy."""
    quad, angles = RigidBodyQuadrotor(), np.random.default_rng(2).uniform(-3.1, 3.1, (3, 500))
    matrices = np.moveaxis(quad.rotation_matrix(angles), -1, 0)
    return _largest(
        np.swapaxes(matrices, 1, 2) @ matrices - np.eye(3),
        np.linalg.det(matrices) - 1.0,
        matrices - Rotation.from_euler("ZYX", angles[::-1].T).as_matrix(),
    )


def free_fall() -> float:
    """p = p₀ + v₀ t − ½ g t² e₃ and v = v₀ − g t e₃, whatever the tumbling; without drag and thrust."""
    quad = RigidBodyQuadrotor(D=0)
    end = _fly(quad, quad.quaternion_state(TUMBLING), NO_COMMAND, 2.0)
    down = np.array([0.0, 0.0, -quad.g])
    p, v = TUMBLING[0:3], TUMBLING[3:6]
    return _largest(end[0:3] - (p + 2.0 * v + 0.5 * down * 2.0**2), end[3:6] - (v + down * 2.0))


def hover() -> float:
    """F = m g, level, at rest: nothing moves in ten seconds."""
    quad = RigidBodyQuadrotor()
    start = np.zeros(12)
    start[2] = 3.0
    return _largest(_fly(quad, start, np.array([quad.m * quad.g, 0.0, 0.0, 0.0]), 10.0) - start)


def pure_rotation() -> float:
    """ψ = ½ (τ/Izz) t² and ωz = (τ/Izz) t on the spot, under hover thrust and a torque about z."""
    quad, tau = RigidBodyQuadrotor(), 0.01
    expected = np.zeros(12)
    expected[8], expected[11] = 0.5 * tau / quad.I[2, 2] * 2.0**2, tau / quad.I[2, 2] * 2.0
    return _largest(_fly(quad, np.zeros(12), np.array([quad.m * quad.g, 0.0, 0.0, tau]), 2.0) - expected)


def gyroscopic_effect() -> float:
    """ω̇x = (Iyy − Izz) ωy ωz / Ixx, and cyclically, with zero torque."""
    Ixx, Iyy, Izz = moments = np.array([0.006, 0.009, 0.0142])
    p, q, r = 2.0, 3.0, 5.0
    x = np.array([*np.zeros(9), p, q, r])
    angular_acceleration = RigidBodyQuadrotor(inertia=moments).dynamics(0.0, x, NO_COMMAND)[9:12]
    return _largest(
        angular_acceleration - np.array([(Iyy - Izz) * q * r, (Izz - Ixx) * r * p, (Ixx - Iyy) * p * q]) / moments
    )


def angular_momentum_is_conserved_in_the_world() -> float:
    """R I ω is constant, by NumPy, for a body with three different moments of inertia and no torque; relative to |L|."""
    quad = RigidBodyQuadrotor(inertia=(0.006, 0.009, 0.0142))
    start = quad.quaternion_state(TUMBLING)
    momenta = []
    for x in (start, _fly(quad, start, NO_COMMAND, 5.0)):
        attitude = Rotation.from_quat(np.roll(x[6:10], -1))
        momenta.append(attitude.apply(quad.I @ x[10:13]))
    return _largest(momenta[1] - momenta[0]) / float(np.linalg.norm(momenta[0]))


def energy_is_conserved() -> float:
    """½ m v² + ½ ω·Iω + m g z is constant, by NumPy, without thrust, torque and drag; relative to itself."""
    quad = RigidBodyQuadrotor(inertia=(0.006, 0.009, 0.0142), D=0)
    start = quad.quaternion_state(TUMBLING)
    energies = []
    for x in (start, _fly(quad, start, NO_COMMAND, 2.0)):
        energies.append(0.5 * quad.m * x[3:6] @ x[3:6] + 0.5 * x[10:13] @ quad.I @ x[10:13] + quad.m * quad.g * x[2])
    return float(abs(energies[1] / energies[0] - 1.0))


LAWS: dict[str, tuple[Callable[[], float], float]] = {
    "Rotation Matrix Properties": (rotation_matrices_are_rotations, 1e-14),
    "Free Fall": (free_fall, 1e-13),
    "Hover": (hover, 1e-12),
    "Pure Rotation": (pure_rotation, 1e-13),
    "Gyroscopic Effect": (gyroscopic_effect, 1e-13),
    "Angular Momentum Conservation": (angular_momentum_is_conserved_in_the_world, 1e-11),
    "Energy Conservation": (energy_is_conserved, 1e-12),
}


def _fly(quad: RigidBodyQuadrotor, start: Array, u: Array, seconds: float) -> Array:
    """Return the state after `seconds` under a constant u."""
    solution = solve_ivp(
        lambda t, x: quad.dynamics(t, x, u), (0.0, seconds), start, method="DOP853", rtol=1e-12, atol=1e-13
    )
    if not solution.success:
        raise FloatingPointError(solution.message)
    end: Array = solution.y[:, -1]
    return end


def _largest(*differences: Array) -> float:
    return max(float(np.abs(difference).max()) for difference in differences)


def main() -> int:
    """Print the table; the exit status is 1 if a check fails."""
    checks = seven_checks()
    # a terminal without ✓ still shows the words
    encoding = sys.stdout.encoding or "ascii"
    print(table(checks).encode(encoding, errors="replace").decode(encoding))
    return 0 if all(check.passed for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
