"""`samara.documents.drone_physics` against 760 cases of an independent build of the library behind document 004.

Every case is passed as lists, as tuples, as arrays, as one batch, and through the exported C. If that library is wrong
(`out_correct`), the comparison uses the correct value.
"""

import ctypes
import json
import math
import re
import shutil
import subprocess
import warnings

import numpy as np
import pytest
from support.c_compiler import COMPILER_SYMBOLS, ELEMENTARY_FUNCTIONS
from support.command import call
from support.repository import skip_or_fail

import samara.documents.drone_physics as dp
from samara.core.quantity import Scalar
from samara.documents.drone_physics.arguments import LIBRARY, GimbalLockWarning, function_arguments
from samara.documents.drone_physics.c_library import c_functions, write_library

LOCKED = "euler_from_quaternion__gimbal_lock"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")


@pytest.fixture(scope="module")
def groups(shared_folder):
    """The groups of cases by name."""
    path = shared_folder / "reference" / "drone_physics_cases.json"
    if not path.is_file():
        skip_or_fail("drone_physics_cases.json is not in the folder `shared` beside the repository")
    read = json.loads(path.read_text(encoding="utf-8"))["functions"]
    assert sum(len(group["cases"]) for group in read.values()) == 760
    return read


NAMES = (
    *("ground_vector_from_body", "body_vector_from_ground", "cross", "dot"),
    *("euler_rate_from_body_angular_velocity", "body_angular_velocity_from_euler_rate"),
    *("acceleration_in_ground_frame", "acceleration_in_ground_frame__drag2"),
    *("acceleration_in_body_frame", "acceleration_in_body_frame__wind"),
    *("angular_acceleration_in_body_frame", "euler_acceleration_in_ground_frame"),
    *("quaternion_velocity_from_body_angular_velocity", "quaternion_from_euler", "normalize_quaternion"),
    *("euler_from_quaternion", LOCKED),
    *("velocity_after_contact_with_wall__normal", "velocity_after_contact_with_wall__points"),
    *("rotor_omega_acceleration__first_order", "rotor_omega_acceleration__battery", "rotor_current"),
    *("rotor_thrust", "rotor_anti_torque", "rotor_thrust_linear", "rotor_anti_torque_linear"),
    *("body_thrust", "body_torque", "body_thrust_linear", "body_torque_linear"),
    *("delta_velocity_from_impulse", "acceleration_from_impulse", "force_from_impulse", "torque_from_impulse"),
    *("delta_angular_velocity_from_impulse", "angular_acceleration_from_impulse"),
    *("boundary_is_near__distance", "boundary_is_near__plane"),
)


def library_function(name):
    return getattr(dp, name.split("__")[0])


def agree(name, inputs, actual, expected):
    """To 1e-14 of the largest component; at gimbal lock the angles are not unique, but their rotation is."""
    if name == LOCKED:
        stored = dp.quaternion_from_euler(actual)
        assert abs(np.dot(stored, inputs["quaternion_wxyz"])) == pytest.approx(1.0, abs=1e-12)
        assert abs(np.dot(stored, dp.quaternion_from_euler(expected))) == pytest.approx(1.0, abs=1e-12)
        assert abs(actual[0]) < 1e-6, "there φ is 0, as the library has it"
        return
    actual, expected = np.atleast_1d(np.array(actual, dtype=float)), np.atleast_1d(np.array(expected, dtype=float))
    assert actual == pytest.approx(expected, rel=0.0, abs=1e-14 * np.abs(expected).max())


def correct_output(case):
    return case.get("out_correct", case["out"])


def convert_to_tuples(value):
    return tuple(convert_to_tuples(element) for element in value) if isinstance(value, list) else value


def test_no_group_of_the_file_is_forgotten(groups):
    assert set(groups) == set(NAMES)


@pytest.mark.parametrize("form", [list, convert_to_tuples, np.array], ids=["lists", "tuples", "arrays"])
@pytest.mark.parametrize("name", NAMES)
def test_every_case(groups, name, form):
    """Two independent programs, one physics: with lists, tuples or arrays."""
    for case in groups[name]["cases"]:
        inputs = {key: form(value) if isinstance(value, list) else value for key, value in case["in"].items()}
        agree(name, case["in"], library_function(name)(**inputs), correct_output(case))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_its_cases_one_by_one(groups, name):
    """All cases of a group as one call, the batch first: equal to the last bits, in which NumPy's sine differs."""
    cases = groups[name]["cases"]
    rotors = {len(case["in"]["omega"]) for case in cases} if isinstance(cases[0]["in"].get("omega"), list) else {0}
    for n in rotors:
        group = [case for case in cases if not n or len(case["in"]["omega"]) == n]
        stacked = {key: np.array([case["in"][key] for case in group], dtype=float) for key in group[0]["in"]}
        result = library_function(name)(**stacked)
        columns = np.stack(result, axis=-1) if isinstance(result, tuple) else np.asarray(result)
        assert columns.shape[0] == len(group)
        for row, case in zip(columns, group, strict=True):
            if name == LOCKED:
                agree(name, case["in"], dp.EulerType(*row), correct_output(case))
            else:
                one_by_one = np.array(library_function(name)(**case["in"]), dtype=float)
                assert row == pytest.approx(one_by_one, rel=0.0, abs=1e-14 * np.abs(one_by_one).max())


def test_the_library_is_wrong_where_the_errata_say_so(groups):
    """Its quadratic drag lost a sign, its φ̈ a secant, its wall changes tangential speed: Samara agrees with the library exactly
    where the error vanishes."""
    for name in ("acceleration_in_ground_frame__drag2", "euler_acceleration_in_ground_frame"):
        wrong = 0
        for case in groups[name]["cases"]:
            actual, library = np.array(library_function(name)(**case["in"])), np.array(case["out"])
            differs = np.abs(actual - library) > 1e-6 * np.abs(library).max()
            if name.startswith("euler"):
                assert not differs[1:].any()
            else:
                assert (differs == (np.array(case["in"]["ground_velocity"]) < 0.0)).all()
            wrong += differs.any()
        assert wrong >= 15


# The same cases through C -------------------------------------------------------------------------------------------


def compiler(name):
    path = shutil.which(name)
    if path is None:
        skip_or_fail(f"there is no compiler `{name}`")
    return path


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drone_physics")
    write_library(folder)
    return folder


@pytest.fixture(scope="module")
def compiled(sources):
    """The library as strict C99, loaded."""
    library = sources / "drone_physics_c.so"
    run(compiler("cc"), "-std=c99", *STRICT, "-shared", "-fPIC", sources / "drone_physics_c.c", "-o", library, "-lm")
    return ctypes.CDLL(str(library))


def struct(fields):
    return type("Struct", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_double) for name in fields]})


STRUCTS = {record: struct(record._fields) for record in (dp.VectorType, dp.EulerType, dp.QuaternionType)}


def call_c(library, function, values):
    """Call dp_<name> by its prototype: numbers by value, structs by address, n before the rotors' arrays."""
    per_rotor, arguments, counted = function.rotors.per_rotor if function.rotors else (), [], False
    for argument in function.arguments:
        value = values[argument.name]
        kind = ctypes.c_double if argument.record is Scalar else STRUCTS[argument.record]
        if argument.name in per_rotor:
            if not counted:
                arguments.append(len(value))
                counted = True
            items = value if argument.record is Scalar else [kind(*item) for item in value]
            arguments.append((kind * len(value))(*items))
        else:
            arguments.append(kind(value) if argument.record is Scalar else ctypes.byref(kind(*value)))
    entry, result = getattr(library, f"dp_{function.name}"), function.result
    if result.record is Scalar:
        entry.restype = ctypes.c_int if result.c_type.name == "int" else ctypes.c_double
        return entry(*arguments)
    entry.restype = STRUCTS[result.record]
    out = entry(*arguments)
    return result.record(*(getattr(out, field) for field in result.record._fields))


@pytest.mark.parametrize("name", NAMES)
def test_every_case_through_c(groups, compiled, name):
    """The C function of the group's name, or its version with all of the group's arguments."""
    keys = set(groups[name]["cases"][0]["in"])
    versions = [function for function in c_functions() if function.shared_name == name.split("__")[0]]
    (function,) = [version for version in versions if {argument.name for argument in version.arguments} == keys]
    for case in groups[name]["cases"]:
        agree(name, case["in"], call_c(compiled, function, case["in"]), correct_output(case))


FIRST_VERSIONS = (
    "rotor_omega_acceleration__first_order",
    "velocity_after_contact_with_wall__normal",
    "boundary_is_near__distance",
)


def test_c_names_are_the_groups_names(groups):
    """The first version of a name is plain, the others have the group's suffix; a default is omitted from the plain name."""
    names = {function.name for function in c_functions()}
    assert set(groups) - {LOCKED} - set(FIRST_VERSIONS) <= names
    assert {function.shared_name for function in c_functions()} <= names
    plain = next(function for function in c_functions() if function.name == "rotor_omega_acceleration")
    assert [argument.name for argument in plain.arguments] == ["Kr", "Tr", "omega", "duty"]
    published = next(function for function in c_functions() if function.name == "acceleration_in_body_frame")
    assert [argument.name for argument in published.arguments][3:] == ["thrust", "mass", "gravity", "drag1"]


C_HELLO = ["x=-200, y=100, z=300", "x=100, y=200, z=300"]
CPP_HELLO = ["u = -200, v = 100, w = 300", "u2 = 100, v2 = 200, w2 = 300"]


def c_output(source, sources, folder):
    """Return the output of a C program with the library."""
    program = folder / "hello"
    run(
        compiler("cc"), "-std=c99", *STRICT, f"-I{sources}", source, sources / "drone_physics_c.c", "-o", program, "-lm"
    )
    return run(program).splitlines()


def cpp_output(source, sources, folder):
    """Return the output of a C++ program with the library."""
    program, c_object = folder / "hello", folder / "drone_physics_c.o"
    run(compiler("cc"), "-std=c99", "-c", sources / "drone_physics_c.c", "-o", c_object)
    run(compiler("c++"), "-std=c++17", *STRICT, f"-I{sources}", source, c_object, "-o", program, "-lm")
    return run(program).splitlines()


def test_the_hello_world_of_c(sources, tmp_path):
    """ψ = 90°: forward is east. Document 004 prints the inverse (errata)."""
    assert c_output(sources / "cexamples.c", sources, tmp_path) == C_HELLO


def test_the_hello_world_of_cpp(sources, tmp_path):
    assert cpp_output(sources / "examples.cpp", sources, tmp_path) == CPP_HELLO


def test_the_library_comes_with_a_readme(sources, tmp_path):
    """Its programs compile and print the documented output, and every file it names exists."""
    readme = (sources / "README.md").read_text(encoding="utf-8")
    for fence, name, run_program, expected in (
        ("c", "a.c", c_output, C_HELLO),
        ("cpp", "a.cpp", cpp_output, CPP_HELLO),
    ):
        (program,) = re.findall(rf"^```{fence}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(program, encoding="utf-8")
        assert run_program(tmp_path / name, sources, tmp_path) == expected
    named = re.findall(r"`([\w.]+\.(?:c|h|hpp|cpp|txt))`", readme)
    assert len(set(named)) == 8 and all((sources / name).is_file() for name in named)


@pytest.mark.parametrize(
    ("fence", "name", "program_output", "expected"),
    [("C", "hello.c", c_output, C_HELLO), ("cpp", "hello.cpp", cpp_output, CPP_HELLO)],
)
def test_the_documents_own_hello_world_compiles_as_it_is_printed(
    shared_folder, sources, tmp_path, fence, name, program_output, expected
):
    """Letter by letter from document 004; only the numbers in its comments are those of the inverse (errata)."""
    (document,) = (shared_folder / "seeds").glob("004_*.txt")
    (printed,) = re.findall(rf"^```{fence}\n(.*?)^```$", document.read_text(encoding="utf-8"), re.M | re.S)
    (tmp_path / name).write_text(printed, encoding="utf-8")
    assert program_output(tmp_path / name, sources, tmp_path) == expected


def test_angles_may_be_a_vector_in_the_two_transforms_and_nothing_else_may(sources, tmp_path):
    """A declared VectorType and braces are both angles, there and back; a quaternion or a number is not."""
    program = """#include <cstdio>
    #include "drone_physics.hpp"
    using namespace hako::drone_physics;
    int main() {{
        const VectorType turned = {{0.1, -0.2, M_PI / 3}};
        const VelocityType there = ground_vector_from_body({{1, 2, 3}}, {0});
        const VelocityType back = body_vector_from_ground(there, {0});
        const VelocityType same = ground_vector_from_body({{1, 2, 3}}, {{0.1, -0.2, M_PI / 3}});
        std::printf("%.12g %.12g %.12g %g", back.x, back.y, back.z, there.x - same.x + there.y - same.y + turned.x);
    }}"""
    source = tmp_path / "angles.cpp"
    source.write_text(program.format("turned"), encoding="utf-8")
    assert cpp_output(source, sources, tmp_path) == ["1 2 3 0.1"]
    for other in ("QuaternionType{1, 0, 0, 0}", "0.5"):
        source.write_text(program.format(other), encoding="utf-8")
        with pytest.raises(AssertionError, match="no matching function"):
            cpp_output(source, sources, tmp_path)


CPP_LAWS = """#include <cstdio>
#include <iostream>
#include "drone_physics.hpp"

namespace dp = hako::drone_physics;

int main() {
    dp::VelocityType a{1, 2, 3}, b{4, 5, 6};
    auto c = a + b;
    c -= dp::VectorType{1, 1, 1};
    c *= 2;
    c /= 4;
    std::cout << c << " " << -(a * 2 - 0.5 * b) / 2 << " " << cross(a, b) << " " << dot(a, b) << "\\n";
    std::cout << length_squared(a) << " " << length(dp::VectorType{2, 3, 6}) << "\\n";

    dp::QuaternionType p{1, 2, 3, 4}, q{5, 6, 7, 8};
    auto r = 2 * (p + q) - q / 2;
    r += p;
    std::cout << r << " " << -p * 3 << " " << length_squared(p) << " " << length(dp::QuaternionType{1, 1, 1, 1}) << "\\n";
    dp::QuaternionType unit{2, 0, 0, 0};
    normalize(unit);
    std::cout << unit << " " << normalize_quaternion(dp::QuaternionType{0, 0, -4, 0}) << "\\n";

    std::cout << dp::EulerType{M_PI / 6, -M_PI / 2, 0} << "\\n";
    std::printf("%.15g %.15g\\n", euler_from_quaternion(dp::QuaternionType{0, 0, 0, 1}).psi,
                euler_from_quaternion(dp::QuaternionType{0, 1, 0, 0}).phi);

    const dp::VectorType position[] = {{0.3, 0, 0}, {0, -0.3, 0}, {-0.3, 0, 0}, {0, 0.3, 0}};
    double ccw[] = {-1, 1, -1, 1}, omega[] = {100, 0, 0, 0}, rate[] = {0, 0, 0, 10};
    std::cout << dp::body_torque(1, 0, 0, 4, position, ccw, omega, rate) << " "
              << dp::body_torque(1, 0, 1, 4, position, ccw, omega, rate) << " " << dp::body_thrust(2, 4, omega) << "\\n";
}
"""


def test_cpp_types_need_no_using_directive(sources, tmp_path):
    """Operators, norms and `<<` are found by argument-dependent lookup; the expected values are computed by hand."""
    (tmp_path / "laws.cpp").write_text(CPP_LAWS, encoding="utf-8")
    assert cpp_output(tmp_path / "laws.cpp", sources, tmp_path) == [
        "(2, 3, 4) (-0, -0.75, -1.5) (-3, 6, -3) 32",
        "14 7",
        "(10.5, 15, 19.5, 24) (-3, -6, -9, -12) 30 2",
        "(1, 0, 0, 0) (0, 0, -1, 0)",
        "(30d, -90d, 0d)",
        "3.14159265358979 3.14159265358979",
        "(0, 3000, 0) (0, 3000, 10) 20000",
    ]


def test_euler_angles_of_cpp_are_not_vectors(sources, tmp_path):
    program = '#include "drone_physics.hpp"\nint main() { hako::drone_physics::EulerType a{}, b{}; a + b; }'
    (tmp_path / "angles.cpp").write_text(program, encoding="utf-8")
    with pytest.raises(AssertionError, match=r"no match for .operator\+|invalid operands"):
        cpp_output(tmp_path / "angles.cpp", sources, tmp_path)


@pytest.mark.parametrize(
    ("quaternion", "angles"),
    [((0, 0, 0, 1), (0, 0, math.pi)), ((0, 1, 0, 0), (math.pi, 0, 0)), ((0, 0, 1, 0), (math.pi, 0, math.pi))],
)
def test_half_a_turn_is_plus_pi(quaternion, angles):
    """atan2(0, −1) = +π, as in the document's library; −q is the same attitude."""
    assert dp.euler_from_quaternion(quaternion) == pytest.approx(angles, abs=1e-15)
    batch = dp.euler_from_quaternion(np.array([quaternion, [-x for x in quaternion]], dtype=float))
    assert np.abs(np.stack(batch, axis=-1) - angles).max() < 1e-15


def test_the_library_keeps_nothing_and_needs_nothing(sources, tmp_path):
    """Functions without state: the object has no mutable data, and needs elementary functions only."""
    nm, object_file = shutil.which("nm"), tmp_path / "drone_physics_c.o"
    if nm is None:
        skip_or_fail("there is no `nm` to list symbols with")
    run(compiler("cc"), "-std=c99", "-c", sources / "drone_physics_c.c", "-o", object_file)
    symbols = [line.split()[-2:] for line in run(nm, object_file).splitlines()]
    assert {kind for kind, _ in symbols} <= {"U", "T", "t", "R", "r"}
    assert {name for kind, name in symbols if kind == "U"} <= ELEMENTARY_FUNCTIONS | COMPILER_SYMBOLS
    assert {name for kind, name in symbols if kind == "T"} == {f"dp_{function.name}" for function in c_functions()}


@pytest.mark.long
def test_the_cmake_targets_of_the_document(sources, tmp_path):
    """libdrone_physics.a and libdrone_physics_c.a, and utest, ctest, examples, cexamples; both self-tests pass."""
    if shutil.which("cmake") is None:
        skip_or_fail("there is no `cmake`")
    for tool in ("cc", "c++", "make"):
        compiler(tool)
    run("cmake", "-S", sources, "-B", tmp_path)
    run("cmake", "--build", tmp_path)
    for name in ("libdrone_physics.a", "libdrone_physics_c.a", "examples", "cexamples"):
        assert (tmp_path / name).is_file()
    for name in ("utest", "ctest"):
        assert run(tmp_path / name) == f"{len(list(c_functions()))} functions, 0 numbers differ\n"


def test_a_self_test_notices_a_wrong_library(sources, tmp_path):
    """With gravity upside down in the C, ctest counts it and fails."""
    wrong = (sources / "drone_physics_c.c").read_text(encoding="utf-8").replace("mass * gravity", "mass * -gravity")
    (tmp_path / "wrong.c").write_text(wrong, encoding="utf-8")
    program = tmp_path / "ctest"
    run(compiler("cc"), "-std=c99", f"-I{sources}", tmp_path / "wrong.c", sources / "ctest.c", "-o", program, "-lm")
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "dp_acceleration_in_ground_frame.z" in done.stdout


def test_samara_export_drone_physics(tmp_path, monkeypatch, capsys):
    status, printed, _ = call(monkeypatch, capsys, "export", "drone-physics", "-o", str(tmp_path / "out"))
    assert status == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("drone_physics_c.h", "drone_physics_c.c", "drone_physics.hpp", "CMakeLists.txt", "README.md"),
        *("examples.cpp", "cexamples.c", "utest.cpp", "ctest.c"),
    }
    assert len(printed.split()) == 9


# The cases printed in the document's tests, which need no file -------------------------------------------------------


def test_document_004_printed_vectors():
    """Body x at θ 30°, y at ψ 90°; hello world is (−200, 100, 300), its printed numbers are the inverse (errata)."""
    half = math.pi / 2.0
    assert dp.ground_vector_from_body((1, 0, 0), (0, math.pi / 6, 0)) == pytest.approx((0.75**0.5, 0.0, -0.5))
    assert dp.ground_vector_from_body((0, 1, 0), (0, 0, half)) == pytest.approx((-1.0, 0.0, 0.0), abs=1e-15)
    hello = (100, 200, 300)
    assert dp.ground_vector_from_body(hello, (0, 0, half)) == pytest.approx((-200.0, 100.0, 300.0), rel=1e-14)
    assert dp.body_vector_from_ground(hello, (0, 0, half)) == pytest.approx((200.0, -100.0, 300.0), rel=1e-14)


@pytest.mark.parametrize(
    ("angle", "omega", "expected"),
    [
        ((0, 0, 0), (0, 0, 0), (0.0, 0.0, -4.0)),
        ((0, 0, 0), (1, 1, 1), (-1.0, 2.0, -5.0)),
        ((math.pi / 6, 0, 0), (0, 0, 0), (0.0, 0.5, -5.0 + 0.75**0.5)),
    ],
)
def test_document_004_body_accelerations(angle, omega, expected):
    """v (1,2,3), T 10, m 2, g 1: (0,0,−4), turning (−1,2,−5), rolled 30° (0, .5, −4.134)."""
    assert dp.acceleration_in_body_frame((1, 2, 3), angle, omega, 10, 2, 1, 0) == pytest.approx(expected, abs=1e-14)


def test_document_004_wind():
    """T 0, g 0, m 1, v (3,6,9), wind (1,2,3): d₁ = 1 gives (−2,−4,−6), d₂ = 1 gives (−4,−16,−36)."""
    still = {"body_velocity": (3, 6, 9), "angle": (0, 0, 0), "body_angular_velocity": (0, 0, 0)}
    still |= {"thrust": 0, "mass": 1, "gravity": 0, "wind_body": (1, 2, 3)}
    one, none = (1, 1, 1), (0, 0, 0)
    assert dp.acceleration_in_body_frame(**still, drag1=one, drag2=none) == (-2.0, -4.0, -6.0)
    assert dp.acceleration_in_body_frame(**still, drag1=none, drag2=one) == (-4.0, -16.0, -36.0)


def test_document_004_euler_equation():
    """I (2,5,8), ω (1,2,3), τ (1,2,3): (−8.5, 4, −.375); no real body has such moments, but the equation holds."""
    alpha = dp.angular_acceleration_in_body_frame((1, 2, 3), (1, 2, 3), 2, 5, 8)
    assert alpha == pytest.approx((-8.5, 4.0, -0.375), rel=1e-15)


def test_document_004_rotor_torques():
    """Anti-torque Cq 1, J 1, ω 10, ω̇ 1: ±101; + layout of 0.3 m: front alone (0, 3000, 0), left alone (3000, 0, 0); the
    left and right pair faster: (0, 0, 60000)."""
    for ccw in (1, -1):
        assert dp.rotor_anti_torque(Cq=1, J=1, omega=10, omega_acceleration=1, ccw=ccw) == ccw * 101.0
    places = {"position": [(0.3, 0, 0), (0, -0.3, 0), (-0.3, 0, 0), (0, 0.3, 0)], "ccw": [-1, 1, -1, 1]}
    places |= {"omega_acceleration": [0] * 4, "J": 0}
    for speeds, expected in (((100, 0, 0, 0), (0.0, 3000.0, 0.0)), ((0, 100, 0, 0), (3000.0, 0.0, 0.0))):
        assert dp.body_torque(**places, Ct=1, Cq=0, omega=speeds) == pytest.approx(expected, rel=1e-14)
    pairs = dp.body_torque(**places, Ct=10, Cq=1, omega=(100, 200, 100, 200))
    assert pairs == pytest.approx((0.0, 0.0, 60000.0), abs=1e-10)


def test_document_004_ground_rows_need_psi_and_cos_phi():
    """v̇ = −T/m (cφ sθ cψ + sφ sψ, cφ sθ sψ − sφ cψ, cφ cθ) + g e₃, not the printed sinφ of rows two and three (errata)."""
    phi, theta, psi = 0.3, -0.4, 1.1
    s, c = math.sin, math.cos
    expected = (
        -8.0 * (c(phi) * s(theta) * c(psi) + s(phi) * s(psi)),
        -8.0 * (c(phi) * s(theta) * s(psi) - s(phi) * c(psi)),
        -8.0 * (c(phi) * c(theta)) + 9.81,
    )
    actual = dp.acceleration_in_ground_frame((0, 0, 0), (phi, theta, psi), 12.0, 1.5, 9.81, 0.0)
    assert actual == pytest.approx(expected, rel=1e-14)


def test_document_004_hover_of_its_defaults():
    """m .71, Ct 8.3e-7, four rotors: T = mg at 1448.42 rad/s; the battery model needs a duty of .4766 at 14.8 V."""
    omega = math.sqrt(0.71 * 9.81 / (4 * 8.3e-7))
    assert omega == pytest.approx(1448.42, abs=5e-3)
    assert dp.body_thrust(Ct=8.3e-7, omega=[omega] * 4) == pytest.approx(0.71 * 9.81, rel=1e-14)
    numbers = {"Vbat": 14.8, "R": 0.12, "Cq": 3e-8, "J": 8.12e-6, "K": 3.28e-3, "D": 0.0, "omega": omega}
    slower, faster = (dp.rotor_omega_acceleration(**numbers, duty=duty) for duty in (0.4765, 0.4767))
    assert slower < 0.0 < faster


def test_the_inertia_turns_with_the_body_in_the_ground_frame():
    """I ω̇_e = τ_e holds for a sphere only: a torque-free long body changes its ground-frame ω, a sphere does not (errata)."""
    euler, rate = (0.4, 0.3, -0.2), (0.5, -1.0, 2.0)
    omega = dp.body_angular_velocity_from_euler_rate(rate, euler)
    for moments, steady in (((0.02, 0.02, 0.02), True), ((0.01, 0.02, 0.03), False)):
        alpha = dp.ground_vector_from_body(dp.angular_acceleration_in_body_frame(omega, (0, 0, 0), *moments), euler)
        assert bool(np.abs(np.array(alpha)).max() < 1e-12) is steady


def test_document_004_current_flows_back():
    """i = (Vbat d − K ω)/R: 0 if the back-EMF equals the applied voltage; above, the rotor charges the battery."""
    motor = {"Vbat": 14.8, "R": 0.12, "K": 3.28e-3, "duty": 0.5}
    balanced = 14.8 * 0.5 / 3.28e-3
    assert dp.rotor_current(**motor, omega=0.0) == pytest.approx(14.8 * 0.5 / 0.12, rel=1e-15)
    assert dp.rotor_current(**motor, omega=balanced) == pytest.approx(0.0, abs=1e-12)
    assert dp.rotor_current(**motor, omega=1.1 * balanced) == pytest.approx(-0.1 * 14.8 * 0.5 / 0.12, rel=1e-13)


def test_document_004_small_angles_leave_the_rates_alone():
    """η̇ = W ω with W = 1 + O(|η|): a tenth of the angle, a tenth of the difference."""
    omega = np.array([0.3, -0.5, 0.7])
    differences = [
        np.abs(dp.euler_rate_from_body_angular_velocity(omega, (a, -2.0 * a, 0.5)) - omega).max() for a in (1e-3, 1e-4)
    ]
    assert differences[0] < 2.0e-3
    assert differences[0] / differences[1] == pytest.approx(10.0, rel=1e-2)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_euler_rates_warn_at_gimbal_lock(sign):
    """cos θ = 0 at θ = ±90°; a batch with one such attitude warns too, 0.1° away nothing does."""
    rates = [
        lambda euler: dp.euler_rate_from_body_angular_velocity((0.1, 0.2, 0.3), euler),
        lambda euler: dp.euler_acceleration_in_ground_frame((0.1, 0.2, 0.3), euler, (0, 0, 0), 1, 1, 1),
    ]
    for rate in rates:
        for euler in ((0.0, sign * math.pi / 2, 0.3), np.array([[0.0, 0.0, 0.0], [0.0, sign * math.pi / 2, 0.0]])):
            with pytest.warns(GimbalLockWarning, match="near gimbal lock .*quaternion_velocity") as caught:
                rate(euler)
            assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rate((0.0, sign * math.radians(89.9), 0.3))


@pytest.mark.parametrize("euler_type", [dp.EulerType, dp.EulerRateType, dp.EulerAccelerationType])
def test_document_004_euler_angles_are_no_vectors(euler_type):
    """They cannot be added or scaled; velocities can."""
    angles = euler_type(0.1, 0.2, 0.3)
    for wrong in (lambda: angles + angles, lambda: 2.0 * angles, lambda: angles * 2):
        with pytest.raises(TypeError, match="Euler angles are not a vector"):
            wrong()
    assert dp.VelocityType(1.0, 2.0, 3.0) * 2.0 + dp.VelocityType(1.0, 0.0, 0.0) == (3.0, 4.0, 6.0)


# Laws, for functions without a published case -----------------------------------------------------------------------

SELF = {"self_velocity": (3.0, -1.0, 0.5), "self_angular_velocity": (0.4, -2.0, 1.0), "self_euler": (0.3, -0.2, 0.9)}
SELF |= {"self_contact": (0.2, 0.1, -0.05), "self_mass": 0.7, "self_inertia": (0.006, 0.0065, 0.0116)}
TARGET = {"target_velocity": (-1.0, 0.4, 0.2), "target_angular_velocity": (1.0, 0.3, -0.7)}
TARGET |= {"target_euler": (-0.5, 0.1, 0.2), "target_contact": (-0.3, -0.1, 0.1), "target_mass": 1.9}
TARGET |= {"target_inertia": (0.02, 0.03, 0.025)}
NORMAL = (1.0, 0.3, -0.2)


def after_impulse_by_matrices(v, omega, euler, r, mass, inertia, impulse):
    """Newton's and Euler's laws for an impulse, by separate matrices: v and ω after it."""
    angles = np.array([dp.ground_vector_from_body(axis, euler) for axis in np.eye(3)]).T
    tensor = angles @ np.diag(inertia) @ angles.T
    return np.array(v) + impulse / mass, np.array(omega) + np.linalg.solve(tensor, np.cross(r, impulse)), tensor


@pytest.mark.parametrize("restitution", [0.0, 0.6, 1.0])
def test_two_bodies_part_at_e_times_the_speed_they_met(restitution):
    """v'_rel·n = −e v_rel·n; opposite impulses conserve momentum and, with e = 1, energy."""
    impulse = np.array(dp.impulse_by_collision(**SELF, **TARGET, normal=NORMAL, restitution_coefficient=restitution))
    bodies = []
    for body, sign in ((SELF, 1.0), (TARGET, -1.0)):
        v, omega, euler, r, mass, inertia = (
            body[f"{'self' if body is SELF else 'target'}_{key}"]
            for key in ("velocity", "angular_velocity", "euler", "contact", "mass", "inertia")
        )
        v_after, omega_after, tensor = after_impulse_by_matrices(v, omega, euler, r, mass, inertia, sign * impulse)

        def energy(v, omega, mass=mass, tensor=tensor):
            return 0.5 * (mass * np.dot(v, v) + omega @ tensor @ omega)

        before = energy(np.array(v), np.array(omega))
        bodies.append(
            (v + np.cross(omega, r), v_after + np.cross(omega_after, r), before, energy(v_after, omega_after))
        )
    (v1, v1_after, e1, e1_after), (v2, v2_after, e2, e2_after) = bodies
    approach, separation = np.dot(v1 - v2, NORMAL), np.dot(v1_after - v2_after, NORMAL)
    assert separation == pytest.approx(-restitution * approach, abs=1e-13)
    assert np.linalg.norm(np.cross(impulse, NORMAL)) < 1e-14, "without friction the impulse is along the normal"
    lost = e1 + e2 - e1_after - e2_after
    assert lost == pytest.approx(0.0, abs=1e-13) if restitution == 1.0 else lost > 0.1


def test_the_blow_does_not_know_which_way_the_normal_points():
    impulse, reversed_impulse = (
        dp.impulse_by_collision(**SELF, **TARGET, normal=np.array(NORMAL) * sign, restitution_coefficient=0.4)
        for sign in (1.0, -3.0)
    )
    assert impulse == pytest.approx(reversed_impulse, rel=1e-13)


def test_a_wall_is_a_body_without_bound():
    """m₂, I₂ → ∞ of the two-body impulse; and along the line of centres it is the bounce of a ball."""
    still = {"target_velocity": (0.2, 0.0, 0.0), "normal": NORMAL, "restitution_coefficient": 0.7}
    heavy = TARGET | {"target_mass": 1e15, "target_inertia": (1e15,) * 3, "target_angular_velocity": (0, 0, 0)}
    wall = dp.impulse_by_collision(**SELF, **still)
    assert wall == pytest.approx(dp.impulse_by_collision(**{**SELF, **heavy, **still}), rel=1e-12)
    ball = SELF | {"self_angular_velocity": (0, 0, 0), "self_contact": np.array(NORMAL) * 0.1}
    still["target_velocity"] = (0, 0, 0)
    push = dp.delta_velocity_from_impulse(dp.impulse_by_collision(**ball, **still), ball["self_mass"])
    bounced = dp.velocity_after_contact_with_wall(velocity_before=ball["self_velocity"], normal=NORMAL, restitution=0.7)
    assert np.array(ball["self_velocity"]) + push == pytest.approx(np.array(bounced), rel=1e-13)


def test_document_004_wall():
    """e = 1: v (10,10,10) off n (0,0,1) gives (10,10,−10); a normal that vanishes gives 0, by either version."""
    assert dp.velocity_after_contact_with_wall((10, 10, 10), (0, 0, 1), 1) == (10.0, 10.0, -10.0)
    assert dp.velocity_after_contact_with_wall((1, 2, 3), (0, 0, 0), 0.5) == (0.0, 0.0, 0.0)
    assert dp.velocity_after_contact_with_wall((1, 2, 3), (4, 5, 6), (4, 5, 6), 0.5) == (0.0, 0.0, 0.0)


def test_the_boundary_mirrors_the_downwash():
    """At the ground level thrust doubles (F = T up), under a ceiling it pulls up, one radius away it is 2^−1.5 of that, and
    beside a vertical wall the model pushes down, as in the document."""
    numbers = {"euler": (0, 0, 0.7), "thrust": 8.0, "rotor_radius": 0.1}
    ground = {"boundary_point": (0, 0, 0), "boundary_normal": (0, 0, -1)}
    assert dp.boundary_disturbance(position=(3, 4, 0), **ground, **numbers) == pytest.approx((0, 0, -8.0), abs=1e-15)
    higher = dp.boundary_disturbance(position=(3, 4, -0.1), **ground, **numbers)
    assert higher.z == pytest.approx(-8.0 / 2.0**1.5, rel=1e-14)
    ceiling = dp.boundary_disturbance(
        position=(0, 0, 0), boundary_point=(0, 0, 0), boundary_normal=(0, 0, 1), **numbers
    )
    assert ceiling.z == pytest.approx(-8.0, rel=1e-14)
    wall = dp.boundary_disturbance(position=(0, 0, 0), boundary_point=(0, 0, 0), boundary_normal=(1, 0, 0), **numbers)
    assert wall.z == pytest.approx(8.0, rel=1e-14)


def test_the_mirrored_downwash_of_a_tilted_drone():
    """Reflection keeps the length and turns the part along the normal only; a closer plane acts more, monotonically."""
    tilted = {"euler": (0.3, -0.2, 1.0), "thrust": 5.0, "rotor_radius": 0.15, "boundary_point": (0, 0, 0)}
    n = np.array([0.6, 0.0, -0.8])
    force = np.array(dp.boundary_disturbance(position=(0, 0, 0), boundary_normal=n, **tilted))
    downwash = np.array(dp.ground_vector_from_body((0, 0, 5.0), tilted["euler"]))
    assert np.linalg.norm(force) == pytest.approx(5.0, rel=1e-14)
    assert force + downwash == pytest.approx(2.0 * (downwash - n * (n @ downwash)), rel=1e-13)
    sizes = [
        np.linalg.norm(dp.boundary_disturbance(position=n * d, boundary_normal=n, **tilted))
        for d in (0.0, 0.2, 0.5, 2.0)
    ]
    assert sizes == sorted(sizes, reverse=True)


def test_thrust_follows_the_pressure():
    """T ∝ p at one temperature; 5500 m of standard atmosphere is 0.4984 atm (ISA table: 505.07 hPa)."""
    at_5500 = dp.atmospheric_pressure(sea_level_atm=1.0, altitude_from_sea=5500.0, ground_temperature=15.0)
    assert at_5500 * 1013.25 == pytest.approx(505.07, abs=5e-3)
    assert dp.rotor_thrust(Ct=8.3e-7, omega=1448.0, atm_pressure=at_5500) == pytest.approx(
        at_5500 * dp.rotor_thrust(Ct=8.3e-7, omega=1448.0), rel=1e-15
    )
    four = {"Ct": 8.3e-7, "omega": [1400.0, 1450.0, 1500.0, 1550.0]}
    assert dp.body_thrust(**four, atm_pressure=0.5) == pytest.approx(0.5 * dp.body_thrust(**four), rel=1e-15)


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "sentence"),
    [
        (dp.ground_vector_from_body, ((1, 2), (0, 0, 0)), "body has 2 components; expected 3: x, y, z"),
        (dp.ground_vector_from_body, ((1, 2, math.nan), (0, 0, 0)), "body.z is nan; expected a finite number"),
        (dp.delta_velocity_from_impulse, ((1, 2, 3), 0), "mass is 0.0; expected a positive number"),
        (dp.rotor_thrust, ("fast", 100.0), "Ct is 'fast'; expected a number"),
        (dp.normalize, ((0, 0, 0, 0),), "no finite answer"),
        (dp.body_thrust, (1.0, []), "number of rotors"),
        (dp.body_torque, (1, 1, 0, [(0, 0, 0)], [1, 1], [1], [0]), "'position': 1, 'ccw': 2"),
        (dp.body_thrust, (1.0, [1.0, math.inf]), "omega is inf"),
    ],
)
def test_bad_input_is_told_in_a_sentence(function, arguments, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        function(*arguments)


def test_versions_are_told_apart_or_named():
    with pytest.raises(TypeError, match=r"takes \(Kr, Tr, omega, duty\) or \(Vbat, R, Cq, J, K, D, omega, duty\)"):
        dp.rotor_omega_acceleration(Kr=1.0, Vbat=2.0)


def test_equations_carry_the_numbers_of_the_document(shared_folder):
    """Each equation number in its tables for a function is in the function's docstring."""
    (path,) = (shared_folder / "seeds").glob("004_*.txt")
    rows = re.findall(r"^\|`(\w+)`\s*\|([^|]*)\|", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 14
    numbers = {name: re.findall(r"\([12]\.\d+\)", cell) for name, cell in rows}
    assert sum(map(len, numbers.values())) == 19
    assert [
        (name, n)
        for name, equation_numbers in numbers.items()
        for n in equation_numbers
        if n not in getattr(dp, name).__doc__
    ] == []


def test_every_public_function_has_an_equation():
    assert len(LIBRARY) > 30
    for name, function in LIBRARY.items():
        assert function.__doc__ and getattr(dp, name) is function, name
    assert all(function_arguments(function.function) for function in c_functions())
