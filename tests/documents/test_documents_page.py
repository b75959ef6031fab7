"""requirements.md covers the five documents by line; docs/evidence/documents.md has its counts."""

import re

import pytest
from support.pages import TEST_REFERENCE, missing_tests, name_exists, table_rows

import samara
from samara.control import MPC
from samara.documents.ilqr_names import MPC_NAMES, mpc_options

DOCUMENTS = ("000", "001", "002", "003", "004")
VERDICTS = ("works", "differs", "not yet")


@pytest.fixture(scope="module")
def requirements(repository) -> str:
    return (repository / "tests" / "documents" / "requirements.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(repository) -> str:
    return (repository / "docs" / "evidence" / "documents.md").read_text(encoding="utf-8")


def sections(requirements: str) -> dict[str, list[list[str]]]:
    """The cells of every row, by document."""
    parts = re.split(r"^## Document (\d+)", requirements, flags=re.MULTILINE)[1:]
    rows = {name: table_rows(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return {
        name: [[cell.strip() for cell in row.strip("|").split(" | ")] for row in lines] for name, lines in rows.items()
    }


def verdict(row: list[str]) -> str:
    """The verdict in the second cell of a requirement."""
    match = re.match(r"\*\*(Differs|Not yet)\*\*", row[1])
    return match.group(1).lower() if match else "works"


def counts(rows: list[list[str]]) -> list[int]:
    """Counts of all rows, of those that work, that differ, and that are missing."""
    verdicts = [verdict(row) for row in rows]
    return [len(rows), *(verdicts.count(name) for name in VERDICTS)]


# The requirements ----------------------------------------------------------------------------------------------------------


def test_every_test_that_is_named_exists(requirements):
    assert len(TEST_REFERENCE.findall(requirements)) > 200
    assert missing_tests(requirements) == []


def test_the_counts_on_the_page_are_those_of_the_requirements(requirements, page):
    """For each document, and for all."""
    counted = {name: counts(rows) for name, rows in sections(requirements).items()}
    assert tuple(counted) == DOCUMENTS
    counted["all"] = [sum(column) for column in zip(*counted.values(), strict=True)]
    rows = re.findall(r"^\| (\w+) \|[^|]*\|[^|]*" + r"\| (\d+) " * 4 + r"\|$", page, re.MULTILINE)
    assert {name: [int(n) for n in numbers] for name, *numbers in rows} == counted
    assert counted["all"][0] >= 200


def test_every_row_has_a_test_and_what_differs_a_reason(requirements):
    """A test by its full name; for a difference, a link to the page with the reason; missing ones need neither."""
    for name, rows in sections(requirements).items():
        for row in rows:
            assert len(row) == 3, f"{name}: {row}"
            assert TEST_REFERENCE.search(row[2]) or verdict(row) == "not yet", f"{name}: {row[0]} names no test"
            linked = re.search(r"\]\([./\w]*\b(errata|coming-from|conventions)\.md#", row[1])
            assert linked or verdict(row) != "differs", f"{name}: {row[0]} differs without a reason"


def test_no_requirement_stands_twice(requirements):
    for name, rows in sections(requirements).items():
        names = [row[0] for row in rows]
        assert sorted(names) == sorted(set(names)), name


def test_every_name_the_documents_print_is_listed(requirements, shared_folder):
    """Identifiers in code spans of the five texts: functions, types, options, fields, files, parameters."""
    words = set(re.findall(r"\w+", requirements))
    for name in DOCUMENTS:
        (path,) = (shared_folder / "seeds").glob(f"{name}_*.txt")
        text = re.sub(r"^\s*```.*?^\s*```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        spans = re.findall(r"`([A-Za-z_][\w./]*)(?:[(\[{][^`\n]*)?`", text, re.ASCII)
        used = {span.rpartition("/")[2] for span in spans} - {"CMkakeLists.txt"}  # its slip of the pen
        assert len(used) >= 5
        assert [
            name_used
            for name_used in sorted(used)
            if name_used not in requirements and name_used.rpartition(".")[2] not in words
        ] == [], name


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (["asked", "**Differs**: otherwise", ""], "differs"),
        (["asked", "**Not yet**", ""], "not yet"),
        (["asked", "`here`", ""], "works"),
    ],
)
def test_a_row_says_how_it_stands(row, expected):
    assert verdict(row) == expected


# The names ---------------------------------------------------------------------------------------------------------

# The names of each document, by their location in Samara.
NAMES = {
    "samara.documents.engine": "DroneEngine DronePhysicsEngine MotorModel CrazyflieParams EngineState",
    "samara.documents.engine.DroneEngine": "step applyMotorCommands getState",
    "samara.documents.engine.EngineState": "p_W v_W q_WB omega_B motorSpeeds",
    "samara.documents.engine.CrazyflieParams": "mass armLength thrustCoeff torqueCoeff omegaMax inertia gravity",
    "samara.documents.engine.PrincipalInertia": "Jxx Jyy Jzz",
    "samara.control": "MPC",
    "samara.documents.rigid_body": "RigidBodyQuadrotor",
    "samara.documents.rigid_body.RigidBodyQuadrotor": "m g I D dynamics rotation_matrix"
    " linear_momentum angular_momentum total_energy",
    "samara.documents.conventions": "quat_to_dcm quat_rotate_inv quat_deriv yaw_from_quat wind_ned v_rel_ned"
    " v_air_ned v_air_body Vax"
    " gravity_accel WorldOrigin HomeLocation alt_msl_m ActuatorCommand MotorMap motor_disable_mask bus_current_a PlantOutputs"
    " RotorOutput",
    "samara.documents.conventions.Propulsor": "axis_b",
    "samara.documents.conventions.WorldOrigin": "lat_deg lon_deg alt_msl_m",
    "samara.scenario.actuators.ActuatorCommand": "motors servos",
    "samara.documents.conventions.PlantOutputs": "air_vel_body bus_current_a",
    "samara.documents.conventions.RotorOutput": "bus_current_a",
    "samara.scenario.snapshot": "BUS_SCHEMA_VERSION FaultState",
    "samara.scenario.snapshot.Bus": "wind_ned",
    "samara.scenario.snapshot.FaultState": "motor_disable_mask",
    "samara.physics.air.atmosphere": "air_density air_temperature air_pressure",
    "samara.documents.drone_physics": "VectorType VelocityType AccelerationType ForceType TorqueType AngularVelocityType"
    " AngularAccelerationType EulerType EulerRateType EulerAccelerationType ground_vector_from_body body_vector_from_ground"
    " euler_rate_from_body_angular_velocity body_angular_velocity_from_euler_rate acceleration_in_body_frame"
    " angular_acceleration_in_body_frame acceleration_in_ground_frame euler_acceleration_in_ground_frame"
    " rotor_omega_acceleration rotor_thrust rotor_anti_torque rotor_current body_thrust body_torque",
}


@pytest.mark.parametrize("place", NAMES)
def test_every_name_of_a_document_is_there(place):
    assert [name for name in NAMES[place].split() if not name_exists(f"{place}.{name}")] == []


def test_the_options_of_document_001_are_options_of_ilqr():
    """Every name of the document is translated to one option of the solver, with the document's value."""
    document = [  # the names the document writes
        *(
            "mpcHorizon",
            "predictionDt",
            "maxIterations",
            "wPosition",
            "wVelocity",
            "wTilt",
            "wYawRate",
            "wThrust",
            "wTorque",
        ),
        *("wSmooth", "wTerminalPosition", "wTerminalVelocity", "refVelocityGain", "maxRefVelocity", "refAccelGain"),
        "maxRefAcceleration",
    ]
    assert set(document) <= set(MPC_NAMES)
    mpc = MPC(samara.vehicle("crazyflie_documented"), **mpc_options(mpcHorizon=5, wPosition=31.0, maxRefVelocity=3.0))
    assert (mpc.horizon, mpc.weights.position_weight, mpc.shaping.max_reference_velocity) == (5, 31.0, 3.0)
    with pytest.raises(TypeError, match="the iLQR document has no option 'wPositon'"):
        mpc_options(wPositon=1.0)
