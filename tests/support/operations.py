"""The operations of `samara.core.ops` that every backend has to know, by name."""

_ROOTS_AND_ANGLES = ("sqrt", "safe_sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "wrap_angle")
UNARY = (*_ROOTS_AND_ANGLES, "exp", "log", "floor", "absolute", "sign")
BINARY = ("atan2", "power", "minimum", "maximum", "safe_divide", "safe_norm")
