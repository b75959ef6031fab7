"""`samara export`: equations and recordings for other programs."""

import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import say
from samara.cli.options import (
    OutFolder,
    PolicyVehicle,
    Recording,
    VehicleArgument,
    argument,
    option,
    out_option,
    vehicle_option,
)
from samara.scenario.changes import trained_vehicle

if TYPE_CHECKING:
    from samara.control.policy_file import Policy
    from samara.physics.types import Vehicle as Model
    from samara.record.streams import Recording as Recorded

app = typer.Typer(help="Export equations, policies and recordings for other programs.", no_args_is_help=True)

Folder = Annotated[Path | None, out_option("Folder for the files; default: beside the recording.")]
File = Annotated[Path | None, out_option("File to write; default: beside the recording.")]
JavaScript = Annotated[bool, option("--js", "Write an ES module for browsers and Node instead of C99.")]


@app.command("c")
def export_c(vehicle: VehicleArgument, out: OutFolder = Path("out")) -> None:
    """Write dependency-free C99: derivative, RK4 step with its exact Jacobian, and hover trim, as one header and one source."""
    from samara import vehicle as load

    _write_equations(load(vehicle), out)


@app.command("vehicle")
def export_vehicle(vehicle: VehicleArgument, js: JavaScript = False, out: OutFolder = Path("out")) -> None:
    """Write the equations of a vehicle with all its effects: derivative, RK4 step and hover trim, in C99 or JavaScript."""
    from samara import vehicle as load

    _write_equations(load(vehicle), out, js)


def _write_equations(vehicle: "Model", out: Path, js: bool = False) -> None:
    """Write C99, or an ES module together with its time per step under Node."""
    if js:
        from samara.export.javascript import write_js

        module = write_js(vehicle, out)
        say(f"module {module}")
        _time_in_node(module)
        return
    from samara.export.c import write_c

    header, source = write_c(vehicle, out)
    say(f"header {header}\nsource {source}")


@app.command("policy")
def export_policy(
    policy: Annotated[Path, argument("Folder of a policy, or 'universal' for the shipped one.")],
    vehicle: PolicyVehicle = None,
    ned: Annotated[bool, option("--ned", "Use inputs in north-east-down and forward-right-down.")] = False,
    px4_nn: Annotated[
        bool, option("--px4-nn", "Write TensorFlow Lite and its source for PX4's mc_nn_control.")
    ] = False,
    px4_raptor: Annotated[bool, option("--px4-raptor", "Write policy.tar for PX4's mc_raptor.")] = False,
    crazyflie: Annotated[
        bool, option("--crazyflie", "Write a Crazyflie app with the policy as its controller.")
    ] = False,
    betaflight: Annotated[bool, option("--betaflight", "Write a Betaflight mixer, in its axes and units.")] = False,
    out: OutFolder = Path("out"),
) -> None:
    """Write a policy as dependency-free C99 in single precision (observation, network and the command of each rotor), or in
    the format of an autopilot's firmware."""
    from samara import vehicle as load
    from samara.control.policy import bundled_policy
    from samara.control.policy_c import ENU, NED, measure_code, write_policy_c
    from samara.control.policy_file import load_policy

    loaded = bundled_policy("universal") if str(policy) == "universal" and not policy.exists() else load_policy(policy)
    if sum((ned, px4_nn, px4_raptor, crazyflie, betaflight)) > 1:
        formats = "--ned, --px4-nn, --px4-raptor, --crazyflie and --betaflight"
        raise ValueError(f"{formats} are for different programs; expected one of them at most")
    model = load(vehicle or trained_vehicle(loaded, policy))
    if px4_nn:
        return _export_px4_nn(loaded, model, out)
    if px4_raptor:
        from samara.link.deploy.px4_raptor import write_px4_raptor

        path = write_px4_raptor(loaded, model, out / "policy.tar")
        say(f"archive {path}\nupload  ftp put {path} /fs/microsd/raptor/policy.tar, by MAVLink")
        say("motors  in the order of PX4's quadrotor in X: front right, back left, front left, back right")
        return say(
            "set     MC_RAPTOR_ENABLE 1, and IMU_GYRO_RATEMAX to a multiple of 100; the policy was trained at 100 Hz"
        )
    if crazyflie:
        from samara.link.deploy.crazyflie import write_crazyflie_policy

        exported = write_crazyflie_policy(loaded, model, out)
        say(f"app    {out}: cd {out} && make CRAZYFLIE_BASE=/path/to/crazyflie-firmware")
    elif betaflight:
        from samara.link.deploy.betaflight import MIXER, write_betaflight_policy

        exported = write_betaflight_policy(loaded, model, out)
        say(f"mixer  {out / MIXER}.c: {MIXER}.h describes the call")
    else:
        exported = write_policy_c(loaded, model, out, NED if ned else ENU)
    say(f"header {exported.header}\nsource {exported.source}")
    count = exported.parameter_count
    say(f"size   {count} parameters, {4 * count} bytes; {exported.state_bytes} bytes of state between calls")
    timing = measure_code(exported)
    if timing is None:
        say("no C compiler found: code size and time are not measured")
        return
    flash = 4 * count + timing.code_bytes
    say(f"flash  about {flash / 1024:.0f} KB; code size as compiled on this machine, optimised for size")
    say(f"time   {timing.seconds * 1e6:.1f} µs per call on this CPU")


def _export_px4_nn(policy: "Policy", vehicle: "Model", out: Path) -> None:
    from samara.link.deploy.px4_tflite import write_px4_nn

    written = write_px4_nn(policy, vehicle, out)
    for path in written.paths:
        say(f"file   {path}")
    say(f"size   {written.parameter_count} parameters, {written.paths[0].stat().st_size} bytes")
    for name, value in written.parameters.items():
        say(f"set    {name} {value:.7g}")
    say("build  with control_net.cpp and .hpp in src/modules/mc_nn_control; the drone comes to rest facing east")


class MpcInputs(StrEnum):
    """Inputs of a predicted vehicle."""

    WRENCH = "wrench"
    ROTORS = "rotors"


@app.command("mpc")
def export_mpc(
    vehicle: Annotated[str, vehicle_option("crazyflie")] = "crazyflie",
    horizon: Annotated[int, option("--horizon", "Steps of the prediction.", min=1)] = 20,
    dt: Annotated[float, option("--dt", "Duration of a step of the prediction [s].")] = 0.05,
    period: Annotated[float, option("--period", "Time between two calls [s].")] = 0.02,
    inputs: Annotated[
        MpcInputs, option("--inputs", "Inputs: collective thrust and torques, or the thrust of each rotor.")
    ] = MpcInputs.WRENCH,
    max_tilt: Annotated[
        float | None, option("--max-tilt", "Maximum tilt [deg], as a constraint; default: no limit.")
    ] = None,
    step_sizes: Annotated[
        str, option("--step-sizes", "Step sizes of the line search in (0, 1], separated by commas.")
    ] = "1,0.5,0.1",
    c: Annotated[bool, option("--c", "Write C99, the only format so far.", show_default=False)] = True,
    crazyflie: Annotated[
        bool,
        option("--crazyflie", "Also write a Crazyflie app that flies it; its rotors must be those of a Crazyflie."),
    ] = False,
    out: OutFolder = Path("out"),
) -> None:
    """Write model-predictive control to a point as dependency-free C99 in single precision with static memory: one
    real-time iteration within the limits of inputs and tilt. Prints memory, code size, stack and instructions."""
    from samara import vehicle as load
    from samara.control.mpc import MPC
    from samara.control.mpc_c import C_PREFIX, instructions_per_iteration, write_mpc_c
    from samara.export.c_figures import CORTEX_M4F, HOST, measure_code

    try:
        line_search = tuple(float(text) for text in step_sizes.split(","))
    except ValueError:
        raise ValueError(
            f"--step-sizes = {step_sizes!r:.60}: expected numbers in (0, 1], separated by commas"
        ) from None
    mpc = MPC(
        load(vehicle),
        horizon=horizon,
        dt=dt,
        period=period,
        inputs=inputs.value,
        max_tilt=None if max_tilt is None else math.radians(max_tilt),
        line_search=line_search,
    )
    if crazyflie:
        from samara.link.deploy.crazyflie_mpc import APP, write_crazyflie_mpc

        exported = write_crazyflie_mpc(mpc, out)
        say(f"app    {out / APP}: cd {out} && make CRAZYFLIE_BASE=/path/to/crazyflie-firmware")
    else:
        exported = write_mpc_c(mpc, out)
    say(f"header {exported.header}\nsource {exported.source}")
    say(f"memory {exported.constant_bytes} bytes of constants, {exported.state_bytes} bytes of variables")
    for name, compiler in (("this machine", HOST), ("Cortex-M4F", CORTEX_M4F)):
        for optimisation in ("-O2", "-Os"):
            figures = measure_code(exported.source, f"{C_PREFIX}_solve", compiler, optimisation)
            if figures is None:
                say(f"code   not measured for {name}: {compiler[0]} is not there, or is not a GCC")
                break
            say(f"code   {figures.code_bytes} bytes, stack {figures.stack_bytes} bytes: {name}, {optimisation}")
    instructions = instructions_per_iteration(exported)
    if instructions is None:
        say("count  instructions are not counted: that needs cc and valgrind")
    else:
        say(f"count  {instructions:.0f} instructions per iteration on this machine, without vector instructions")


@app.command("engine")
def export_engine(js: JavaScript = False, out: OutFolder = Path("out")) -> None:
    """Write the Crazyflie engine: a JavaScript class with its methods and state names, or the engine's vehicle as C99."""
    if not js:
        from samara.documents.engine import CrazyflieParams, engine_vehicle

        _write_equations(engine_vehicle(CrazyflieParams()), out)
        return
    from samara.documents.engine_js import write_engine_js

    modules = write_engine_js(out)
    for path in modules:
        say(f"module {path}")
    _time_in_node(modules[0])


@app.command("rigid-body")
def export_rigid_body(
    js: JavaScript = False,
    motor_lag: Annotated[
        float | None, option("--motor-lag", "Time constant of the four motors [s]; default: command a wrench.")
    ] = None,
    out: OutFolder = Path("out"),
) -> None:
    """Write the rigid-body quadrotor: derivative, RK4 step and hover trim, as C99 with a README or as JavaScript."""
    from samara.documents.rigid_body import RigidBodyQuadrotor

    _write_equations(RigidBodyQuadrotor(motor_lag=motor_lag).vehicle, out, js)


def _time_in_node(module: Path) -> None:
    from samara.export.javascript import measure_step_time

    time = measure_step_time(module)
    if time is not None:
        say(f"{time:.2g} µs per step of 1 ms under Node")


@app.command("web")
def export_web(
    vehicles: Annotated[
        list[str] | None, argument("Shipped vehicles or .toml files; default: four shipped vehicles.")
    ] = None,
    out: Annotated[Path, out_option("File for the page (.html).")] = Path("out/fly.html"),
) -> None:
    """Write a web page to fly vehicles with keyboard or gamepad: one HTML file that needs neither a server nor the
    network."""
    from samara import vehicle as load
    from samara.view.cockpit.page import DEFAULT_VEHICLES, write_cockpit

    path = write_cockpit([load(name) for name in vehicles or DEFAULT_VEHICLES], out)
    say(f"page {path}, {path.stat().st_size / 1e6:.2f} MB: open it in a browser")


@app.command("drone-physics")
def export_drone_physics(
    out: Annotated[Path, out_option("Folder for the library.")] = Path("out/drone_physics"),
) -> None:
    """Write Hakoniwa's physics library for C and C++: sources, examples, self-tests, CMakeLists.txt and a README."""
    from samara.documents.drone_physics.c_library import write_library

    for path in write_library(out):
        say(str(path))


@app.command("csv")
def export_csv(run: Recording, out: Folder = None) -> None:
    """Write a recording as CSV files, one per stream: column names with units, values that read back exactly."""
    from samara.record.export import export_csv as write

    _write_streams(write, run, out)


@app.command("parquet")
def export_parquet(run: Recording, out: Folder = None) -> None:
    """Write a recording as Parquet files, one per stream, with the units of the columns."""
    from samara.record.export import export_parquet as write

    _write_streams(write, run, out)


def _write_streams(write: "Callable[[Recorded, Path], Iterable[Path]]", run: Path, out: Path | None) -> None:
    from samara.record.recording import read_recording

    for path in write(read_recording(run), out or run.with_suffix("")):
        say(str(path))


@app.command("foxglove-layout")
def export_foxglove_layout(run: Recording, out: File = None) -> None:
    """Write a Foxglove layout for a recording: a 3D scene, and plots of position, attitude and motors."""
    from samara.record.recording import read_recording
    from samara.view.foxglove_layout import write_layout

    say(str(write_layout(read_recording(run), out or run.with_suffix(".layout.json"))))


@app.command("rerun")
def export_rerun(run: Recording, out: File = None) -> None:
    """Write a recording for Rerun: moving drones, paths, and every quantity over time."""
    from samara.record.load import load_run
    from samara.view.rerun_file import write_rerun

    say(str(write_rerun(load_run(run), out or run.with_suffix(".rrd"))))


@app.command("pictures")
def export_pictures(run: Recording, out: File = None) -> None:
    """Write the images of cameras and lidars for Foxglove: an MCAP file of RawImage and PointCloud messages."""
    from samara.record.load import load_run
    from samara.record.pictures import write_pictures

    say(str(write_pictures(load_run(run), _output_file(run, out, ".pictures.mcap", "pictures"))))


@app.command("ros2")
def export_ros2(run: Recording, out: File = None) -> None:
    """Write a recording as a ROS 2 bag: an MCAP file of standard and PX4 messages, in the frames of REP 103 and 105."""
    from samara.record.load import load_run
    from samara.record.ros2.bag import write_ros2_bag

    say(str(write_ros2_bag(load_run(run), _output_file(run, out, ".ros2.mcap", "bag"))))


def _output_file(run: Path, out: Path | None, suffix: str, content: str) -> Path:
    """Return the path to write; raise ValueError if it is the recording itself."""
    path = out or run.with_suffix(suffix)
    if path.exists() and path.samefile(run):
        raise ValueError(f"{path}: is the recording itself; expected another file for the {content}")
    return path
