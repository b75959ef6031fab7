"""Render a flight as a film or a picture, without a display or a graphics card.

    render(run, "flight.mp4", Film(camera="chase"))

Lines, discs and boxes are projected with `camera` and filled by Matplotlib's rasteriser, the farthest first.
"""

import errno
import math
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.algebra import Quat, Vec3, quat_from_axis_angle, rotate
from samara.core.atomic_files import atomic_write
from samara.core.extras import import_extra
from samara.core.types import Array
from samara.physics.quantities import position_error, speed
from samara.physics.types import Vehicle
from samara.record.run import DroneRecord, Run
from samara.scenario.meshes import drawable_solids, solid_faces
from samara.scenario.world import World, recorded_world
from samara.vehicles.shape import (
    COLOURS,
    INK,
    LOAD_COLOUR,
    BodyBox,
    Disc,
    Rod,
    load_radius,
    outer_frame_radius,
    shape_parts,
)
from samara.view.film.camera import (
    Camera,
    camera_along,
    look_at,
    to_camera_axes,
    to_pixels,
    visible_area,
    visible_lines,
)
from samara.view.film.sensor_film import SensorFilm, recorded_views
from samara.view.plot.signals import motor_command_limits

if TYPE_CHECKING:
    from matplotlib.typing import ColorType
    from PIL import ImageDraw

Progress = Callable[[int, int], None]

CAMERAS = ("chase", "fixed", "top", "onboard")
SUFFIXES = (".mp4", ".gif", ".png")
SKY, GROUND, FINE_GRID, COARSE_GRID, SHADOW = "#f4f8fc", "#e9eef2", "#d3dce4", "#b4c0cb", "#22313f"
FIELD_DEG = {"chase": 42.0, "fixed": 34.0, "top": 34.0, "onboard": 80.0}
CHASE_DISTANCE_RADII = 9.0  # distance of the chase camera behind a drone, in radii of the drone
CABLE_RADIUS_FRACTION = 0.45  # fraction of a cable's length that counts as radius, so that the load is in view
HEADING_SMOOTHING_TIME = 0.6  # [s]: averaging time of the chase camera's heading
DISC_VERTICES = 24  # vertices of a propeller disc
STROBE_POSES, MAX_STROBED_DRONES = 14, 3  # poses per drone in a picture, and largest drone count drawn this way
MAX_PIXELS = 4096
PALETTE_SIZE = 64  # colours of a GIF
GIF_FPS, GIF_SIZE, GIF_FRAMES = 10.0, (480, 360), 200  # defaults for less than 5 MB, at about 20 kB per frame
MAX_OFFSET_FRACTION = 0.42  # largest distance of a flight from the picture's centre, relative to the picture's size
MIN_DRONE_HEIGHT_FRACTION = (
    0.02  # relative to the picture's height: drones that would appear smaller are drawn enlarged
)
MIN_DETAILED_SIZE = 22.0  # [px]: smaller drones are drawn without depth sorting of their parts
MIN_DISTANCE = 0.05  # [m]: objects closer to the eye are not drawn
MIN_SPINNING_SPEED = 5.0  # [rad/s]: slower rotors are drawn standing still
MAX_INDIVIDUAL_DRONES = 8  # above this drone count, references are not drawn
FORWARD, UP = Vec3(1.0, 0.0, 0.0), Vec3(0.0, 0.0, 1.0)
BLADE_SPEED = 23.0  # [rad/s]: drawn speed of blades, slow enough to show the direction of spin


class Film(NamedTuple):
    """Settings of a film: frames per second, size [px], playback speed, camera, followed drone, start and stop [s].

    The camera is "chase", "fixed", "top", "onboard", or a recorded camera or lidar of the drone: its name, or one of its
    outputs, "eye/depth".
    """

    fps: float = 30.0
    size: tuple[int, int] = (960, 720)
    speed: float = 1.0
    camera: str = "chase"
    drone: str = ""
    start: float = 0.0
    stop: float = math.inf


def default_film(run: Run, path: str | Path, **settings: Any) -> Film:
    """Return the default settings: for a GIF a few hundred small frames, which keeps it below 5 MB.

    A long flight is shown faster than real time rather than in part.
    """
    ending = Path(path).suffix.lower()
    defaults: dict[str, Any] = {"camera": "fixed" if len(run.drone_records) > 1 or ending == ".png" else "chase"}
    if ending != ".gif":
        return Film(**{**defaults, **settings})
    film = Film(**{**defaults, "fps": GIF_FPS, "size": GIF_SIZE, **settings})
    seconds = min(film.stop, float(run.drone_records[0].time[-1])) - max(
        film.start, float(run.drone_records[0].time[0])
    )
    playback_speed = max(1.0, math.ceil(seconds * film.fps / GIF_FRAMES))
    return film if "speed" in settings else film._replace(speed=playback_speed)


def render(run: Run, path: str | Path, film: Film | None = None, progress: Progress = lambda done, total: None) -> Path:
    """Render a run and return the path: .mp4 (needs the extra `video`), .gif, or .png with the drones at many instants.

    Args:
        run: the flight.
        path: file to write; its suffix selects the format.
        film: settings; default: `default_film`.
        progress: called with the count of finished frames and the total.
    """
    film = film or default_film(run, path)
    ending = Path(path).suffix.lower()
    if ending not in SUFFIXES:
        raise ValueError(f"{path}: expected a file with the suffix {', '.join(SUFFIXES)}")
    require_film(film, run)
    if ending == ".png":
        from PIL import Image

        picture = strobe(run, film)
        with atomic_write(path) as temporary:
            Image.fromarray(picture).save(temporary, format="PNG", optimize=True)
        progress(1, 1)
        return Path(path)
    write = _write_mp4 if ending == ".mp4" else _write_gif
    fps = (
        film.fps if ending == ".mp4" else 100.0 / max(2, round(100.0 / film.fps))
    )  # GIF delays are in hundredths of a second
    times = frame_times(run, film._replace(fps=fps))
    scene = _film_source(run, film)
    frames = FilmFrames(film.size, fps, len(times), lambda k: scene.frame(float(times[k])), progress)
    with atomic_write(path) as temporary:
        write(temporary, frames)
    return Path(path)


def require_film(film: Film, run: Run) -> None:
    """Raise ValueError if a setting of the film is invalid for this run."""
    width, height = film.size
    if not (film.fps > 0.0 and math.isfinite(film.fps)):
        raise ValueError(f"fps is {film.fps:g}; expected a number above 0")
    if not (film.speed > 0.0 and math.isfinite(film.speed)):
        raise ValueError(f"speed is {film.speed:g}; expected a number above 0: 2 is twice real time")
    if not (16 <= width <= MAX_PIXELS and 16 <= height <= MAX_PIXELS) or width % 2 or height % 2:
        raise ValueError(f"size is {width}x{height}; expected even numbers from 16 to {MAX_PIXELS}, such as 960x720")
    names = [track.name for track in run.drone_records]
    if film.drone and film.drone not in names:
        raise ValueError(f"no drone {film.drone!r}; expected one of {', '.join(names)}")
    if film.camera not in CAMERAS and film.camera not in (views := recorded_views(run, film.drone)):
        raise ValueError(f"no camera {film.camera!r}; expected one of {', '.join((*CAMERAS, *views))}")
    first, last = float(run.drone_records[0].time[0]), float(run.drone_records[0].time[-1])
    if not film.start < min(film.stop, last) or film.stop <= first:
        raise ValueError(
            f"no flight data from {film.start:g} to {film.stop:g} s; expected times from {first:g} to {last:g} s"
        )


def frame_times(run: Run, film: Film) -> Array:
    """t = start + k speed/fps, to the end of the flight or of the film  [s]."""
    time = run.drone_records[0].time
    first, last = max(film.start, float(time[0])), min(film.stop, float(time[-1]))
    step = film.speed / film.fps
    return first + step * np.arange(math.floor((last - first) / step + 1e-9) + 1)


def strobe(run: Run, film: Film) -> Array:
    """Render one picture (height, width, 3): the end of the film, and for few drones also poses at equal intervals."""
    require_film(film, run)
    first, last = frame_times(run, film._replace(fps=1e3))[[0, -1]]
    if film.camera not in CAMERAS:
        return _film_source(run, film).frame(float(last))
    moments = (
        np.linspace(first, last, STROBE_POSES)[:-1].tolist() if len(run.drone_records) <= MAX_STROBED_DRONES else []
    )
    return FilmScene(run, film).frame(float(last), moments)


def _film_source(run: Run, film: Film) -> "FilmScene | SensorFilm":
    """Return what draws the frames: the scene, or a recorded camera's pictures."""
    if film.camera in CAMERAS:
        return FilmScene(run, film)
    return SensorFilm(recorded_views(run, film.drone)[film.camera], film.size)


# Files ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilmFrames:
    """The frames of a film: size [px], frames per second, frame count, and a function that draws a frame by its index."""

    size: tuple[int, int]
    fps: float
    count: int
    frame: Callable[[int], Array]
    progress: Progress

    def draw_frames(self) -> Iterator[Array]:
        """Draw all frames in order, and report progress."""
        for k in range(self.count):
            yield self.frame(k)
            self.progress(k + 1, self.count)


def _write_mp4(path: Path, frames: FilmFrames) -> None:
    imageio_ffmpeg = import_extra("imageio_ffmpeg", "MP4, unlike GIF,", "imageio-ffmpeg", "video")
    width, height = frames.size
    input_options = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {frames.fps} -i - -an"
    output_options = "-c:v libx264 -pix_fmt yuv420p -crf 20 -preset veryfast -movflags +faststart -f mp4"
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-y",
        "-loglevel",
        "error",
        *input_options.split(),
        *output_options.split(),
        str(path),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            for frame in frames.draw_frames():
                process.stdin.write(frame.tobytes())
        except BrokenPipeError:  # ffmpeg ended early; stderr holds the reason
            pass
        except BaseException:
            process.kill()
            raise
        errors = process.communicate()[1].decode("utf-8", "replace").strip()
    if process.returncode:
        reason = errors.splitlines()[-1] if errors else f"ended with status {process.returncode}"
        raise OSError(errno.EIO, f"ffmpeg: {reason}")


def _write_gif(path: Path, frames: FilmFrames) -> None:
    """Write with one palette from beginning, middle and end of the film: colours do not flicker, frames stay small."""
    from PIL import Image

    sample_frames = [frames.frame(k) for k in sorted({0, frames.count // 2, frames.count - 1})]
    samples = np.concatenate([*sample_frames, *(_swatch(colour, frames.size) for colour in (*COLOURS, INK))])
    palette = Image.fromarray(samples).quantize(colors=PALETTE_SIZE, method=Image.Quantize.MEDIANCUT)
    images = (
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames.draw_frames()
    )
    first = next(images)
    duration = round(1000.0 / frames.fps)
    first.save(path, format="GIF", save_all=True, append_images=images, duration=duration, loop=0, optimize=False)


def _swatch(colour: str, size: tuple[int, int]) -> Array:
    """Return a strip of a colour, opaque and as faint as a propeller disc, so that the palette contains the colours of
    small objects."""
    colour_rgb, ground_rgb = (np.array([int(text[k : k + 2], 16) for k in (1, 3, 5)]) for text in (colour, GROUND))
    strip = np.empty((max(2, size[1] // 12), size[0], 3), np.uint8)
    strip[:, : size[0] // 2], strip[:, size[0] // 2 :] = colour_rgb, 0.35 * colour_rgb + 0.65 * ground_rgb
    return strip


# Scene ------------------------------------------------------------------------------------------------------------------


NO_CABLE, NO_SERVO = np.empty((0, 2, 3)), np.empty(0)


class FilmPose(NamedTuple):
    """A drone at one instant."""

    p_W: Array
    q_WB: Quat
    v_W: Array
    rotor_speed: Array
    command: Array
    wind_W: Array
    error: float
    cable_W: Array = NO_CABLE
    servo_angle: Array = NO_SERVO


class FlightArrays(NamedTuple):
    """The arrays of a drone record that a film needs at every frame, copied from its tables once."""

    time: Array
    position: Array
    velocity: Array
    attitude: Array
    rotor_speed: Array
    reference_position: Array
    wind: Array
    command_time: Array
    command: Array
    cable: Array
    servo_angle: Array


def flight_arrays(track: DroneRecord) -> FlightArrays:
    """Copy the arrays of `FlightArrays` from a drone record."""
    return FlightArrays(*(np.ascontiguousarray(getattr(track, name)) for name in FlightArrays._fields))


def path_points(flight: FlightArrays) -> Array:
    """Return the positions of a drone and its slung load, (n, 3)."""
    return np.concatenate([flight.position, flight.cable[:, 1]])


def interpolate_pose(track: FlightArrays, time: float) -> FilmPose:
    """Interpolate linearly between logged states, with the attitude along the shorter arc; commands are held."""
    row = int(np.clip(np.searchsorted(track.time, time, side="right") - 1, 0, max(len(track.time) - 2, 0)))
    after = min(row + 1, len(track.time) - 1)
    span = float(track.time[after] - track.time[row])
    fraction = min(max((time - float(track.time[row])) / span, 0.0), 1.0) if span > 0.0 else 0.0

    def interpolate(values: Array) -> Array:
        return np.asarray((1.0 - fraction) * values[row] + fraction * values[after]) if len(values) else values

    q0, q1 = track.attitude[row], track.attitude[after]
    q = (1.0 - fraction) * q0 + fraction * (q1 if float(q0 @ q1) >= 0.0 else -q1)
    command_row = max(int(np.searchsorted(track.command_time, time + 1e-9, side="right")) - 1, 0)
    p_W = interpolate(track.position)
    return FilmPose(
        p_W,
        Quat(*(q / np.linalg.norm(q)).tolist()),
        interpolate(track.velocity),
        interpolate(track.rotor_speed),
        track.command[command_row],
        track.wind[row],
        float(position_error(Vec3(*p_W), Vec3(*interpolate(track.reference_position)))),
        interpolate(track.cable),
        interpolate(track.servo_angle),
    )


class VehicleGeometry(NamedTuple):
    """A vehicle's parts as points in body axes: two per rod, the edge of each disc, eight corners per box."""

    rods: tuple[Rod, ...]
    discs: tuple[Disc, ...]
    boxes: tuple[BodyBox, ...]
    points_B: Array
    radius: float
    load: float = 0.0
    cable: float = 0.0
    hinges: tuple[tuple[int, Vec3], ...] = ()  # disc that each servo tilts, and hinge axis

    def select_rods(self, values: Array) -> Array:
        """Select the values at the ends of the rods, (rods, 2, …)."""
        return values[: 2 * len(self.rods)].reshape(-1, 2, *values.shape[1:])

    def select_discs(self, values: Array) -> Array:
        """Select the values at the edges of the discs, (discs, EDGE, …)."""
        start = 2 * len(self.rods)
        return values[start : start + DISC_VERTICES * len(self.discs)].reshape(-1, DISC_VERTICES, *values.shape[1:])

    def select_boxes(self, values: Array) -> Array:
        """Select the values at the corners of the boxes, (boxes, 8, …)."""
        return values[2 * len(self.rods) + DISC_VERTICES * len(self.discs) :].reshape(-1, 8, *values.shape[1:])


class ProjectedDrone(NamedTuple):
    """A drone at one instant, projected: its points in the world and in the picture, their depths, and its size [px]."""

    model: VehicleGeometry
    pose: FilmPose
    time: float
    points_W: Array
    pixels: Array
    depths: Array
    size: float


def vehicle_geometry(vehicle: Vehicle) -> VehicleGeometry:
    """Convert the parts of a vehicle to points in body axes."""
    parts = shape_parts(vehicle)
    rods = tuple(part for part in parts if isinstance(part, Rod))
    discs = tuple(part for part in parts if isinstance(part, Disc))
    boxes = tuple(part for part in parts if isinstance(part, BodyBox))
    points = [np.array([rod.start_B, rod.end_B], dtype=float) for rod in rods]
    points += [disc_edge(disc) for disc in discs] + [box_corners(box) for box in boxes]
    load, cable = (load_radius(vehicle), vehicle["slung_load"].length) if vehicle.has("slung_load") else (0.0, 0.0)
    hinges = tuple((i, vehicle.rotors[i].servo.hinge_B) for i in vehicle.servos)
    return VehicleGeometry(rods, discs, boxes, np.concatenate(points), outer_frame_radius(vehicle), load, cable, hinges)


def tilted_points(model: VehicleGeometry, servo_angle: Array) -> Array:
    """c + exp(δ h) (r − c): all points in body axes, with each servo-driven disc tilted about its hinge h."""
    if not model.hinges:
        return model.points_B
    points = model.points_B.copy()
    for (k, hinge_B), angle in zip(model.hinges, servo_angle.tolist(), strict=True):
        centre, edge = np.array(model.discs[k].centre_B, dtype=float), model.select_discs(points)[k]
        tilted_edge = rotate(quat_from_axis_angle(hinge_B, angle), Vec3(*(edge - centre).T))
        edge[:] = centre + np.stack(np.broadcast_arrays(*tilted_edge), axis=1)
    return points


def perpendicular_axes(axis: ArrayLike) -> tuple[Array, Array]:
    """Return two unit vectors perpendicular to an axis, the second a right-handed quarter turn after the first."""
    z = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    x = np.cross((0.0, 1.0, 0.0) if abs(z[1]) < 0.9 else (0.0, 0.0, 1.0), z)
    x = x / np.linalg.norm(x)
    return x, np.cross(z, x)


def disc_edge(disc: Disc) -> Array:
    """Return points (n, 3) around the edge of a disc, right-handed about its axis."""
    x, y = perpendicular_axes(disc.axis_B)
    angles = np.linspace(0.0, 2.0 * math.pi, DISC_VERTICES, endpoint=False)[:, None]
    return np.array(disc.centre_B, dtype=float) + disc.radius * (np.cos(angles) * x + np.sin(angles) * y)


def box_corners(box: BodyBox) -> Array:
    """Return the eight corners, x slowest."""
    signs = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    return np.array(box.centre_B, dtype=float) + signs * np.array(box.size_B, dtype=float)


_FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))  # seen from outside
_LIGHT = np.array([0.3, -0.4, 0.85]) / np.linalg.norm([0.3, -0.4, 0.85])


class FilmScene:
    """A run ready to be filmed: records, geometries and camera path. `frame(time)` draws a picture (height, width, 3)."""

    def __init__(self, run: Run, film: Film) -> None:
        from matplotlib.backends.backend_agg import RendererAgg

        self.run, self.film = run, film
        self.flights = [flight_arrays(track) for track in run.drone_records]
        self.followed_index = [track.name for track in run.drone_records].index(film.drone) if film.drone else 0
        models: dict[int, VehicleGeometry] = {}
        for track in run.drone_records:
            models.setdefault(id(track.vehicle), vehicle_geometry(track.vehicle))
        self.models = [models[id(track.vehicle)] for track in run.drone_records]
        points = np.concatenate([path_points(flight) for flight in self.flights])
        self.low, self.high = points.min(axis=0), points.max(axis=0)
        self.ground = float(run.drone_records[self.followed_index].tables["environment"]["ground.point_W"][0, 2])
        self.camera_distance = self._min_camera_distance() if film.camera in ("fixed", "top") else 0.0
        self.scale = self._visible_scale()
        self._renderer: Any = RendererAgg(*film.size, 72.0)  # type: ignore[no-untyped-call]
        self._pen = Pen(self._renderer, film.size)
        self._solids = _Obstacles(recorded_world(run.attachments), self.low, self.high)
        self._heading = _smooth_heading(run.drone_records[self.followed_index])
        self._labels = Labels(film.size)

    def _visible_scale(self) -> float:
        """Enlargement of drones: 1, or the factor that makes them visible from the distance that shows the whole flight."""
        if self.film.camera not in ("fixed", "top"):
            return 1.0
        pixels = self.camera(0.0).focal * min(model.radius for model in self.models) / self.camera_distance
        min_pixels = MIN_DRONE_HEIGHT_FRACTION * self.film.size[1]
        return max(1.0, float(math.ceil(min_pixels / pixels)))

    def camera(self, time: float) -> Camera:
        """Return the camera at a time."""
        camera_type, size = self.film.camera, self.film.size
        field_deg = FIELD_DEG[camera_type]
        pose = interpolate_pose(self.flights[self.followed_index], time)
        radius = self.models[self.followed_index].radius
        if camera_type == "onboard":
            ahead, up = (np.array(rotate(pose.q_WB, axis), dtype=float) for axis in (FORWARD, UP))
            return camera_along(pose.p_W + 0.3 * radius * up, ahead, size, field_deg, up)
        if camera_type == "chase":
            angle = float(np.interp(time, self.flights[self.followed_index].time, self._heading))
            direction = np.array([math.cos(angle), math.sin(angle), 0.0])
            distance = CHASE_DISTANCE_RADII * max(
                radius, CABLE_RADIUS_FRACTION * self.models[self.followed_index].cable
            )
            eye = pose.p_W - distance * direction + np.array([0.0, 0.0, 0.42 * distance])
            eye[2] = max(eye[2], self.ground + 0.25 * radius)
            return look_at(eye, pose.p_W + 0.8 * radius * direction, size, field_deg)
        direction = np.array([0.0, 0.0, 1.0]) if camera_type == "top" else _side_view_direction()
        middle = 0.5 * (self.low + self.high)
        return camera_along(middle + self.camera_distance * direction, -direction, size, field_deg)

    def _min_camera_distance(self) -> float:
        """Smallest distance from which the whole flight is in the picture and clear of the labels [m]."""
        direction = np.array([0.0, 0.0, 1.0]) if self.film.camera == "top" else _side_view_direction()
        middle, clearance = 0.5 * (self.low + self.high), 2.0 * max(model.radius for model in self.models)
        corners = np.concatenate([path_points(flight)[:: max(1, len(flight.time) // 200)] for flight in self.flights])
        low, high = clearance, 4.0 * clearance + 40.0 * float(np.linalg.norm(self.high - self.low))
        for _ in range(40):
            trial = 0.5 * (low + high)
            camera = camera_along(middle + trial * direction, -direction, self.film.size, FIELD_DEG[self.film.camera])
            points_C = to_camera_axes(camera, corners)
            margin = camera.focal * clearance / np.maximum(points_C[:, 2], MIN_DISTANCE)
            offset = np.abs(to_pixels(camera, points_C) - 0.5 * np.array(self.film.size)) + margin[:, None]
            fits = points_C[:, 2].min() > clearance and (offset < MAX_OFFSET_FRACTION * np.array(self.film.size)).all()
            low, high = (low, trial) if fits else (trial, high)
        return high

    def frame(self, time: float, earlier_times: Sequence[float] = ()) -> Array:
        """Draw the picture at a time; also draw the drones at `earlier_times`."""
        camera = self.camera(time)
        self._renderer.clear()
        self._draw_ground(camera)
        self._solids.draw(camera, self._pen)
        drones: list[ProjectedDrone] = []
        for moment in (*earlier_times, time):
            for k, (model, flight) in enumerate(zip(self.models, self.flights, strict=True)):
                if self.film.camera != "onboard" or k != self.followed_index:
                    drones.append(self._project_drone(camera, model, interpolate_pose(flight, moment), moment))
        self._draw_shadows(camera, drones)
        self._draw_paths(camera, time)
        visible = [drone for drone in drones if drone.depths.min() > MIN_DISTANCE]
        self._draw_small(camera, [drone for drone in visible if drone.size < MIN_DETAILED_SIZE])
        for drone in sorted(visible, key=lambda drone: -float(drone.depths.mean())):
            if drone.size >= MIN_DETAILED_SIZE:
                self._draw_drone(camera, drone)
        pose = interpolate_pose(self.flights[self.followed_index], time)
        return self._labels.annotate(self._renderer, self.run, self.followed_index, pose, time, camera, self.scale)

    def _project_drone(self, camera: Camera, model: VehicleGeometry, pose: FilmPose, time: float) -> "ProjectedDrone":
        points_W = transform_points(self.scale * tilted_points(model, pose.servo_angle), pose)
        points_C = to_camera_axes(camera, points_W)
        size = camera.focal * self.scale * model.radius / max(float(points_C[:, 2].mean()), MIN_DISTANCE)
        return ProjectedDrone(model, pose, time, points_W, to_pixels(camera, points_C), points_C[:, 2], size)

    def _draw_ground(self, camera: Camera) -> None:
        pen, z = self._pen, self.ground
        pen.fill(np.array([(0, 0), (camera.size[0], 0), camera.size, (0, camera.size[1])], dtype=float), SKY)
        half_size = 400.0 * max(1.0, float(np.abs(camera.eye_W[2] - z)))
        x, y = camera.eye_W[:2]
        horizon = visible_area(
            camera, [(x + half_size * i, y + half_size * j, z) for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        )
        if len(horizon) > 2:
            pen.fill(horizon, GROUND)
        height = max(abs(float(camera.eye_W[2]) - z), 0.3)
        step = 10.0 ** math.floor(math.log10(0.4 * height)) if height < 2.5 else 1.0 if height < 25.0 else 10.0
        grid_centre = np.round((camera.eye_W[:2] + camera.forward_W[:2] * height) / (5.0 * step)) * 5.0 * step
        for spacing, count, colour, width in ((step, 20, FINE_GRID, 0.8), (5.0 * step, 12, COARSE_GRID, 1.1)):
            starts, ends, distances = _grid(grid_centre, spacing, count, z)
            for low, high, alpha in ((0.0, 0.4, 1.0), (0.4, 0.6, 0.7), (0.6, 0.8, 0.4), (0.8, 1.0, 0.15)):
                in_band = (distances >= low) & (distances < high)
                pen.lines(visible_lines(camera, starts[in_band], ends[in_band]), colour, width, alpha)
        origin = np.array([0.0, 0.0, z])
        for axis, colour in ((np.array([step, 0.0, 0.0]), COLOURS[0]), (np.array([0.0, step, 0.0]), COLOURS[1])):
            pen.lines(visible_lines(camera, [origin], [origin + axis]), colour, 3.0)

    def _draw_shadows(self, camera: Camera, drones: Sequence["ProjectedDrone"]) -> None:
        """Draw shadows straight below the drones, in one pass, so that overlapping shadows are not darker."""
        discs, rods = [], []
        for drone in drones:
            shadow_W = drone.points_W.copy()
            shadow_W[:, 2] = self.ground
            shadow_C = to_camera_axes(camera, shadow_W)
            if shadow_C[:, 2].min() > MIN_DISTANCE:
                pixels = to_pixels(camera, shadow_C)
                rods.append(drone.model.select_rods(pixels))
                discs.append(drone.model.select_discs(pixels))
        if discs:
            self._pen.areas(np.concatenate(discs), SHADOW, 0.16)
            self._pen.lines(np.concatenate(rods), SHADOW, 1.5, 0.16)

    def _draw_paths(self, camera: Camera, time: float) -> None:
        """Draw the reference of each drone, dashed, and the path flown until `time`."""
        for k, flight in enumerate(self.flights):
            individual = len(self.flights) <= MAX_INDIVIDUAL_DRONES
            if individual:
                reference = flight.reference_position[:: max(1, len(flight.time) // 400)]
                self._pen.lines(visible_lines(camera, reference[:-1], reference[1:])[::2], INK, 1.0, 0.55)
            path = flight.position[: int(np.searchsorted(flight.time, time, side="right"))]
            path = path[:: max(1, len(flight.time) // (900 if individual else 300))]
            if len(path) > 1:
                points = np.vstack([path, interpolate_pose(flight, time).p_W])
                segments = visible_lines(camera, points[:-1], points[1:])
                self._pen.lines(
                    segments, COLOURS[k % len(COLOURS)], 2.2 if individual else 1.2, 0.9 if individual else 0.6
                )

    def _draw_small(self, camera: Camera, drones: Sequence["ProjectedDrone"]) -> None:
        """Draw distant drones without depth sorting, all parts of one colour in one pass."""
        rods: dict[str, list[Array]] = {}
        discs: dict[str, list[Array]] = {}
        for drone in drones:
            for rod, pixels in zip(drone.model.rods, drone.model.select_rods(drone.pixels), strict=True):
                rods.setdefault(rod.colour, []).append(pixels)
            for disc, pixels in zip(drone.model.discs, drone.model.select_discs(drone.pixels), strict=True):
                discs.setdefault(disc.colour, []).append(pixels)
        for drone in drones:
            if len(drone.pose.cable_W):
                self._load_task(camera, drone)[1]()
        for colour, lines in rods.items():
            self._pen.lines(np.stack(lines), colour, 1.6)
        for colour, edges in discs.items():
            self._pen.areas(np.stack(edges), colour, 0.65)

    def _draw_drone(self, camera: Camera, drone: "ProjectedDrone") -> None:
        """Draw rods, discs and boxes, the farthest first."""
        pen, model = self._pen, drone.model
        tasks: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []
        for rod, ends, depth in zip(
            model.rods, model.select_rods(drone.pixels), model.select_rods(drone.depths), strict=True
        ):
            width = max(1.3, 2.0 * rod.radius * self.scale * camera.focal / float(depth.mean()))
            tasks.append((float(depth.mean()), pen.lines, (ends[None], rod.colour, width)))
        edges = zip(model.discs, model.select_discs(drone.pixels), model.select_discs(drone.depths), strict=True)
        for k, (disc, edge, depth) in enumerate(edges):
            blade_angle = (
                BLADE_SPEED * drone.time * disc.spin if drone.pose.rotor_speed[k] > MIN_SPINNING_SPEED else 0.0
            )
            tasks.append(
                (float(depth.mean()) - 0.2 * disc.radius * self.scale, self._draw_disc, (edge, disc, blade_angle))
            )
        corners = zip(model.boxes, model.select_boxes(drone.points_W), model.select_boxes(drone.pixels), strict=True)
        for box, corners_W, pixels in corners:
            depth = to_camera_axes(camera, corners_W)[:, 2]
            tasks.append((float(depth.mean()), self._draw_box, (corners_W, pixels, camera, box)))
        if len(drone.pose.cable_W):
            tasks.append((*self._load_task(camera, drone), ()))
        for _, task, arguments in sorted(tasks, key=lambda depth_task: -depth_task[0]):
            task(*arguments)

    def _load_task(self, camera: Camera, drone: "ProjectedDrone") -> tuple[float, Callable[[], None]]:
        """Return the depth of the slung load and a function that draws it, enlarged like the drone."""
        ends_W = drone.pose.p_W + self.scale * (drone.pose.cable_W - drone.pose.p_W)
        ends_C = to_camera_axes(camera, ends_W)
        ends, depth = to_pixels(camera, ends_C), float(ends_C[1, 2])
        angles = np.linspace(0.0, 2.0 * math.pi, DISC_VERTICES, endpoint=False)
        size = self.scale * drone.model.load * camera.focal / max(depth, MIN_DISTANCE)
        load_outline = ends[1] + size * np.stack([np.cos(angles), np.sin(angles)], axis=1)

        def draw() -> None:
            if ends_C[:, 2].min() > MIN_DISTANCE:
                self._pen.lines(ends[None], INK, 1.3)
                self._pen.fill(load_outline, LOAD_COLOUR)

        return float(ends_C[:, 2].mean()), draw

    def _draw_disc(self, edge: Array, disc: Disc, blade_angle: float) -> None:
        self._pen.fill(edge, disc.colour, 0.35)
        self._pen.lines(np.stack([edge, np.roll(edge, -1, axis=0)], axis=1), disc.colour, 1.3)
        vertex = blade_angle / (2.0 * math.pi) * DISC_VERTICES
        ends = [_interpolate_polygon(edge, vertex + 0.5 * DISC_VERTICES * half) for half in (0, 1)]
        self._pen.lines(np.array([ends]), INK, 1.5, 0.7)

    def _draw_box(self, corners: Array, pixels: Array, camera: Camera, box: BodyBox) -> None:
        for face in _FACES:
            indices = list(face)
            normal = np.cross(corners[indices[1]] - corners[indices[0]], corners[indices[2]] - corners[indices[0]])
            if normal @ (corners[indices[0]] - camera.eye_W) < 0.0:
                light = 0.75 + 0.45 * float(normal @ _LIGHT) / max(float(np.linalg.norm(normal)), 1e-12)
                self._pen.fill(pixels[indices], _shade(parse_colour(box.colour), light, 0.12 * max(light - 0.75, 0.0)))


class _Obstacles:
    """Obstacles of the world as coloured faces; the farthest is drawn first."""

    def __init__(self, world: World, low: Array, high: Array) -> None:
        middle, span = 0.5 * (low + high), 3.0 * float(np.linalg.norm(high - low)) + 4.0
        coloured_faces = [
            (face, colour) for _, solid, colour in drawable_solids(world) for face in solid_faces(solid, middle, span)
        ]
        self._faces = [face for face, _ in coloured_faces]
        self._colours = [parse_colour(colour) for _, colour in coloured_faces]
        self._middles = np.array([face.mean(axis=0) for face in self._faces]).reshape(-1, 3)

    def draw(self, camera: Camera, pen: "Pen") -> None:
        """Draw the faces that face the camera, shaded by the light."""
        for k in np.argsort(-to_camera_axes(camera, self._middles)[:, 2]) if self._faces else ():
            face = self._faces[k]
            normal = np.cross(face[1] - face[0], face[-1] - face[0]) + np.cross(face[2] - face[1], face[0] - face[1])
            size = float(np.linalg.norm(normal))
            if size == 0.0 or normal @ (face[0] - camera.eye_W) >= 0.0:
                continue
            light = 0.8 + 0.3 * float(normal @ _LIGHT) / size
            corners = visible_area(camera, face.tolist())
            if len(corners) > 2:
                pen.fill(corners, _shade(self._colours[k], light))


def parse_colour(colour: str) -> Array:
    """Parse '#rrggbb' into three numbers from 0 to 1."""
    return np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255.0


def _shade(rgb: Array, light: float, glow: float = 0.0) -> tuple[float, float, float]:
    red, green, blue = np.clip(rgb * light + glow, 0.0, 1.0).tolist()
    return red, green, blue


def _side_view_direction() -> Array:
    """Direction from the scene to the camera, in the south-east and slightly above: x to the right, y away."""
    azimuth, elevation = math.radians(-62.0), math.radians(24.0)
    level = math.cos(elevation)
    return np.array([math.cos(azimuth) * level, math.sin(azimuth) * level, math.sin(elevation)])


def _grid(centre: Array, spacing: float, count: int, z: float) -> tuple[Array, Array, Array]:
    """Return grid lines on the ground, in segments of one spacing: starts, ends, and relative distances (1 at the edge)."""
    coordinates = spacing * np.arange(-count, count + 1)
    offsets, positions = (mesh.ravel() for mesh in np.meshgrid(coordinates, coordinates[:-1], indexing="ij"))
    starts = np.concatenate([np.stack([offsets, positions], 1), np.stack([positions, offsets], 1)])
    ends = starts + np.repeat([[0.0, spacing], [spacing, 0.0]], len(offsets), axis=0)
    distances = np.hypot(*(0.5 * (starts + ends)).T) / (spacing * count)
    level = np.full((len(starts), 1), z)
    return np.hstack([centre + starts, level]), np.hstack([centre + ends, level]), distances


def transform_points(points_B: Array, pose: FilmPose) -> Array:
    """p + R r, for all points of a body."""
    rotated = rotate(pose.q_WB, Vec3(*points_B.T))
    return pose.p_W + np.stack(np.broadcast_arrays(*rotated), axis=1)


def _interpolate_polygon(edge: Array, vertex: float) -> Array:
    """Interpolate along a closed polygon."""
    index = math.floor(vertex)
    fraction = vertex - index
    return np.asarray((1.0 - fraction) * edge[index % len(edge)] + fraction * edge[(index + 1) % len(edge)])


def _smooth_heading(track: DroneRecord) -> Array:
    """Heading of the chase camera: direction of motion, or of the nose at low speed, smoothed [rad]."""
    nose = np.stack([np.cos(track.euler[:, 2]), np.sin(track.euler[:, 2])], axis=1)
    rows = max(1.0, HEADING_SMOOTHING_TIME * (len(track.time) - 1) / max(float(np.ptp(track.time)), 1e-9))
    direction = gaussian_mean(track.velocity[:, :2] + 0.15 * nose, rows)
    return gaussian_mean(np.unwrap(np.arctan2(direction[:, 1], direction[:, 0])), rows)


def gaussian_mean(values: Array, deviation: float) -> Array:
    """Σ e^(−k²/2σ²) xᵢ₊ₖ / Σ e^(−k²/2σ²) along the first axis, |k| ≤ 4σ rows; the end values extend beyond the ends."""
    half_window = int(4.0 * deviation + 0.5)
    weight = np.exp(-0.5 * (np.arange(-half_window, half_window + 1) / deviation) ** 2)
    padding = [(half_window, half_window), *[(0, 0)] * (values.ndim - 1)]
    columns = np.pad(values, padding, mode="edge").reshape(len(values) + 2 * half_window, -1).T
    mean = np.stack([np.convolve(column, weight / weight.sum(), mode="valid") for column in columns], axis=1)
    return mean.reshape(values.shape)


# Pixels -----------------------------------------------------------------------------------------------------------------


class Pen:
    """Fills areas and draws lines in pixels from the top left corner."""

    def __init__(self, renderer: Any, size: tuple[int, int]) -> None:
        from matplotlib.transforms import Affine2D

        self._renderer, self._flip = renderer, Affine2D().scale(1.0, -1.0).translate(0.0, size[1])
        self._context = renderer.new_gc()
        self._context.set_antialiased(True)
        self._context.set_capstyle("round")
        self._context.set_joinstyle("round")

    def fill(self, points: Array, colour: "ColorType", alpha: float = 1.0) -> None:
        """Fill a closed area."""
        from matplotlib.colors import to_rgba
        from matplotlib.path import Path as Outline

        self._context.set_linewidth(0.0)
        self._context.set_alpha(alpha)
        self._renderer.draw_path(self._context, Outline(points, closed=False), self._flip, to_rgba(colour, alpha))

    def areas(self, polygons: Array, colour: "ColorType", alpha: float = 1.0) -> None:
        """Fill many closed areas (k, n, 2) as one path, not darker in overlaps."""
        from matplotlib.colors import to_rgba
        from matplotlib.path import Path as Outline

        if not polygons.size:
            return
        areas, corners, _ = polygons.shape
        codes = np.full((areas, corners), Outline.LINETO, dtype=np.uint8)
        codes[:, 0] = Outline.MOVETO
        signed_areas = _signed_area(polygons)
        polygons = np.where(signed_areas[:, None, None] < 0.0, polygons[:, ::-1], polygons)
        self._context.set_linewidth(0.0)
        self._context.set_alpha(alpha)
        outline = Outline(polygons.reshape(-1, 2), codes.ravel())
        self._renderer.draw_path(self._context, outline, self._flip, to_rgba(colour, alpha))

    def lines(self, segments: Array, colour: str, width: float, alpha: float = 1.0) -> None:
        """Draw segments (k, 2, 2), joining consecutive ones; the width is in pixels."""
        from matplotlib.path import Path as Outline

        if not len(segments):
            return
        points = segments.reshape(-1, 2)
        codes = np.full(len(points), Outline.LINETO, dtype=np.uint8)
        codes[0::2] = Outline.MOVETO
        continued = np.flatnonzero((segments[1:, 0] == segments[:-1, 1]).all(axis=1)) + 1
        codes[2 * continued] = Outline.LINETO
        self._context.set_linewidth(width)
        self._context.set_alpha(alpha)
        self._context.set_foreground(colour)
        self._renderer.draw_path(self._context, Outline(points, codes), self._flip, None)


def _signed_area(corners: Array) -> Array:
    """½ Σ xᵢ yᵢ₊₁ − xᵢ₊₁ yᵢ of areas (k, n, 2): the sign gives the orientation."""
    x, y = corners[..., 0], corners[..., 1]
    return np.asarray(0.5 * (x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y).sum(axis=1))


class Labels:
    """Overlay of the picture: time, speed, height, error, motor bars, north and wind."""

    def __init__(self, size: tuple[int, int]) -> None:
        from matplotlib import get_data_path
        from PIL import ImageFont

        self.unit = max(9, round(size[1] / 42))
        fonts = Path(get_data_path()) / "fonts" / "ttf"
        self.font = ImageFont.truetype(str(fonts / "DejaVuSansMono.ttf"), self.unit)
        self.small = ImageFont.truetype(str(fonts / "DejaVuSans.ttf"), max(8, round(0.8 * self.unit)))
        self.bold = ImageFont.truetype(str(fonts / "DejaVuSans-Bold.ttf"), round(1.15 * self.unit))

    def annotate(
        self, renderer: Any, run: Run, followed: int, pose: FilmPose, time: float, camera: Camera, scale: float
    ) -> Array:
        """Return the picture with its labels."""
        from PIL import Image, ImageDraw

        track = run.drone_records[followed]
        image = Image.frombuffer("RGBA", camera.size, renderer.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")
        draw = ImageDraw.Draw(image, "RGBA")
        u = self.unit
        title = (
            run.scenario if len(run.drone_records) == 1 else f"{run.scenario}, {track.name} of {len(run.drone_records)}"
        )
        draw.text((u, 0.8 * u), title, font=self.bold, fill=INK)
        rows = (
            f"time   {time:7.2f} s",
            f"speed  {float(speed(Vec3(*pose.v_W))):7.2f} m/s",
            f"height {float(pose.p_W[2]):7.2f} m",
            f"error  {pose.error:7.2f} m",
        )
        draw.multiline_text((u, 2.6 * u), "\n".join(rows), font=self.font, fill=INK, spacing=0.35 * u)
        if scale > 1.0:
            note = f"drones drawn {scale:g}× enlarged"
            draw.text((camera.size[0] - u, camera.size[1] - u), note, font=self.small, fill=INK, anchor="rd")
        self._draw_motors(draw, track, pose)
        self._draw_compass(draw, pose, camera)
        return np.asarray(image)

    def _draw_motors(self, draw: "ImageDraw.ImageDraw", track: DroneRecord, pose: FilmPose) -> None:
        limits, u = motor_command_limits(track.vehicle), self.unit
        if not track.vehicle.rotors or limits is None:
            return
        bottom = draw.im.size[1] - 2.2 * u
        bar_height = 4.5 * u
        for k, value in enumerate(pose.command):
            left = u + 1.5 * u * k
            fraction = min(max((float(value) - limits.low) / (limits.high - limits.low), 0.0), 1.0)
            colour = COLOURS[1] if fraction >= 0.999 or fraction <= 0.001 else COLOURS[0]
            draw.rectangle((left, bottom - bar_height, left + u, bottom), fill=(255, 255, 255, 170), outline=INK)
            if fraction > 0.0:
                draw.rectangle((left, bottom - fraction * bar_height, left + u, bottom), fill=colour, outline=INK)
            draw.text((left + 0.5 * u, bottom + 0.25 * u), str(k), font=self.small, fill=INK, anchor="ma")
        unit = "command [rad/s]" if track.vehicle.structure.actuation.name == "speed" else "command, 0 to 100 %"
        draw.text((u, bottom - bar_height - 1.3 * u), unit, font=self.small, fill=INK)

    def _draw_compass(self, draw: "ImageDraw.ImageDraw", pose: FilmPose, camera: Camera) -> None:
        """Draw a compass whose up direction is the camera's: an N, and an arrow with the wind."""
        u = self.unit
        x, y, r = draw.im.size[0] - 3.6 * u, 4.0 * u, 2.2 * u
        ahead = camera.forward_W[:2] if np.hypot(*camera.forward_W[:2]) > 0.05 else camera.up_W[:2]
        facing = math.atan2(ahead[1], ahead[0])

        def compass_point(angle: float, fraction: float) -> tuple[float, float]:
            relative_angle = angle - facing
            return x - fraction * r * math.sin(relative_angle), y - fraction * r * math.cos(relative_angle)

        draw.ellipse((x - r, y - r, x + r, y + r), fill=(255, 255, 255, 140), outline=INK)
        draw.text(compass_point(0.5 * math.pi, 0.72), "N", font=self.small, fill=INK, anchor="mm")
        wind_speed = float(np.hypot(*pose.wind_W[:2]))
        text = "no wind"
        if wind_speed > 0.05:
            text = f"wind {wind_speed:.1f} m/s"
            angle = math.atan2(pose.wind_W[1], pose.wind_W[0])
            tail, tip = compass_point(angle + math.pi, 0.55), compass_point(angle, 0.55)
            draw.line((*tail, *tip), fill=COLOURS[0], width=max(2, round(0.25 * u)))
            sides = [compass_point(angle + side, 0.35) for side in (0.7, -0.7)]
            draw.polygon([tip, *sides], fill=COLOURS[0])
        draw.text((x, y + r + 0.4 * u), text, font=self.small, fill=INK, anchor="ma")
