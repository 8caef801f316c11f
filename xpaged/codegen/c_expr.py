"""C expressions: text with its precedence and type, put together with no more parentheses than are needed."""

import struct
from dataclasses import dataclass

# Precedence of C's operators; a higher number binds tighter.
COMMA, ASSIGN, CONDITIONAL, OR, AND, BIT_OR, BIT_XOR, BIT_AND, EQUAL, LESS, SHIFT, SUM, PRODUCT, UNARY, POSTFIX = range(
    15
)

_LEVEL = {
    **{"*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "+": SUM, "-": SUM, "<<": SHIFT, ">>": SHIFT},
    **{"<": LESS, "<=": LESS, ">": LESS, ">=": LESS, "==": EQUAL, "!=": EQUAL},
    **{"&": BIT_AND, "^": BIT_XOR, "|": BIT_OR, "&&": AND, "||": OR},
}
# Mixtures that are right without parentheses and read wrongly (clang warns of them): left level inside an operator.
_UNCLEAR = {SHIFT: (SUM,), BIT_XOR: (BIT_AND,), BIT_OR: (BIT_AND, BIT_XOR), OR: (AND,)}

SIGNED = {"int": "u32", "i64": "u64", "i16": "u16", "i8": "u8"}
UNSIGNED = {unsigned: signed for signed, unsigned in SIGNED.items()}

MEMORY = "memory: "
"""Begins the names of memories in `Expr.reads`."""


@dataclass(frozen=True, slots=True)
class Expr:
    """
    A C expression of type `type`.

    `reads` names what it reads and somebody may change (register arrays, variables, memory); `collective` says that
    all lanes have to evaluate it together, so that it may not move into a branch. `scalar` is the one element of a
    vector whose elements are all the same; `literal` the value of an integer constant; `sum` says that it is a sum of
    non-negative terms, `split` how such a sum falls into a name and what is known once loops are unrolled.
    """

    text: str
    level: int
    type: str
    reads: frozenset[str] = frozenset()
    collective: bool = False
    scalar: "Expr | None" = None
    literal: int | None = None
    sum: bool = False
    split: "tuple[Expr, Expr] | None" = None

    @property
    def is_name(self) -> bool:
        """Whether it is a name or a literal, which may be repeated freely."""
        return self.literal is not None or self.text.replace("_", "a").isalnum() or self._is_number

    @property
    def is_variable(self) -> bool:
        """Whether it is a variable that is assigned to."""
        return f"variable {self.text}" in self.reads

    @property
    def reads_memory(self) -> bool:
        """Whether it reads memory that is not registers."""
        return any(place.startswith(MEMORY) for place in self.reads)

    @property
    def _is_number(self) -> bool:
        return self.text.lstrip("-")[:1].isdigit() and self.level >= UNARY

    def at(self, level: int) -> str:
        """The text as an operand that has to bind at least as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"


def name(text: str, type_: str) -> Expr:
    """A name whose value stays what it is."""
    return Expr(text, POSTFIX, type_)


def variable(text: str, type_: str) -> Expr:
    """A variable that is assigned to."""
    return Expr(text, POSTFIX, type_, frozenset((f"variable {text}",)))


def compose(text: str, level: int, type_: str, *parts: Expr, collective: bool = False) -> Expr:
    """An expression made of `parts`: reads what they read."""
    reads = frozenset[str]().union(*(p.reads for p in parts))
    return Expr(text, level, type_, reads, collective or any(p.collective for p in parts))


def call(function: str, type_: str, *arguments: Expr, collective: bool = False) -> Expr:
    """A function call."""
    inner = ", ".join(a.at(CONDITIONAL) for a in arguments)
    return compose(f"{function}({inner})", POSTFIX, type_, *arguments, collective=collective)


def binary(operator: str, a: Expr, b: Expr, type_: str, *, reassociate: bool = False) -> Expr:
    """`a operator b`. With `reassociate`, `a + (b + c)` may lose its parentheses."""
    level = _LEVEL[operator]
    left, right = a.at(level), b.at(level if reassociate and b.level == level and operator in "+*" else level + 1)
    if a.level in _UNCLEAR.get(level, ()):
        left = f"({a.text})"
    if b.level in _UNCLEAR.get(level, ()):
        right = f"({b.text})"
    return compose(f"{left} {operator} {right}", level, type_, a, b)


def prefix(operator: str, a: Expr, type_: str) -> Expr:
    """`-a`, `!a` or `~a`."""
    text = a.at(UNARY)
    return compose(f"{operator}({a.text})" if text.startswith(operator) else f"{operator}{text}", UNARY, type_, a)


def cast(type_: str, a: Expr) -> Expr:
    """`(type)a`."""
    return compose(f"({type_}){a.at(UNARY)}", UNARY, type_, a)


def conditional(condition: Expr, a: Expr, b: Expr, type_: str) -> Expr:
    """`condition ? a : b`."""
    text = f"{condition.at(OR)} ? {a.at(OR)} : {b.at(CONDITIONAL)}"
    return compose(text, CONDITIONAL, type_, condition, a, b)


def element(vector: Expr, index: int, lanes: int, type_: str) -> Expr:
    """One element of a vector."""
    suffix = f".{'xyzw'[index]}" if lanes <= 4 else f"[{index}]"
    return compose(vector.at(POSTFIX) + suffix, POSTFIX, type_, vector)


def integer(value: int, type_: str) -> Expr:
    """An integer literal of a C type."""
    if type_ == "bool":
        return Expr("true" if value else "false", POSTFIX, type_, literal=value)
    if type_ in ("int", "u32"):
        text = "(-2147483647 - 1)" if value == -(1 << 31) else str(value) + ("u" if type_ == "u32" else "")
    elif type_ in ("i64", "u64"):
        text = "(-9223372036854775807ll - 1)" if value == -(1 << 63) else f"{value}{'u' if type_ == 'u64' else ''}ll"
    else:
        return Expr(f"({type_}){value}", UNARY, type_, literal=value)
    level = POSTFIX if value >= 0 or text.startswith("(") else UNARY
    return Expr(text, level, type_, literal=value)


def real(value: float, type_: str) -> Expr:
    """A floating-point literal that is read back as the same value; infinities and NaN by builtins."""
    negative = str(value).startswith("-")
    level = UNARY if negative else POSTFIX
    if value != value:
        text = '__builtin_nanf("")'
    elif value in (float("inf"), float("-inf")):
        text = "NEG_INF" if negative else "__builtin_inff()"
        level = POSTFIX
    else:
        text = _shortest(value, single=type_ != "double") + ("" if type_ == "double" else "f")
    found = Expr(text, level, "double" if type_ == "double" else "float")
    return found if type_ in ("float", "double") else cast(type_, found)


_FLOAT_END = 2.0**128 - 2.0**103  # numbers from here on are rounded to infinity


def _shortest(value: float, *, single: bool) -> str:
    """The shortest decimal number that is read as `value`, with a point or an exponent in it."""
    text = repr(value)
    if single:
        wanted = struct.pack("<f", value)
        for digits in range(1, 10):
            text = f"{value:.{digits}g}"
            if abs(float(text)) < _FLOAT_END and struct.pack("<f", float(text)) == wanted:
                break
    return text if "." in text or "e" in text else f"{text}.0"


def signed(a: Expr) -> Expr:
    """The same bits as a signed integer."""
    return cast(UNSIGNED[a.type], a) if a.type in UNSIGNED else a


def unsigned(a: Expr) -> Expr:
    """The same bits as an unsigned integer."""
    if a.type not in SIGNED:
        return a
    if a.literal is not None and a.type in ("int", "i64"):
        return integer(a.literal % (1 << (32 if a.type == "int" else 64)), SIGNED[a.type])
    return cast(SIGNED[a.type], a)


def assignment(target: Expr, value: Expr) -> str:
    """`target = value;`, or `target += x;` where that says the same."""
    for operator in ("+", "-", "*"):
        start = f"{target.text} {operator} "
        if value.text.startswith(start) and value.level == PRODUCT - (operator != "*"):
            rest = value.text[len(start) :]
            if rest.startswith("(") and rest.endswith(")") and _closes_last(rest):
                return f"{target.text} {operator}= {rest[1:-1]};"
            if _is_one_operand(rest, operator):
                return f"{target.text} {operator}= {rest};"
    return f"{target.text} = {value.text};"


def _closes_last(text: str) -> bool:
    """Whether the parenthesis that opens a text is closed by its last character."""
    depth = 0
    for character in text[:-1]:
        depth += (character in "([{") - (character in ")]}")
        if not depth:
            return False
    return True


def _is_one_operand(text: str, operator: str) -> bool:
    """Whether nothing in `text` outside parentheses binds as loosely as `operator`."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        loose = text[position : position + 3] in (
            (" + ", " - ") if operator != "*" else (" + ", " - ", " * ", " / ", " % ")
        )
        if depth == 0 and loose:
            return False
    return True
