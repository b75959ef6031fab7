"""A gate detector: which gates a neural network finds in an image, which it imagines, and how exact their corners are.

    track = advance_track(track, normals, detector, camera, dt)               # each frame, for each gate
    corners = detect_corners(corners, distance, track, normals, detector)
    label = detect_label(label, gate, column, row, tracks, in_view, background, gate_label)

Misses and false detections are two-state Markov chains, one of each per gate, with a rate p and a correlation time T. They
continue while a gate is out of view. `samara.identify.fit_detector` estimates the parameters from a log of detections.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple

import numpy as np

from samara.core.ops import absolute, clamp, fast_maximum, logical_and, where
from samara.core.quantity import Quantity, Scalar
from samara.core.types import Array
from samara.sensors.depth_camera import Pinhole

TRACK_NORMALS = 5  # standard normals per gate and frame: the miss, the false detection, and its place and size
CORNER_NORMALS = 8  # standard normals per gate and frame: column and row of each corner
MAX_DEVIATE = 40.0  # no standard normal is beyond it
FALSE_SPREAD = 0.25  # standard deviation of the centre of a false gate, relative to the image
FALSE_SIZE = 0.1  # mean half side of a false gate, relative to the height of the image
FALSE_SIZE_SPREAD = 0.5  # its standard deviation, relative to the mean
FALSE_SIZE_LIMITS = 0.25, 3.0  # relative to the mean
FRAME_FRACTION = 0.8  # half side of the opening of a false gate, relative to its outer half side


FALSE_CORNERS = ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0))


class DetectorPart(NamedTuple):
    """Parameters of a gate detector; the defaults are those of a perfect one.

    A gate in view is missed with the stationary probability `miss_rate`, in runs whose correlation decays with `miss_time`;
    a gate that is not found is reported at a wrong place with `false_rate` and `false_time`. The standard deviation of
    a corner's column and row is corner_noise + corner_noise_growth · distance. Detections arrive `delay` after the image.
    """

    miss_rate: Annotated[float, Quantity("1", 0.0, 1.0)] = 0.0
    miss_time: Annotated[float, Quantity("s", 0.0, 100.0)] = 0.0
    false_rate: Annotated[float, Quantity("1", 0.0, 1.0)] = 0.0
    false_time: Annotated[float, Quantity("s", 0.0, 100.0)] = 0.0
    corner_noise: Annotated[float, Quantity("1", 0.0, 100.0)] = 0.0
    corner_noise_growth: Annotated[float, Quantity("1/m", 0.0, 100.0)] = 0.0
    delay: Annotated[float, Quantity("s", 0.0, 0.5)] = 0.0


PERFECT_DETECTOR = DetectorPart()


class GateTrack(NamedTuple):
    """State of the detector for one gate: 1 while it is missed, 1 while a false gate is reported, and the centre and
    half side of that [pixel]."""

    missed: Scalar = 0.0
    false: Scalar = 0.0
    column: Scalar = 0.0
    row: Scalar = 0.0
    half_side: Scalar = 0.0


def correlation(time_constant: float, dt: float) -> float:
    """a = exp(−dt/T): the correlation of a chain's states in consecutive frames; 0 for T = 0"""
    return math.exp(-dt / time_constant) if time_constant > 0.0 else 0.0


def advance_chain(active: Scalar, normal: Scalar, rate: float, time_constant: float, dt: float) -> Scalar:
    """s' = 1 with probability p + (s − p) exp(−dt/T), else 0: stationary rate p, correlation exp(−|τ|/T)"""
    a = correlation(time_constant, dt)
    start, stay = (_threshold(rate + (state - rate) * a) for state in (0.0, 1.0))
    return where(normal < where(active > 0.5, stay, start), 1.0, 0.0)


def _threshold(probability: float) -> float:
    """Return the number that a standard normal one is below with a probability."""
    if 0.0 < probability < 1.0:
        return NormalDist().inv_cdf(probability)
    return MAX_DEVIATE if probability >= 1.0 else -MAX_DEVIATE


def initial_track(normals: Sequence[Scalar], detector: DetectorPart, camera: Pinhole) -> GateTrack:
    """Draw a track from its stationary distribution."""
    missed, false = (
        where(normal < _threshold(rate), 1.0, 0.0)
        for normal, rate in zip(normals, (detector.miss_rate, detector.false_rate), strict=False)
    )
    return GateTrack(missed, false, *false_gate(normals[2:TRACK_NORMALS], camera))


def advance_track(
    track: GateTrack, normals: Sequence[Scalar], detector: DetectorPart, camera: Pinhole, dt: float
) -> GateTrack:
    """Advance both chains by a frame; a false gate stays where it appeared."""
    missed = advance_chain(track.missed, normals[0], detector.miss_rate, detector.miss_time, dt)
    false = advance_chain(track.false, normals[1], detector.false_rate, detector.false_time, dt)
    stays = track.false > 0.5
    place = false_gate(normals[2:TRACK_NORMALS], camera)
    old_place = track.column, track.row, track.half_side
    return GateTrack(missed, false, *(where(stays, old, new) for old, new in zip(old_place, place, strict=True)))


def false_gate(normals: Sequence[Scalar], camera: Pinhole) -> tuple[Scalar, Scalar, Scalar]:
    """u = c + ¼ w n₀,  v = c + ¼ h n₁,  b = 0.1 h (1 + ½ n₂): centre and half side, all limited  [pixel]"""
    column = clamp(0.5 * camera.width + FALSE_SPREAD * camera.width * normals[0], 0.0, float(camera.width))
    row = clamp(0.5 * camera.height + FALSE_SPREAD * camera.height * normals[1], 0.0, float(camera.height))
    size = clamp(1.0 + FALSE_SIZE_SPREAD * normals[2], *FALSE_SIZE_LIMITS)
    return column - 0.5, row - 0.5, FALSE_SIZE * camera.height * size


def detect_corners(
    corners: Sequence[Sequence[Scalar]],
    distance: Scalar,
    track: GateTrack,
    normals: Sequence[Scalar],
    detector: DetectorPart,
) -> tuple[tuple[Scalar, Scalar, Scalar], ...]:
    """y = x + (σ₀ + σ₁ s) n of the visible corners; those of a false gate; or nothing: (u, v, visible) each  [pixel]

    Args:
        corners: true column, row and visibility of the four corners, from the upper left clockwise.
        distance: distance of the gate from the camera [m].
        track: state of the detector for this gate.
        normals: eight standard normals.
        detector: parameters.
    """
    is_found = logical_and(is_in_view(corners) > 0.5, track.missed < 0.5)
    is_false, sigma = track.false > 0.5, detector.corner_noise + detector.corner_noise_growth * distance
    detected = []
    for k, ((u, v, visible), (right, down)) in enumerate(zip(corners, FALSE_CORNERS, strict=True)):
        is_reported = logical_and(is_found, visible > 0.5)
        is_wrong = logical_and(is_false, where(is_found, 0.0, 1.0) > 0.5)
        wrong = track.column + right * track.half_side, track.row + down * track.half_side
        measured = u + sigma * normals[2 * k], v + sigma * normals[2 * k + 1]
        place = (where(is_reported, x, where(is_wrong, y, 0.0)) for x, y in zip(measured, wrong, strict=True))
        detected.append((*place, where(is_reported, 1.0, where(is_wrong, 1.0, 0.0))))
    return tuple(detected)


def is_in_view(corners: Sequence[Sequence[Scalar]]) -> Scalar:
    """Return 1 if a corner of a gate is visible, else 0."""
    in_view: Scalar = 0.0
    for _, _, visible in corners:
        in_view = where(visible > 0.5, 1.0, in_view)
    return in_view


def detect_label(
    label: Scalar,
    gate: Scalar,
    column: Scalar,
    row: Scalar,
    tracks: Sequence[GateTrack],
    in_view: Sequence[Scalar],
    background: float,
    gate_label: float,
) -> Scalar:
    """Return the class of a pixel as the detector reports it: without missed gates, with the frames of false ones.

    Args:
        label: true class of the pixel.
        gate: index of the gate in the pixel; −1 if there is none.
        column: column of the pixel.
        row: row of the pixel.
        tracks: state of the detector for each gate.
        in_view: above 0.5 for each gate that is in view.
        background: class of a missed gate's pixels.
        gate_label: class of a gate's pixels.
    """
    for index, (track, visible) in enumerate(zip(tracks, in_view, strict=True)):
        label = where(logical_and(gate == index, track.missed > 0.5), background, label)
        is_reported = logical_and(track.false > 0.5, where(visible > 0.5, track.missed, 1.0) > 0.5)
        offset = fast_maximum(absolute(column - track.column), absolute(row - track.row))
        is_frame = logical_and(offset <= track.half_side, offset >= FRAME_FRACTION * track.half_side)
        label = where(logical_and(is_reported, is_frame), gate_label, label)
    return label


def detect_segmentation(
    segmentation: Array,
    instance: Array,
    gate_instances: Sequence[int],
    tracks: Sequence[GateTrack],
    background: float,
    gate_label: float,
) -> Array:
    """Return segmentations (…, rows, columns) as the detector reports them; NumPy or JAX.

    Args:
        segmentation: true classes of the pixels.
        instance: their instances.
        gate_instances: the instance of each gate.
        tracks: state of the detector for each gate, numbers or arrays (…, 1, 1).
        background: class of a missed gate's pixels.
        gate_label: class of a false gate's pixels.
    """
    row, column = (index.astype(float) for index in np.indices(instance.shape[-2:]))
    gate: Any = np.full(instance.shape, -1.0)
    for index, number in enumerate(gate_instances):
        gate = where(instance == number, float(index), gate)
    in_view = [(gate == index).any(axis=(-2, -1), keepdims=True) for index in range(len(gate_instances))]
    label = segmentation.astype(np.float32)
    detected = detect_label(label, gate, column, row, tracks, in_view, background, gate_label)
    return detected.astype(segmentation.dtype)
