"""Text of a module: values named so that the text re-parses, long attributes behind aliases."""

import re
from io import StringIO
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, Builtin, IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

# The attributes that are printed once, at the head of the module, and the name that they get there.
ALIASES = {"affine_map": "map", "rock.transform_map": "transform_map", "rock.layout": "layout"}

_NUMBER_SUFFIX = re.compile(r"(_\d+)+$")
_SPELLING = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.Mod: "mod",
    AffineBinaryOpKind.FloorDiv: "floordiv",
    AffineBinaryOpKind.CeilDiv: "ceildiv",
}


def affine_expr_text(expr: AffineExpr, level: int = 0) -> str:
    """An affine expression as MLIR prints it: parentheses only where they are needed, `a - b` for `a + b * -1`."""
    if not isinstance(expr, AffineBinaryOpExpr):
        return str(expr)
    own = 1 if expr.kind is AffineBinaryOpKind.Add else 2
    if expr.kind is AffineBinaryOpKind.Add:
        text = affine_expr_text(expr.lhs, own) + _added(expr.rhs)
    else:
        text = f"{affine_expr_text(expr.lhs, 3)} {_SPELLING[expr.kind]} {affine_expr_text(expr.rhs, 3)}"
    return f"({text})" if own < level else text


def _added(expr: AffineExpr) -> str:
    """The right-hand side of an addition, with its sign."""
    match expr:
        case AffineConstantExpr(value) if value < 0:
            return f" - {-value}"
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, lhs, AffineConstantExpr(-1)):
            return f" - {affine_expr_text(lhs, 2)}"
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, lhs, AffineConstantExpr(value)) if value < 0:
            return f" - {affine_expr_text(lhs, 3)} * {-value}"
        case _:
            return f" + {affine_expr_text(expr, 2)}"


def affine_map_text(map: AffineMap) -> str:
    """An affine map as MLIR prints it, for example `(d0, d1) -> (d0 * 4 + d1)`."""
    dims = ", ".join(f"d{i}" for i in range(map.num_dims))
    symbols = ", ".join(f"s{i}" for i in range(map.num_symbols))
    results = ", ".join(affine_expr_text(expr) for expr in map.results)
    return f"({dims}){f'[{symbols}]' if symbols else ''} -> ({results})"


class ModulePrinter(Printer):
    """xDSL's printer with value names that never clash, and (on request) attribute aliases."""

    def __init__(self, stream: StringIO, *, aliases: bool, generic: bool, locations: bool) -> None:
        super().__init__(stream=stream, print_generic_format=generic, print_debuginfo=locations)
        self.use_aliases = aliases
        self.aliases: dict[Attribute, str] = {}
        self.definitions: list[str] = []
        self._counts: dict[str, int] = {}

    def print_ssa_value(self, value: SSAValue) -> str:
        """Print `%name`: the value's hint without number suffixes, made unique by a number; or a number alone."""
        name = self._ssa_values.get(value)
        if name is None:
            hint = _NUMBER_SUFFIX.sub("", value.name_hint) if value.name_hint else ""
            if hint:
                count = self.ssa_names.get(hint, 0)
                self.ssa_names[hint] = count + 1
                name = f"{hint}_{count}" if count else hint
            else:
                name = self._get_new_valid_name_id()
            self._ssa_values[value] = name
        self.print_string(f"%{name}")
        return name

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute, or its alias when it is one of the kinds in `ALIASES`."""
        if self.use_aliases and attribute.name in ALIASES:
            self.print_string(f"#{self._alias(attribute)}")
        else:
            self._print_in_full(attribute)

    def _print_in_full(self, attribute: Attribute) -> None:
        if isinstance(attribute, AffineMapAttr):
            self.print_string(f"affine_map<{affine_map_text(attribute.data)}>")
        elif isinstance(attribute, ArrayAttr):
            with self.in_square_brackets():
                self.print_list(cast("ArrayAttr[Attribute]", attribute), self._print_element)
        else:
            super().print_attribute(attribute)

    def _print_element(self, element: Attribute) -> None:
        """An element of an array: as in MLIR, an i64 says no type."""
        if isinstance(element, IntegerAttr) and element.type == i64:
            self.print_int(element.value.data)
        else:
            self.print_attribute(element)

    def _alias(self, attribute: Attribute) -> str:
        """The alias of an attribute; its definition (after those that it uses itself) is kept on first use."""
        name = self.aliases.get(attribute)
        if name is None:
            body, self.stream = self.stream, StringIO()
            column = self._current_column
            self._print_in_full(attribute)
            text, self.stream = self.stream.getvalue(), body
            self._current_column = column
            base = ALIASES[attribute.name]
            count = self._counts.get(base, 0)
            self._counts[base] = count + 1
            name = self.aliases[attribute] = f"{base}{count}" if count else base
            self.definitions.append(f"#{name} = {text}\n")
        return name


def print_module(op: Operation, *, aliases: bool = True, generic: bool = False, locations: bool = False) -> str:
    """
    The text of an operation (a whole module, as a rule), ending in a newline. It parses back to the same operation.

    `aliases` moves affine and transform maps and layouts to definitions at the head; `generic` prints the generic form;
    `locations` adds `loc(...)` to every operation.
    """
    stream = StringIO()
    printer = ModulePrinter(stream, aliases=aliases, generic=generic, locations=locations)
    printer.print_op(op)
    printer.print_metadata([Builtin])
    return "".join(printer.definitions) + stream.getvalue() + "\n"


class _FirstLine(Exception):
    """Raised by a stream that has seen the end of a line."""


class _OneLineStream(StringIO):
    """A stream that stops the printer after the first line."""

    def write(self, s: str, /) -> int:
        super().write(s.split("\n", 1)[0])
        if "\n" in s:
            raise _FirstLine
        return len(s)


def one_line(op: Operation, limit: int = 160) -> str:
    """The first line of an operation's text, cut at `limit` characters; its name alone when it cannot be printed."""
    stream = _OneLineStream()
    try:
        ModulePrinter(stream, aliases=False, generic=False, locations=False).print_op(op)
    except _FirstLine:
        pass
    except (LookupError, AttributeError, ValueError, TypeError, AssertionError, VerifyException):
        return op.name  # an operation that does not verify need not print either
    text = stream.getvalue().rstrip(" {")
    return text if len(text) <= limit else text[: limit - 3] + "..."
