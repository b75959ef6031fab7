"""Symbolic vectors, quaternions, matrices and operations in place of `samara.core.algebra` and `samara.core.ops`.

Vectors are SymPy symbols like numbers; `Cross`, `Dot` and the others are unevaluated functions. `SYMBOLIC_OPERATIONS`
maps each operation to its symbolic form, `NUMERIC_OPERATIONS` maps each symbolic operation to the function that computes it.
"""

from collections.abc import Iterator
from types import CodeType, SimpleNamespace
from typing import Any

from samara.core import algebra, ops
from samara.core.algebra import Quat, Vec3
from samara.core.extras import missing_extra

try:
    import sympy as sympy  # type: ignore[import-untyped]
    from sympy.printing.latex import LatexPrinter  # type: ignore[import-untyped]
except ImportError as error:
    raise missing_extra("printing equations", "SymPy", "symbolic") from error

AXES = ("x", "y", "z", "i")
ANY_AXIS = 3  # index of the axis i, which stands for all three
DENOMINATORS = (
    1,
    2,
    3,
    4,
    6,
    8,
    10,
    16,
    32,
    45,
    140,
)  # denominators of fractions printed as such: 16/45π of Pitt and Peters, 33/140 of a beam


class Operation(sympy.Function):  # type: ignore[misc]
    """An unevaluated operation of `samara.core.algebra`."""

    template = ""
    needs_parentheses = False  # needs parentheses beside a factor

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        written = self.template.format(*(_tight(argument, printer) for argument in self.args))
        return written if exp is None else rf"\left({written}\right)^{{{exp}}}"


def _tight(argument: Any, printer: Any) -> str:
    written = str(printer.doprint(argument))
    wide = argument.is_Add or argument.is_Mul or getattr(argument, "needs_parentheses", False)
    return rf"\left({written}\right)" if wide else written


class Cross(Operation):
    """a × b"""

    template, needs_parentheses = r"{0} \times {1}", True


class Dot(Operation):
    """a · b"""

    template, needs_parentheses = r"{0} \cdot {1}", True
    is_real = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        return Norm(a) ** 2 if a == b else None


class Norm(Operation):
    """|a|"""

    is_real = is_nonnegative = True

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        written = rf"\lvert {printer.doprint(self.args[0])} \rvert"
        return written if exp is None else f"{written}^{{{exp}}}"


class Scale(Operation):
    """a ∘ b"""

    template, needs_parentheses = r"{0} \circ {1}", True


class Rotate(Operation):
    """R v"""

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return f"{_rotation(self.args[0], printer)} {_tight(self.args[1], printer)}"


class RotateInverse(Operation):
    """Rᵀ v"""

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return rf"{_rotation(self.args[0], printer)}^{{\top}} {_tight(self.args[1], printer)}"


def _rotation(q: Any, printer: Any) -> str:
    return "R" + str(printer.doprint(q)).removeprefix("q")


class Apply(Operation):
    """J v"""

    template = "{0} {1}"


class Solve(Operation):
    """J⁻¹ v"""

    template = "{0}^{{-1}} {1}"


class Hamilton(Operation):
    """q ⊗ p"""

    template, needs_parentheses = r"{0} \otimes {1}", True


class Conjugate(Operation):
    """q*"""

    template = "{0}^{{*}}"


class Imaginary(Operation):
    """Im q"""

    template = r"\operatorname{{Im}} {0}"


class ScalarVector(Operation):
    """The quaternion (w, v)"""

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return r"\left({}, {}\right)".format(*(printer.doprint(argument) for argument in self.args))


class Column(Operation):
    """The vector (x, y, z)"""

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return (
            r"\begin{pmatrix} " + r" \\ ".join(printer.doprint(argument) for argument in self.args) + r" \end{pmatrix}"
        )


class Component(Operation):
    """a_x"""

    is_real = True

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        base, axis = printer.doprint(self.args[0]), AXES[int(self.args[1])]
        inner = self.args[0].is_Symbol
        written = f"{base[:-1]},{axis}}}" if inner and base.endswith("}") else f"{base}_{axis}"
        if not inner:
            written = rf"\left({base}\right)_{axis}"
        return written if exp is None else f"{written}^{{{exp}}}"


class Table(Operation):
    """y(x) from a table, linear between its rows"""

    is_real = True

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return rf"\operatorname{{table}}\left({printer.doprint(self.args[0])}\right)"


class Cases(Operation):
    """a if condition, b if another, else c; SymPy's Piecewise would rewrite the conditions."""

    needs_parentheses = True
    is_real = True

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        cases = [
            rf"{printer.doprint(value)} & \text{{if }} {printer.doprint(condition)}"
            for value, condition in zip(self.args[:-1:2], self.args[1::2], strict=True)
        ]
        cases.append(rf"{printer.doprint(self.args[-1])} & \text{{else}}")
        written = r"\begin{cases} " + r" \\ ".join(cases) + r" \end{cases}"
        return written if exp is None else rf"\left({written}\right)^{{{exp}}}"

    def _pythoncode(self, printer: Any) -> str:
        written = printer.doprint(self.args[-1])
        for value, condition in reversed(list(zip(self.args[:-1:2], self.args[1::2], strict=True))):
            written = f"({printer.doprint(value)} if {printer.doprint(condition)} else {written})"
        return str(written)


class Vector:
    """A symbolic vector in place of `Vec3`."""

    def __init__(self, written: Any) -> None:
        self.written = sympy.sympify(written)

    def __add__(self, other: Any) -> "Vector":
        return Vector(self.written + to_expression(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Vector":
        return Vector(self.written - to_expression(other))

    def __rsub__(self, other: Any) -> "Vector":
        return Vector(to_expression(other) - self.written)

    def __neg__(self) -> "Vector":
        return type(self)(-self.written)

    def __mul__(self, scalar: Any) -> "Vector":
        return type(self)(self.written * scalar)

    __rmul__ = __mul__

    def __truediv__(self, scalar: Any) -> "Vector":
        return type(self)(self.written / scalar)

    def __getitem__(self, axis: int) -> Any:
        if not 0 <= axis < 3:
            raise IndexError(axis)
        return component(self.written, axis)

    def __iter__(self) -> Iterator[Any]:
        return (self[axis] for axis in range(3))

    @property
    def x(self) -> Any:
        return self[0]

    @property
    def y(self) -> Any:
        return self[1]

    @property
    def z(self) -> Any:
        return self[2]


class Quaternion(Vector):
    """A symbolic quaternion; `*` is Hamilton's product, or scales."""

    def __mul__(self, other: Any) -> "Quaternion":
        if isinstance(other, Quaternion):
            return Quaternion(Hamilton(self.written, other.written))
        return Quaternion(self.written * other)

    @property
    def vector(self) -> Vector:
        return Vector(Imaginary(self.written))


class Matrix(Vector):
    """A symbolic matrix; `@` applies it."""

    def __matmul__(self, other: Vector) -> Vector:
        return Vector(Apply(self.written, other.written))


def component(written: Any, axis: int) -> Any:
    """Return one component of a vector expression, distributed over sums and products."""
    if written.is_zero:
        return sympy.S.Zero
    if isinstance(written, Column):
        return written.args[axis]
    if isinstance(written, Scale):
        return component(written.args[0], axis) * component(written.args[1], axis)
    if written.is_Add:
        return sympy.Add(*(component(term, axis) for term in written.args))
    if written.is_Mul:
        return sympy.Mul(*(component(term, axis) if is_vector(term) else term for term in written.args))
    return Component(written, axis)


def to_expression(vector: Any) -> Any:
    """Return the SymPy expression of a symbolic or numeric value."""
    if isinstance(vector, Vec3):
        return column(*vector).written
    return vector.written if isinstance(vector, Vector) else sympy.sympify(vector)


def column(x: Any, y: Any, z: Any) -> Vector:
    """Return the vector of three components, recombined if they are the components of one vector."""
    parts = [sympy.sympify(part) for part in (x, y, z)]
    if all(part.is_zero for part in parts):
        return Vector(0)
    vector = parts[0].replace(Component, lambda part, _: part)
    if is_vector(vector) and all(component(vector, axis) == part for axis, part in enumerate(parts)):
        return Vector(vector)
    return Vector(Column(*parts))


def _quaternion(w: Any, x: Any, y: Any, z: Any) -> Quaternion:
    return Quaternion(ScalarVector(sympy.sympify(w), column(x, y, z).written))


def _direction(a: Vector) -> Vector:
    return a / Norm(a.written)


# Symbolic operations -----------------------------------------------------------------------------------------------


def _where(condition: Any, a: Any, b: Any) -> Any:
    """Return cases; within a case its condition is decided, because the code guards quotients in this way."""
    if condition in (True, False):
        return a if condition else b
    first, second = (_decide_condition(sympy.sympify(value), condition, branch) for branch, value in enumerate((a, b)))
    if first == second:
        return first
    remaining = second.args if isinstance(second, Cases) else (second,)
    return Cases(first, condition, *remaining)


def _decide_condition(written: Any, condition: Any, branch: int) -> Any:
    def has_condition(expression: Any) -> bool:
        return isinstance(expression, Cases) and len(expression.args) == 3 and expression.args[1] == condition

    return written.replace(has_condition, lambda expression: expression.args[2 * branch])


def _length(*components: Any) -> Any:
    vector = column(*components) if len(components) == 3 else None
    if vector is not None and not isinstance(vector.written, Column):
        return Norm(vector.written)
    return sympy.sqrt(sum(sympy.sympify(value) ** 2 for value in components))


SYMBOLIC_OPERATIONS: dict[Any, Any] = {
    Vec3: column,
    Quat: _quaternion,
    algebra.cross: lambda a, b: Vector(Cross(to_expression(a), to_expression(b))),
    algebra.dot: lambda a, b: Dot(to_expression(a), to_expression(b)),
    algebra.norm: lambda a: Norm(to_expression(a)),
    algebra.scale: lambda a, b: Vector(Scale(to_expression(a), to_expression(b))),
    algebra.direction: _direction,
    algebra.rotate: lambda q, v: Vector(Rotate(to_expression(q), to_expression(v))),
    algebra.rotate_inverse: lambda q, v: Vector(RotateInverse(to_expression(q), to_expression(v))),
    algebra.solve_definite: lambda m, v: Vector(Solve(to_expression(m), to_expression(v))),
    algebra.conjugate: lambda q: Quaternion(Conjugate(to_expression(q))),
    ops.sqrt: sympy.sqrt,
    ops.sin: sympy.sin,
    ops.cos: sympy.cos,
    ops.tan: sympy.tan,
    ops.atan2: sympy.atan2,
    ops.exp: sympy.exp,
    ops.log: sympy.log,
    ops.power: lambda base, exponent: sympy.sympify(base) ** exponent,
    ops.absolute: sympy.Abs,
    ops.equal: sympy.Eq,
    ops.logical_and: sympy.And,
    ops.logical_or: sympy.Or,
    ops.where: _where,
    ops.minimum: sympy.Min,
    ops.maximum: sympy.Max,
    ops.clamp: lambda x, low, high: sympy.Min(sympy.Max(x, low), high),
    ops.safe_sqrt: sympy.sqrt,
    ops.safe_norm: _length,
    ops.safe_divide: lambda a, b: sympy.sympify(a) / b,
    ops.piecewise_linear: lambda x, knots, values: Table(x, *knots, *values),
}
WRITTEN_MATH = SimpleNamespace(
    pi=sympy.pi, factorial=sympy.factorial, sqrt=lambda x: sympy.sqrt(fraction(x)), inf=sympy.oo
)
NUMERIC_OPERATIONS = {
    "Cross": algebra.cross,
    "Dot": algebra.dot,
    "Norm": algebra.norm,
    "Scale": algebra.scale,
    "Rotate": algebra.rotate,
    "RotateInverse": algebra.rotate_inverse,
    "Apply": lambda m, v: m @ v,
    "Solve": algebra.solve_definite,
    "Hamilton": lambda a, b: a * b,
    "Conjugate": algebra.conjugate,
    "Imaginary": lambda q: q.vector,
    "ScalarVector": lambda w, v: Quat(w, *v),
    "Column": Vec3,
    "Component": lambda v, axis: v[axis],
    "Table": lambda x, *table: ops.piecewise_linear(x, table[: len(table) // 2], table[len(table) // 2 :]),
}


def fraction(number: Any) -> Any:
    """3, 4/3 or 0.177: convert a float to a simple fraction, also of π, if it is one."""
    value = float(number)
    for factor in (sympy.S.One, sympy.pi, 1 / sympy.pi):
        for denominator in DENOMINATORS:
            ratio = sympy.Rational(round(value / float(factor) * denominator), denominator)
            if abs(float(ratio * factor) - value) <= 2e-16 * abs(value):
                return ratio * factor
    return sympy.Float(value)


def exact_code(code: CodeType) -> CodeType:
    """Return a function's code with exact SymPy literals: 0.5 as ½."""
    literals = (
        fraction(literal)
        if isinstance(literal, float)
        else exact_code(literal)
        if isinstance(literal, CodeType)
        else literal
        for literal in code.co_consts
    )
    return code.replace(co_consts=tuple(literals))


def tidy(written: Any) -> Any:
    return sympy.sympify(written).replace(lambda number: isinstance(number, sympy.Float), fraction)


# Printing ----------------------------------------------------------------------------------------------------------


class Printer(LatexPrinter):  # type: ignore[misc]
    """LaTeX printer: numbers, scalars, unevaluated operations, then vectors; sums start with a positive term."""

    def _print_Mul(self, expr: Any) -> str:
        if not expr.is_Mul:
            return str(super()._print_Mul(expr))
        factors = ordered_factors(expr)
        if len(factors) == 1:
            return str(self.doprint(factors[0]))
        if sum(not factor.is_number for factor in factors) > 1:
            factors = [self._parenthesise(factor) for factor in factors]
        if factors[0] == -1 and len(factors) == 2 and factors[1].is_Symbol:
            return "- " + str(self.doprint(factors[1]))
        return str(super()._print_Mul(sympy.Mul(*factors, evaluate=False)))

    def _parenthesise(self, factor: Any) -> Any:
        if not getattr(factor, "needs_parentheses", False):
            return factor
        return sympy.Symbol(rf"\left({self.doprint(factor)}\right)")

    def _print_Add(self, expr: Any, order: Any = None) -> str:
        return str(super()._print_Add(sympy.Add(*ordered_terms(expr), evaluate=False), order="none"))


def ordered_factors(product: Any) -> list[Any]:
    """Return the factors of a product in printing order: one number, scalars, vectors; −1 − e as −(1 + e)."""
    negative_sums = [factor for factor in product.args if _negative_sum(factor)]
    number = sympy.Mul(*(factor for factor in product.args if factor.is_Number)) * (-1) ** len(negative_sums)
    sorted_factors = sorted(
        (-factor if factor in negative_sums else factor for factor in product.args if not factor.is_Number), key=_rank
    )
    return sorted_factors if number == 1 and sorted_factors else [number, *sorted_factors]


def ordered_terms(total: Any) -> list[Any]:
    """Return the terms of a sum in printing order: numbers first, negative terms last."""
    return sorted(total.args, key=lambda term: (term.could_extract_minus_sign(), not term.is_number))


def _rank(factor: Any) -> tuple[int, int, str]:
    """Printing order of factors: numbers, scalars (μ, m, k, N, Ω), functions, sums, vectors."""
    base = factor.base if factor.is_Pow else factor
    if factor.is_number:
        return 0, int(not factor.is_Number), ""
    if base.is_Symbol:
        name = base.name.removeprefix("\\")
        family = 4 if name.startswith(("dot", "ddot")) else 0 if name == "m" else (1 if name == base.name else 0)
        return (1 if base.is_real else 5), family + 2 * name[0].isupper(), name
    if is_vector(base):
        return 6, 0, str(base)
    return (4 if base.is_Add or isinstance(base, Cases) else 3 if base.is_Function else 2), 0, str(base)


def _negative_sum(written: Any) -> bool:
    """Whether the expression is a sum of negative terms, −1 − e, which is printed as −(1 + e)."""
    return bool(written.is_Add and all(term.could_extract_minus_sign() for term in written.args))


def is_vector(written: Any) -> bool:
    """Whether an expression is a vector; symbols and operations of vectors are not declared real."""
    if written.is_Add or written.is_Mul:
        return any(is_vector(term) for term in written.args)
    return (written.is_Symbol or isinstance(written, Operation)) and not written.is_real


def latex(written: Any) -> str:
    """Format an expression in LaTeX."""
    return str(Printer({"order": "none", "ln_notation": True}).doprint(written))


def common_component(written: Any) -> Any:
    """Return the common component, with axis i, of a vector with three equal components; None for others."""
    if not written.has(Column):
        return None
    parts = [component(written, axis) for axis in range(3)]
    if any({int(argument.args[1]) for argument in part.atoms(Component)} != {axis} for axis, part in enumerate(parts)):
        return None
    common = {part.replace(Component, lambda argument, _: Component(argument, ANY_AXIS)) for part in parts}
    return common.pop() if len(common) == 1 else None
