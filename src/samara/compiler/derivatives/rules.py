"""The partial derivatives of every operation by each operand, in one table used by forward and reverse differentiation.

    y = f(a, b):   forward  ẏ = f_a ȧ + f_b ḃ,     backward  ā += f_a ȳ,  b̄ += f_b ȳ

Operations without an entry in `SLOPES` have zero or selected derivatives: a condition, a floor and a lookup are constant
between their jumps (`FLAT`), and a "select" passes on the derivative of the selected operand: multiplying by 0
and 1 would turn an infinite slope of the other operand into NaN.
"""

from collections.abc import Callable, Mapping

from samara.compiler.trace.program import CONDITIONS
from samara.core.ops import cos, log, safe_divide, sin, sqrt, where
from samara.core.quantity import Scalar

FLAT = CONDITIONS | {"floor", "lookup"}

SLOPES: Mapping[str, Callable[..., tuple[Scalar, ...]]] = {
    "add": lambda a, b, y: (1.0, 1.0),
    "subtract": lambda a, b, y: (1.0, -1.0),
    "multiply": lambda a, b, y: (b, a),
    "divide": lambda a, b, y: (1.0 / b, -(y * (1.0 / b))),
    "negate": lambda a, y: (-1.0,),
    "sqrt": lambda a, y: (0.5 / y,),
    "sin": lambda a, y: (cos(a),),
    "cos": lambda a, y: (-sin(a),),
    "tan": lambda a, y: (1.0 + y * y,),
    "asin": lambda a, y: (1.0 / sqrt(1.0 - a * a),),
    "acos": lambda a, y: (-1.0 / sqrt(1.0 - a * a),),
    "atan": lambda a, y: (1.0 / (1.0 + a * a),),
    "atan2": lambda a, b, y: (b / (a * a + b * b), -a / (a * a + b * b)),
    "exp": lambda a, y: (y,),
    "log": lambda a, y: (1.0 / a,),
    "power": lambda a, b, y: (b * safe_divide(y, a), y * log(a)),
}
"""By operation name: (operands, result) → the slope by each operand, a number or a scalar."""


def activation_slope(activation: str, y: Scalar) -> Scalar:
    """f'(x) of a layer's activation y = f(x), as a function of y."""
    if activation == "linear":
        return 1.0
    if activation == "relu":
        return where(y > 0.0, 1.0, 0.0)
    return y * (1.0 - y) if activation == "sigmoid" else 1.0 - y * y  # tanh
