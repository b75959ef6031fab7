"""A policy for PX4's `mc_raptor`: the archive that the module reads from its SD card, raptor/policy.tar.

PX4 is built for one architecture, RAPTOR's: 22 numbers in, 16 with a ReLU, a recurrent layer of 16, four out. The archive is a
tar file of RLtools (actor/layers/0/weights/parameters/data and so on), and carries an example of what goes in and out; the
module computes its first steps, and does not start where they are off by more than 10⁻⁵.

There −1 is a motor's least and 1 its most, in the order of the Crazyflie. A policy whose actions are about hover, or whose
rotors are in another order, is written with the first and the last layer changed accordingly:

    a' = 2 (c + r a) − 1:   W₂' = 2 r W₂,  b₂' = 2 (c + r b₂) − 1;   of the last action  W₀' = W₀/2r,  b₀' = b₀ + W₀ (½ − c)/r
"""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from samara.control.action_space import OF_ROTORS
from samara.control.policy import (
    RAPTOR_BOUNDS,
    RAPTOR_LAYERS,
    RAPTOR_PERIOD,
    published_tensors,
    raptor_policy,
    shipped_policy,
)
from samara.control.policy_file import WEIGHTS, Policy, evaluate, initial_hidden, network_of
from samara.control.registry import LEARNT, Tuned, as_tuned
from samara.core.atomic_files import atomic_write
from samara.core.safetensors import read_tensors
from samara.core.types import Array
from samara.link.motor_outputs import rotor_of_output
from samara.physics.types import Vehicle
from samara.vehicles.limits import command_bounds

Tensors = Mapping[str, Array]

ON_CARD = "raptor/policy.tar"  # where the module looks for it
INPUTS, SEEN = 22, 18  # numbers, and those before the last action
EXAMPLE = (500, 2)  # steps and flights, as in PX4's own archive: where its numbers are is built into PX4
NAMES = {
    "0.weight": "0/weights",
    "0.bias": "0/biases",
    "1.weight_ih": "1/weights_input",
    "1.bias_ih": "1/biases_input",
    "1.weight_hh": "1/weights_hidden",
    "1.bias_hh": "1/biases_hidden",
    "1.initial": "1/initial_hidden_state",
    "2.weight": "2/weights",
    "2.bias": "2/biases",
}
"""Of the arrays in a policy folder, and in the archive"""
METAS = {
    "0": "activation_function: RELU\ntype: dense\n",
    "1": "type: gru\n",
    "2": "activation_function: IDENTITY\ntype: dense\n",
}


def archive_of(controller: object, vehicle: Vehicle) -> bytes:
    """The archive of the policy that a scenario has for a controller; ValueError with one sentence where it has none"""
    own = as_tuned(controller)
    name = own.name if isinstance(own, Tuned) else "a function" if own is not None else "none"
    if name not in LEARNT:
        raise ValueError(
            f"autopilot.mode is 'raptor' and the controller is {name}; expected a policy that PX4 can fly: {', '.join(LEARNT)}"
        )
    policy = shipped_policy("universal") if name == "universal" else own.chosen["file"] if name == "policy" else None
    return archive_bytes(raptor_tensors(policy, vehicle), _named(policy))


def write_px4_raptor(policy: Policy | None, vehicle: Vehicle, path: str | Path) -> Path:
    """Writes the archive of a policy, or of RAPTOR's own weights where there is none, for a quadrotor in X"""
    tensors = raptor_tensors(policy, vehicle)
    with atomic_write(path) as temporary:
        temporary.write_bytes(archive_bytes(tensors, _named(policy)))
    return Path(path)


def _named(policy: Policy | None) -> str:
    return "raptor" if policy is None else f"samara {policy.task} {policy.digest[:12]}"


def raptor_tensors(policy: Policy | None, vehicle: Vehicle) -> dict[str, Array]:
    """The numbers as the module takes them; ValueError with one sentence where the policy is not of its architecture"""
    if policy is None:
        raptor_policy(vehicle)  # a sentence about a vehicle that it does not fly
        return {name: np.asarray(own, dtype=np.float32) for name, own in published_tensors().items()}
    _require(policy)
    own, order, bounds = policy.fitted(vehicle), rotor_of_output(vehicle, "crazyflie"), command_bounds(vehicle)
    if bounds is None or own.trim is None:
        raise ValueError(f"the commands of vehicle {vehicle.name!r} have no limits; expected one that rotors drive")
    found = {name: array.astype(float) for name, array in read_tensors(dict(own.files)[WEIGHTS]).items()}
    if own.observation == "state_error":  # the module shows the last action too: weights of zero ignore it
        found["0.weight"] = np.pad(found["0.weight"], ((0, 0), (0, INPUTS - SEEN)))
    rotors = list(range(len(order))) if own.order else list(order)  # one for any quadrotor has them in this order
    width = [bounds[k].high - bounds[k].low for k in order]
    c = np.array([(own.trim.centre[k] - bounds[k].low) / w for k, w in zip(order, width, strict=True)])
    r = np.array([own.trim.reach[k] / w for k, w in zip(order, width, strict=True)])
    last_action = found["0.weight"][:, [SEEN + k for k in rotors]]
    found["0.weight"][:, SEEN:] = last_action / (2.0 * r)
    found["0.bias"] += last_action @ ((0.5 - c) / r)
    found["2.weight"] = 2.0 * r[:, None] * found["2.weight"][rotors]
    found["2.bias"] = 2.0 * (c + r * found["2.bias"][rotors]) - 1.0
    return {name: array.astype(np.float32) for name, array in found.items()}


def _require(policy: Policy) -> None:
    where = policy.folder or "the policy"
    kinds = [(own.kind, own.size, own.activation) for own in policy.kinds]
    if kinds != [(own.kind, own.size, own.activation if own.kind == "dense" else "tanh") for own in RAPTOR_LAYERS]:
        own = ", ".join(
            f"{kind} {size}" + (f" {activation}" if kind == "dense" else "") for kind, size, activation in kinds
        )
        raise ValueError(
            f"{where}: its layers are {own}; PX4's mc_raptor is built for dense 16 relu, gru 16, dense 4 linear"
        )
    if policy.observation not in ("raptor", "state_error") or policy.action not in OF_ROTORS:
        raise ValueError(
            f"{where}: observes {policy.observation} and commands {policy.action}; expected the observation raptor or "
            "state_error and commands for rotors, as PX4's mc_raptor has"
        )
    if policy.bounds not in (None, RAPTOR_BOUNDS):
        raise ValueError(
            f"{where}: cuts errors to {policy.bounds.position:g} m and {policy.bounds.velocity:g} m/s; PX4's mc_raptor to "
            f"{RAPTOR_BOUNDS.position:g} and {RAPTOR_BOUNDS.velocity:g}"
        )
    if abs(policy.period - RAPTOR_PERIOD) > 1e-9:
        raise ValueError(f"{where}: has a period of {policy.period:g} s; PX4's mc_raptor has {RAPTOR_PERIOD:g}")


def archive_bytes(tensors: Tensors, name: str, example: tuple[Array, Array] | None = None) -> bytes:
    """The tar file of these numbers; the same numbers give the same bytes. Without an example one is drawn"""
    seen, acted = example or drawn_example(tensors)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:

        def add(path: str, data: bytes) -> None:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.uname, entry.gname = len(data), 0o644, "user", "group"
            tar.addfile(entry, io.BytesIO(data))

        def tensor(path: str, array: Array) -> None:
            dims = "".join(f"dim_{k}: {size}\n" for k, size in enumerate(array.shape))
            add(f"{path}/meta", f"type: tensor\ndtype: float32\nnum_dims: {array.ndim}\n{dims}".encode())
            add(f"{path}/data", np.ascontiguousarray(array, dtype="<f4").tobytes())

        add("actor/meta", f"checkpoint_name: {name}\ntype: sequential\n".encode())
        for layer, meta in METAS.items():
            for own, place in NAMES.items():
                if place.startswith(f"{layer}/"):
                    tensor(f"actor/layers/{place}/parameters", np.asarray(tensors[own]))
            add(f"actor/layers/{layer}/meta", meta.encode())
        tensor("example/input", seen)
        tensor("example/output", acted)
    return file.getvalue()


def drawn_example(tensors: Tensors, seed: int = 0) -> tuple[Array, Array]:
    """What a policy sees in flights that nobody flew, within RAPTOR's limits, and what it does: (steps, flights, numbers)"""
    steps, flights = EXAMPLE
    draw = np.random.default_rng(seed)
    seen = draw.uniform(-1.0, 1.0, (steps, flights, INPUTS))
    seen[..., :3] *= RAPTOR_BOUNDS.position
    turned = np.linalg.qr(draw.normal(size=(steps, flights, 3, 3)))[0]
    turned *= np.linalg.det(turned)[..., None, None]  # rotations, and no reflections
    seen[..., 3:12] = turned.reshape(steps, flights, 9)
    seen[..., 12:15] *= RAPTOR_BOUNDS.velocity
    seen = seen.astype(np.float32)
    network = network_of(RAPTOR_LAYERS, INPUTS, tensors)
    acted = np.empty((steps, flights, len(np.asarray(tensors["2.bias"]))), dtype=np.float32)
    for flight in range(flights):
        hidden = initial_hidden(network)
        for step in range(steps):
            action, hidden = evaluate(network, seen[step, flight].tolist(), hidden)
            acted[step, flight] = action
    return seen, acted
