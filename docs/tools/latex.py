"""The equations of the physics, written down by the functions themselves.

`equation(rotor_load)` calls the function with symbols for its arguments and with an algebra that writes where the usual one
computes: the same code, run with other meanings of `cross`, `where` and `safe_divide`. Nothing is typed twice, so what is
printed is what is computed, except for the guards: `safe_divide(a, b)` is written a/b, `safe_sqrt(x)` √x, `direction(a)` a/|a|,
though the code also knows what to answer at b = 0, x ≤ 0 and a = 0. `Equation.evaluate` computes what is printed.

An argument that is declared positive is: √R² is written R. An expression that is long is written with names ξ for its parts.
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
    COMPUTED,
    WRITING,
    Matrix,
    Quaternion,
    Vector,
    alike,
    exact,
    fraction,
    is_vector,
    latex,
    sympy,
    tidy,
    written_of,
)
from tools.symbols import LETTERS, letter, with_suffix

LONGEST = 240  # characters of LaTeX, of an expression that is printed in one piece
SHORTEST = 30  # of a part that is given a name
Function = Callable[..., Any]


class Call(NamedTuple):
    """A function that an equation leaves standing: the letters of its result, and what it was called with."""

    result: Any
    function: Function
    arguments: dict[str, Any]


class Meaning(NamedTuple):
    """What a letter stands for: its name in the code, and its unit."""

    name: str
    unit: str


@dataclass(frozen=True)
class Equation:
    """What a function computes: letters on the left, SymPy expressions on the right, and what its symbols stand for."""

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
        """(left, right) of every named part and result in LaTeX: of three components that are alike one, of a zero none"""
        written = [(symbol.name, latex(part)) for symbol, part in self.parts]
        for left, right in zip(self.left, self.right, strict=True):
            if right != 0:
                one = alike(right)
                written.append((left, latex(right)) if one is None else (with_suffix(left, "i"), latex(one)))
        return written

    @property
    def latex(self) -> str:
        """The rows, one below the other"""
        return " \\\\\n".join(f"{left} &= {right}" for left, right in self.rows)

    @property
    def letters(self) -> set[str]:
        """All letters on the right"""
        rights = [own.replace(terms.Table, lambda x, *_: x) for own in (*self.right, *(part for _, part in self.parts))]
        return {symbol.name for right in rights for symbol in right.free_symbols}

    @property
    def printed(self) -> dict[str, Meaning]:
        """What those letters stand for that are arguments of the function"""
        return {name: meaning for name, meaning in self.meanings.items() if name in self.letters}

    def evaluate(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The results, computed from what is printed; functions that are left standing are called"""
        given = inspect.signature(self.function).bind(*args, **kwargs).arguments
        values: dict[str, Any] = dict(self.constants)
        for name, own in self.arguments.items():
            for symbol, value in zip(leaves(own), leaves(given[name]), strict=True):
                values[_name(symbol)] = value
        for call in self.calls:
            result = call.function(**{name: _computed(own, values) for name, own in call.arguments.items()})
            for symbol, value in zip(leaves(call.result), leaves(result), strict=True):
                values[_name(symbol)] = value
        for symbol, part in self.parts:
            values[symbol.name] = _compute(part, values)
        return [_compute(right, values) for right in self.right]


def equation(
    function: Function,
    *,
    known: Iterable[Function] = (),
    apart: Mapping[str, tuple[str, ...]] | None = None,
    only: tuple[str, ...] = (),
    **fixed: Any,
) -> Equation:
    """The equation of a physics function.

    A function of `known` that is called with arguments of its own names is left standing, as its letter. `apart` names the
    letters for other calls that are: {function: one letter for each different call}. `only` picks results by their letters.
    `fixed` gives an argument, or a constant of the function's file, a value.
    """
    arguments, meanings = arguments_of(function)
    arguments |= {name: own for name, own in fixed.items() if name in arguments}
    writing = _Writing(function.__module__, frozenset(known) - {function}, dict(apart or {}), fixed)
    result = writing.run(function, **arguments)
    left = [_name(own) for own in leaves(result_of(function))]
    picked = [k for k, name in enumerate(left) if not only or name in only]
    right = [tidy(written_of(own)) for own in leaves(result)]
    parts, right = _in_parts([right[k] for k in picked])
    chosen = tuple(left[k] for k in picked)
    return Equation(function, arguments, chosen, tuple(right), parts, tuple(writing.calls), writing.constants, meanings)


def _in_parts(right: list[Any]) -> tuple[tuple[tuple[Any, Any], ...], list[Any]]:
    """Expressions as they are, or, where one is long, with names for what they repeat and for its longest sums."""
    if all(_size(own) <= LONGEST for own in right):
        return (), right
    found, right = sympy.cse(right, order="none", list=True)
    inside: dict[Any, Any] = {}
    rows: list[tuple[Any, Any]] = []
    for symbol, part in (*found, *((None, own) for own in right)):
        part = part.xreplace(inside)
        if symbol is not None and (_size(part) < SHORTEST or part.is_Boolean):
            inside[symbol] = part
            continue
        while _size(part) > LONGEST and (longest := _longest_sum(part)) is not None:
            name = sympy.Dummy(real=None if is_vector(longest) else True)
            rows.append((name, longest))
            part = part.xreplace({longest: name})
        if symbol is not None:
            inside[symbol] = sympy.Dummy(real=None if is_vector(part) else True)
        rows.append((inside.get(symbol), part))
    named = {old: _xi(k, old) for k, (old, _) in enumerate(own for own in rows if own[0] is not None)}
    written = [(named.get(old), part.xreplace(named)) for old, part in rows]
    return tuple(own for own in written if own[0] is not None), [part for name, part in written if name is None]


def _xi(k: int, old: Any) -> Any:
    return sympy.Symbol(rf"\xi_{{{k + 1}}}", real=old.is_real)


def _size(written: Any) -> int:
    one = alike(written)
    return len(latex(written if one is None else one))


def _longest_sum(written: Any) -> Any:
    sums = [own for own in sympy.preorder_traversal(written) if own.is_Add and own != written]
    return max((own for own in sums if SHORTEST <= _size(own) <= 0.7 * _size(written)), key=_size, default=None)


class _Writing:
    """Runs functions with writing stand-ins for what they call, and notes which calls were left standing."""

    def __init__(
        self, home: str, known: frozenset[Function], apart: dict[str, tuple[str, ...]], fixed: dict[str, Any]
    ) -> None:
        self.home, self.known, self.apart, self.fixed = home, known, apart, fixed
        self.calls: list[Call] = []
        self.constants: dict[str, float] = {}

    def run(self, function: Function, *args: Any, **kwargs: Any) -> Any:
        """The function's own code, in a namespace where everything writes"""
        assert isinstance(function, FunctionType)
        used = _names_in(function.__code__)
        namespace = {
            name: self.stand_in(name, value) if name in used else value for name, value in function.__globals__.items()
        }
        copy = FunctionType(exact(function.__code__), namespace, function.__name__)
        return copy(**self.bound(function, *args, **kwargs))

    def bound(self, function: Function, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """All arguments by name; a default that is a constant of the file is that constant's letter"""
        named = {id(value): name for name, value in inspect.getmodule(function).__dict__.items()}
        bound = inspect.signature(function).bind(*args, **kwargs)
        given = set(bound.arguments)
        bound.apply_defaults()
        return {
            name: value if name in given else self.stand_in(named.get(id(value), ""), value)
            for name, value in bound.arguments.items()
        }

    def stand_in(self, name: str, value: Any) -> Any:
        """What writes in place of a global of the function's file"""
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
        if (inspect.isfunction(value) or inspect.isclass(value)) and value in WRITING:
            return WRITING[value]
        if inspect.isfunction(value) and value.__module__.startswith((self.home, "samara.")):
            return lambda *args, **kwargs: self.call(value, *args, **kwargs)
        return value

    def call(self, function: Function, *args: Any, **kwargs: Any) -> Any:
        """Left standing where it is known, else written out"""
        bound = self.bound(function, *args, **kwargs)
        own = [str(written_of(leaf)) for value in bound.values() for leaf in leaves(value)]
        for call in self.calls:
            if call.function is function and own == _written(call.arguments):
                return call.result
        if function.__name__ in self.apart:
            earlier = sum(call.function is function for call in self.calls)
            result = result_of(function, self.apart[function.__name__][earlier])
        elif function in self.known and own == _written(arguments_of(function)[0]):
            result = result_of(function)
        else:
            return self.run(function, **bound)
        self.calls.append(Call(result, function, bound))
        return result


def _names_in(code: Any) -> set[str]:
    """The names a function's code uses, also within its comprehensions."""
    inner = (own for own in code.co_consts if inspect.iscode(own))
    return set(code.co_names).union(*(_names_in(own) for own in inner))


def _written(arguments: Mapping[str, Any]) -> list[str]:
    return [str(written_of(leaf)) for value in arguments.values() for leaf in leaves(value)]


# Symbols for arguments and results ---------------------------------------------------------------------------------


def arguments_of(function: Function) -> tuple[dict[str, Any], dict[str, Meaning]]:
    """A symbol for every number and vector among a function's arguments, and what the symbols stand for"""
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    meanings: dict[str, Meaning] = {}
    records = [hint for hint in hints.values() if inspect.isclass(hint) and hasattr(hint, "_fields")]
    twice = {hint for hint in records if records.count(hint) > 1}
    arguments = {}
    for name, hint in hints.items():
        suffix = LETTERS.get(f"={name}", name) if inspect.isclass(hint) and hint in twice else ""
        arguments[name] = _symbols(hint, (f"{function.__name__}.{name}", name), name, suffix, meanings)
    return arguments, meanings


def _symbols(hint: Any, keys: tuple[str, ...], path: str, suffix: str, meanings: dict[str, Meaning]) -> Any:
    base, declared = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, None)
    if get_origin(base) is tuple:
        element = get_args(base)[0]
        inner = (
            element if declared is None else Annotated[element, Quantity(declared.unit, declared.low, declared.high)]
        )
        return tuple(_symbols(inner, keys, f"{path}[{k}]", f"{suffix}{k + 1}", meanings) for k in range(2))
    if hasattr(base, "_fields") and base not in (Vec3, Quat, Mat3):
        fields = get_type_hints(base, include_extras=True)
        return base(
            **{
                field: ()
                if own is Any
                else _symbols(own, (f"{base.__name__}.{field}", field), f"{path}.{field}", suffix, meanings)
                for field, own in fields.items()
            }
        )
    name = with_suffix(letter(*keys), suffix)
    if name in meanings:
        raise ValueError(
            f"{path} and {meanings[name].name} would both be written {name}; give one of them another letter"
        )
    meanings[name] = Meaning(path, getattr(declared, "unit", ""))
    return _symbol(base, name, declared)


def _symbol(base: Any, name: str, declared: Any = None) -> Any:
    kinds = {Vec3: Vector, Quat: Quaternion, Mat3: Matrix}
    if base in kinds:
        return kinds[base](sympy.Symbol(name))
    return sympy.Symbol(name, positive=True) if getattr(declared, "low", -1.0) > 0 else sympy.Symbol(name, real=True)


def result_of(function: Function, name: str | None = None) -> Any:
    """Symbols for what a function returns, or one of the given name"""
    hint = get_type_hints(function, include_extras=True)["return"]
    own = function.__name__
    if get_origin(hint) is tuple:
        return tuple(_symbol(part, letter(f"{own}->{k}")) for k, part in enumerate(get_args(hint)))
    if hasattr(hint, "_fields") and hint not in (Vec3, Quat, Mat3):
        fields = get_type_hints(hint)
        keys = {field: (f"{own}->{field}", f"{hint.__name__}.{field}", field) for field in fields}
        return hint(
            **{field: () if kind is tuple else _symbol(kind, letter(*keys[field])) for field, kind in fields.items()}
        )
    return _symbol(hint, letter(f"{own}->") if name is None else letter("", name))


def leaves(tree: Any) -> list[Any]:
    """The numbers, vectors, quaternions and matrices of a record, in order"""
    if isinstance(tree, tuple) and not isinstance(tree, (Vec3, Quat, Mat3)):
        return [leaf for branch in tree for leaf in leaves(branch)]
    return [tree]


def _name(symbol: Any) -> str:
    return str(written_of(symbol).name)


# Computing what is printed -----------------------------------------------------------------------------------------


def _computed(tree: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(tree, tuple) and not isinstance(tree, (Vec3, Quat, Mat3)):
        branches = [_computed(branch, values) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
    return _compute(tidy(written_of(tree)), values)


def _compute(written: Any, values: Mapping[str, Any]) -> Any:
    names, compiled = _compiled(written)
    return compiled(*(values[name] for name in names))


@cache
def _compiled(written: Any) -> tuple[list[str], Function]:
    symbols = sorted(written.free_symbols, key=str)
    return [own.name for own in symbols], sympy.lambdify(symbols, written, modules=[COMPUTED, "math"])
