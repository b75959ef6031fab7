"""The equations of one camera pixel: what its ray sees, and the number that the image sensor makes of it.

    view = see_surface(view, hit, ray, look)     # for every surface that the ray may hit
    value = expose(radiance, …)

Called with Python floats they are the reference; `samara.sim.camera_renderer` compiles them with the pixels in the SIMD
lanes, and `samara.sensors.camera_jax` traces them for thousands of drones.
"""

from typing import NamedTuple

from samara.core.algebra import ZERO, Vec3, cross, rotate_inverse
from samara.core.ops import fast_minimum, floor, safe_sqrt, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.physics.types import State
from samara.sensors.depth_camera import Pinhole, distortion_jacobian
from samara.sensors.sensor import Mounting
from samara.world.appearance import DAYLIGHT, SKY, Appearance, Light, sky_radiance, surface_radiance, texture_colour
from samara.world.obstacles import NEVER, Ray
from samara.world.rays import Hit

GREY_LEVELS = 255.0
MIN_FLOW_DISTANCE = 1e-3  # [m]: a camera inside a solid has a finite flow
LUMINANCE = Vec3(0.2126, 0.7152, 0.0722)  # of linear red, green and blue (ITU-R BT.709)


class Look(NamedTuple):
    """An object for cameras: its appearance, its instance and class, and its velocity about the point that it turns about."""

    appearance: Appearance = Appearance()
    instance: Scalar = 0.0
    class_number: Scalar = 0.0
    p_W: Vec3 = ZERO
    v_W: Vec3 = ZERO
    omega_W: Vec3 = ZERO


class View(NamedTuple):
    """What a ray sees: distance [m], 1e9 for the sky; instance and class; radiance; velocity of that point [m/s]."""

    distance: Scalar
    instance: Scalar
    class_number: Scalar
    radiance: Vec3
    v_W: Vec3


def see_sky(direction_W: Vec3, light: Light = DAYLIGHT) -> View:
    """Return the view of a ray that hits nothing."""
    return View(NEVER, float(SKY), float(SKY), sky_radiance(direction_W, light), ZERO)


def see_surface(view: View, hit: Hit, ray: Ray, look: Look, light: Light = DAYLIGHT) -> View:
    """Return the view with a surface where its distance is less than that of the view."""
    is_nearer, point = hit.distance < view.distance, hit.point
    colour = texture_colour(point.u, point.v, look.appearance)
    candidate = View(
        hit.distance,
        look.instance,
        look.class_number,
        surface_radiance(colour, point.normal_W, light),
        look.v_W + cross(look.omega_W, ray.p_W + ray.direction_W * hit.distance - look.p_W),
    )
    pairs = zip(flatten(candidate), flatten(view), strict=True)
    nearer: View = unflatten(view, (where(is_nearer, a, b) for a, b in pairs))
    return nearer


def vignetting_gain(direction_S: Vec3, vignetting: Scalar) -> Scalar:
    """g = 1 − V (1 − cos⁴θ), θ the angle from the optical axis"""
    cosine_squared = direction_S.x * direction_S.x
    return 1.0 - vignetting * (1.0 - cosine_squared * cosine_squared)


def expose(radiance: Scalar, gain: Scalar, normal: Scalar, shot: Scalar, read: Scalar, gamma: float) -> Scalar:
    """k = ⌊255 yᵞ + ½⌋,  y = g L + √(shot g L + read²) n within [0, 1];  γ = 1 or ½, NaN is 0

    g is the exposure, 1 for a white surface in full sunlight at full scale; shot = 1/N and read = σ/N for a full well of N
    electrons and a read noise of σ.
    """
    signal = fast_minimum(gain * radiance, 1.0)
    value = signal + safe_sqrt(shot * signal + read * read) * normal
    value = where(value > 0.0, fast_minimum(value, 1.0), 0.0)
    return floor(GREY_LEVELS * (safe_sqrt(value) if gamma == 2.0 else value) + 0.5)


def depth(view: View, direction_S: Vec3, max_range: Scalar) -> Scalar:
    """z = s dₓ, along the axis; 0 for the sky and beyond the range  [m]"""
    z = view.distance * direction_S.x
    return where(z > max_range, 0.0, z)


def optical_flow(
    view: View, direction_S: Vec3, state: State, mounting: Mounting, camera: Pinhole
) -> tuple[Scalar, Scalar]:
    """(u̇, v̇) = f J (ẋ, ẏ) with (x, y) = −(p_y, p_z)/p_x and ṗ_S = v_point − v_camera − ω × p; of the sky by rotation only
    [1/s]

    J is the Jacobian of the lens distortion.
    """
    v_relative_B = rotate_inverse(state.q_WB, view.v_W - state.v_W) - cross(state.omega_B, mounting.r_B)
    distance = where(view.distance > MIN_FLOW_DISTANCE, view.distance, MIN_FLOW_DISTANCE)
    v_S = rotate_inverse(mounting.q_BS, v_relative_B) / distance
    v = v_S - cross(rotate_inverse(mounting.q_BS, state.omega_B), direction_S)
    x, y = -direction_S.y / direction_S.x, -direction_S.z / direction_S.x
    x_rate, y_rate = (-v.y - x * v.x) / direction_S.x, (-v.z - y * v.x) / direction_S.x
    xx, xy, yy = distortion_jacobian(x, y, camera.lens)
    return camera.focal_x * (xx * x_rate + xy * y_rate), camera.focal_y * (xy * x_rate + yy * y_rate)
