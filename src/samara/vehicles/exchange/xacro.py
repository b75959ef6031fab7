"""xacro, the macros of URDF, expanded by a small part of the language that cannot run code.

ROS' xacro evaluates what stands in ${...} as Python: a file that somebody sent could do with your machine what Python can. Here
${...} is arithmetic (`samara.vehicles.exchange.xacro`), and properties, macros, blocks, conditions,
arguments by their defaults and
includes beside the file are all there is. What goes beyond that is refused, with the advice to expand the file with ROS'
own xacro where it can be trusted.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from xml.etree.ElementTree import Element

from samara.core.budget import Budget, path_beside
from samara.core.quantity import Tree
from samara.core.sanitise import shown
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.safe_xml import Node, read_xml, xml_budget

LONGEST = 1000  # letters of an expression
_LARGEST_POWER = 64
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
_COMPARED: Mapping[type, Callable[[Tree, Tree], Tree]] = {
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


def evaluated(text: str, name: Callable[[str], Tree]) -> Tree:
    """The value of an expression; `name` gives those of names that are no constants. ValueError with the reason"""
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} letters")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, name)
    except SyntaxError:
        raise ValueError("is no arithmetic") from None
    except (ArithmeticError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"cannot be computed, {error}") from None


def _value(node: ast.expr, name: Callable[[str], Tree]) -> Tree:
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str)):
        return node.value
    if isinstance(node, ast.Name):
        return _CONSTANTS[node.id] if node.id in _CONSTANTS else name(node.id)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, name))
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, name), _value(node.right, name)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) in _BINARY and (isinstance(node.op, ast.Add) or not {str} & {type(left), type(right)}):
            return _held(_BINARY[type(node.op)](left, right))
    if isinstance(node, ast.Compare):
        operands = [_value(each, name) for each in (node.left, *node.comparators)]
        if all(type(each) in _COMPARED for each in node.ops):
            pairs = zip(node.ops, operands, operands[1:], strict=False)
            return all(_COMPARED[type(each)](a, b) for each, a, b in pairs)
    if isinstance(node, ast.BoolOp):
        values = [_value(each, name) for each in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, name) else node.orelse, name)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "pow" and len(node.args) == 2:
            return _power(*(_value(each, name) for each in node.args))
        if node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*(_value(each, name) for each in node.args))
        raise ValueError(f"calls {node.func.id!r}, which is no function of a calculator")
    raise ValueError(f"has a {type(node).__name__}, which is no arithmetic")


def _power(base: Tree, exponent: Tree) -> float:
    if not abs(exponent) <= _LARGEST_POWER:
        raise ValueError(f"has the exponent {exponent!r:.20}: at most {_LARGEST_POWER}")
    return _held(float(base) ** float(exponent))


def _held(value: Tree) -> Tree:
    """As it is, unless a text or an integer grew beyond any use"""
    if isinstance(value, complex) or (isinstance(value, str) and len(value) > LONGEST):
        raise ValueError("has a part that is not a number")
    return float(value) if isinstance(value, int) and abs(value) > 1 << 53 else value


MAX_XACRO_NODES = 50_000  # elements made, attributes, evaluations
_BRACED = re.compile(r"\$\$(?=[{(])|\$\{([^{}]*)\}|\$\(([^()]*)\)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_PARAMETER = re.compile(r"\s*(\*{0,2}[A-Za-z_]\w*)(?:\s*:?=\s*('[^']*'|\"[^\"]*\"|\$\{[^}]*\}|[^\s]*))?")
ADVICE = "expected properties, macros and arithmetic; expand it with ROS' xacro if you trust it"


def uses_xacro(node: Node) -> bool:
    """Whether any element is one of xacro's, or any text asks to be evaluated"""
    return any(
        _word(own) is not None or any("${" in text or "$(" in text for text in (*own.attrib.values(), own.text or ""))
        for own in node.element.iter()
    )


def expanded(node: Node, folder: Path | None) -> Node:
    """The file with all its macros played out"""
    expansion = _Expansion(node.origin, folder, xml_budget(node.origin, MAX_XACRO_NODES))
    (root,) = expansion.element(node.element, _Scope(), 0)
    return Node(root, node.origin)


def _word(element: Element) -> str | None:
    """The name after xacro: of an element that is xacro's"""
    space, brace, word = str(element.tag).partition("}")
    return word if brace and "xacro" in space else None


class _Scope:
    """Properties, blocks and the scope around"""

    def __init__(self, outer: "_Scope | None" = None) -> None:
        self.outer = outer
        self.texts: dict[str, str] = {}
        self.blocks: dict[str, list[Element]] = {}

    def found(self, name: str) -> "tuple[_Scope, str] | None":
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
        self.asked: list[tuple[int, str]] = []

    def error(self, what: str) -> VehicleError:
        return VehicleError(f"{self.origin}: xacro {what}: {ADVICE}")

    # Texts -----------------------------------------------------------------------------------------------------------

    def value(self, text: str, scope: _Scope) -> Tree:
        """What a text is worth: a number where it is one or evaluates to one, else a text"""
        whole = _BRACED.fullmatch(text.strip())
        if whole and whole.group(1) is not None:
            return self.computed(whole.group(1), scope)
        return _number(_BRACED.sub(lambda match: self.piece(match, scope), text))

    def text(self, text: str, scope: _Scope) -> str:
        return _BRACED.sub(lambda match: self.piece(match, scope), text) if "$" in text else text

    def piece(self, match: "re.Match[str]", scope: _Scope) -> str:
        text = self.replacement(match, scope)
        self.budget.spend_bytes(len(text), "bytes of expanded text")
        return text

    def replacement(self, match: "re.Match[str]", scope: _Scope) -> str:
        if match.group(1) is not None:
            found = self.computed(match.group(1), scope)
            return repr(found) if isinstance(found, float) else str(found)
        if match.group(2) is None:
            return "$"
        word, _, rest = match.group(2).strip().partition(" ")
        if word == "arg" and rest.strip() in self.arguments:
            return self.arguments[rest.strip()]
        if word == "arg":
            raise self.error(f"has no argument {shown(rest.strip())} with a default")
        raise self.error(f"asks for {shown(match.group(0))}")

    def computed(self, text: str, scope: _Scope) -> Tree:
        def named(name: str) -> Tree:
            found = scope.found(name)
            if found is None:
                raise ValueError(f"has the name {name!r}, which is no property")
            mark = (id(found[0]), name)
            if mark in self.asked:
                raise ValueError(f"has the property {name!r}, which is told by itself")
            self.asked.append(mark)
            try:
                return self.value(found[1], found[0])
            finally:
                self.asked.pop()

        self.budget.spend_nodes(1, "elements and evaluations")
        try:
            return evaluated(text, named)
        except ValueError as error:
            if isinstance(error, VehicleError):
                raise
            raise self.error(f"{shown(text[:80])} {error}") from None

    # Elements --------------------------------------------------------------------------------------------------------

    def children(self, element: Element, scope: _Scope, depth: int) -> Iterator[Element]:
        for own in element:
            yield from self.element(own, scope, depth + 1)

    def element(self, element: Element, scope: _Scope, depth: int) -> list[Element]:
        """What an element becomes: itself with its children expanded, or what a word of xacro stands for"""
        self.budget.spend_nodes(1 + len(element.attrib), "elements and evaluations")
        self.budget.require_depth(depth, "elements and macros")
        word = _word(element)
        if word is None:
            made = Element(element.tag, {key: self.text(own, scope) for key, own in element.attrib.items()})
            made.text = self.text(element.text or "", scope)
            made.extend(list(self.children(element, scope, depth)))
            return [made]
        if word in ("property", "macro", "arg"):
            self.define(word, element, scope)
            return []
        if word in ("if", "unless"):
            holds = self.condition(element, scope)
            return list(self.children(element, scope, depth)) if holds == (word == "if") else []
        if word == "include":
            return self.include(element, scope, depth)
        if word == "insert_block":
            block = scope.block(element.get("name", ""))
            if block is None:
                raise self.error(f"insert_block {shown(element.get('name'))} is no block that was handed over")
            return [made for own in block for made in self.element(own, scope, depth + 1)]
        if word not in self.macros:
            raise self.error(f"has xacro:{word[:40]}, which is no macro of the file")
        return self.call(self.macros[word], element, scope, depth)

    def define(self, word: str, element: Element, scope: _Scope) -> None:
        name = element.get("name", "")
        if not _WORD.fullmatch(name):
            raise self.error(f"{word} has the name {shown(name)}")
        if word == "macro":
            self.macros[name] = element
        elif word == "arg":
            self.arguments.setdefault(name, self.text(element.get("default", ""), scope))
        elif "value" in element.attrib:
            around: _Scope | None = scope.outer if element.get("scope") in ("parent", "global") else scope
            (around or scope).texts[name] = element.attrib["value"]
        elif "default" in element.attrib:
            if scope.found(name) is None:
                scope.texts[name] = element.attrib["default"]
        else:
            self.budget.spend_nodes(sum(1 for _ in element.iter()), "elements and evaluations")
            scope.blocks[name] = [deepcopy(own) for own in element]

    def condition(self, element: Element, scope: _Scope) -> bool:
        found = self.value(element.get("value", ""), scope)
        known = {"true": True, "false": False, "True": True, "False": False}
        if isinstance(found, str) and found not in known:
            raise self.error(f"has the condition {shown(found)}")
        return known[found] if isinstance(found, str) else bool(found)

    def include(self, element: Element, scope: _Scope, depth: int) -> list[Element]:
        """A file beside this one; of `$(find PACKAGE)/urdf/NAME` the name alone counts, for there are no packages here"""
        asked = element.get("filename", "")
        name = re.sub(r"^\$\(find [\w-]+\)/(?:[\w.-]+/)*", "", asked)
        if self.folder is None or "$" in name:
            raise self.error(f"includes {shown(asked)}")
        try:
            path = path_beside(self.folder, name)
        except ValueError:
            raise VehicleError(f"{self.origin}: xacro includes {shown(asked)}: expected a file beside it") from None
        if not path.is_file():
            raise VehicleError(f"{self.origin}: xacro includes {shown(asked)}: expected {shown(name)} beside the file")
        return list(self.children(read_xml(path, budget=self.budget).element, scope, depth + 1))

    def call(self, macro: Element, call: Element, scope: _Scope, depth: int) -> list[Element]:
        """A macro with its parameters: texts of the caller, and blocks that are its children"""
        inner = _Scope(scope)
        blocks = list(call)
        known = set()
        for name, default in _PARAMETER.findall(macro.get("params", "")):
            plain = name.lstrip("*")
            known.add(plain)
            if name.startswith("*"):
                if not blocks:
                    raise self.error(f"macro {shown(macro.get('name'))} is called without its block {plain!r}")
                first = blocks.pop(0)
                inner.blocks[plain] = (
                    self.element(first, scope, depth + 1)
                    if name[1] != "*"
                    else [made for own in first for made in self.element(own, scope, depth + 1)]
                )
            elif plain in call.attrib:
                inner.texts[plain] = str(self.text(call.attrib[plain], scope))
            elif default.startswith("^"):
                outer = scope.found(plain)
                rest = default[1:].lstrip("|")
                if outer is None and not rest:
                    raise self.error(f"macro {shown(macro.get('name'))} is called without {plain!r}")
                inner.texts[plain] = self.text(outer[1], outer[0]) if outer else rest.strip("'\"")
            elif default:
                inner.texts[plain] = default.strip("'\"")
            else:
                raise self.error(f"macro {shown(macro.get('name'))} is called without {plain!r}")
        unknown = set(call.attrib) - known
        if unknown:
            raise self.error(f"macro {shown(macro.get('name'))} has no parameter {shown(sorted(unknown)[0])}")
        return list(self.children(macro, inner, depth + 1))


def _number(text: str) -> Tree:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.strip().lower(), text)
