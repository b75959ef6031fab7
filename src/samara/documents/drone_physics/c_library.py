"""Hakoniwa's library for C and C++: every function of `samara.documents.drone_physics`, traced and written out.

`drone_physics_c.h` and `.c` are C99 with the prefix dp_; `drone_physics.hpp` wraps them as overloads in hako::drone_physics.
The first version of a name is plain in C, the others have a suffix: dp_rotor_omega_acceleration(Kr, Tr, …) and
dp_rotor_omega_acceleration__battery. An argument with a default is omitted from the plain function; the longer version has it
as a suffix: dp_rotor_thrust, dp_rotor_thrust__atm_pressure.
"""

import zlib
from collections.abc import Iterator
from inspect import Parameter, signature, unwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np

import samara.documents.drone_physics as library
from samara.compiler.trace.folding_tape import trace_program
from samara.core.atomic_files import write_text
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.core.version import __version__
from samara.documents.drone_physics.arguments import (
    LIBRARY,
    ROTOR_SUMS,
    VERSIONS,
    CArgument,
    Function,
    RotorSum,
    function_arguments,
    function_result,
)
from samara.export.c_syntax import Variables, c_lines, comment, decimal

TEMPLATES = Path(__file__).parent / "c"  # the files of the library, with @names@ for the generated parts
SELF_TEST_ROTORS = 4


def write_library(folder: str | Path) -> list[Path]:
    """Write C files, C++ header, examples, self-tests, CMakeLists.txt and README.md, each atomically; return the paths."""
    functions = list(c_functions())
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.iterdir()) if path.is_file()}
    examples = {example: texts[example].strip() for example in ("cexamples.c", "examples.cpp")}
    parts = {
        "drone_physics_c.h": {"functions": "\n\n".join(_prototype(function) for function in functions)},
        "drone_physics_c.c": {"functions": "\n\n".join(_definitions(functions))},
        "drone_physics.hpp": {"functions": "\n\n".join(_cpp_function(function) for function in functions)},
        "ctest.c": _self_test(functions, cpp=False),
        "utest.cpp": _self_test(functions, cpp=True),
        "README.md": examples,
    }
    try:
        for name, text in texts.items():
            for key, value in {**parts.get(name, {}), "version": __version__}.items():
                text = text.replace(f"@{key}@", value)
            write_text(Path(folder) / name, text)
    except OSError as error:
        raise OSError(f"{folder}: cannot be written to ({error.strerror}); expected a folder for a library") from None
    return [Path(folder) / name for name in texts]


# Functions to write -------------------------------------------------------------------------------------------------


class CFunction(NamedTuple):
    """A function in C: its name without dp_, the name that all its versions share, and the Python function.

    With `rotors` it sums `function` over n rotors.
    """

    name: str
    shared_name: str
    function: Function
    arguments: tuple[CArgument, ...]
    rotors: RotorSum | None = None

    @property
    def result(self) -> CArgument:
        return function_result(self.function)

    @property
    def one_rotor(self) -> str:
        """The name of the function of one rotor: that of the summed function, with the suffix of this version."""
        _, separator, suffix = self.name.partition("__")
        return f"{unwrap(self.function).__name__}{separator}{suffix}"


def c_functions() -> Iterator[CFunction]:
    """Yield every function of the library in the order of its files, each followed by its other and longer versions."""
    for name, function in LIBRARY.items():
        rotors = ROTOR_SUMS.get(name)
        for version in VERSIONS.get(name, (rotors.function if rotors else function,)):
            plain = name if rotors else unwrap(version).__name__.lstrip("_")
            parameters, arguments = signature(unwrap(version)).parameters, function_arguments(version)
            optional = [key for key, parameter in parameters.items() if parameter.default is not Parameter.empty]
            required = tuple(argument for argument in arguments if argument.name not in optional)
            yield CFunction(plain, name, version, required, rotors)
            if optional:
                yield CFunction(f"{plain}__{'_'.join(optional)}", name, version, arguments, rotors)


# C ------------------------------------------------------------------------------------------------------------------


def _c_type(argument: CArgument) -> str:
    return argument.c_type.name if argument.record is Scalar else f"dp_{argument.c_type.name}_t"


def _parameters(function: CFunction) -> list[str]:
    """Return the declared parameters; the rotor count comes before the first per-rotor array."""
    texts: list[str] = []
    for argument in function.arguments:
        name, c_type = argument.name, _c_type(argument)
        if function.rotors and name in function.rotors.per_rotor:
            texts += [*(() if "int n" in texts else ("int n",)), f"const {c_type} {name}[]"]
        else:
            texts.append(f"const {c_type} *{name}" if argument.fields else f"double {name}")
    return texts


def _head(function: CFunction, prefix: str = "dp_") -> str:
    parameters = ",\n    ".join(_parameters(function))
    return f"{_c_type(function.result)} {prefix}{function.name}(\n    {parameters})"


def _units(function: CFunction) -> str:
    units = [f"{argument.name} [{argument.c_type.unit}]" for argument in function.arguments if argument.c_type.unit]
    result_unit = function.result.c_type.unit
    return "; ".join([*([", ".join(units)] if units else []), *([f"gives [{result_unit}]"] if result_unit else [])])


def _description(function: CFunction) -> list[str]:
    described = getattr(library, function.shared_name) if function.rotors else unwrap(function.function)
    paragraphs = (described.__doc__ or "").split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in [*paragraphs, _units(function)] if paragraph.strip()]


def _prototype(function: CFunction) -> str:
    return f"{comment(*_description(function))}\n{_head(function)};"


def _definitions(functions: list[CFunction]) -> Iterator[str]:
    public = {unwrap(function.function) for function in functions if not function.rotors}
    for function in functions:
        if not function.rotors:
            yield _traced_definition(_head(function), function)
        elif unwrap(function.function) in public:
            yield _loop(function, f"dp_{function.one_rotor}")
        else:
            one = CFunction(function.one_rotor[1:], "", function.function, function.arguments)
            yield _traced_definition(f"static {_head(one, '')}", one)
            yield _loop(function, one.name)


def _c_places(argument: CArgument) -> Variables:
    name, fields = argument.name, argument.fields
    return Variables([f"{name}.{f}" for f in fields] or [name], [f"{name}->{f}" for f in fields] or [name])


def _traced_definition(head: str, function: CFunction) -> str:
    result, plain = function.result, unwrap(function.function)
    templates = [
        0.0 if argument.record is Scalar else argument.record(*(0.0 for _ in argument.fields))
        for argument in function.arguments
    ]

    def call(*values: Scalar) -> tuple[Scalar]:
        result_value = plain(
            **{argument.name: value for argument, value in zip(function.arguments, values, strict=True)}
        )
        return (where(result_value, 1.0, 0.0) if result.c_type.name == "int" else result_value,)

    fields = result.fields
    out = Variables(fields, [f"out.{f}" for f in fields]) if fields else Variables([result.c_type.unit or "1"], ["out"])
    body = c_lines(trace_program(call, *templates), [_c_places(argument) for argument in function.arguments], [out])
    lines = [f"{_c_type(result)} out;", *body, "return out;"]
    return "\n".join([head, "{", *(f"    {line}" for line in lines), "}"])


def _loop(function: CFunction, one_rotor: str) -> str:
    """Sum the function of one rotor over n rotors."""
    assert function.rotors is not None
    call_arguments = []
    for argument in function.arguments:
        address = "" if argument.record is Scalar else "&"
        call_arguments.append(
            f"{address}{argument.name}[i]" if argument.name in function.rotors.per_rotor else argument.name
        )
    result, fields = function.result, function.result.fields
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
            f"            {', '.join(call_arguments)});",
            *(f"        {line}" for line in sums),
            "    }",
            "    return out;",
            "}",
        ]
    )


# C++ ----------------------------------------------------------------------------------------------------------------


def _cpp_type(argument: CArgument) -> str:
    if argument.record is Scalar:
        return "bool" if argument.c_type.name == "int" else argument.c_type.name
    return "".join(word.capitalize() for word in argument.c_type.name.split("_")) + "Type"


def _cpp_function(function: CFunction) -> str:
    """Return the C++ overload of a C function: the records are converted, arrays of records one rotor at a time."""
    rotors = function.rotors
    per_rotor = rotors.per_rotor if rotors else ()
    parameters, values, conversions = [], [], []
    sums_in_cpp = any(argument.name in per_rotor and argument.record is not Scalar for argument in function.arguments)
    for argument in function.arguments:
        name, is_record, is_array = argument.name, argument.record is not Scalar, argument.name in per_rotor
        if is_array and "unsigned n" not in parameters:
            parameters.append("unsigned n")
            values.append("1" if sums_in_cpp else "static_cast<int>(n)")
        if is_record:
            conversions.append(f"const auto {name}_c = detail::to_c({name}{'[i]' if is_array else ''});")
            values.append(f"&{name}_c")
        else:
            values.append(f"&{name}[i]" if is_array and sums_in_cpp else name)
        reference = "&" if is_record and not is_array else ""
        qualifier = "const " if is_record or is_array else ""
        parameters.append(f"{qualifier}{_cpp_type(argument)}{reference} {name}{'[]' if is_array else ''}")
    cpp_type, expression = _cpp_type(function.result), f"dp_{function.name}({', '.join(values)})"
    if function.result.record is not Scalar:
        expression = f"detail::from_c({expression})"
    elif function.result.c_type.name == "int":
        expression += " != 0"
    lines = [*conversions, f"return {expression};"]
    if sums_in_cpp:
        body = [*conversions, f"out += {expression};"]
        loop = ["for (unsigned i = 0; i < n; ++i) {", *(f"    {line}" for line in body), "}"]
        lines = [f"{cpp_type} out{{}};", *loop, "return out;"]
    text = "\n".join(f"    {line}" for line in lines)
    return f"inline {cpp_type} {function.shared_name}(\n    {', '.join(parameters)}) {{\n{text}\n}}"


# Self-test of the library: expected values from Python ---------------------------------------------------------------


def _random_value(argument: CArgument, random: np.random.Generator) -> Scalar:
    """Return values that are valid for every function: positive scalars, vectors of any direction, unit quaternions."""
    if argument.record is Scalar:
        return float(random.uniform(0.5, 1.5))
    fields = argument.record._fields
    low = 0.5 if argument.c_type.positive else -1.0
    values = random.uniform(low, 1.5 if argument.c_type.positive else 1.0, len(fields))
    return argument.record(*(values / np.linalg.norm(values) if len(fields) == 4 else values).tolist())


def _initialiser(value: Scalar) -> str:
    if isinstance(value, (list, tuple)):
        return "{" + ", ".join(_initialiser(element) for element in value) + "}"
    return decimal(float(value))


def _self_test(functions: list[CFunction], *, cpp: bool) -> dict[str, str]:
    return {
        "tests": "\n\n".join(_one_test(function, cpp=cpp) for function in functions),
        "calls": "\n".join(f"    failures += test_{function.name}();" for function in functions),
        "count": str(len(functions)),
    }


def _one_test(function: CFunction, *, cpp: bool) -> str:
    random = np.random.default_rng(zlib.crc32(function.name.encode()))
    per_rotor = function.rotors.per_rotor if function.rotors else ()
    values: dict[str, Scalar] = {}
    for argument in function.arguments:
        rotor_values = (
            [_random_value(argument, random) for _ in range(SELF_TEST_ROTORS)] if argument.name in per_rotor else None
        )
        values[argument.name] = _random_value(argument, random) if rotor_values is None else rotor_values
    expected = getattr(library, function.shared_name)(**values)
    lines, call_arguments = [], []
    for argument in function.arguments:
        type_name = _cpp_type(argument) if cpp else _c_type(argument)
        array = "[]" if argument.name in per_rotor else ""
        lines.append(f"const {type_name} {argument.name}{array} = {_initialiser(values[argument.name])};")
        if argument.name in per_rotor and str(SELF_TEST_ROTORS) not in call_arguments:
            call_arguments.append(str(SELF_TEST_ROTORS))
        call_arguments.append(argument.name if cpp or array or argument.record is Scalar else f"&{argument.name}")
    name = function.shared_name if cpp else f"dp_{function.name}"
    type_name = _cpp_type(function.result) if cpp else _c_type(function.result)
    fields = function.result.fields
    checks = [f'differs("{name}.{f}", out.{f}, {_initialiser(getattr(expected, f))})' for f in fields]
    checks = checks or [f'differs("{name}", out, {_initialiser(float(expected))})']
    lines += [
        f"const {type_name} out = {name}({', '.join(call_arguments)});",
        "",
        "return " + "\n        + ".join(checks) + ";",
    ]
    head = f"static int test_{function.name}({'' if cpp else 'void'})"
    return "\n".join([head, "{", *(f"    {line}".rstrip() for line in lines), "}"])
