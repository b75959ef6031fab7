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

from samara.control.action_space import ACTION_SPACES, OF_ROTORS, rotor_range, throttle_range
from samara.control.allocation import rotor_order
from samara.control.observation import OBSERVATIONS, Bounds
from samara.core.atomic_files import atomic_write, write_text
from samara.core.block_ops import ACTIVATIONS, Layer
from samara.core.budget import path_beside, read_bytes
from samara.core.coerce import is_number
from samara.core.ops import tanh
from samara.core.quantity import Scalar
from samara.core.safetensors import read_tensors, tensors_bytes
from samara.core.sanitise import shown
from samara.core.toml import File, Table, toml_value
from samara.core.toml import document as tables_of
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.vehicles.trim import hover

Hidden: TypeAlias = tuple[tuple[Scalar, ...], ...]


@dataclass(frozen=True)
class Gru:
    """Gated recurrent unit (Cho 2014), with the reset gate after the product, as in PyTorch and RAPTOR."""

    gates: Layer  # r and z of (x, h)
    of_input: Layer
    of_hidden: Layer
    initial: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.initial)

    def __call__(self, x: Sequence[Scalar], h: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """r, z = σ(W (x, h) + b),  n = tanh(W_n x + b_n + r (U_n h + c_n)),  h' = (1 − z) n + z h"""
        r_and_z = self.gates((*x, *h))
        r, z = r_and_z[: self.size], r_and_z[self.size :]
        terms = zip(self.of_input(x), r, self.of_hidden(h), strict=True)
        candidates = (tanh(a + b * c) for a, b, c in terms)
        return tuple(n + update * (old - n) for n, update, old in zip(candidates, z, h, strict=True))


Network: TypeAlias = tuple[Layer | Gru, ...]


def initial_hidden(network: Network) -> Hidden:
    """Return the initial hidden states of the recurrent units."""
    return tuple(layer.initial for layer in network if isinstance(layer, Gru))


def evaluate(network: Network, x: Sequence[Scalar], hidden: Hidden) -> tuple[tuple[Scalar, ...], Hidden]:
    """Return the output of the last layer and the next hidden states of the recurrent units."""
    y, hidden_inputs, hidden_outputs = tuple(x), iter(hidden), []
    for layer in network:
        if isinstance(layer, Gru):
            y = layer(y, next(hidden_inputs))
            hidden_outputs.append(y)
        else:
            y = layer(y)
    return y, tuple(hidden_outputs)


SCHEMA = 1
ABOUT, WEIGHTS, CURVE = "policy.toml", "weights.safetensors", "curve.png"
LARGEST_FILE = 1 << 24  # [bytes] of weights
LARGEST_TEXT = 1 << 18  # [bytes] of policy.toml
WIDEST, MOST_LAYERS, MOST_PRODUCTS = 1024, 16, 1 << 20
LARGEST_WEIGHT = 1e6  # absolute value
SHORTEST_PERIOD = 1e-5  # [s]
LONGEST_NAME = 200


class PolicyError(ValueError):
    """A defect of a policy folder, in one sentence."""


class LayerKind(NamedTuple):
    """A layer as in policy.toml: "dense" with an activation, or "gru"."""

    kind: str
    size: int
    activation: str = "linear"


class Trim(NamedTuple):
    """Rotor speeds in hover [rad/s]; for each command its value at an action of 0, and its increase at an action of 1."""

    hover_speed: tuple[float, ...]
    centre: tuple[float, ...]
    reach: tuple[float, ...]


@dataclass(frozen=True)
class Policy:
    """A network, its observation and action, and the vehicle it is for.

    `vehicle` is "" for a policy that flies any vehicle with `rotors` rotors, at that vehicle's trim. `order` maps each rotor of
    the policy to a rotor of the vehicle; () for the vehicle's order. `digest` is the SHA-256 of both files.
    """

    network: Network
    inputs: int
    observation: str = "full_state"
    action: str = "rotors"
    vehicle: str = ""
    rotors: int = 4
    trim: Trim | None = None
    bounds: Bounds | None = None
    period: float = 0.01  # [s] between actions
    order: tuple[int, ...] = ()
    task: str = ""
    digest: str = ""
    kinds: tuple[LayerKind, ...] = field(default=(), compare=False, repr=False)
    evaluation: tuple[tuple[str, object], ...] = field(default=(), compare=False, repr=False)
    files: tuple[tuple[str, bytes], ...] = field(default=(), compare=False, repr=False)
    folder: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return hash((self.digest, self.trim, self.order))

    def __str__(self) -> str:
        return f"{self.task} {self.digest[:8]}"

    @property
    def about(self) -> dict[str, str]:
        """Metadata of the policy in a recording."""
        return {"task": self.task, "vehicle": self.vehicle, "folder": self.folder, "sha256": self.digest}

    @property
    def outputs(self) -> int:
        return _outputs(self.network)

    @property
    def products(self) -> int:
        """Multiplications per action."""
        return sum(_multiplication_count(layer) for layer in self.network)

    def require(self, vehicle: Vehicle) -> None:
        """Raise ValueError if the policy is not for this vehicle."""
        if vehicle.servos or not vehicle.rotors:
            raise ValueError(f"a policy commands rotors alone; vehicle {vehicle.name!r} is driven by more, or by none")
        if self.vehicle and vehicle.name != self.vehicle:
            raise ValueError(
                f"the policy was trained on {self.vehicle!r} and is to fly {vehicle.name!r}; expected the same"
            )
        if len(vehicle.rotors) != self.rotors:
            raise ValueError(
                f"the policy is for {self.rotors} rotors; vehicle {vehicle.name!r} has {len(vehicle.rotors)}"
            )

    def fitted(self, vehicle: Vehicle) -> "Policy":
        """Adapt a policy for any vehicle to this one: its trim, and for throttle actions its rotor order."""
        self.require(vehicle)
        if self.trim:
            return self
        order = rotor_order(vehicle, f"policy {self.task!r}") if self.action == "throttle" else ()
        return replace(self, trim=trim_of(vehicle, self.action), order=order)


def trim_of(vehicle: Vehicle, action: str = "rotors") -> Trim:
    """Return hover and the range of commands about it; the full range for throttle actions."""
    state, command = hover(vehicle)
    command_range = throttle_range(vehicle) if action == "throttle" else rotor_range(command, vehicle)
    return Trim(tuple(state.rotor_speed), *command_range)


# Reading ------------------------------------------------------------------------------------------------------------


def load_policy(folder: str | Path) -> Policy:
    """Load the policy of a folder; raise PolicyError if a file is missing or invalid."""
    directory = Path(folder)
    if not directory.is_dir():
        raise PolicyError(f"{folder}: is not a directory; expected one with {ABOUT} and {WEIGHTS}")

    def read(name: str, max_bytes: int) -> bytes:
        try:
            path = path_beside(directory, name)
        except ValueError:
            raise PolicyError(f"{directory / name}: leads out of its folder; expected a file in it") from None
        try:
            return read_bytes(path, max_bytes)
        except OSError as error:
            reason = error.strerror or error
            raise PolicyError(
                f"{directory / name}: cannot be read ({reason}); expected a file of a policy folder"
            ) from None

    return parse_policy(read(ABOUT, LARGEST_TEXT), read(WEIGHTS, LARGEST_FILE), str(folder))


def parse_policy(description: bytes, weights: bytes, origin: str) -> Policy:
    """Parse the contents of the two files; `origin` is the name of the folder in messages."""
    name = f"{origin.rstrip('/')}/{ABOUT}"
    if len(description) > LARGEST_TEXT or len(weights) > LARGEST_FILE:
        raise PolicyError(f"{origin}: is larger than a policy; expected up to {LARGEST_FILE >> 20} MB of weights")
    try:
        text = description.decode("utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"{name}: is not a text in UTF-8") from None
    table = Table(tables_of(text, name, PolicyError), File(name, PolicyError))
    table.schema(SCHEMA)
    task, period = _plain(table, "task"), table.number("period", above=SHORTEST_PERIOD, upto=1.0)
    expected_digest = table.text("weights_sha256")
    observation, inputs, bounds = _observation(table.table("observation"))
    vehicle, rotors, hover_speed = _vehicle(table.table("vehicle"))
    action, centre, amplitude = _action(table.table("action"), rotors, bool(vehicle))
    kinds = _kinds(table)
    evaluation = _about(table, "evaluation")
    _about(table, "versions")
    table.finish()
    actions = _actions(action, rotors)
    if kinds[-1].size != actions:
        raise table.wrong(f"the last layer has {kinds[-1].size} outputs; expected {actions}, as {action} needs")
    if inputs != (expected_inputs := OBSERVATIONS[observation].size(rotors, actions)):
        raise table.wrong(
            f"observation.inputs = {inputs}: expected {expected_inputs}, as {observation} of {rotors} rotors has"
        )
    digest = hashlib.sha256(weights).hexdigest()
    if digest != expected_digest:
        raise PolicyError(
            f"{origin.rstrip('/')}/{WEIGHTS}: is not the file that {ABOUT} was written with (SHA-256 {digest[:12]}…, expected "
            f"{shown(expected_digest[:12])}…)"
        )
    try:
        network = network_of(kinds, inputs, read_tensors(weights))
    except ValueError as error:
        raise PolicyError(f"{origin.rstrip('/')}/{WEIGHTS}: {error}") from None
    return Policy(
        network,
        inputs,
        observation,
        action,
        vehicle,
        rotors,
        Trim(hover_speed, centre, amplitude) if vehicle else None,
        bounds,
        period,
        (),
        task,
        digest_of(description, weights),
        kinds,
        evaluation,
        ((ABOUT, description), (WEIGHTS, weights)),
        origin,
    )


def _actions(action: str, rotors: int) -> int:
    """Size of an action."""
    return rotors if action in OF_ROTORS else 4


def digest_of(description: bytes, weights: bytes) -> str:
    """SHA-256 of both files, the identity of the policy"""
    return hashlib.sha256(len(description).to_bytes(8, "little") + description + weights).hexdigest()


def _observation(table: Table) -> tuple[str, int, Bounds | None]:
    kind = table.text("kind", choices=OBSERVATIONS)
    inputs = table.whole("inputs", 0, low=1, high=WIDEST)
    bounds = None
    if "farthest" in table or "fastest" in table:
        limits = [table.number(key, above=0.0, upto=1e3) for key in ("farthest", "fastest")]
        bounds = Bounds(*limits)
    table.finish()
    return kind, inputs, bounds


def _vehicle(table: Table) -> tuple[str, int, tuple[float, ...]]:
    """Return the name ("" for any vehicle), the rotor count, and the rotor speeds in hover."""
    any_vehicle, name = table.flag("any", False), _plain(table, "name")
    rotors = table.whole("rotors", 0, low=1, high=64)
    speeds = () if any_vehicle else _positive(table, "hover_speed", rotors)
    table.finish()
    return "" if any_vehicle else name, rotors, speeds


def _action(table: Table, rotors: int, fixed: bool) -> tuple[str, tuple[float, ...], tuple[float, ...]]:
    kind = table.text("kind", choices=ACTION_SPACES)
    centre, amplitude = (_positive(table, key, rotors) if fixed else () for key in ("centre", "reach"))
    table.finish()
    return kind, centre, amplitude


def _plain(table: Table, key: str) -> str:
    """Read a text that is safe in a message, a title or a comment."""
    text = table.text(key)
    if not text.isprintable() or len(text) > LONGEST_NAME:
        raise table.error(key, text, f"a text of up to {LONGEST_NAME} printable characters")
    return text


def _positive(table: Table, key: str, count: int) -> tuple[float, ...]:
    values = table.numbers(key)
    if len(values) != count or not all(0.0 < x < 1e6 for x in values):
        raise table.error(key, list(values), f"{count} positive numbers")
    return values


def _kinds(table: Table) -> tuple[LayerKind, ...]:
    layers = []
    for layer_table in table.tables("layers"):
        kind = layer_table.text("kind", choices=("dense", "gru"))
        size = layer_table.whole("size", 0, low=1, high=WIDEST)
        layers.append(
            LayerKind(kind, size, layer_table.text("activation", choices=ACTIVATIONS) if kind == "dense" else "tanh")
        )
        layer_table.finish()
    if not 1 <= len(layers) <= MOST_LAYERS:
        raise table.error("layers", len(layers), f"1 to {MOST_LAYERS} layers")
    if layers[-1].kind != "dense":
        raise table.wrong("the last layer is recurrent; expected a dense one that gives the action")
    return tuple(layers)


def _about(table: Table, key: str) -> tuple[tuple[str, object], ...]:
    """Read a table that has no effect on the policy; its values are texts and numbers."""
    metadata = table.optional_table(key)
    if metadata is None:
        return ()
    for name, value in metadata.entries.items():
        if not isinstance(value, (str, bool)) and not is_number(value):
            raise metadata.error(name, value, "a text or a finite number")
    return tuple(metadata.entries.items())


def network_of(kinds: Sequence[LayerKind], inputs: int, tensors: Mapping[str, Array]) -> Network:
    """Build the layers with their weights by name; raise ValueError for a missing array, a wrong shape or an invalid weight."""
    shapes = tensor_shapes(kinds, inputs)
    if (products := sum(math.prod(shape) for shape in shapes.values())) > MOST_PRODUCTS:
        raise ValueError(f"its layers have {products} numbers; expected at most {MOST_PRODUCTS}")
    for name in tensors:
        if name not in shapes:
            raise ValueError(f"it has {shown(name)}, which no layer of {ABOUT} has; expected {', '.join(shapes)}")
    arrays = {name: _array(tensors, name, shape) for name, shape in shapes.items()}
    return tuple(
        _layer(layer, {name: arrays[f"{i}.{name}"] for name in _shapes(layer, 1)}) for i, layer in enumerate(kinds)
    )


def tensor_shapes(kinds: Sequence[LayerKind], inputs: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of these layers, by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i, layer in enumerate(kinds):
        shapes |= {f"{i}.{name}": shape for name, shape in _shapes(layer, inputs).items()}
        inputs = layer.size
    return shapes


def _shapes(layer: LayerKind, width: int) -> dict[str, tuple[int, ...]]:
    """Return the arrays of a layer; those of a recurrent layer as in PyTorch, in the order reset, update, new."""
    if layer.kind == "dense":
        return {"weight": (layer.size, width), "bias": (layer.size,)}
    gates = 3 * layer.size
    return {
        "weight_ih": (gates, width),
        "weight_hh": (gates, layer.size),
        "bias_ih": (gates,),
        "bias_hh": (gates,),
        "initial": (layer.size,),
    }


def _array(tensors: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    if name not in tensors:
        raise ValueError(f"{name} is missing; expected an array of {' × '.join(map(str, shape))}")
    array = np.asarray(tensors[name], dtype=np.float32)
    if array.shape != shape:
        actual = " × ".join(map(str, array.shape)) or "one number"
        raise ValueError(f"{name} is {actual}; expected {' × '.join(map(str, shape))}, as {ABOUT} has its layers")
    if not np.all(np.abs(array) <= LARGEST_WEIGHT):  # also catches NaN
        index = tuple(int(i) for i in np.argwhere(~(np.abs(array) <= LARGEST_WEIGHT))[0])
        raise ValueError(
            f"{name}{list(index)} is {array[index]}; expected a finite number, at most {LARGEST_WEIGHT:g} in size"
        )
    return array


def _layer(layer: LayerKind, arrays: Mapping[str, Array]) -> Layer | Gru:
    parameters = {name: array.astype(float) for name, array in arrays.items()}
    if layer.kind == "dense":
        return _dense(parameters["weight"], parameters["bias"], layer.activation)
    gate_rows = 2 * layer.size
    gates = np.hstack([parameters["weight_ih"][:gate_rows], parameters["weight_hh"][:gate_rows]])
    return Gru(
        _dense(gates, parameters["bias_ih"][:gate_rows] + parameters["bias_hh"][:gate_rows], "sigmoid"),
        _dense(parameters["weight_ih"][gate_rows:], parameters["bias_ih"][gate_rows:], "linear"),
        _dense(parameters["weight_hh"][gate_rows:], parameters["bias_hh"][gate_rows:], "linear"),
        tuple(parameters["initial"].tolist()),
    )


def _dense(weights: Array, bias: Array, activation: str) -> Layer:
    return Layer(tuple(map(tuple, weights.tolist())), tuple(bias.tolist()), activation)


def _outputs(network: Network) -> int:
    last = network[-1]
    return last.size if isinstance(last, Gru) else last.rows


def _multiplication_count(layer: Layer | Gru) -> int:
    return layer.gates.size + layer.of_input.size + layer.of_hidden.size if isinstance(layer, Gru) else layer.size


# Writing ------------------------------------------------------------------------------------------------------------


def mlp(hidden: Sequence[int], outputs: int, activation: str = "tanh", last: str = "tanh") -> tuple[LayerKind, ...]:
    """Return dense layers of these sizes and an output layer, in [−1, 1] by default."""
    return (*(LayerKind("dense", size, activation) for size in hidden), LayerKind("dense", outputs, last))


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

    `for_any` marks a policy trained on random vehicles, which flies any vehicle with as many rotors.
    """

    task: str
    observation: str = "full_state"
    action: str = "rotors"
    period: float = 0.01
    bounds: Bounds | None = None
    for_any: bool = False
    evaluation: Mapping[str, str | float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    curve: Callable[[Path], None] | None = None

    def tables(self, vehicle: Vehicle) -> dict[str, dict[str, object]]:
        """Return the tables of policy.toml."""
        from samara.core.version import __version__

        rotors, bounds = len(vehicle.rotors), self.bounds
        trim = {} if self.for_any else {key: list(x) for key, x in trim_of(vehicle, self.action)._asdict().items()}
        inputs = OBSERVATIONS[self.observation].size(rotors, ACTION_SPACES[self.action].size(vehicle))
        limits = {} if bounds is None else {"farthest": bounds.position, "fastest": bounds.velocity}
        vehicle_entries = {"any": True} if self.for_any else {"hover_speed": trim["hover_speed"]}
        return {
            "vehicle": {"name": vehicle.name, "rotors": rotors, **vehicle_entries},
            "observation": {"kind": self.observation, "inputs": inputs, **limits},
            "action": {"kind": self.action} | {key: trim[key] for key in ("centre", "reach") if trim},
            "versions": {"samara": __version__, **self.versions},
            "evaluation": dict(self.evaluation),
        }


def save_policy(
    folder: str | Path, vehicle: Vehicle, layers: Sequence[LayerKind], tensors: Mapping[str, Array], **options: Scalar
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
    sections = [_lines(header), *(f"[{name}]\n{_lines(table)}" for name, table in description.tables(vehicle).items())]
    text = "\n".join([*sections, *(f"[[layers]]\n{_lines(_layer_table(layer))}" for layer in layers)])
    policy = parse_policy(text.encode(), weights, str(folder))
    with atomic_write(path / WEIGHTS) as temporary:
        temporary.write_bytes(weights)
    write_text(path / ABOUT, text)
    if description.curve is not None:
        with atomic_write(path / CURVE) as temporary:
            description.curve(temporary)
    return policy


def _layer_table(layer: LayerKind) -> dict[str, object]:
    table = layer._asdict()
    return table if layer.kind == "dense" else {key: table[key] for key in ("kind", "size")}


def _lines(table: Mapping[str, object]) -> str:
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())
