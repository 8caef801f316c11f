"""MLIR text to a module: locations on every operation, and every mistake reported at its place."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, SSAValue
from xdsl.parser import Parser, ParserState, UnresolvedOperand
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from xpaged.context import context
from xpaged.errors import XpagedError, did_you_mean
from xpaged.ir.custom_formats import FORMATS
from xpaged.ir.dense import DenseLiteralParser
from xpaged.ir.locations import Source, set_source
from xpaged.ir.verify import verify

# Definitions of aliases. MLIR's tools print those of locations at the end of a module, after their uses.
_ALIAS = re.compile(r"^([#!][\w.$-]+)[ \t]*=(?!=)", re.MULTILINE)


class Hint(ParseError):
    """A parse error that carries a way out."""

    def __init__(self, span: Span[str], msg: str, fix: str | None) -> None:
        super().__init__(span, msg)
        self.fix = fix


class _Lexer(MLIRLexer):
    """xDSL's lexer; its own pattern for strings takes exponential time on one that is not closed."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


def _used_before(definition: re.Match[str], text: str) -> bool:
    """Whether an alias occurs in front of its definition, as those of locations do by rule."""
    if text[definition.end() : definition.end() + 8].lstrip().startswith("loc("):
        return True
    name = re.escape(definition[1])
    return re.search(name + r"(?![\w.$-])", text[: definition.start()]) is not None


@cache
def _with_custom_format(op_type: type[Operation]) -> type[Operation]:
    """An operation that xDSL reads in generic form only, with the custom form of MLIR."""
    return type(op_type.__name__, (op_type,), {"parse": staticmethod(FORMATS[op_type.name]), "create": op_type.create})


class LocatedParser(DenseLiteralParser, Parser):
    """
    xDSL's parser that stamps `file:line:col` on every operation and block argument whose text says no location,
    accepts location aliases that are defined after their use, and points its errors at the name that is wrong.
    """

    def __init__(self, ctx: Context, text: str, filename: str) -> None:
        super().__init__(ctx, "", filename)
        self._parser_state = ParserState(_Lexer(Input(text, filename)))
        self._filename = StringAttr(filename)
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._op_positions: list[int] = []
        self._first_uses: dict[str, tuple[Span[str], tuple[str, ...]]] = {}
        self._hoisted = set[int]()
        definitions = list(_ALIAS.finditer(text))
        if any(_used_before(each, text) for each in definitions):
            self._hoist([each.start() for each in definitions])

    def _hoist(self, positions: list[int]) -> None:
        """Parse the alias definitions at `positions` ahead of everything else, each after those that it uses."""
        while positions:
            later: list[int] = []
            for position in positions:
                self._resume_from(position)
                try:
                    self._parse_alias_def()
                except Hint:
                    later.append(position)
                else:
                    self._hoisted.add(position)
            if len(later) == len(positions):
                break  # they use what is not defined; the place where that is written says so
            positions = later
        self._resume_from(0)

    def location_at(self, position: int) -> FileLineColLoc:
        """The location of a character position, line and column counted from 1."""
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        return FileLineColLoc(self._filename, IntAttr(line), IntAttr(column))

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse the whole text; an operand that is never defined is reported where it is first used."""
        if self._at_end():
            self.raise_error("the text holds no operation")
        try:
            module = super().parse_module(allow_implicit_module)
            if isinstance(module.location, UnknownLoc):
                module.location = self.location_at(0)
            return module
        except ParseError:
            if self._op_positions or not self._at_end() or not self.forward_ssa_references:
                raise
            name = next(iter(self.forward_ssa_references))
            span, names = self._first_uses[name]
            fix = did_you_mean(f"%{name}", [f"%{other}" for other in names])
            raise Hint(span, f"value %{name} is used but never defined", fix) from None

    def _at_end(self) -> bool:
        return self._current_token.kind == MLIRTokenKind.EOF

    def parse_operation(self) -> Operation:
        """Parse one operation and give it the location of its name."""
        self._op_positions.append(self.pos)
        op = super().parse_operation()
        position = self._op_positions.pop()
        if isinstance(op.location, UnknownLoc):
            op.location = self.location_at(position)
        return op

    def _parse_op_result_list(self) -> list[tuple[Span[str], int]]:
        results = super()._parse_op_result_list()
        self._op_positions[-1] = self.pos
        return results

    def _get_op_by_name(self, name: str) -> type[Operation]:
        if op_type := self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack):
            return _with_custom_format(op_type) if op_type.name in FORMATS else op_type
        start = self._op_positions[-1]
        dialect_name = Dialect.split_name(name)[0] if "." in name else self._parser_state.dialect_stack[-1]
        dialect = self.ctx.get_optional_dialect(dialect_name)
        if dialect is None:
            known = sorted(self.ctx.registered_dialect_names)
            fix = did_you_mean(dialect_name, known) or f"the dialects are {', '.join(known)}"
            message = f"unknown dialect '{dialect_name}' in operation '{name}'"
        else:
            fix = did_you_mean(name, [op.name for op in dialect.operations])
            message = f"unknown operation '{name}'"
        raise Hint(Span(start, start + len(name), self.lexer.input), message, fix)

    def _parse_extended_type_or_attribute(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, attr_or_dialect_name: str, is_type: bool
    ) -> Attribute:
        kind, mark = ("type", "!") if is_type else ("attribute", "#")
        name = mark + attr_or_dialect_name
        start = max(0, self.lexer.input.content.rfind(name, 0, self.pos))
        span = Span(start, start + len(name), self.lexer.input)
        if "." in attr_or_dialect_name:
            lookup = self.ctx.get_optional_type if is_type else self.ctx.get_optional_attr
            if lookup(attr_or_dialect_name) is None:
                loaded = self.ctx.loaded_types if is_type else self.ctx.loaded_attrs
                raise Hint(span, f"unknown {kind} '{name}'", did_you_mean(name, [mark + attr.name for attr in loaded]))
        elif self._current_token.kind != MLIRTokenKind.LESS and name not in self.attribute_aliases:
            raise Hint(span, f"alias '{name}' is not defined", did_you_mean(name, self.attribute_aliases))
        return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:
        """Resolve an operand; remembers where a name that is not defined yet was first used."""
        name = operand.operand_name
        if name not in self.ssa_values and name not in self._first_uses:
            self._first_uses[name] = (operand.span, tuple(self.ssa_values))
        return super().resolve_operand(operand, type)

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span[str]) -> None:
        super()._register_ssa_definition(name, values, span)
        for value in values:
            if isinstance(value, BlockArgument) and isinstance(value.location, UnknownLoc):
                value.location = self.location_at(span.start)

    def _parse_alias_def(self) -> None:
        if self.pos in self._hoisted:  # parsed already, in the constructor
            self.attribute_aliases.pop(self._current_token.text, None)
        super()._parse_alias_def()

    def _parse_location(self) -> LocationAttr:
        """Locations as MLIR 22 prints them: also ranges (`"f":1:2 to 3:4`, kept as their start) and `fused<...>`."""
        if self._current_token.kind == MLIRTokenKind.BARE_IDENT and self._current_token.text == "fused":
            self.parse_keyword("fused")
            metadata: Attribute = NoneAttr()
            if self.parse_optional_punctuation("<") is not None:
                metadata = self.parse_attribute()
                self.parse_punctuation(">")
            parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
            return FusedLoc(ArrayAttr[Attribute](parts), metadata)
        location = super()._parse_location()
        if isinstance(location, FileLineColLoc) and self.parse_optional_keyword("to") is not None:
            self.parse_optional_integer(allow_boolean=False, allow_negative=False)
            self.parse_punctuation(":")
            self.parse_integer(allow_boolean=False, allow_negative=False)
        return location


def parse(text: str, filename: str = "<input>") -> ModuleOp:
    """
    Parse MLIR text into a verified module. Every operation carries the `file:line:col` of its name.

    Raises XpagedError with the place, the source line and a caret for anything that is wrong with the text.
    """
    return parse_in(context(), text, filename)


def parse_in(ctx: Context, text: str, filename: str, *, implicit_module: bool = True) -> ModuleOp:
    """As `parse`, in a context of the caller; without `implicit_module` the text must be one `builtin.module`."""
    source = Source(filename, text)
    parser: LocatedParser | None = None
    try:
        parser = LocatedParser(ctx, text, filename)
        module = parser.parse_module(implicit_module)
        set_source(module, source)
        verify(module)
    except XpagedError as err:
        if err.source is None:
            err.source = text
        raise
    except ParseError as err:
        raise _refusal(err, text) from err
    except RecursionError:
        raise XpagedError("the text is nested too deeply", at=f"{filename}:1:1", fix="flatten the regions") from None
    except Exception as err:
        # xDSL's own parsers let Python errors escape on some malformed texts; the place is the token they stopped at.
        position = 0 if parser is None else min(parser.pos, len(text))
        span = Span(position, position, Input(text, filename))
        raise _refusal(ParseError(span, f"cannot parse this: {_first_line(err)}"), text) from err
    return module


def _first_line(err: Exception) -> str:
    lines = str(err).strip().splitlines()
    return lines[0] if lines else type(err).__name__


def _refusal(err: ParseError, text: str) -> XpagedError:
    location = err.span.get_location()
    fix = err.fix if isinstance(err, Hint) else None
    found = "the end of the text" if err.span.start >= len(text.rstrip()) else None
    message = err.msg.strip().rstrip(".!")
    refusal = XpagedError(message, at=f"{location.file}:{location.line}:{location.col}", found=found, fix=fix)
    refusal.source = text
    return refusal
