"""The appearance of a world for cameras: colours, textures, classes and gates of its surfaces, the sun and the sky.

    scene = CameraScene((CameraSurface(Sphere(Vec3(5.0, 0.0, 1.0), 0.5), Appearance(colour=Vec3(0.8, 0.1, 0.1))),))

Colours are linear reflectances from 0 to 1; `linear_colour("#d55e00")` converts from sRGB. A surface reflects diffusely; it
casts no shadow. Radiance 1 is that of a white surface in full sunlight.
"""

from typing import NamedTuple

from samara.core.algebra import Quat, Vec3, dot, rotate
from samara.core.ops import cos, fast_maximum, floor, sin, where
from samara.core.quantity import Scalar
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box
from samara.world.gates import Gate, GateSize
from samara.world.obstacles import HeightMap, Solid

TEXTURES = ("plain", "checker", "stripes")
SKY, GROUND = 0, 1  # instances and classes 0 and 1
CLASS_NAMES = ("sky", "ground", "obstacle", "gate", "drone")
"""The classes of every scene, in the order of their numbers; further classes of a world follow."""
MAX_CLASSES = 256
GATE_BARS = ("left", "right", "top", "bottom")


def linear_colour(text: str) -> Vec3:
    """Convert "#rrggbb" in sRGB to linear reflectances, by IEC 61966-2-1."""
    digits = text.removeprefix("#")
    if not text.startswith("#") or len(digits) != 6 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise ValueError(f"colour = {text!r}: expected six hexadecimal digits, such as '#d55e00'")
    channels = [int(digits[k : k + 2], 16) / 255.0 for k in (0, 2, 4)]
    return Vec3(*(x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in channels))


class Appearance(NamedTuple):
    """The look of a surface: its colour, its texture with a second colour and the side of a checker or stripe [m], its class.

    Surfaces with the same non-empty `object_name` are one instance.
    """

    colour: Vec3 = linear_colour("#9aa5b1")
    texture: str = "plain"
    texture_colour: Vec3 = linear_colour("#ffffff")
    texture_size: float = 0.5
    class_name: str = "obstacle"
    object_name: str = ""


GROUND_APPEARANCE = Appearance(
    linear_colour("#6f7d55"), "checker", linear_colour("#8a9a6b"), texture_size=1.0, class_name="ground"
)
GATE_APPEARANCE = Appearance(linear_colour("#d55e00"), class_name="gate")
DRONE_APPEARANCE = Appearance(linear_colour("#22313f"), class_name="drone")


class Light(NamedTuple):
    """Sun and sky: the unit vector to the sun, the radiance of a white surface from sun and sky, and the colours of the sky."""

    sun_direction_W: Vec3 = Vec3(0.48, 0.36, 0.8)
    sun: float = 0.7
    ambient: float = 0.3
    horizon: Vec3 = linear_colour("#cfe3f5")
    zenith: Vec3 = linear_colour("#5b93cf")


DAYLIGHT = Light()


class CameraSurface(NamedTuple):
    """A solid and its appearance."""

    solid: Solid
    appearance: Appearance = Appearance()


class PlacedGate(NamedTuple):
    """A gate of a world: its name, pose, sizes and thickness [m]."""

    name: str
    gate: Gate
    sizes: GateSize
    depth: float = 0.05


class CameraScene(NamedTuple):
    """What cameras see besides other drones: surfaces, the ground (None: the plane below the drone), light and gates."""

    surfaces: tuple[CameraSurface, ...] = ()
    ground: Ground | HeightMap | None = None
    ground_appearance: Appearance = GROUND_APPEARANCE
    light: Light = DAYLIGHT
    gates: tuple[PlacedGate, ...] = ()

    @property
    def instance_names(self) -> tuple[str, ...]:
        """Names of the instances by number: the sky, the ground, and the objects; other drones follow."""
        return "sky", "ground", *dict.fromkeys(self._object_names)

    @property
    def _object_names(self) -> tuple[str, ...]:
        return tuple(surface.appearance.object_name or f"surface[{k}]" for k, surface in enumerate(self.surfaces))

    @property
    def instances(self) -> tuple[int, ...]:
        """The instance of each surface."""
        numbers = {name: k for k, name in enumerate(self.instance_names)}
        return tuple(numbers[name] for name in self._object_names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes by number: those of every scene, then those of this one in the order of its surfaces."""
        surface_classes = (surface.appearance.class_name for surface in self.surfaces)
        return tuple(dict.fromkeys((*CLASS_NAMES, self.ground_appearance.class_name, *surface_classes)))

    def class_number(self, appearance: Appearance) -> int:
        """Return the number of an appearance's class."""
        return self.class_names.index(appearance.class_name)


EMPTY_SCENE = CameraScene()


def sky_radiance(direction_W: Vec3, light: Light) -> Vec3:
    """L = horizon + max(d_z, 0) (zenith − horizon)"""
    height = fast_maximum(direction_W.z, 0.0)
    return light.horizon + (light.zenith - light.horizon) * height


def surface_radiance(colour: Vec3, normal_W: Vec3, light: Light) -> Vec3:
    """L = ρ (ambient + sun max(n·s, 0)): diffuse reflection of sun and sky"""
    return colour * (light.ambient + light.sun * fast_maximum(dot(normal_W, light.sun_direction_W), 0.0))


def texture_colour(u: Scalar, v: Scalar, appearance: Appearance) -> Vec3:
    """ρ₁ where ⌊u/s⌋ + ⌊v/s⌋ is even (stripes: ⌊u/s⌋), else ρ₂; a plain surface has ρ₁"""
    if appearance.texture == "plain":
        return appearance.colour
    cell = floor(u / appearance.texture_size)
    if appearance.texture == "checker":
        cell = cell + floor(v / appearance.texture_size)
    is_second = cell - 2.0 * floor(0.5 * cell) > 0.5
    return Vec3(*(where(is_second, b, a) for a, b in zip(appearance.colour, appearance.texture_colour, strict=True)))


def gate_attitude(gate: Gate) -> Quat:
    """q = R_z(ψ): from the gate frame to the world"""
    half = 0.5 * gate.yaw
    return Quat(cos(half), 0.0 * half, 0.0 * half, sin(half))


def gate_boxes(gate: Gate, sizes: GateSize, depth: Scalar) -> tuple[Box, Box, Box, Box]:
    """Return the bars of a gate's frame: left, right, top, bottom."""
    (width, height), (frame_width, frame_height) = sizes
    q_WS, bar_y, bar_z = gate_attitude(gate), 0.25 * (frame_width - width), 0.25 * (frame_height - height)
    side, top = Vec3(0.5 * depth, bar_y, 0.5 * frame_height), Vec3(0.5 * depth, 0.5 * width, bar_z)
    y, z = 0.5 * width + bar_y, 0.5 * height + bar_z

    def bar(y: float, z: float, half: Vec3) -> Box:
        return Box(gate.p_W + rotate(q_WS, Vec3(0.0, y, z)), half, q_WS)

    return bar(y, 0.0, side), bar(-y, 0.0, side), bar(0.0, z, top), bar(0.0, -z, top)


def gate_corners(gate: Gate, sizes: GateSize) -> tuple[Vec3, Vec3, Vec3, Vec3]:
    """Return the corners of a gate's opening: top left, top right, bottom right, bottom left in the direction of flight."""
    q_WS, y, z = gate_attitude(gate), 0.5 * sizes.opening_size[0], 0.5 * sizes.opening_size[1]
    a, b, c, d = (gate.p_W + rotate(q_WS, Vec3(0.0, *corner)) for corner in ((y, z), (-y, z), (-y, -z), (y, -z)))
    return a, b, c, d
