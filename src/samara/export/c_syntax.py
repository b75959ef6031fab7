"""A traced program as lines of a language with C's operators: the basis of all generated C and JavaScript files."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from samara.compiler.trace.program import CONDITIONS, Instruction, Program

WIDTH = 100  # maximum length of a generated line
FUNCTIONS = {"power": "pow"} | {
    name: name for name in ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "log", "floor")
}


class LanguageSyntax(NamedTuple):
    """The spellings of a language: functions, non-finite numbers, declarations of numbers and of conditions, and the statement
    that marks an argument as unused."""

    functions: Mapping[str, str]
    nan: str
    infinity: str
    number: str
    condition: str
    unused: str = ""


_CHOICE, _OR, _AND, _COMPARE, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)  # operator precedence
_INFIX = {
    "add": ("+", _SUM, _SUM, _PRODUCT),
    "subtract": ("-", _SUM, _SUM, _PRODUCT),
    "multiply": ("*", _PRODUCT, _PRODUCT, _SIGN),
    "divide": ("/", _PRODUCT, _PRODUCT, _SIGN),
    "less": ("<", _COMPARE, _SUM, _SUM),
    "less_equal": ("<=", _COMPARE, _SUM, _SUM),
    "equal": ("==", _COMPARE, _SUM, _SUM),
    "not_equal": ("!=", _COMPARE, _SUM, _SUM),
    "and": ("&&", _AND, _COMPARE, _COMPARE),
    "or": ("||", _OR, _COMPARE, _COMPARE),
}


class Term(NamedTuple):
    """An expression: its text, its precedence, and whether it is a number or a condition."""

    text: str
    precedence: int = _ATOM
    is_number: bool = True

    def parenthesise(self, precedence: int) -> str:
        return self.text if self.precedence >= precedence else f"({self.text})"

    def number_term(self) -> "Term":
        return self if self.is_number else Term(f"{self.parenthesise(_OR)} ? 1.0 : 0.0", _CHOICE)

    def condition_term(self) -> "Term":
        return Term(f"{self.parenthesise(_SUM)} != 0.0", _COMPARE, False) if self.is_number else self


def literal(value: float, dialect: LanguageSyntax) -> Term:
    """Return the shortest decimals that read back as the same number."""
    if math.isnan(value):
        return Term(dialect.nan)
    text = dialect.infinity if math.isinf(value) else repr(abs(float(value)))
    return Term(f"-{text}", _PRODUCT) if math.copysign(1.0, value) < 0.0 else Term(text)


def _expression(operation: str, arguments: list[Term], dialect: LanguageSyntax) -> Term:
    if operation in ("and", "or"):
        arguments = [argument.condition_term() for argument in arguments]
    elif operation == "select":
        condition, *values = arguments
        texts = [condition.condition_term().parenthesise(_OR)]
        texts += [value.number_term().parenthesise(_SUM) for value in values]
        return Term("{} ? {} : {}".format(*texts), _CHOICE)
    else:
        arguments = [argument.number_term() for argument in arguments]
    if operation in _INFIX:
        sign, precedence, left, right = _INFIX[operation]
        text = f"{arguments[0].parenthesise(left)} {sign} {arguments[1].parenthesise(right)}"
        return Term(text, precedence, operation not in CONDITIONS)
    if operation in dialect.functions:
        return Term(f"{dialect.functions[operation]}({', '.join(argument.text for argument in arguments)})")
    (operand,) = arguments
    if operation == "negate":
        return Term(f"-{operand.parenthesise(_ATOM)}", _PRODUCT)
    raise NotImplementedError(f"operation {operation}: no C or JavaScript code is defined for it")


class Variables(NamedTuple):
    """Numbers that a function reads or writes: the description and the expression of each.

    Inputs are copied to local variables, unless they are `read_in_place`.
    """

    descriptions: Sequence[str]
    expressions: Sequence[str]
    read_in_place: bool = False

    def local_name(self, index: int) -> str:
        """The name of an input in the function."""
        return self.expressions[index] if self.read_in_place else _flat(self.descriptions[index])

    def target(self, index: int) -> str:
        """The statement that stores an output, with {} for its value."""
        description = self.descriptions[index]
        return f"{self.expressions[index]} = {{}};" + (f" /* {description} */" if description else "")


def array(name: str, holds: Sequence[str]) -> Variables:
    """Return the elements of an array: name[0], name[1], ..."""
    return Variables(holds, [f"{name}[{k}]" for k in range(len(holds))])


class FunctionBody:
    """The lines of a program. A result with one use is inlined, as long as the line stays short."""

    def __init__(
        self, program: Program, inputs: Sequence[Variables], outputs: Sequence[Variables], dialect: LanguageSyntax
    ) -> None:
        self.dialect = dialect
        self.uses = Counter(i for instruction in program.instructions for i in instruction.arguments)
        self.targets: dict[int, list[str]] = {}
        for places, group in zip(outputs, program.outputs, strict=True):
            for k, i in enumerate(group):
                self.uses[i] += 1
                self.targets.setdefault(i, []).append(places.target(k))
        self.terms: list[Term] = []
        self.lines: list[str] = []
        self.names: Counter[str] = Counter()
        read_inputs = sorted({i.location for i in program.instructions if i.operation == "input"})
        for input_group, index in read_inputs:
            places = inputs[input_group]
            name, place = places.local_name(index), places.expressions[index]
            if name != place:
                self.lines.append(f"{dialect.number} {name} = {place};")
        unused_inputs = [places for k, places in enumerate(inputs) if k not in {group for group, _ in read_inputs}]
        if dialect.unused:
            self.lines += [
                dialect.unused.format(re.split(r"[^A-Za-z0-9_]", places.expressions[0])[0]) for places in unused_inputs
            ]
        for i, instruction in enumerate(program.instructions):
            self.terms.append(self._term(instruction, inputs))
            if self.uses[i] > 1 and instruction.operation not in ("input", "constant"):
                self._give_name(i)
            for target in self.targets.get(i, []):
                self._store(i, target)

    def _store(self, i: int, target: str) -> None:
        if len(target) + len(self.terms[i].text) > WIDTH + 10 and not re.fullmatch(r"[\w.]+", self.terms[i].text):
            self._give_name(i)
        self.lines.append(target.format(self.terms[i].number_term().text))

    def _term(self, instruction: Instruction, inputs: Sequence[Variables]) -> Term:
        if instruction.operation == "constant":
            return literal(instruction.constant, self.dialect)
        if instruction.operation == "input":
            group, index = instruction.location
            return Term(inputs[group].local_name(index))
        operands = instruction.arguments
        while True:
            term = _expression(instruction.operation, [self.terms[i] for i in operands], self.dialect)
            longest = max(operands, key=lambda i: len(self.terms[i].text))
            if len(term.text) <= WIDTH - 26 or re.fullmatch(r"\w+", self.terms[longest].text):
                return term
            self._give_name(longest)

    def _give_name(self, i: int) -> None:
        term = self.terms[i]
        letter, declaration = ("t", self.dialect.number) if term.is_number else ("c", self.dialect.condition)
        self.names[letter] += 1
        name = f"{letter}{self.names[letter]}"
        self.lines.append(f"{declaration} {name} = {term.text};")
        self.terms[i] = Term(name, is_number=term.is_number)


def _flat(path: str) -> str:
    """Turn 'rotor_speed[2]' into the name of a local variable: rotor_speed_2."""
    return re.sub(r"[.\[]", "_", path.replace("]", ""))


def comment(*paragraphs: str) -> str:
    """Format a comment of whole lines; the text cannot end it or open another."""
    blocks = []
    for paragraph in paragraphs:
        safe_text = "".join(letter if letter.isprintable() else " " for letter in paragraph)
        safe_text = re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", safe_text.replace("\\", "/"))
        blocks.append("\n * ".join(wrap(safe_text, WIDTH - 6)))
    return "/* " + "\n *\n * ".join(blocks) + " */"


C = LanguageSyntax(FUNCTIONS, "NAN", "INFINITY", "const double", "const int", "(void){};")
C_FLOAT = LanguageSyntax(
    {operation: f"{name}f" for operation, name in FUNCTIONS.items()},
    "NAN",
    "INFINITY",
    "const float",
    "const int",
    "(void){};",
)
_DOUBLE_LITERAL = re.compile(r"(?<![\w.])(\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?![\w.])")


def float_literals(line: str) -> str:
    """Give the numbers in a line of C the suffix of single precision."""
    return _DOUBLE_LITERAL.sub(r"\1f", line)


def float_decimal(value: float) -> str:
    """Format with nine digits, which read back as the same float."""
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def wrap_words(text: str) -> str:
    """Break a line of words into indented lines."""
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) > WIDTH - 6:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join(f"    {wrapped_line}" for wrapped_line in [*lines, line])


def c_lines(program: Program, inputs: Sequence[Variables], outputs: Sequence[Variables]) -> list[str]:
    """Return the lines of C of a traced program."""
    return FunctionBody(program, inputs, outputs, C).lines


def decimal(value: float) -> str:
    """Return the shortest decimals that read back as the same number."""
    return literal(value, C).text


def braces(tree: Any) -> str:
    """Format a nested tuple as an initialiser."""
    if isinstance(tree, tuple):
        return "{" + ", ".join(braces(branch) for branch in tree) + "}"
    return decimal(tree)
