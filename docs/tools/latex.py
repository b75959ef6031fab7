"""LaTeX of the physics equations, derived from the functions themselves.

`equation(rotor_load)` calls the function with symbols as arguments and with an algebra that builds expressions instead of
values: the same code, with other implementations of `cross`, `where` and `safe_divide`. The printed equation is therefore the
computed one, except for the guards: `safe_divide(a, b)` is printed as a/b, `safe_sqrt(x)` as √x and `direction(a)` as a/|a|,
although the code also defines results for b = 0, x ≤ 0 and a = 0. `Equation.evaluate` computes the printed equation.

Arguments declared positive are positive symbols: √R² is printed as R. Long expressions are split into parts named ξ.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import tools.latex_algebra as terms
from samara.core.algebra import Mat3, Quat, Vec3
from samara.core.quantity import Quantity
from tools.latex_algebra import (
    NUMERIC_OPERATIONS,
    SYMBOLIC_OPERATIONS,
    Matrix,
    Quaternion,
    Vector,
    common_component,
    exact_code,
    fraction,
    is_vector,
    latex,
    sympy,
    tidy,
    to_expression,
)
from tools.symbols import LETTERS, add_subscript, letter

MAX_LATEX_LENGTH = 240  # LaTeX characters: longer expressions are split into parts
MIN_PART_LENGTH = 30  # LaTeX characters: shorter parts are not named
Function = Callable[..., Any]


class Call(NamedTuple):
    """A call that an equation does not expand: the letters of its result, the function and its arguments."""

    result: Any
    function: Function
    arguments: dict[str, Any]


class Meaning(NamedTuple):
    """The name in the code and the unit of a letter."""

    name: str
    unit: str


@dataclass(frozen=True)
class Equation:
    """The equation of a function: letters on the left, SymPy expressions on the right, and the meaning of its symbols."""

    function: Function
    arguments: dict[str, Any]
    left: tuple[str, ...]
    right: tuple[Any, ...]
    parts: tuple[tuple[Any, Any], ...]
    calls: tuple[Call, ...]
    constants: dict[str, float]
    meanings: dict[str, Meaning]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """(left, right) of every part and result in LaTeX; three equal components become one, zeros are left out."""
        rows = [(symbol.name, latex(part)) for symbol, part in self.parts]
        for left, right in zip(self.left, self.right, strict=True):
            if right != 0:
                common = common_component(right)
                rows.append((left, latex(right)) if common is None else (add_subscript(left, "i"), latex(common)))
        return rows

    @property
    def latex(self) -> str:
        """The rows, joined for an aligned environment."""
        return " \\\\\n".join(f"{left} &= {right}" for left, right in self.rows)

    @property
    def letters(self) -> set[str]:
        """All letters on the right."""
        rights = [
            expression.replace(terms.Table, lambda x, *_: x)
            for expression in (*self.right, *(part for _, part in self.parts))
        ]
        return {symbol.name for right in rights for symbol in right.free_symbols}

    @property
    def printed_meanings(self) -> dict[str, Meaning]:
        """The meaning of the printed letters that are arguments of the function."""
        return {name: meaning for name, meaning in self.meanings.items() if name in self.letters}

    def evaluate(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compute the results from the printed expressions; functions that are not expanded are called."""
        bound = inspect.signature(self.function).bind(*args, **kwargs).arguments
        values: dict[str, Any] = dict(self.constants)
        for name, symbolic in self.arguments.items():
            for symbol, value in zip(leaves(symbolic), leaves(bound[name]), strict=True):
                values[_name(symbol)] = value
        for call in self.calls:
            result = call.function(
                **{name: _evaluate_tree(symbolic, values) for name, symbolic in call.arguments.items()}
            )
            for symbol, value in zip(leaves(call.result), leaves(result), strict=True):
                values[_name(symbol)] = value
        for symbol, part in self.parts:
            values[symbol.name] = _evaluate(part, values)
        return [_evaluate(right, values) for right in self.right]


def equation(
    function: Function,
    *,
    known_functions: Iterable[Function] = (),
    call_letters: Mapping[str, tuple[str, ...]] | None = None,
    only: tuple[str, ...] = (),
    **fixed: Any,
) -> Equation:
    """Derive the equation of a physics function.

    Args:
        function: the function.
        known: functions that appear as their letter if they are called with arguments of the same names.
        apart: letters for other calls that are not expanded: {function name: one letter per different call}.
        only: letters of the results to print; default: all.
        fixed: values for arguments, or for constants of the function's module.
    """
    arguments, meanings = symbolic_arguments(function)
    arguments |= {name: value for name, value in fixed.items() if name in arguments}
    writer = _SymbolicRun(function.__module__, frozenset(known_functions) - {function}, dict(call_letters or {}), fixed)
    result = writer.run(function, **arguments)
    left = [_name(leaf) for leaf in leaves(symbolic_result(function))]
    selected = [k for k, name in enumerate(left) if not only or name in only]
    right = [tidy(to_expression(leaf)) for leaf in leaves(result)]
    parts, right = _split_expressions([right[k] for k in selected])
    selected_left = tuple(left[k] for k in selected)
    return Equation(
        function, arguments, selected_left, tuple(right), parts, tuple(writer.calls), writer.constants, meanings
    )


def _split_expressions(right: list[Any]) -> tuple[tuple[tuple[Any, Any], ...], list[Any]]:
    """Return expressions unchanged; or, if one is long, with names for repeated terms and for its longest sums."""
    if all(_size(expression) <= MAX_LATEX_LENGTH for expression in right):
        return (), right
    common_terms, right = sympy.cse(right, order="none", list=True)
    replacements: dict[Any, Any] = {}
    rows: list[tuple[Any, Any]] = []
    for symbol, part in (*common_terms, *((None, expression) for expression in right)):
        part = part.xreplace(replacements)
        if symbol is not None and (_size(part) < MIN_PART_LENGTH or part.is_Boolean):
            replacements[symbol] = part
            continue
        while _size(part) > MAX_LATEX_LENGTH and (longest_sum := _longest_sum(part)) is not None:
            name = sympy.Dummy(real=None if is_vector(longest_sum) else True)
            rows.append((name, longest_sum))
            part = part.xreplace({longest_sum: name})
        if symbol is not None:
            replacements[symbol] = sympy.Dummy(real=None if is_vector(part) else True)
        rows.append((replacements.get(symbol), part))
    letters = {old: _xi(k, old) for k, (old, _) in enumerate(row for row in rows if row[0] is not None)}
    written = [(letters.get(old), part.xreplace(letters)) for old, part in rows]
    return tuple(row for row in written if row[0] is not None), [part for name, part in written if name is None]


def _xi(k: int, old: Any) -> Any:
    return sympy.Symbol(rf"\xi_{{{k + 1}}}", real=old.is_real)


def _size(written: Any) -> int:
    common = common_component(written)
    return len(latex(written if common is None else common))


def _longest_sum(written: Any) -> Any:
    sums = [term for term in sympy.preorder_traversal(written) if term.is_Add and term != written]
    return max(
        (term for term in sums if MIN_PART_LENGTH <= _size(term) <= 0.7 * _size(written)), key=_size, default=None
    )


class _SymbolicRun:
    """Runs functions with symbolic replacements of their globals, and records the calls that are not expanded."""

    def __init__(
        self,
        home: str,
        known_functions: frozenset[Function],
        call_letters: dict[str, tuple[str, ...]],
        fixed: dict[str, Any],
    ) -> None:
        self.home, self.known, self.apart, self.fixed = home, known_functions, call_letters, fixed
        self.calls: list[Call] = []
        self.constants: dict[str, float] = {}

    def run(self, function: Function, *args: Any, **kwargs: Any) -> Any:
        """Run the function's code in a namespace of symbolic replacements."""
        assert isinstance(function, FunctionType)
        used = _used_names(function.__code__)
        namespace = {
            name: self.replacement(name, value) if name in used else value
            for name, value in function.__globals__.items()
        }
        copy = FunctionType(exact_code(function.__code__), namespace, function.__name__)
        return copy(**self.bound(function, *args, **kwargs))

    def bound(self, function: Function, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return all arguments by name; a default that is a constant of the module becomes the constant's letter."""
        constant_names = {id(value): name for name, value in inspect.getmodule(function).__dict__.items()}
        bound = inspect.signature(function).bind(*args, **kwargs)
        passed = set(bound.arguments)
        bound.apply_defaults()
        return {
            name: value if name in passed else self.replacement(constant_names.get(id(value), ""), value)
            for name, value in bound.arguments.items()
        }

    def replacement(self, name: str, value: Any) -> Any:
        """Return the symbolic replacement of a global of the function's module."""
        if name in self.fixed:
            return self.fixed[name]
        if value is math:
            return terms.WRITTEN_MATH
        if isinstance(value, float) and name in LETTERS:
            symbol = sympy.Symbol(letter(name), positive=True)
            self.constants[symbol.name] = value
            return symbol
        if isinstance(value, float):
            return fraction(value)
        if isinstance(value, Vec3):
            return terms.column(*value)
        if (inspect.isfunction(value) or inspect.isclass(value)) and value in SYMBOLIC_OPERATIONS:
            return SYMBOLIC_OPERATIONS[value]
        if inspect.isfunction(value) and value.__module__.startswith((self.home, "samara.")):
            return lambda *args, **kwargs: self.call(value, *args, **kwargs)
        return value

    def call(self, function: Function, *args: Any, **kwargs: Any) -> Any:
        """Return the letters of a function that is not expanded, else expand it."""
        bound = self.bound(function, *args, **kwargs)
        arguments_written = [str(to_expression(leaf)) for value in bound.values() for leaf in leaves(value)]
        for call in self.calls:
            if call.function is function and arguments_written == _written(call.arguments):
                return call.result
        if function.__name__ in self.apart:
            previous_calls = sum(call.function is function for call in self.calls)
            result = symbolic_result(function, self.apart[function.__name__][previous_calls])
        elif function in self.known and arguments_written == _written(symbolic_arguments(function)[0]):
            result = symbolic_result(function)
        else:
            return self.run(function, **bound)
        self.calls.append(Call(result, function, bound))
        return result


def _used_names(code: Any) -> set[str]:
    """Return the names that a function's code uses, including its comprehensions."""
    inner = (inner_code for inner_code in code.co_consts if inspect.iscode(inner_code))
    return set(code.co_names).union(*(_used_names(inner_code) for inner_code in inner))


def _written(arguments: Mapping[str, Any]) -> list[str]:
    return [str(to_expression(leaf)) for value in arguments.values() for leaf in leaves(value)]


# Symbols for arguments and results ---------------------------------------------------------------------------------


def symbolic_arguments(function: Function) -> tuple[dict[str, Any], dict[str, Meaning]]:
    """Return a symbol for every number and vector of a function's arguments, and their meanings."""
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    meanings: dict[str, Meaning] = {}
    records = [hint for hint in hints.values() if inspect.isclass(hint) and hasattr(hint, "_fields")]
    repeated = {hint for hint in records if records.count(hint) > 1}
    arguments = {}
    for name, hint in hints.items():
        suffix = LETTERS.get(f"={name}", name) if inspect.isclass(hint) and hint in repeated else ""
        arguments[name] = _symbols(hint, (f"{function.__name__}.{name}", name), name, suffix, meanings)
    return arguments, meanings


def _symbols(hint: Any, keys: tuple[str, ...], path: str, suffix: str, meanings: dict[str, Meaning]) -> Any:
    base, quantity = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, None)
    if get_origin(base) is tuple:
        element = get_args(base)[0]
        inner = (
            element if quantity is None else Annotated[element, Quantity(quantity.unit, quantity.low, quantity.high)]
        )
        return tuple(_symbols(inner, keys, f"{path}[{k}]", f"{suffix}{k + 1}", meanings) for k in range(2))
    if hasattr(base, "_fields") and base not in (Vec3, Quat, Mat3):
        fields = get_type_hints(base, include_extras=True)
        return base(
            **{
                field: ()
                if field_type is Any
                else _symbols(field_type, (f"{base.__name__}.{field}", field), f"{path}.{field}", suffix, meanings)
                for field, field_type in fields.items()
            }
        )
    name = add_subscript(letter(*keys), suffix)
    if name in meanings:
        raise ValueError(
            f"{path} and {meanings[name].name} have the same letter {name}; expected different letters in LETTERS"
        )
    meanings[name] = Meaning(path, getattr(quantity, "unit", ""))
    return _symbol(base, name, quantity)


def _symbol(base: Any, name: str, quantity: Any = None) -> Any:
    symbol_types = {Vec3: Vector, Quat: Quaternion, Mat3: Matrix}
    if base in symbol_types:
        return symbol_types[base](sympy.Symbol(name))
    return sympy.Symbol(name, positive=True) if getattr(quantity, "low", -1.0) > 0 else sympy.Symbol(name, real=True)


def symbolic_result(function: Function, name: str | None = None) -> Any:
    """Return symbols for the results of a function, or one with the given name."""
    hint = get_type_hints(function, include_extras=True)["return"]
    function_name = function.__name__
    if get_origin(hint) is tuple:
        return tuple(
            _symbol(element_type, letter(f"{function_name}->{k}")) for k, element_type in enumerate(get_args(hint))
        )
    if hasattr(hint, "_fields") and hint not in (Vec3, Quat, Mat3):
        fields = get_type_hints(hint)
        keys = {field: (f"{function_name}->{field}", f"{hint.__name__}.{field}", field) for field in fields}
        return hint(
            **{
                field: () if field_type is tuple else _symbol(field_type, letter(*keys[field]))
                for field, field_type in fields.items()
            }
        )
    return _symbol(hint, letter(f"{function_name}->") if name is None else letter("", name))


def leaves(tree: Any) -> list[Any]:
    """Return the numbers, vectors, quaternions and matrices of a record, in order."""
    if isinstance(tree, tuple) and not isinstance(tree, (Vec3, Quat, Mat3)):
        return [leaf for branch in tree for leaf in leaves(branch)]
    return [tree]


def _name(symbol: Any) -> str:
    return str(to_expression(symbol).name)


# Evaluation --------------------------------------------------------------------------------------------------------


def _evaluate_tree(tree: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(tree, tuple) and not isinstance(tree, (Vec3, Quat, Mat3)):
        branches = [_evaluate_tree(branch, values) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
    return _evaluate(tidy(to_expression(tree)), values)


def _evaluate(written: Any, values: Mapping[str, Any]) -> Any:
    names, compiled = _compile(written)
    return compiled(*(values[name] for name in names))


@cache
def _compile(written: Any) -> tuple[list[str], Function]:
    symbols = sorted(written.free_symbols, key=str)
    return [symbol.name for symbol in symbols], sympy.lambdify(symbols, written, modules=[NUMERIC_OPERATIONS, "math"])
