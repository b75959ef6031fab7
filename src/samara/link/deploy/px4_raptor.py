"""Export a policy for PX4's `mc_raptor`: the archive that the module reads from its SD card, raptor/policy.tar.

PX4 is built for one architecture, that of RAPTOR: 22 inputs, 16 units with a ReLU, a recurrent layer of 16, four outputs. The
archive is a tar file of RLtools (actor/layers/0/weights/parameters/data and so on) with an example of inputs and outputs; the
module computes its first steps, and does not start if they differ by more than 10⁻⁵.

There −1 is a motor's minimum and 1 its maximum, in the order of the Crazyflie. If the actions of a policy are relative to
hover, or its rotors are in another order, the first and the last layer are transformed accordingly:
    a' = 2 (c + r a) − 1:   W₂' = 2 r W₂,  b₂' = 2 (c + r b₂) − 1;   of the last action  W₀' = W₀/2r,  b₀' = b₀ + W₀ (½ − c)/r
"""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from samara.control.action_space import ROTOR_ACTIONS
from samara.control.policy import (
    RAPTOR_BOUNDS,
    RAPTOR_LAYERS,
    RAPTOR_PERIOD,
    bundled_policy,
    published_raptor_tensors,
    raptor_policy,
)
from samara.control.policy_file import WEIGHTS_FILE, Policy, build_network, evaluate_network, initial_hidden
from samara.control.registry import TRAINED, ControllerSpec, coerce_controller_spec
from samara.core.atomic_files import atomic_write
from samara.core.safetensors import read_tensors
from samara.core.types import Array
from samara.link.motor_outputs import rotor_order
from samara.physics.types import Vehicle
from samara.vehicles.limits import command_bounds

Tensors = Mapping[str, Array]

ARCHIVE_PATH = "raptor/policy.tar"  # on the SD card
INPUTS, STATE_INPUTS = 22, 18  # inputs, and those before the last action
EXAMPLE_SHAPE = (500, 2)  # steps and flights, as in PX4's archive: the offsets of its data are compiled into PX4
ARCHIVE_NAMES = {
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
"""Names of the arrays in a policy folder, and in the archive."""
LAYER_METADATA = {
    "0": "activation_function: RELU\ntype: dense\n",
    "1": "type: gru\n",
    "2": "activation_function: IDENTITY\ntype: dense\n",
}


def controller_archive(controller: object, vehicle: Vehicle) -> bytes:
    """Build the archive of a scenario's controller; raise ValueError if the controller is not a policy."""
    spec = coerce_controller_spec(controller)
    name = spec.name if isinstance(spec, ControllerSpec) else "a function" if spec is not None else "none"
    if name not in TRAINED:
        raise ValueError(
            f"autopilot.mode is 'raptor' and the controller is {name}; expected a policy that PX4 can fly: {', '.join(TRAINED)}"
        )
    policy = (
        bundled_policy("universal") if name == "universal" else spec.option_values["file"] if name == "policy" else None
    )
    return archive_bytes(raptor_tensors(policy, vehicle), _checkpoint_name(policy))


def write_px4_raptor(policy: Policy | None, vehicle: Vehicle, path: str | Path) -> Path:
    """Write the archive of a policy, or of RAPTOR's published weights for None, for a quadrotor X."""
    tensors = raptor_tensors(policy, vehicle)
    with atomic_write(path) as temporary:
        temporary.write_bytes(archive_bytes(tensors, _checkpoint_name(policy)))
    return Path(path)


def _checkpoint_name(policy: Policy | None) -> str:
    return "raptor" if policy is None else f"samara {policy.task} {policy.digest[:12]}"


def raptor_tensors(policy: Policy | None, vehicle: Vehicle) -> dict[str, Array]:
    """Convert the weights to the module's conventions; raise ValueError if the policy has another architecture."""
    if policy is None:
        raptor_policy(vehicle)  # raises ValueError for a vehicle that it cannot fly
        return {name: np.asarray(array, dtype=np.float32) for name, array in published_raptor_tensors().items()}
    _require_compatible(policy)
    fitted, order, bounds = policy.adapt(vehicle), rotor_order(vehicle, "crazyflie"), command_bounds(vehicle)
    if bounds is None or fitted.trim is None:
        raise ValueError(f"the commands of vehicle {vehicle.name!r} have no limits; expected a vehicle with rotors")
    tensors = {name: array.astype(float) for name, array in read_tensors(dict(fitted.files)[WEIGHTS_FILE]).items()}
    if fitted.observation == "state_error":  # the module's inputs include the last action: zero weights ignore it
        tensors["0.weight"] = np.pad(tensors["0.weight"], ((0, 0), (0, INPUTS - STATE_INPUTS)))
    # a policy for any quadrotor has this order already
    rotors = list(range(len(order))) if fitted.rotor_order else list(order)
    width = [bounds[k].high - bounds[k].low for k in order]
    c = np.array([(fitted.trim.offset[k] - bounds[k].low) / w for k, w in zip(order, width, strict=True)])
    r = np.array([fitted.trim.scale[k] / w for k, w in zip(order, width, strict=True)])
    last_action = tensors["0.weight"][:, [STATE_INPUTS + k for k in rotors]]
    tensors["0.weight"][:, STATE_INPUTS:] = last_action / (2.0 * r)
    tensors["0.bias"] += last_action @ ((0.5 - c) / r)
    tensors["2.weight"] = 2.0 * r[:, None] * tensors["2.weight"][rotors]
    tensors["2.bias"] = 2.0 * (c + r * tensors["2.bias"][rotors]) - 1.0
    return {name: array.astype(np.float32) for name, array in tensors.items()}


def _require_compatible(policy: Policy) -> None:
    source = policy.folder or "the policy"
    layer_types = [(layer.type, layer.size, layer.activation) for layer in policy.layers]
    if layer_types != [
        (layer.type, layer.size, layer.activation if layer.type == "dense" else "tanh") for layer in RAPTOR_LAYERS
    ]:
        layers = ", ".join(
            f"{layer_type} {size}" + (f" {activation}" if layer_type == "dense" else "")
            for layer_type, size, activation in layer_types
        )
        raise ValueError(
            f"{source}: its layers are {layers}; PX4's mc_raptor is built for dense 16 relu, gru 16, dense 4 linear"
        )
    if policy.observation not in ("raptor", "state_error") or policy.action not in ROTOR_ACTIONS:
        raise ValueError(
            f"{source}: observes {policy.observation} and commands {policy.action}; expected the observation raptor or "
            "state_error and commands for rotors, as PX4's mc_raptor has"
        )
    if policy.bounds not in (None, RAPTOR_BOUNDS):
        raise ValueError(
            f"{source}: clips errors to {policy.bounds.position:g} m and {policy.bounds.velocity:g} m/s; PX4's mc_raptor to "
            f"{RAPTOR_BOUNDS.position:g} and {RAPTOR_BOUNDS.velocity:g}"
        )
    if abs(policy.period - RAPTOR_PERIOD) > 1e-9:
        raise ValueError(f"{source}: has a period of {policy.period:g} s; PX4's mc_raptor has {RAPTOR_PERIOD:g}")


def archive_bytes(tensors: Tensors, name: str, example: tuple[Array, Array] | None = None) -> bytes:
    """Serialise the tar file; equal tensors give equal bytes. `example` defaults to `random_example`."""
    observations, actions = example or random_example(tensors)
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
        for layer, meta in LAYER_METADATA.items():
            for name_in_policy, name_in_archive in ARCHIVE_NAMES.items():
                if name_in_archive.startswith(f"{layer}/"):
                    tensor(f"actor/layers/{name_in_archive}/parameters", np.asarray(tensors[name_in_policy]))
            add(f"actor/layers/{layer}/meta", meta.encode())
        tensor("example/input", observations)
        tensor("example/output", actions)
    return file.getvalue()


def random_example(tensors: Tensors, seed: int = 0) -> tuple[Array, Array]:
    """Draw random observations within RAPTOR's limits and evaluate the policy on them: arrays (steps, flights, values)."""
    steps, flights = EXAMPLE_SHAPE
    rng = np.random.default_rng(seed)
    observations = rng.uniform(-1.0, 1.0, (steps, flights, INPUTS))
    observations[..., :3] *= RAPTOR_BOUNDS.position
    rotations = np.linalg.qr(rng.normal(size=(steps, flights, 3, 3)))[0]
    rotations *= np.linalg.det(rotations)[..., None, None]  # rotations without reflections
    observations[..., 3:12] = rotations.reshape(steps, flights, 9)
    observations[..., 12:15] *= RAPTOR_BOUNDS.velocity
    observations = observations.astype(np.float32)
    network = build_network(RAPTOR_LAYERS, INPUTS, tensors)
    actions = np.empty((steps, flights, len(np.asarray(tensors["2.bias"]))), dtype=np.float32)
    for flight in range(flights):
        hidden = initial_hidden(network)
        for step in range(steps):
            action, hidden = evaluate_network(network, observations[step, flight].tolist(), hidden)
            actions[step, flight] = action
    return observations, actions
