"""Expand xacro, the macro language of URDF, in a small subset that cannot execute code.

ROS' xacro evaluates ${...} as Python, so an untrusted file could run any code. Here ${...} is arithmetic, and the language is
limited to properties, macros, blocks, conditions, arguments by their defaults, and includes beside the file. Anything else is
rejected, with the advice to expand the file with ROS' own xacro if it can be trusted.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from xml.etree.ElementTree import Element

from samara.core.budget import Budget, resolve_sibling_path
from samara.core.quantity import Tree
from samara.core.sanitise import quote_value
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.safe_xml import XmlNode, read_xml, xml_budget

MAX_EXPRESSION_LENGTH = 1000  # characters of an expression
_MAX_EXPONENT = 64
_BINARY: Mapping[type, Callable[[Tree, Tree], Tree]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type, Callable[[Tree], Tree]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_COMPARISONS: Mapping[type, Callable[[Tree, Tree], Tree]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: Mapping[str, Callable[..., Tree]] = {
    **{
        name: getattr(math, name)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sqrt", "exp", "log")
    },
    **{name: getattr(math, name) for name in ("radians", "degrees", "hypot", "floor", "ceil", "fabs")},
    **{"abs": abs, "min": min, "max": max, "float": float, "int": int, "round": round},
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "true": True, "false": False}


def evaluate(text: str, lookup: Callable[[str], Tree]) -> Tree:
    """Evaluate an expression; `lookup` returns the values of names that are not constants. Raise ValueError with the
    reason."""
    if len(text) > MAX_EXPRESSION_LENGTH:
        raise ValueError(f"is longer than {MAX_EXPRESSION_LENGTH} characters")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, lookup)
    except SyntaxError:
        raise ValueError("is not arithmetic") from None
    except (ArithmeticError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"cannot be computed, {error}") from None


def _value(node: ast.expr, lookup: Callable[[str], Tree]) -> Tree:
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str)):
        return node.value
    if isinstance(node, ast.Name):
        return _CONSTANTS[node.id] if node.id in _CONSTANTS else lookup(node.id)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, lookup))
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, lookup), _value(node.right, lookup)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) in _BINARY and (isinstance(node.op, ast.Add) or not {str} & {type(left), type(right)}):
            return _limit_value(_BINARY[type(node.op)](left, right))
    if isinstance(node, ast.Compare):
        operands = [_value(operand, lookup) for operand in (node.left, *node.comparators)]
        if all(type(comparison) in _COMPARISONS for comparison in node.ops):
            pairs = zip(node.ops, operands, operands[1:], strict=False)
            return all(_COMPARISONS[type(comparison)](a, b) for comparison, a, b in pairs)
    if isinstance(node, ast.BoolOp):
        values = [_value(operand, lookup) for operand in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, lookup) else node.orelse, lookup)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "pow" and len(node.args) == 2:
            return _power(*(_value(argument, lookup) for argument in node.args))
        if node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*(_value(argument, lookup) for argument in node.args))
        raise ValueError(f"calls {node.func.id!r}, which is not a supported function")
    raise ValueError(f"has a {type(node).__name__}, which is not arithmetic")


def _power(base: Tree, exponent: Tree) -> float:
    if not abs(exponent) <= _MAX_EXPONENT:
        raise ValueError(f"has the exponent {exponent!r:.20}: at most {_MAX_EXPONENT}")
    return _limit_value(float(base) ** float(exponent))


def _limit_value(value: Tree) -> Tree:
    """Return the value; reject complex numbers and overlong texts, and turn huge integers into floats."""
    if isinstance(value, complex) or (isinstance(value, str) and len(value) > MAX_EXPRESSION_LENGTH):
        raise ValueError("has a part that is not a number")
    return float(value) if isinstance(value, int) and abs(value) > 1 << 53 else value


MAX_XACRO_NODES = 50_000  # created elements, attributes, evaluations
_EXPRESSION = re.compile(r"\$\$(?=[{(])|\$\{([^{}]*)\}|\$\(([^()]*)\)")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_PARAMETER = re.compile(r"\s*(\*{0,2}[A-Za-z_]\w*)(?:\s*:?=\s*('[^']*'|\"[^\"]*\"|\$\{[^}]*\}|[^\s]*))?")
ADVICE = "expected properties, macros and arithmetic; expand it with ROS' xacro if you trust it"


def uses_xacro(node: XmlNode) -> bool:
    """Return whether any element is a xacro element, or any text contains an expression."""
    return any(
        _xacro_tag(element) is not None
        or any("${" in text or "$(" in text for text in (*element.attrib.values(), element.text or ""))
        for element in node.element.iter()
    )


def expand_xacro(node: XmlNode, folder: Path | None) -> XmlNode:
    """Return the file with all macros expanded."""
    expansion = _Expansion(node.origin, folder, xml_budget(node.origin, MAX_XACRO_NODES))
    (root,) = expansion.element(node.element, _Scope(), 0)
    return XmlNode(root, node.origin)


def _xacro_tag(element: Element) -> str | None:
    """Return the tag of a xacro element after the prefix; None for any other element."""
    namespace, brace, tag = str(element.tag).partition("}")
    return tag if brace and "xacro" in namespace else None


class _Scope:
    """Properties and blocks of a macro call, and the enclosing scope."""

    def __init__(self, outer: "_Scope | None" = None) -> None:
        self.outer = outer
        self.texts: dict[str, str] = {}
        self.blocks: dict[str, list[Element]] = {}

    def lookup(self, name: str) -> "tuple[_Scope, str] | None":
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.texts:
                return scope, scope.texts[name]
            scope = scope.outer
        return None

    def block(self, name: str) -> list[Element] | None:
        return self.blocks[name] if name in self.blocks else self.outer.block(name) if self.outer else None


class _Expansion:
    def __init__(self, origin: str, folder: Path | None, budget: Budget) -> None:
        self.origin, self.folder, self.budget = origin, folder, budget
        self.macros: dict[str, Element] = {}
        self.arguments: dict[str, str] = {}
        self.pending: list[tuple[int, str]] = []

    def error(self, problem: str) -> VehicleError:
        return VehicleError(f"{self.origin}: xacro {problem}: {ADVICE}")

    # Texts -----------------------------------------------------------------------------------------------------------

    def value(self, text: str, scope: _Scope) -> Tree:
        """Evaluate a text: to a number if it is or evaluates to one, else to a text."""
        expression = _EXPRESSION.fullmatch(text.strip())
        if expression and expression.group(1) is not None:
            return self.compute(expression.group(1), scope)
        return _parse_value(_EXPRESSION.sub(lambda match: self.piece(match, scope), text))

    def text(self, text: str, scope: _Scope) -> str:
        return _EXPRESSION.sub(lambda match: self.piece(match, scope), text) if "$" in text else text

    def piece(self, match: "re.Match[str]", scope: _Scope) -> str:
        text = self.replacement(match, scope)
        self.budget.spend_bytes(len(text), "bytes of expanded text")
        return text

    def replacement(self, match: "re.Match[str]", scope: _Scope) -> str:
        if match.group(1) is not None:
            result = self.compute(match.group(1), scope)
            return repr(result) if isinstance(result, float) else str(result)
        if match.group(2) is None:
            return "$"
        command, _, argument = match.group(2).strip().partition(" ")
        if command == "arg" and argument.strip() in self.arguments:
            return self.arguments[argument.strip()]
        if command == "arg":
            raise self.error(f"has no argument {quote_value(argument.strip())} with a default")
        raise self.error(f"uses {quote_value(match.group(0))}")

    def compute(self, text: str, scope: _Scope) -> Tree:
        def lookup(name: str) -> Tree:
            definition = scope.lookup(name)
            if definition is None:
                raise ValueError(f"has the name {name!r}, which is not a property")
            key = (id(definition[0]), name)
            if key in self.pending:
                raise ValueError(f"has the property {name!r}, which is defined by itself")
            self.pending.append(key)
            try:
                return self.value(definition[1], definition[0])
            finally:
                self.pending.pop()

        self.budget.spend_nodes(1, "elements and evaluations")
        try:
            return evaluate(text, lookup)
        except ValueError as error:
            if isinstance(error, VehicleError):
                raise
            raise self.error(f"{quote_value(text[:80])} {error}") from None

    # Elements --------------------------------------------------------------------------------------------------------

    def children(self, element: Element, scope: _Scope, depth: int) -> Iterator[Element]:
        for child in element:
            yield from self.element(child, scope, depth + 1)

    def element(self, element: Element, scope: _Scope, depth: int) -> list[Element]:
        """Expand an element: to itself with its children expanded, or to the result of a xacro instruction."""
        self.budget.spend_nodes(1 + len(element.attrib), "elements and evaluations")
        self.budget.require_depth(depth, "elements and macros")
        tag = _xacro_tag(element)
        if tag is None:
            copy = Element(element.tag, {key: self.text(text, scope) for key, text in element.attrib.items()})
            copy.text = self.text(element.text or "", scope)
            copy.extend(list(self.children(element, scope, depth)))
            return [copy]
        if tag in ("property", "macro", "arg"):
            self.define(tag, element, scope)
            return []
        if tag in ("if", "unless"):
            is_true = self.condition(element, scope)
            return list(self.children(element, scope, depth)) if is_true == (tag == "if") else []
        if tag == "include":
            return self.include(element, scope, depth)
        if tag == "insert_block":
            block = scope.block(element.get("name", ""))
            if block is None:
                raise self.error(f"insert_block {quote_value(element.get('name'))} is not a block of the macro call")
            return [expanded_element for child in block for expanded_element in self.element(child, scope, depth + 1)]
        if tag not in self.macros:
            raise self.error(f"has xacro:{tag[:40]}, which is not a macro of the file")
        return self.call(self.macros[tag], element, scope, depth)

    def define(self, tag: str, element: Element, scope: _Scope) -> None:
        name = element.get("name", "")
        if not _IDENTIFIER.fullmatch(name):
            raise self.error(f"{tag} has the name {quote_value(name)}")
        if tag == "macro":
            self.macros[name] = element
        elif tag == "arg":
            self.arguments.setdefault(name, self.text(element.get("default", ""), scope))
        elif "value" in element.attrib:
            target_scope: _Scope | None = scope.outer if element.get("scope") in ("parent", "global") else scope
            (target_scope or scope).texts[name] = element.attrib["value"]
        elif "default" in element.attrib:
            if scope.lookup(name) is None:
                scope.texts[name] = element.attrib["default"]
        else:
            self.budget.spend_nodes(sum(1 for _ in element.iter()), "elements and evaluations")
            scope.blocks[name] = [deepcopy(child) for child in element]

    def condition(self, element: Element, scope: _Scope) -> bool:
        value = self.value(element.get("value", ""), scope)
        literals = {"true": True, "false": False, "True": True, "False": False}
        if isinstance(value, str) and value not in literals:
            raise self.error(f"has the condition {quote_value(value)}")
        return literals[value] if isinstance(value, str) else bool(value)

    def include(self, element: Element, scope: _Scope, depth: int) -> list[Element]:
        """Expand a file beside this one; of `$(find PACKAGE)/urdf/NAME` only NAME is used, as there are no packages here."""
        filename = element.get("filename", "")
        name = re.sub(r"^\$\(find [\w-]+\)/(?:[\w.-]+/)*", "", filename)
        if self.folder is None or "$" in name:
            raise self.error(f"includes {quote_value(filename)}")
        try:
            path = resolve_sibling_path(self.folder, name)
        except ValueError:
            raise VehicleError(
                f"{self.origin}: xacro includes {quote_value(filename)}: expected a file beside it"
            ) from None
        if not path.is_file():
            raise VehicleError(
                f"{self.origin}: xacro includes {quote_value(filename)}: expected {quote_value(name)} beside the file"
            )
        return list(self.children(read_xml(path, budget=self.budget).element, scope, depth + 1))

    def call(self, macro: Element, call: Element, scope: _Scope, depth: int) -> list[Element]:
        """Expand a macro call: its parameters are texts of the caller, and blocks that are the call's children."""
        call_scope = _Scope(scope)
        blocks = list(call)
        declared = set()
        for name, default in _PARAMETER.findall(macro.get("params", "")):
            parameter = name.lstrip("*")
            declared.add(parameter)
            if name.startswith("*"):
                if not blocks:
                    raise self.error(
                        f"macro {quote_value(macro.get('name'))} is called without its block {parameter!r}"
                    )
                block = blocks.pop(0)
                call_scope.blocks[parameter] = (
                    self.element(block, scope, depth + 1)
                    if name[1] != "*"
                    else [
                        expanded_element
                        for child in block
                        for expanded_element in self.element(child, scope, depth + 1)
                    ]
                )
            elif parameter in call.attrib:
                call_scope.texts[parameter] = str(self.text(call.attrib[parameter], scope))
            elif default.startswith("^"):
                definition = scope.lookup(parameter)
                fallback = default[1:].lstrip("|")
                if definition is None and not fallback:
                    raise self.error(f"macro {quote_value(macro.get('name'))} is called without {parameter!r}")
                call_scope.texts[parameter] = (
                    self.text(definition[1], definition[0]) if definition else fallback.strip("'\"")
                )
            elif default:
                call_scope.texts[parameter] = default.strip("'\"")
            else:
                raise self.error(f"macro {quote_value(macro.get('name'))} is called without {parameter!r}")
        unknown = set(call.attrib) - declared
        if unknown:
            raise self.error(
                f"macro {quote_value(macro.get('name'))} has no parameter {quote_value(sorted(unknown)[0])}"
            )
        return list(self.children(macro, call_scope, depth + 1))


def _parse_value(text: str) -> Tree:
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.strip().lower(), text)
