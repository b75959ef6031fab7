"""Document 004's library for C and C++: every function of `samara.documents.drone_physics`, traced and written out.

`drone_physics_c.h` and `.c` are C99 with the prefix dp_; `drone_physics.hpp` puts overloads in hako::drone_physics over them.
The first version of a name is plain in C, the others have a suffix: dp_rotor_omega_acceleration(Kr, Tr, …) and
dp_rotor_omega_acceleration__battery. An argument that has a default is
left out of the plain name, and the suffix of the longer version: dp_rotor_thrust, dp_rotor_thrust__atm_pressure.
"""

import zlib
from collections.abc import Callable, Iterator
from inspect import Parameter, signature, unwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import samara.documents.drone_physics as library
from samara.backends.c_code import c_lines, decimal
from samara.backends.code import Places, comment
from samara.backends.program import program_of
from samara.core.files import write_text
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.core.version import __version__
from samara.documents.drone_physics import body, boundary, collision, frames, rotor
from samara.documents.drone_physics.arguments import ROTORS, VERSIONS, Argument, RotorSum, arguments_of, result_of
from samara.documents.drone_physics.types import EulerType

OWN = Path(__file__).parent / "c"  # the files that are the same in every export
RECORDS = {"vector": ("x", "y", "z"), "euler": EulerType._fields, "quaternion": ("w", "x", "y", "z")}
SELF_TEST_ROTORS = 4


def write_library(folder: str | Path) -> list[Path]:
    """Writes the two C files, the C++ header, examples, self-tests and CMakeLists.txt, each whole or not at all."""
    functions = list(c_functions())
    texts = {
        "drone_physics_c.h": _header(functions),
        "drone_physics_c.c": _source(functions),
        "drone_physics.hpp": _cpp_header(functions),
        "ctest.c": _self_test(functions, cpp=False),
        "utest.cpp": _self_test(functions, cpp=True),
    }
    texts |= {path.name: path.read_text(encoding="utf-8") for path in sorted(OWN.iterdir()) if path.is_file()}
    try:
        for name, text in texts.items():
            write_text(Path(folder) / name, text)
    except OSError as error:
        raise OSError(f"{folder}: cannot be written to ({error.strerror}); expected a folder for a library") from None
    return [Path(folder) / name for name in texts]


# What there is to write ---------------------------------------------------------------------------------------------


class CFunction(NamedTuple):
    """A function as C has it: its name without dp_, the name all its versions share, and what it computes.

    With `rotors` it adds up `function` over n of them.
    """

    name: str
    shared_name: str
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    rotors: RotorSum | None = None

    @property
    def result(self) -> Argument:
        return result_of(self.function)

    @property
    def suffix(self) -> str:
        """What tells a longer version from the plain one: '', '__drag2'"""
        left = {own.name for own in arguments_of(self.function)} - {own.name for own in self.arguments}
        optional = [name for name in _optional(self.function) if name not in left]
        return "".join(f"__{name}" for name in optional)


def c_functions() -> Iterator[CFunction]:
    """Every function of the library in the order of its files, versions and longer versions one after the other"""
    for module in (frames, body, rotor, collision, boundary):
        for name, function in vars(module).items():
            if name not in library.__all__ or isinstance(function, type) or function.__name__ != name:
                continue
            rotors: RotorSum | None = getattr(function, ROTORS, None)
            for version in getattr(function, VERSIONS, (rotors.one if rotors else function,)):
                plain = name if rotors else unwrap(version).__name__.lstrip("_")
                yield from _with_and_without_defaults(plain, name, version, rotors)


def _optional(function: Callable[..., Any]) -> list[str]:
    parameters = signature(unwrap(function)).parameters.values()
    return [own.name for own in parameters if own.default is not Parameter.empty]


def _with_and_without_defaults(
    name: str, shared_name: str, function: Callable[..., Any], rotors: RotorSum | None
) -> Iterator[CFunction]:
    arguments, optional = arguments_of(function), _optional(function)
    needed = tuple(own for own in arguments if own.name not in optional)
    yield CFunction(name, shared_name, function, needed, rotors)
    if optional:
        yield CFunction(f"{name}__{'_'.join(optional)}", shared_name, function, arguments, rotors)


# C ------------------------------------------------------------------------------------------------------------------


def _c_type(argument: Argument) -> str:
    return argument.kind.name if argument.record is Scalar else f"dp_{argument.kind.name}_t"


def _fields(argument: Argument) -> tuple[str, ...]:
    return () if argument.record is Scalar else argument.record._fields


def _declaration(argument: Argument) -> str:
    return f"double {argument.name}" if argument.record is Scalar else f"const {_c_type(argument)} *{argument.name}"


def _parameters(function: CFunction) -> list[str]:
    """The declared parameters; the number of rotors comes before the first of their arrays."""
    rotors = function.rotors
    texts: list[str] = []
    for own in function.arguments:
        if rotors and own.name in rotors.per_rotor:
            if not any(text == "int n" for text in texts):
                texts.append("int n")
            texts.append(f"const {_c_type(own)} {own.name}[]")
        else:
            texts.append(_declaration(own))
    return texts


def _head(function: CFunction) -> str:
    parameters = ",\n    ".join(_parameters(function))
    return f"{_c_type(function.result)} dp_{function.name}(\n    {parameters})"


def _units(function: CFunction) -> str:
    given = [f"{own.name} [{own.kind.unit}]" for own in function.arguments if own.kind.unit]
    result = function.result.kind.unit
    return "; ".join([*([", ".join(given)] if given else []), *([f"gives [{result}]"] if result else [])])


def _words(function: CFunction) -> list[str]:
    described = getattr(library, function.shared_name) if function.rotors else unwrap(function.function)
    paragraphs = (described.__doc__ or "").split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in [*paragraphs, _units(function)] if paragraph.strip()]


def _header(functions: list[CFunction]) -> str:
    kinds: dict[str, dict[str, None]] = {base: {} for base in RECORDS}
    for own in (each for function in functions for each in (*function.arguments, function.result)):
        if own.record is not Scalar and own.kind.name not in RECORDS:
            base = next(name for name, fields in RECORDS.items() if fields == own.record._fields)
            kinds[base][own.kind.name] = None
    parts = [
        comment(
            "drone_physics_c: drone physics as functions without state, for C99.",
            "The ground frame points north, east, down; the body frame forward, right, down. Euler angles are phi, theta, "
            "psi about x, y, z, applied z-y-x; a quaternion turns body into ground. Thrust is positive along -z of the "
            "body, gravity positive along +z of the ground; ccw is +1 for a rotor that turns counter-clockwise seen from "
            "above, -1 for a clockwise one. SI units, radians. Equation numbers are those of K. Nonami, Introduction to "
            "Drone Engineering.",
            "No pointer may be null. Nothing is allocated and nothing is kept between calls.",
            f"Generated by Samara {__version__} (samara export drone-physics); changes belong into Samara.",
        ),
        "#ifndef DRONE_PHYSICS_C_H\n#define DRONE_PHYSICS_C_H",
        "#include <math.h>",
        "#ifndef M_PI /* C99 has none */\n#define M_PI 3.14159265358979323846\n#endif",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
    ]
    for base, fields in RECORDS.items():
        others = ", ".join(f"dp_{name}_t" for name in kinds[base])
        parts.append(f"typedef struct {{\n    double {', '.join(fields)};\n}} dp_{base}_t;")
        parts.append(f"typedef dp_{base}_t {others};")
    for function in functions:
        parts.append(f"{comment(*_words(function))}\n{_head(function)};")
    parts += [
        "#define dp_normalize dp_normalize_quaternion",
        "#ifdef __cplusplus\n}\n#endif",
        "#endif /* DRONE_PHYSICS_C_H */",
    ]
    return "\n\n".join(parts) + "\n"


def _source(functions: list[CFunction]) -> str:
    parts = [
        comment(f"drone_physics_c: see the header. Generated by Samara {__version__}, traced from its equations."),
        '#include "drone_physics_c.h"',
    ]
    public = {unwrap(function.function) for function in functions if not function.rotors}
    for function in functions:
        if not function.rotors:
            parts.append(_traced(_head(function), function))
        else:
            if unwrap(function.function) not in public:
                one = CFunction(_one_rotor(function, public), "", function.function, function.arguments)
                declared = ",\n    ".join(_parameters(one))
                parts.append(_traced(f"static {_c_type(one.result)} {one.name}(\n    {declared})", one))
            parts.append(_loop(function, _one_rotor(function, public)))
    return "\n\n".join(parts) + "\n"


def _places(argument: Argument) -> Places:
    if argument.record is Scalar:
        return Places([argument.name], [argument.name])
    fields = argument.record._fields
    return Places([f"{argument.name}.{f}" for f in fields], [f"{argument.name}->{f}" for f in fields])


def _traced(head: str, function: CFunction) -> str:
    result, plain = function.result, unwrap(function.function)
    templates = [
        0.0 if own.record is Scalar else own.record(*(0.0 for _ in _fields(own))) for own in function.arguments
    ]

    def call(*values: Any) -> tuple[Any]:
        answer = plain(**{own.name: value for own, value in zip(function.arguments, values, strict=True)})
        return (where(answer, 1.0, 0.0) if result.kind.name == "int" else answer,)

    fields = _fields(result)
    out = Places(fields, [f"out.{f}" for f in fields]) if fields else Places([result.kind.unit or "1"], ["out"])
    own = c_lines(program_of(call, *templates), [_places(argument) for argument in function.arguments], [out])
    lines = [f"{_c_type(result)} out;", *own, "return out;"]
    return "\n".join([head, "{", *(f"    {line}" for line in lines), "}"])


def _one_rotor(function: CFunction, public: set[Any]) -> str:
    name = unwrap(function.function).__name__
    return f"dp_{name}{function.suffix}" if unwrap(function.function) in public else f"{name[1:]}{function.suffix}"


def _loop(function: CFunction, one_rotor: str) -> str:
    """Σ over n rotors of the function of one."""
    assert function.rotors is not None
    given = []
    for own in function.arguments:
        address = "" if own.record is Scalar else "&"
        given.append(f"{address}{own.name}[i]" if own.name in function.rotors.per_rotor else own.name)
    result, fields = function.result, _fields(function.result)
    zero = f"{{{', '.join('0.0' for _ in fields)}}}" if fields else "0.0"
    sums = [f"out.{f} += one.{f};" for f in fields] or ["out += one;"]
    return "\n".join(
        [
            _head(function),
            "{",
            f"    {_c_type(result)} out = {zero};",
            "    int i;",
            "",
            "    for (i = 0; i < n; i++) {",
            f"        const {_c_type(result)} one = {one_rotor}(",
            f"            {', '.join(given)});",
            *(f"        {line}" for line in sums),
            "    }",
            "    return out;",
            "}",
        ]
    )


# C++ ----------------------------------------------------------------------------------------------------------------


def _cpp_type(argument: Argument) -> str:
    if argument.record is Scalar:
        return "bool" if argument.kind.name == "int" else argument.kind.name
    return "".join(word.capitalize() for word in argument.kind.name.split("_")) + "Type"


def _cpp_function(function: CFunction) -> str:
    """Return the C++ overload of a C function: the records are converted, arrays of records one rotor at a time."""
    rotors = function.rotors
    per_rotor = rotors.per_rotor if rotors else ()
    parameters, values, conversions = [], [], []
    sums_here = any(argument.name in per_rotor and argument.record is not Scalar for argument in function.arguments)
    for argument in function.arguments:
        name, is_record, is_array = argument.name, argument.record is not Scalar, argument.name in per_rotor
        if is_array and "unsigned n" not in parameters:
            parameters.append("unsigned n")
            values.append("1" if sums_here else "static_cast<int>(n)")
        if is_record:
            conversions.append(f"const auto {name}_c = detail::to_c({name}{'[i]' if is_array else ''});")
            values.append(f"&{name}_c")
        else:
            values.append(f"&{name}[i]" if is_array and sums_here else name)
        reference = "&" if is_record and not is_array else ""
        qualifier = "const " if is_record or is_array else ""
        parameters.append(f"{qualifier}{_cpp_type(argument)}{reference} {name}{'[]' if is_array else ''}")
    kind, answer = _cpp_type(function.result), f"dp_{function.name}({', '.join(values)})"
    if function.result.record is not Scalar:
        answer = f"detail::from_c({answer})"
    elif function.result.kind.name == "int":
        answer += " != 0"
    lines = [*conversions, f"return {answer};"]
    if sums_here:
        body = [*conversions, f"out += {answer};"]
        loop = ["for (unsigned i = 0; i < n; ++i) {", *(f"    {line}" for line in body), "}"]
        lines = [f"{kind} out{{}};", *loop, "return out;"]
    text = "\n".join(f"    {line}" for line in lines)
    return f"inline {kind} {function.shared_name}(\n    {', '.join(parameters)}) {{\n{text}\n}}"


TAKE_A_VECTOR_FOR_ANGLES = ("ground_vector_from_body", "body_vector_from_ground")


def _cpp_with_vector_angles(function: CFunction) -> str:
    """Document 004's hello world declares its Euler angles as a `VectorType`. A template is deduced from no braces, so that
    {0, 0, M_PI/2} stays an EulerType, and from no type but this one."""
    vector, angle = function.arguments
    name, kind = function.shared_name, _cpp_type(angle)
    return (
        "template <typename Angles, std::enable_if_t<std::is_same_v<Angles, VectorType>, int> = 0>\n"
        f"inline {_cpp_type(function.result)} {name}(\n"
        f"    const {_cpp_type(vector)}& {vector.name}, const Angles& {angle.name}) {{\n"
        f"    return {name}({vector.name}, {kind}{{{angle.name}.x, {angle.name}.y, {angle.name}.z}});\n}}"
    )


def _cpp_record(base: str) -> str:
    """Return the struct of a record, in the library's namespace so that its operators are found by argument-dependent lookup,
    and its conversions to and from C."""
    name, fields = f"{base.capitalize()}Type", RECORDS[base]
    values = ", ".join(f"r.{field}" for field in fields)
    return (
        f"struct {name} {{\n    double {', '.join(fields)};\n}};\n\nnamespace detail {{\n"
        f"inline dp_{base}_t to_c(const {name}& r) {{ return {{{values}}}; }}\n"
        f"inline {name} from_c(const dp_{base}_t& r) {{ return {{{values}}}; }}\n}}"
    )


def _cpp_print(base: str) -> str:
    """Return `operator<<`: (x, y, z); Euler angles in degrees, (30d, 0d, 0d)."""
    scale, unit = (" * 180 / M_PI", "d") if base == "euler" else ("", "")
    values = f' << "{unit}, " << '.join(f"r.{field}{scale}" for field in RECORDS[base])
    return (
        f"inline std::ostream& operator<<(std::ostream& stream, const {base.capitalize()}Type& r) {{\n"
        f'    return stream << "(" << {values} << "{unit})";\n}}'
    )


def _cpp_operators(base: str) -> str:
    """Return the operators of a linear space and its norm, component by component; Euler angles have none of them."""
    name, fields = f"{base.capitalize()}Type", RECORDS[base]

    def each(text: str, separator: str = ", ") -> str:
        return separator.join(text.replace("@", field) for field in fields)

    return "\n".join(
        [
            f"inline {name} operator+(const {name}& a, const {name}& b) {{ return {{{each('a.@ + b.@')}}}; }}",
            f"inline {name} operator-(const {name}& a, const {name}& b) {{ return {{{each('a.@ - b.@')}}}; }}",
            f"inline {name} operator-(const {name}& a) {{ return {{{each('-a.@')}}}; }}",
            f"inline {name} operator*(double s, const {name}& a) {{ return {{{each('s * a.@')}}}; }}",
            f"inline {name} operator*(const {name}& a, double s) {{ return s * a; }}",
            f"inline {name} operator/(const {name}& a, double s) {{ return {{{each('a.@ / s')}}}; }}",
            f"inline {name}& operator+=({name}& a, const {name}& b) {{ return a = a + b; }}",
            f"inline {name}& operator-=({name}& a, const {name}& b) {{ return a = a - b; }}",
            f"inline {name}& operator*=({name}& a, double s) {{ return a = s * a; }}",
            f"inline {name}& operator/=({name}& a, double s) {{ return a = a / s; }}",
            f"inline double length_squared(const {name}& a) {{ return {each('a.@ * a.@', ' + ')}; }}",
            f"inline double length(const {name}& a) {{ return std::sqrt(length_squared(a)); }}",
        ]
    )


_CPP_NORMALIZE = """
/* q = q / |q|, in place; the length of q must not be 0. normalize_quaternion returns a copy. */
inline void normalize(QuaternionType& q) {
    assert(length_squared(q) > 0.0);
    q = normalize_quaternion(q);
}
""".strip()


def _cpp_aliases(functions: list[CFunction]) -> str:
    """Return `using VelocityType = VectorType;` and so on for every type a function takes or returns."""
    used = {item.kind.name: item for f in functions for item in (*f.arguments, f.result) if item.record is not Scalar}
    lines = []
    for name, argument in sorted(used.items()):
        if name not in RECORDS:
            base = next(base for base, fields in RECORDS.items() if fields == argument.record._fields)
            lines.append(f"using {_cpp_type(argument)} = {base.capitalize()}Type;")
    return "\n".join(lines)


def _cpp_header(functions: list[CFunction]) -> str:
    parts = [
        comment(
            "drone_physics: the functions of drone_physics_c.h for C++17, with one name for all versions of a function. "
            "Frames, signs, units and equations are explained there.",
            "The types are structs of the namespace hako::drone_physics, so that operators and functions are found without "
            "`using namespace`. Vectors and quaternions have +, -, *, / with a number, length, length_squared; everything "
            "prints with <<. Euler angles are not vectors: they have no operators.",
            f"Generated by Samara {__version__} (samara export drone-physics); changes belong into Samara.",
        ),
        "#pragma once",
        "#include <cassert>\n#include <cmath>\n#include <ostream>\n#include <type_traits>",
        '#include "drone_physics_c.h"',
        "namespace hako::drone_physics {",
        *(_cpp_record(base) for base in RECORDS),
        _cpp_aliases(functions),
        *(_cpp_print(base) for base in RECORDS),
        *(_cpp_operators(base) for base in RECORDS if base != "euler"),
        *(_cpp_function(function) for function in functions),
        *(_cpp_with_vector_angles(function) for function in functions if function.name in TAKE_A_VECTOR_FOR_ANGLES),
        _CPP_NORMALIZE,
        "}  // namespace hako::drone_physics",
    ]
    return "\n\n".join(parts) + "\n"


# A program that checks the library: numbers from Python --------------------------------------------------------------


def _drawn(argument: Argument, random: np.random.Generator) -> Any:
    """Numbers no function objects to: positive scalars, vectors of any direction, unit quaternions"""
    if argument.record is Scalar:
        return float(random.uniform(0.5, 1.5))
    fields = argument.record._fields
    low = 0.5 if argument.kind.positive else -1.0
    values = random.uniform(low, 1.5 if argument.kind.positive else 1.0, len(fields))
    return argument.record(*(values / np.linalg.norm(values) if len(fields) == 4 else values).tolist())


def _initial(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "{" + ", ".join(_initial(each) for each in value) + "}"
    return decimal(float(value))


def _self_test(functions: list[CFunction], *, cpp: bool) -> str:
    tests = [_one_test(function, cpp=cpp) for function in functions]
    calls = "\n".join(f"    failures += test_{function.name}();" for function in functions)
    include, fabs = ('"drone_physics.hpp"', "std::fabs") if cpp else ('"drone_physics_c.h"', "fabs")
    using = "\nusing namespace hako::drone_physics;\n" if cpp else ""
    own = "<cmath>\n#include <cstdio>" if cpp else "<stdio.h>"
    return (
        "\n\n".join(
            [
                comment(
                    "Every function once, against the number Samara's own Python gives. Generated by Samara "
                    f"{__version__} (samara export drone-physics)."
                ),
                f"#include {own}\n\n#include {include}{using}",
                "static int differs(const char *name, double is, double should_be)\n{\n"
                f"    if ({fabs}(is - should_be) <= 1e-12 * (1.0 + {fabs}(should_be)))\n        return 0;\n"
                '    printf("%s: %.17g, expected %.17g\\n", name, is, should_be);\n    return 1;\n}',
                *tests,
                f"int main({'' if cpp else 'void'})\n{{\n    int failures = 0;\n\n{calls}\n"
                f'    printf("{len(functions)} functions, %d numbers differ\\n", failures);\n'
                "    return failures != 0;\n}",
            ]
        )
        + "\n"
    )


def _one_test(function: CFunction, *, cpp: bool) -> str:
    random = np.random.default_rng(zlib.crc32(function.name.encode()))
    per_rotor = function.rotors.per_rotor if function.rotors else ()
    values: dict[str, Any] = {}
    for own in function.arguments:
        many = [_drawn(own, random) for _ in range(SELF_TEST_ROTORS)] if own.name in per_rotor else None
        values[own.name] = _drawn(own, random) if many is None else many
    expected = getattr(library, function.shared_name)(**values)
    lines, given = [], []
    for own in function.arguments:
        kind = _cpp_type(own) if cpp else _c_type(own)
        array = "[]" if own.name in per_rotor else ""
        lines.append(f"const {kind} {own.name}{array} = {_initial(values[own.name])};")
        if own.name in per_rotor and str(SELF_TEST_ROTORS) not in given:
            given.append(str(SELF_TEST_ROTORS))
        given.append(own.name if cpp or array or own.record is Scalar else f"&{own.name}")
    name = function.shared_name if cpp else f"dp_{function.name}"
    kind = _cpp_type(function.result) if cpp else _c_type(function.result)
    fields = _fields(function.result)
    checks = [f'differs("{name}.{f}", out.{f}, {_initial(getattr(expected, f))})' for f in fields]
    checks = checks or [f'differs("{name}", out, {_initial(float(expected))})']
    lines += [f"const {kind} out = {name}({', '.join(given)});", "", "return " + "\n        + ".join(checks) + ";"]
    head = f"static int test_{function.name}({'' if cpp else 'void'})"
    return "\n".join([head, "{", *(f"    {line}".rstrip() for line in lines), "}"])
