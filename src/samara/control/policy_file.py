"""Policy folders: policy.toml describes task, vehicle and evaluation, weights.safetensors contains the weights.

    policy/policy.toml            task, vehicle, observation, action, layers, versions, evaluation
    policy/weights.safetensors    0.weight, 0.bias, 1.weight, …: float32, by the index of the layer
    policy/curve.png              the learning curve; no program reads it

A folder is untrusted: both files are parsed strictly, with limits, and nothing in them is executed.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from samara.control.action_space import ACTION_SPACES, ROTOR_ACTIONS, rotor_range, throttle_range
from samara.control.allocation import quad_x_rotor_order
from samara.control.observation import OBSERVATIONS, Bounds
from samara.core.atomic_files import atomic_write, write_text
from samara.core.block_ops import ACTIVATIONS, Layer
from samara.core.budget import read_bytes, resolve_sibling_path
from samara.core.coerce import is_number
from samara.core.ops import tanh
from samara.core.quantity import Scalar
from samara.core.safetensors import read_tensors, tensors_bytes
from samara.core.sanitise import quote_value
from samara.core.toml import TomlFile, TomlTable, toml_value
from samara.core.toml import parse_document as tables_of
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.vehicles.trim import hover

Hidden: TypeAlias = tuple[tuple[Scalar, ...], ...]


@dataclass(frozen=True)
class GruLayer:
    """Gated recurrent unit (Cho 2014), with the reset gate after the product, as in PyTorch and RAPTOR."""

    gates: Layer  # r and z of (x, h)
    input_layer: Layer
    hidden_layer: Layer
    initial_hidden: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.initial_hidden)

    def __call__(self, x: Sequence[Scalar], h: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """r, z = σ(W (x, h) + b),  n = tanh(W_n x + b_n + r (U_n h + c_n)),  h' = (1 − z) n + z h"""
        r_and_z = self.gates((*x, *h))
        r, z = r_and_z[: self.size], r_and_z[self.size :]
        terms = zip(self.input_layer(x), r, self.hidden_layer(h), strict=True)
        candidates = (tanh(a + b * c) for a, b, c in terms)
        return tuple(n + update * (old - n) for n, update, old in zip(candidates, z, h, strict=True))


Network: TypeAlias = tuple[Layer | GruLayer, ...]


def initial_hidden(network: Network) -> Hidden:
    """Return the initial hidden states of the recurrent units."""
    return tuple(layer.initial_hidden for layer in network if isinstance(layer, GruLayer))


def evaluate_network(network: Network, x: Sequence[Scalar], hidden: Hidden) -> tuple[tuple[Scalar, ...], Hidden]:
    """Return the output of the last layer and the next hidden states of the recurrent units."""
    y, hidden_inputs, hidden_outputs = tuple(x), iter(hidden), []
    for layer in network:
        if isinstance(layer, GruLayer):
            y = layer(y, next(hidden_inputs))
            hidden_outputs.append(y)
        else:
            y = layer(y)
    return y, tuple(hidden_outputs)


SCHEMA = 1
DESCRIPTION_FILE, WEIGHTS_FILE, CURVE_FILE = "policy.toml", "weights.safetensors", "curve.png"
MAX_WEIGHTS_BYTES = 1 << 24  # [bytes] of weights
MAX_DESCRIPTION_BYTES = 1 << 18  # [bytes] of policy.toml
MAX_LAYER_SIZE, MAX_LAYERS, MAX_PARAMETERS = 1024, 16, 1 << 20
MAX_WEIGHT = 1e6  # absolute value
MIN_PERIOD = 1e-5  # [s]
MAX_NAME_LENGTH = 200


class PolicyError(ValueError):
    """A defect of a policy folder, in one sentence."""


class LayerSpec(NamedTuple):
    """A layer as in policy.toml: "dense" with an activation, or "gru"."""

    type: str
    size: int
    activation: str = "linear"


class ActionTrim(NamedTuple):
    """Rotor speeds in hover [rad/s]; for each command its value at an action of 0, and its increase at an action of 1."""

    hover_speed: tuple[float, ...]
    offset: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass(frozen=True)
class Policy:
    """A network, its observation and action, and the vehicle it is for.

    `vehicle` is "" for a policy that flies any vehicle with `rotor_count` rotors, at that vehicle's trim. `rotor_order` maps
    each rotor of the policy to a rotor of the vehicle; () for the vehicle's order. `digest` is the SHA-256 of both files.
    """

    network: Network
    input_count: int
    observation: str = "full_state"
    action: str = "rotors"
    vehicle: str = ""
    rotor_count: int = 4
    trim: ActionTrim | None = None
    bounds: Bounds | None = None
    period: float = 0.01  # [s] between actions
    rotor_order: tuple[int, ...] = ()
    task: str = ""
    digest: str = ""
    layers: tuple[LayerSpec, ...] = field(default=(), compare=False, repr=False)
    evaluation: tuple[tuple[str, object], ...] = field(default=(), compare=False, repr=False)
    files: tuple[tuple[str, bytes], ...] = field(default=(), compare=False, repr=False)
    folder: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return hash((self.digest, self.trim, self.rotor_order))

    def __str__(self) -> str:
        return f"{self.task} {self.digest[:8]}"

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the policy in a recording."""
        return {"task": self.task, "vehicle": self.vehicle, "folder": self.folder, "sha256": self.digest}

    @property
    def output_count(self) -> int:
        return _output_count(self.network)

    @property
    def multiplication_count(self) -> int:
        """Multiplications per action."""
        return sum(_multiplication_count(layer) for layer in self.network)

    def require_vehicle(self, vehicle: Vehicle) -> None:
        """Raise ValueError if the policy is not for this vehicle."""
        if vehicle.servos or not vehicle.rotors:
            raise ValueError(
                f"a policy commands only rotors; vehicle {vehicle.name!r} has other actuators, or no rotors"
            )
        if self.vehicle and vehicle.name != self.vehicle:
            raise ValueError(
                f"the policy was trained on {self.vehicle!r} and is to fly {vehicle.name!r}; expected --vehicle "
                f"{self.vehicle}, or a policy that samara policy adapt trained on {vehicle.name!r}"
            )
        if len(vehicle.rotors) != self.rotor_count:
            raise ValueError(
                f"the policy is for {self.rotor_count} rotors; vehicle {vehicle.name!r} has {len(vehicle.rotors)}"
            )

    def adapt(self, vehicle: Vehicle) -> "Policy":
        """Adapt a policy for any vehicle to this vehicle's trim and, for throttle actions, to its rotor order."""
        self.require_vehicle(vehicle)
        if self.trim:
            return self
        order = quad_x_rotor_order(vehicle, f"policy {self.task!r}") if self.action == "throttle" else ()
        return replace(self, trim=policy_trim(vehicle, self.action), rotor_order=order)


def policy_trim(vehicle: Vehicle, action: str = "rotors") -> ActionTrim:
    """Return hover and the range of commands about it; the full range for throttle actions."""
    state, command = hover(vehicle)
    command_range = throttle_range(vehicle) if action == "throttle" else rotor_range(command, vehicle)
    return ActionTrim(tuple(state.rotor_speed), *command_range)


# Reading ------------------------------------------------------------------------------------------------------------


def load_policy(folder: str | Path) -> Policy:
    """Load the policy of a folder; raise PolicyError if a file is missing or invalid."""
    directory = Path(folder)
    if not directory.is_dir():
        raise PolicyError(f"{folder}: is not a directory; expected one with {DESCRIPTION_FILE} and {WEIGHTS_FILE}")

    def read(name: str, max_bytes: int) -> bytes:
        try:
            path = resolve_sibling_path(directory, name)
        except ValueError:
            raise PolicyError(f"{directory / name}: leads out of its folder; expected a file in it") from None
        try:
            return read_bytes(path, max_bytes)
        except OSError as error:
            reason = error.strerror or error
            raise PolicyError(
                f"{directory / name}: cannot be read ({reason}); expected a file of a policy folder"
            ) from None

    return parse_policy(
        read(DESCRIPTION_FILE, MAX_DESCRIPTION_BYTES), read(WEIGHTS_FILE, MAX_WEIGHTS_BYTES), str(folder)
    )


def parse_policy(description: bytes, weights: bytes, origin: str) -> Policy:
    """Parse the contents of the two files; `origin` is the name of the folder in messages."""
    name = f"{origin.rstrip('/')}/{DESCRIPTION_FILE}"
    if len(description) > MAX_DESCRIPTION_BYTES or len(weights) > MAX_WEIGHTS_BYTES:
        raise PolicyError(
            f"{origin}: is too large for a policy; expected at most {MAX_WEIGHTS_BYTES >> 20} MB of weights"
        )
    try:
        text = description.decode("utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"{name}: is not UTF-8 text") from None
    table = TomlTable(tables_of(text, name, PolicyError), TomlFile(name, PolicyError))
    table.schema(SCHEMA)
    task, period = _printable_text(table, "task"), table.number("period", above=MIN_PERIOD, upto=1.0)
    expected_digest = table.text("weights_sha256")
    observation, inputs, bounds = _observation(table.table("observation"))
    vehicle, rotors, hover_speed = _vehicle(table.table("vehicle"))
    action, offset, scale = _action(table.table("action"), rotors, bool(vehicle))
    layers = _layer_specs(table)
    evaluation = _metadata(table, "evaluation")
    _metadata(table, "versions")
    table.finish()
    actions = _action_size(action, rotors)
    if layers[-1].size != actions:
        raise table.make_error(
            f"the last layer has {layers[-1].size} outputs; expected {actions}, the size of {action}"
        )
    if inputs != (expected_inputs := OBSERVATIONS[observation].size(rotors, actions)):
        raise table.make_error(
            f"observation.inputs = {inputs}: expected {expected_inputs}, the size of {observation} for {rotors} rotors"
        )
    digest = hashlib.sha256(weights).hexdigest()
    if digest != expected_digest:
        raise PolicyError(
            f"{origin.rstrip('/')}/{WEIGHTS_FILE}: is not the file that {DESCRIPTION_FILE} was written with "
            f"(SHA-256 {digest[:12]}…, expected {quote_value(expected_digest[:12])}…)"
        )
    try:
        network = build_network(layers, inputs, read_tensors(weights))
    except ValueError as error:
        raise PolicyError(f"{origin.rstrip('/')}/{WEIGHTS_FILE}: {error}") from None
    return Policy(
        network,
        inputs,
        observation,
        action,
        vehicle,
        rotors,
        ActionTrim(hover_speed, offset, scale) if vehicle else None,
        bounds,
        period,
        (),
        task,
        policy_digest(description, weights),
        layers,
        evaluation,
        ((DESCRIPTION_FILE, description), (WEIGHTS_FILE, weights)),
        origin,
    )


def _action_size(action: str, rotors: int) -> int:
    """Size of an action."""
    return rotors if action in ROTOR_ACTIONS else 4


def policy_digest(description: bytes, weights: bytes) -> str:
    """SHA-256 of both files, the identity of the policy"""
    return hashlib.sha256(len(description).to_bytes(8, "little") + description + weights).hexdigest()


def _observation(table: TomlTable) -> tuple[str, int, Bounds | None]:
    observation = table.text("type", choices=OBSERVATIONS)
    inputs = table.integer("inputs", 0, low=1, high=MAX_LAYER_SIZE)
    bounds = None
    if "position_bound" in table or "velocity_bound" in table:
        limits = [table.number(key, above=0.0, upto=1e3) for key in ("position_bound", "velocity_bound")]
        bounds = Bounds(*limits)
    table.finish()
    return observation, inputs, bounds


def _vehicle(table: TomlTable) -> tuple[str, int, tuple[float, ...]]:
    """Return the name ("" for any vehicle), the rotor count, and the rotor speeds in hover."""
    universal, name = table.flag("universal", False), _printable_text(table, "name")
    rotors = table.integer("rotors", 0, low=1, high=64)
    speeds = () if universal else _positive_numbers(table, "hover_speed", rotors)
    table.finish()
    return "" if universal else name, rotors, speeds


def _action(table: TomlTable, rotors: int, fixed: bool) -> tuple[str, tuple[float, ...], tuple[float, ...]]:
    action = table.text("type", choices=ACTION_SPACES)
    offset, scale = (_positive_numbers(table, key, rotors) if fixed else () for key in ("offset", "scale"))
    table.finish()
    return action, offset, scale


def _printable_text(table: TomlTable, key: str) -> str:
    """Read a text that is safe in a message, a title or a comment."""
    text = table.text(key)
    if not text.isprintable() or len(text) > MAX_NAME_LENGTH:
        raise table.error(key, text, f"a text of up to {MAX_NAME_LENGTH} printable characters")
    return text


def _positive_numbers(table: TomlTable, key: str, count: int) -> tuple[float, ...]:
    values = table.numbers(key)
    if len(values) != count or not all(0.0 < x < 1e6 for x in values):
        raise table.error(key, list(values), f"{count} positive numbers")
    return values


def _layer_specs(table: TomlTable) -> tuple[LayerSpec, ...]:
    layers = []
    for layer_table in table.tables("layers"):
        layer_type = layer_table.text("type", choices=("dense", "gru"))
        size = layer_table.integer("size", 0, low=1, high=MAX_LAYER_SIZE)
        layers.append(
            LayerSpec(
                layer_type,
                size,
                layer_table.text("activation", choices=ACTIVATIONS) if layer_type == "dense" else "tanh",
            )
        )
        layer_table.finish()
    if not 1 <= len(layers) <= MAX_LAYERS:
        raise table.error("layers", len(layers), f"1 to {MAX_LAYERS} layers")
    if layers[-1].type != "dense":
        raise table.make_error("the last layer is recurrent; expected a dense one that gives the action")
    return tuple(layers)


def _metadata(table: TomlTable, key: str) -> tuple[tuple[str, object], ...]:
    """Read a table that has no effect on the policy; its values are texts and numbers."""
    metadata = table.optional_table(key)
    if metadata is None:
        return ()
    for name, value in metadata.entries.items():
        if not isinstance(value, (str, bool)) and not is_number(value):
            raise metadata.error(name, value, "a text or a finite number")
    return tuple(metadata.entries.items())


def build_network(layers: Sequence[LayerSpec], inputs: int, tensors: Mapping[str, Array]) -> Network:
    """Build the layers with their weights by name; raise ValueError for a missing array, a wrong shape or an invalid weight."""
    shapes = tensor_shapes(layers, inputs)
    if (products := sum(math.prod(shape) for shape in shapes.values())) > MAX_PARAMETERS:
        raise ValueError(f"its layers have {products} parameters; expected at most {MAX_PARAMETERS}")
    for name in tensors:
        if name not in shapes:
            raise ValueError(
                f"it has {quote_value(name)}, which no layer of {DESCRIPTION_FILE} has; expected {', '.join(shapes)}"
            )
    arrays = {name: _checked_array(tensors, name, shape) for name, shape in shapes.items()}
    return tuple(
        _layer(layer, {name: arrays[f"{i}.{name}"] for name in _layer_shapes(layer, 1)})
        for i, layer in enumerate(layers)
    )


def tensor_shapes(layers: Sequence[LayerSpec], inputs: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of these layers, by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i, layer in enumerate(layers):
        shapes |= {f"{i}.{name}": shape for name, shape in _layer_shapes(layer, inputs).items()}
        inputs = layer.size
    return shapes


def _layer_shapes(layer: LayerSpec, width: int) -> dict[str, tuple[int, ...]]:
    """Return the arrays of a layer; those of a recurrent layer as in PyTorch, in the order reset, update, new."""
    if layer.type == "dense":
        return {"weight": (layer.size, width), "bias": (layer.size,)}
    gates = 3 * layer.size
    return {
        "weight_ih": (gates, width),
        "weight_hh": (gates, layer.size),
        "bias_ih": (gates,),
        "bias_hh": (gates,),
        "initial": (layer.size,),
    }


def _checked_array(tensors: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    if name not in tensors:
        raise ValueError(f"{name} is missing; expected an array of {' × '.join(map(str, shape))}")
    array = np.asarray(tensors[name], dtype=np.float32)
    if array.shape != shape:
        actual = " × ".join(map(str, array.shape)) or "one number"
        raise ValueError(
            f"{name} is {actual}; expected {' × '.join(map(str, shape))}, as the layers in {DESCRIPTION_FILE} require"
        )
    if not np.all(np.abs(array) <= MAX_WEIGHT):  # also catches NaN
        index = tuple(int(i) for i in np.argwhere(~(np.abs(array) <= MAX_WEIGHT))[0])
        raise ValueError(
            f"{name}{list(index)} is {array[index]}; expected a finite number, at most {MAX_WEIGHT:g} in magnitude"
        )
    return array


def _layer(layer: LayerSpec, arrays: Mapping[str, Array]) -> Layer | GruLayer:
    parameters = {name: array.astype(float) for name, array in arrays.items()}
    if layer.type == "dense":
        return _dense(parameters["weight"], parameters["bias"], layer.activation)
    gate_rows = 2 * layer.size
    gates = np.hstack([parameters["weight_ih"][:gate_rows], parameters["weight_hh"][:gate_rows]])
    return GruLayer(
        _dense(gates, parameters["bias_ih"][:gate_rows] + parameters["bias_hh"][:gate_rows], "sigmoid"),
        _dense(parameters["weight_ih"][gate_rows:], parameters["bias_ih"][gate_rows:], "linear"),
        _dense(parameters["weight_hh"][gate_rows:], parameters["bias_hh"][gate_rows:], "linear"),
        tuple(parameters["initial"].tolist()),
    )


def _dense(weights: Array, bias: Array, activation: str) -> Layer:
    return Layer(tuple(map(tuple, weights.tolist())), tuple(bias.tolist()), activation)


def _output_count(network: Network) -> int:
    last = network[-1]
    return last.size if isinstance(last, GruLayer) else last.rows


def _multiplication_count(layer: Layer | GruLayer) -> int:
    return (
        layer.gates.size + layer.input_layer.size + layer.hidden_layer.size
        if isinstance(layer, GruLayer)
        else layer.size
    )


# Writing ------------------------------------------------------------------------------------------------------------


def mlp_layers(
    hidden: Sequence[int], outputs: int, activation: str = "tanh", last: str = "tanh"
) -> tuple[LayerSpec, ...]:
    """Return dense layers of these sizes and an output layer, in [−1, 1] by default."""
    return (*(LayerSpec("dense", size, activation) for size in hidden), LayerSpec("dense", outputs, last))


def dense_tensors(layers: Iterable[tuple[Array, Array]]) -> dict[str, Array]:
    """Name the arrays of dense layers, given as (W, b) of shapes (out, in) and (out,)."""
    return {
        f"{i}.{name}": array
        for i, layer in enumerate(layers)
        for name, array in zip(("weight", "bias"), layer, strict=True)
    }


@dataclass(frozen=True)
class PolicyDescription:
    """The contents of policy.toml besides layers and weights, and `curve(path)`, which draws the learning curve.

    `universal` marks a policy trained on random vehicles, which flies any vehicle with as many rotors.
    """

    task: str
    observation: str = "full_state"
    action: str = "rotors"
    period: float = 0.01
    bounds: Bounds | None = None
    universal: bool = False
    evaluation: Mapping[str, str | float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    curve: Callable[[Path], None] | None = None

    def tables(self, vehicle: Vehicle) -> dict[str, dict[str, object]]:
        """Return the tables of policy.toml."""
        from samara.core.version import __version__

        rotors, bounds = len(vehicle.rotors), self.bounds
        trim = (
            {} if self.universal else {key: list(x) for key, x in policy_trim(vehicle, self.action)._asdict().items()}
        )
        inputs = OBSERVATIONS[self.observation].size(rotors, ACTION_SPACES[self.action].size(vehicle))
        limits = {} if bounds is None else {"position_bound": bounds.position, "velocity_bound": bounds.velocity}
        vehicle_entries = {"universal": True} if self.universal else {"hover_speed": trim["hover_speed"]}
        return {
            "vehicle": {"name": vehicle.name, "rotors": rotors, **vehicle_entries},
            "observation": {"type": self.observation, "inputs": inputs, **limits},
            "action": {"type": self.action} | {key: trim[key] for key in ("offset", "scale") if trim},
            "versions": {"samara": __version__, **self.versions},
            "evaluation": dict(self.evaluation),
        }


def save_policy(
    folder: str | Path, vehicle: Vehicle, layers: Sequence[LayerSpec], tensors: Mapping[str, Array], **options: Scalar
) -> Policy:
    """Write a policy folder, each file completely or not at all, and return the policy as it is read back.

    Args:
        folder: folder to write; created if missing.
        vehicle: vehicle that the policy was trained for.
        layers: layers of the network, in order.
        tensors: weights by their names in the folder; see `tensor_shapes`.
        options: fields of `PolicyDescription`.
    """
    description, path = PolicyDescription(**options), Path(folder)
    weights = tensors_bytes({name: np.asarray(array) for name, array in tensors.items()})
    digest = hashlib.sha256(weights).hexdigest()
    header = {"schema": SCHEMA, "task": description.task, "period": description.period, "weights_sha256": digest}
    sections = [
        _toml_lines(header),
        *(f"[{name}]\n{_toml_lines(table)}" for name, table in description.tables(vehicle).items()),
    ]
    text = "\n".join([*sections, *(f"[[layers]]\n{_toml_lines(_layer_table(layer))}" for layer in layers)])
    policy = parse_policy(text.encode(), weights, str(folder))
    with atomic_write(path / WEIGHTS_FILE) as temporary:
        temporary.write_bytes(weights)
    write_text(path / DESCRIPTION_FILE, text)
    if description.curve is not None:
        with atomic_write(path / CURVE_FILE) as temporary:
            description.curve(temporary)
    return policy


def _layer_table(layer: LayerSpec) -> dict[str, object]:
    table = layer._asdict()
    return table if layer.type == "dense" else {key: table[key] for key in ("type", "size")}


def _toml_lines(table: Mapping[str, object]) -> str:
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())
