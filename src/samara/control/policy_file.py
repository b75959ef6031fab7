"""A policy folder: policy.toml says what was trained, for what and how well it does, weights.safetensors holds the numbers.

    policy/policy.toml            task, vehicle, observation, action, layers, versions, evaluation
    policy/weights.safetensors    0.weight, 0.bias, 1.weight, …: float32, by the number of the layer
    policy/curve.png              the learning curve; no program reads it

A folder comes from strangers: both files are read strictly, with limits, and nothing of them is run.
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
    """A gated recurrent unit (Cho 2014), with the reset gate after the product, as PyTorch and RAPTOR have it."""

    gates: Layer  # r and z of (x, h)
    of_input: Layer
    of_hidden: Layer
    initial: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.initial)

    def __call__(self, x: Sequence[Scalar], h: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """r, z = σ(W (x, h) + b),  n = tanh(W_n x + b_n + r (U_n h + c_n)),  h' = (1 − z) n + z h"""
        both = self.gates((*x, *h))
        r, z = both[: self.size], both[self.size :]
        inner = zip(self.of_input(x), r, self.of_hidden(h), strict=True)
        new = (tanh(a + b * c) for a, b, c in inner)
        return tuple(n + own * (old - n) for n, own, old in zip(new, z, h, strict=True))


Network: TypeAlias = tuple[Layer | Gru, ...]


def initial_hidden(network: Network) -> Hidden:
    """What its recurrent units begin with"""
    return tuple(own.initial for own in network if isinstance(own, Gru))


def evaluate(network: Network, x: Sequence[Scalar], hidden: Hidden) -> tuple[tuple[Scalar, ...], Hidden]:
    """What the last layer gives, and what the recurrent units hold after it"""
    y, before, after = tuple(x), iter(hidden), []
    for own in network:
        if isinstance(own, Gru):
            y = own(y, next(before))
            after.append(y)
        else:
            y = own(y)
    return y, tuple(after)


SCHEMA = 1
ABOUT, WEIGHTS, CURVE = "policy.toml", "weights.safetensors", "curve.png"
LARGEST_FILE = 1 << 24  # [bytes] of weights
LARGEST_TEXT = 1 << 18  # [bytes] of policy.toml
WIDEST, MOST_LAYERS, MOST_PRODUCTS = 1024, 16, 1 << 20
LARGEST_WEIGHT = 1e6  # in size
SHORTEST_PERIOD = 1e-5  # [s]
LONGEST_NAME = 200


class PolicyError(ValueError):
    """One sentence about a policy folder that cannot be flown."""


class LayerKind(NamedTuple):
    """A layer as policy.toml has it: "dense" with an activation, or "gru"."""

    kind: str
    size: int
    activation: str = "linear"


class Trim(NamedTuple):
    """The rotor speeds of hover [rad/s]; and of each command what an action of 0 means, and how much more one of 1 does."""

    hover_speed: tuple[float, ...]
    centre: tuple[float, ...]
    reach: tuple[float, ...]


@dataclass(frozen=True)
class Policy:
    """A network, what it sees, what its outputs mean, and the vehicle it is for.

    `vehicle` is "" for one that flies any with as many rotors, with that vehicle's own trim. `order` has, for each rotor of the
    policy, the vehicle's; () is the vehicle's own order. `digest` is the SHA-256 of both files.
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
        """What a recording says of it"""
        return {"task": self.task, "vehicle": self.vehicle, "folder": self.folder, "sha256": self.digest}

    @property
    def outputs(self) -> int:
        return _outputs(self.network)

    @property
    def products(self) -> int:
        """Multiplications of an action"""
        return sum(_products(own) for own in self.network)

    def require(self, vehicle: Vehicle) -> None:
        """ValueError where the policy is not for this vehicle"""
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
        """For one vehicle: a policy for any takes that one's trim, or where it knows of none its rotors by their corners"""
        self.require(vehicle)
        if self.trim:
            return self
        order = rotor_order(vehicle, f"policy {self.task!r}") if self.action == "throttle" else ()
        return replace(self, trim=trim_of(vehicle, self.action), order=order)


def trim_of(vehicle: Vehicle, action: str = "rotors") -> Trim:
    """Hover, and the range of commands about it; of throttles all the range there is"""
    state, command = hover(vehicle)
    own = throttle_range(vehicle) if action == "throttle" else rotor_range(command, vehicle)
    return Trim(tuple(state.rotor_speed), *own)


# Reading ------------------------------------------------------------------------------------------------------------


def load_policy(folder: str | Path) -> Policy:
    """The policy of a folder; PolicyError with one sentence about what is wrong with it"""
    own = Path(folder)
    if not own.is_dir():
        raise PolicyError(f"{folder}: is no folder; expected one with {ABOUT} and {WEIGHTS}")

    def read(name: str, largest: int) -> bytes:
        try:
            path = path_beside(own, name)
        except ValueError:
            raise PolicyError(f"{own / name}: leads out of its folder; expected a file in it") from None
        try:
            return read_bytes(path, largest)
        except OSError as error:
            why = error.strerror or error
            raise PolicyError(f"{own / name}: cannot be read ({why}); expected a file of a policy folder") from None

    return parse_policy(read(ABOUT, LARGEST_TEXT), read(WEIGHTS, LARGEST_FILE), str(folder))


def parse_policy(about: bytes, weights: bytes, origin: str) -> Policy:
    """The policy of the two files' bytes; `origin` is what errors call the folder"""
    name = f"{origin.rstrip('/')}/{ABOUT}"
    if len(about) > LARGEST_TEXT or len(weights) > LARGEST_FILE:
        raise PolicyError(f"{origin}: is larger than a policy; expected up to {LARGEST_FILE >> 20} MB of weights")
    try:
        text = about.decode("utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"{name}: is not a text in UTF-8") from None
    table = Table(tables_of(text, name, PolicyError), File(name, PolicyError))
    table.schema(SCHEMA)
    task, period = _plain(table, "task"), table.number("period", above=SHORTEST_PERIOD, upto=1.0)
    stated = table.text("weights_sha256")
    observation, inputs, bounds = _observation(table.table("observation"))
    vehicle, rotors, hover_speed = _vehicle(table.table("vehicle"))
    action, centre, reach = _action(table.table("action"), rotors, bool(vehicle))
    kinds = _kinds(table)
    evaluation = _about(table, "evaluation")
    _about(table, "versions")
    table.finish()
    actions = _actions(action, rotors)
    if kinds[-1].size != actions:
        raise table.wrong(f"the last layer has {kinds[-1].size} outputs; expected {actions}, as {action} needs")
    if inputs != (wanted := OBSERVATIONS[observation].size(rotors, actions)):
        raise table.wrong(f"observation.inputs = {inputs}: expected {wanted}, as {observation} of {rotors} rotors has")
    found = hashlib.sha256(weights).hexdigest()
    if found != stated:
        raise PolicyError(
            f"{origin.rstrip('/')}/{WEIGHTS}: is not the file that {ABOUT} was written with (SHA-256 {found[:12]}…, expected "
            f"{shown(stated[:12])}…)"
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
        Trim(hover_speed, centre, reach) if vehicle else None,
        bounds,
        period,
        (),
        task,
        digest_of(about, weights),
        kinds,
        evaluation,
        ((ABOUT, about), (WEIGHTS, weights)),
        origin,
    )


def _actions(kind: str, rotors: int) -> int:
    """How many numbers an action has"""
    return rotors if kind in OF_ROTORS else 4


def digest_of(about: bytes, weights: bytes) -> str:
    """SHA-256 of both files: the policy's own"""
    return hashlib.sha256(len(about).to_bytes(8, "little") + about + weights).hexdigest()


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
    """The name, "" for any; the number of rotors, and their speeds in hover"""
    anyone, name = table.flag("any", False), _plain(table, "name")
    rotors = table.whole("rotors", 0, low=1, high=64)
    speeds = () if anyone else _positive(table, "hover_speed", rotors)
    table.finish()
    return "" if anyone else name, rotors, speeds


def _action(table: Table, rotors: int, fixed: bool) -> tuple[str, tuple[float, ...], tuple[float, ...]]:
    kind = table.text("kind", choices=ACTION_SPACES)
    centre, reach = (_positive(table, key, rotors) if fixed else () for key in ("centre", "reach"))
    table.finish()
    return kind, centre, reach


def _plain(table: Table, key: str) -> str:
    """A text that may stand in a sentence, a title or a comment"""
    text = table.text(key)
    if not text.isprintable() or len(text) > LONGEST_NAME:
        raise table.error(key, text, f"a text of up to {LONGEST_NAME} printable characters")
    return text


def _positive(table: Table, key: str, count: int) -> tuple[float, ...]:
    numbers = table.numbers(key)
    if len(numbers) != count or not all(0.0 < x < 1e6 for x in numbers):
        raise table.error(key, list(numbers), f"{count} positive numbers")
    return numbers


def _kinds(table: Table) -> tuple[LayerKind, ...]:
    found = []
    for own in table.tables("layers"):
        kind = own.text("kind", choices=("dense", "gru"))
        size = own.whole("size", 0, low=1, high=WIDEST)
        found.append(LayerKind(kind, size, own.text("activation", choices=ACTIVATIONS) if kind == "dense" else "tanh"))
        own.finish()
    if not 1 <= len(found) <= MOST_LAYERS:
        raise table.error("layers", len(found), f"1 to {MOST_LAYERS} layers")
    if found[-1].kind != "dense":
        raise table.wrong("the last layer is recurrent; expected a dense one that gives the action")
    return tuple(found)


def _about(table: Table, key: str) -> tuple[tuple[str, object], ...]:
    """A table of texts and numbers that are kept and not used"""
    own = table.optional_table(key)
    if own is None:
        return ()
    for name, value in own.entries.items():
        if not isinstance(value, (str, bool)) and not is_number(value):
            raise own.error(name, value, "a text or a finite number")
    return tuple(own.entries.items())


def network_of(kinds: Sequence[LayerKind], inputs: int, tensors: Mapping[str, Array]) -> Network:
    """The layers of these kinds, with their numbers by name; ValueError where one is missing, has another shape, or is none"""
    shapes = tensor_shapes(kinds, inputs)
    if (products := sum(math.prod(shape) for shape in shapes.values())) > MOST_PRODUCTS:
        raise ValueError(f"its layers have {products} numbers; expected at most {MOST_PRODUCTS}")
    for name in tensors:
        if name not in shapes:
            raise ValueError(f"it has {shown(name)}, which no layer of {ABOUT} has; expected {', '.join(shapes)}")
    arrays = {name: _array(tensors, name, shape) for name, shape in shapes.items()}
    return tuple(_layer(own, {name: arrays[f"{k}.{name}"] for name in _shapes(own, 1)}) for k, own in enumerate(kinds))


def tensor_shapes(kinds: Sequence[LayerKind], inputs: int) -> dict[str, tuple[int, ...]]:
    """The arrays of these layers by name, and their shapes"""
    shapes: dict[str, tuple[int, ...]] = {}
    for k, own in enumerate(kinds):
        shapes |= {f"{k}.{name}": shape for name, shape in _shapes(own, inputs).items()}
        inputs = own.size
    return shapes


def _shapes(own: LayerKind, width: int) -> dict[str, tuple[int, ...]]:
    """The arrays of a layer: those of a recurrent one as PyTorch has them, in the order reset, update, new"""
    if own.kind == "dense":
        return {"weight": (own.size, width), "bias": (own.size,)}
    gates = 3 * own.size
    return {
        "weight_ih": (gates, width),
        "weight_hh": (gates, own.size),
        "bias_ih": (gates,),
        "bias_hh": (gates,),
        "initial": (own.size,),
    }


def _array(tensors: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    if name not in tensors:
        raise ValueError(f"{name} is missing; expected an array of {' × '.join(map(str, shape))}")
    own = np.asarray(tensors[name], dtype=np.float32)
    if own.shape != shape:
        found = " × ".join(map(str, own.shape)) or "one number"
        raise ValueError(f"{name} is {found}; expected {' × '.join(map(str, shape))}, as {ABOUT} has its layers")
    if not np.all(np.abs(own) <= LARGEST_WEIGHT):  # NaN is not either
        at = tuple(int(k) for k in np.argwhere(~(np.abs(own) <= LARGEST_WEIGHT))[0])
        raise ValueError(f"{name}{list(at)} is {own[at]}; expected a finite number, at most {LARGEST_WEIGHT:g} in size")
    return own


def _layer(kind: LayerKind, arrays: Mapping[str, Array]) -> Layer | Gru:
    own = {name: array.astype(float) for name, array in arrays.items()}
    if kind.kind == "dense":
        return _dense(own["weight"], own["bias"], kind.activation)
    both = 2 * kind.size
    gates = np.hstack([own["weight_ih"][:both], own["weight_hh"][:both]])
    return Gru(
        _dense(gates, own["bias_ih"][:both] + own["bias_hh"][:both], "sigmoid"),
        _dense(own["weight_ih"][both:], own["bias_ih"][both:], "linear"),
        _dense(own["weight_hh"][both:], own["bias_hh"][both:], "linear"),
        tuple(own["initial"].tolist()),
    )


def _dense(weights: Array, bias: Array, activation: str) -> Layer:
    return Layer(tuple(map(tuple, weights.tolist())), tuple(bias.tolist()), activation)


def _outputs(network: Network) -> int:
    last = network[-1]
    return last.size if isinstance(last, Gru) else last.rows


def _products(own: Layer | Gru) -> int:
    return own.gates.size + own.of_input.size + own.of_hidden.size if isinstance(own, Gru) else own.size


# Writing ------------------------------------------------------------------------------------------------------------


def mlp(hidden: Sequence[int], outputs: int, activation: str = "tanh", last: str = "tanh") -> tuple[LayerKind, ...]:
    """Dense layers of these sizes, and one of the outputs in [−1, 1]"""
    return (*(LayerKind("dense", size, activation) for size in hidden), LayerKind("dense", outputs, last))


def dense_tensors(layers: Iterable[tuple[Array, Array]]) -> dict[str, Array]:
    """The arrays of dense layers by name, of (W, b) for each: (out, in) and (out,)"""
    return {
        f"{k}.{name}": own for k, both in enumerate(layers) for name, own in zip(("weight", "bias"), both, strict=True)
    }


@dataclass(frozen=True)
class PolicyDescription:
    """The contents of policy.toml beside layers and weights, and `curve(path)`, which draws the learning curve.

    `for_any` marks a policy trained on random vehicles, which flies any with as many rotors.
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
        """The tables of policy.toml"""
        from samara.core.version import __version__

        rotors, bounds = len(vehicle.rotors), self.bounds
        trim = {} if self.for_any else {key: list(x) for key, x in trim_of(vehicle, self.action)._asdict().items()}
        inputs = OBSERVATIONS[self.observation].size(rotors, ACTION_SPACES[self.action].size(vehicle))
        limits = {} if bounds is None else {"farthest": bounds.position, "fastest": bounds.velocity}
        marked = {"any": True} if self.for_any else {"hover_speed": trim["hover_speed"]}
        return {
            "vehicle": {"name": vehicle.name, "rotors": rotors, **marked},
            "observation": {"kind": self.observation, "inputs": inputs, **limits},
            "action": {"kind": self.action} | {key: trim[key] for key in ("centre", "reach") if trim},
            "versions": {"samara": __version__, **self.versions},
            "evaluation": dict(self.evaluation),
        }


def save_policy(
    folder: str | Path, vehicle: Vehicle, layers: Sequence[LayerKind], tensors: Mapping[str, Array], **options: Scalar
) -> Policy:
    """Write a policy folder, each file completely or not at all, and return the policy as it is read back

    `tensors` are the weights by the names of the folder; `options` are the fields of `PolicyDescription`.
    """
    about, path = PolicyDescription(**options), Path(folder)
    weights = tensors_bytes({name: np.asarray(array) for name, array in tensors.items()})
    digest = hashlib.sha256(weights).hexdigest()
    head = {"schema": SCHEMA, "task": about.task, "period": about.period, "weights_sha256": digest}
    parts = [_lines(head), *(f"[{name}]\n{_lines(table)}" for name, table in about.tables(vehicle).items())]
    text = "\n".join([*parts, *(f"[[layers]]\n{_lines(_layer_table(kind))}" for kind in layers)])
    policy = parse_policy(text.encode(), weights, str(folder))
    with atomic_write(path / WEIGHTS) as temporary:
        temporary.write_bytes(weights)
    write_text(path / ABOUT, text)
    if about.curve is not None:
        with atomic_write(path / CURVE) as temporary:
            about.curve(temporary)
    return policy


def _layer_table(own: LayerKind) -> dict[str, object]:
    table = own._asdict()
    return table if own.kind == "dense" else {key: table[key] for key in ("kind", "size")}


def _lines(table: Mapping[str, object]) -> str:
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())
