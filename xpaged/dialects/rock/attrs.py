"""Attributes of the rock dialect: transform maps, attention tile parameters, the store method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import AffineMapAttr, DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xpaged.errors import did_you_mean
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.printing import affine_map_text
from xpaged.ir.transform_map import KINDS, Transform, TransformMap


@irdl_attr_definition
class TransformMapAttr(Data[TransformMap]):
    """`#rock.transform_map<affine_map<...> by [<Kind{..} [..] at [..] -> [..] at [..]>, ...] bounds = [..] -> [..]>`.

    The affine map is implied by the transforms: it is printed from them, and a parsed one must be the same function.
    """

    name = "rock.transform_map"

    def verify(self) -> None:
        """A transform map is checked as a whole, see `TransformMap.verify`."""
        try:
            self.data.verify()
        except ValueError as err:
            raise VerifyException(f"rock.transform_map: {err}") from err

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TransformMap:
        """Parse everything between the angle brackets, these included."""
        with parser.in_angle_brackets():
            return parse_transform_map(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print everything between the angle brackets, these included."""
        with printer.in_angle_brackets():
            printer.print_attribute(AffineMapAttr(self.data.affine_map()))
            printer.print_string(f" by {self.data}")


def expect_identifier(parser: AttrParser, what: str) -> str:
    """Parse an identifier; ParseError that says `what` is expected when there is none."""
    name = parser.parse_optional_identifier()
    return name if name is not None else parser.raise_error(f"expected {what}")


def parse_transform_map(parser: AttrParser) -> TransformMap:
    """Parse `affine_map<...> by [...] bounds = [...] -> [...]`; ParseError when it does not hold together."""
    start = parser.pos
    given = parser.parse_attribute()
    parser.parse_keyword("by")
    transforms = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_transform(parser))
    parser.parse_keyword("bounds")
    parser.parse_punctuation("=")
    upper = _parse_integers(parser)
    parser.parse_punctuation("->")
    lower = _parse_integers(parser)
    end = parser.pos
    result = TransformMap(tuple(transforms), upper, lower)
    try:
        result.verify()
    except ValueError as err:
        parser.raise_error(f"malformed transform map: {err}", start, end)
    if not isinstance(given, AffineMapAttr):
        parser.raise_error(f"expected an affine map, found {given}", start, end)
    if not _same_function(given, result):
        found, expected = affine_map_text(given.data), affine_map_text(result.affine_map())
        parser.raise_error(f"the affine map {found} is not what the transforms do: {expected}", start, end)
    return result


def _parse_integers(parser: AttrParser) -> tuple[int, ...]:
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))


def _parse_names(parser: AttrParser) -> tuple[str, ...]:
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal))


def _parse_transform(parser: AttrParser) -> Transform:
    """`<Kind{1, 2} ["x"] at [0] -> ["y"] at [0]>`."""
    with parser.in_angle_brackets():
        start = parser.pos
        kind = expect_identifier(parser, "a transform kind")
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS)
            parser.raise_error(
                f"unknown transform '{kind}', expected one of {', '.join(KINDS)}" + (f" ({hint})" if hint else ""),
                start,
                parser.pos,
            )
        params = parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, parser.parse_integer)
        upper_names = _parse_names(parser)
        parser.parse_keyword("at")
        upper_dims = _parse_integers(parser)
        parser.parse_punctuation("->")
        lower_names = _parse_names(parser)
        parser.parse_keyword("at")
        lower_dims = _parse_integers(parser)
    return Transform(kind, tuple(params or ()), upper_names, upper_dims, lower_names, lower_dims)


def _same_function(given: AffineMapAttr, wanted: TransformMap) -> bool:
    """Whether an affine map computes the lower coordinates of `wanted` everywhere inside its upper bounds."""
    dims = wanted.variables()
    if (
        given.data.num_dims != len(dims)
        or given.data.num_symbols
        or len(given.data.results) != len(wanted.lower_bounds)
    ):
        return False
    lower, _ = wanted.apply(dims)
    try:
        return all(_index_expr(e, dims) == x for e, x in zip(given.data.results, lower, strict=True))
    except (TypeError, ValueError):  # a product of two dims, or a division by a dim or by zero
        return False


def _index_expr(expr: AffineExpr, dims: list[IndexExpr]) -> IndexExpr:
    """An affine expression over bounded dims."""
    match expr:
        case AffineConstantExpr():
            return IndexExpr.const(expr.value)
        case AffineDimExpr():
            return dims[expr.position]
        case AffineBinaryOpExpr():
            lhs, rhs = _index_expr(expr.lhs, dims), _index_expr(expr.rhs, dims)
            if expr.kind is AffineBinaryOpKind.Add:
                return lhs + rhs
            if expr.kind is AffineBinaryOpKind.Mul:
                return lhs * rhs
            divisor = rhs.constant
            if divisor is None:
                raise TypeError(f"division by {rhs}")
            operations: dict[AffineBinaryOpKind, Callable[[], IndexExpr]] = {
                AffineBinaryOpKind.Mod: lambda: lhs % divisor,
                AffineBinaryOpKind.FloorDiv: lambda: lhs // divisor,
                AffineBinaryOpKind.CeilDiv: lambda: -((-lhs) // divisor),
            }
            return operations[expr.kind]()
        case _:
            raise TypeError(f"unexpected affine expression {expr}")


ROWS_PER_WAVE = (16, 32)  # straight to registers, and through LDS
_PARAMS = ("keys_per_tile", "query_waves", "key_waves", "channel_chunk", "value_channels", "stages", "rows_per_wave")


@irdl_attr_definition
class AttentionParamsAttr(ParametrizedAttribute):
    """How attention is cut into tiles: `#rock.attention_params<keys_per_tile = 16, query_waves = 1, ...>`.

    `keys_per_tile` keys are handled at a time by each of `key_waves` waves along the keys, for query rows spread over
    `query_waves` waves; `channel_chunk` channels of Q and K are multiplied at a time, and `value_channels` channels of
    V belong to one workgroup. With `stages = 2` (1 when it is not given) K is loaded a turn of the key loop ahead. A
    wave has `rows_per_wave` query rows: 16, or 32 in a kernel whose waves share K and V through LDS.
    """

    name = "rock.attention_params"
    keys_per_tile: IntegerAttr = param_def()
    query_waves: IntegerAttr = param_def()
    key_waves: IntegerAttr = param_def()
    channel_chunk: IntegerAttr = param_def()
    value_channels: IntegerAttr = param_def()
    stages: IntegerAttr = param_def()
    rows_per_wave: IntegerAttr = param_def()

    @staticmethod
    def of(
        *,
        keys_per_tile: int,
        query_waves: int,
        key_waves: int,
        channel_chunk: int,
        value_channels: int,
        stages: int = 1,
        rows_per_wave: int = ROWS_PER_WAVE[0],
    ) -> AttentionParamsAttr:
        """The attribute from plain numbers, all positive."""
        values = (keys_per_tile, query_waves, key_waves, channel_chunk, value_channels, stages, rows_per_wave)
        return AttentionParamsAttr(*(IntegerAttr(value, i64) for value in values))

    def values(self) -> dict[str, int]:
        """The parameters by name."""
        return {name: getattr(self, name).value.data for name in _PARAMS}

    def verify(self) -> None:
        for name, value in self.values().items():
            if value <= 0:
                raise VerifyException(f"rock.attention_params: {name} must be positive, found {value}")
        if self.stages.value.data > 2:
            raise VerifyException(f"rock.attention_params: stages is 1 or 2, found {self.stages.value.data}")
        if self.rows_per_wave.value.data not in ROWS_PER_WAVE:
            expected, found = " or ".join(map(str, ROWS_PER_WAVE)), self.rows_per_wave.value.data
            raise VerifyException(f"rock.attention_params: rows_per_wave is {expected}, found {found}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        values: dict[str, IntegerAttr] = {}
        optional = {"stages": IntegerAttr(1, i64), "rows_per_wave": IntegerAttr(ROWS_PER_WAVE[0], i64)}

        def entry() -> None:
            start = parser.pos
            name = expect_identifier(parser, "a parameter name")
            if name not in _PARAMS or name in values:
                what = "repeated" if name in values else "unknown"
                parser.raise_error(f"{what} parameter '{name}', expected {', '.join(_PARAMS)}", start, parser.pos)
            parser.parse_punctuation("=")
            values[name] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)

        start = parser.pos
        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry)
        missing = [name for name in _PARAMS if name not in values and name not in optional]
        if missing:
            parser.raise_error(f"missing parameters: {', '.join(missing)}", start, parser.pos)
        return [(optional | values)[name] for name in _PARAMS]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(f"{name} = {value}" for name, value in self.values().items()))


STORE_METHODS = ("set", "atomic_add", "atomic_max")


@irdl_attr_definition
class StoreMethodAttr(SpacedOpaqueSyntaxAttribute, Data[str]):
    """`#rock<StoreMethod set>`: how results are written. Attention takes `set` only."""

    name = "rock.StoreMethod"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        start = parser.pos
        method = expect_identifier(parser, "a store method")
        if method not in STORE_METHODS:
            parser.raise_error(
                f"unknown store method '{method}', expected {', '.join(STORE_METHODS)}", start, parser.pos
            )
        return method

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


@irdl_attr_definition
class GemmFeaturesAttr(SpacedOpaqueSyntaxAttribute, Data[tuple[str, ...]]):
    """`#rock<GemmFeatures mfma|dot>`: what rocMLIR may use of a GPU. Here the architecture says it; this is kept."""

    name = "rock.GemmFeatures"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        features = [expect_identifier(parser, "a feature")]
        while parser.parse_optional_punctuation("|") is not None:
            features.append(expect_identifier(parser, "a feature"))
        return tuple(features)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("|".join(self.data))


class GemmParamsAttr(ParametrizedAttribute):
    """The tile sizes of one product as rocMLIR writes them: `#rock.mfma_gemm_params<mPerBlock = 32, ...>`."""

    numbers: DictionaryAttr = param_def()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        numbers: dict[str, Attribute] = {}

        def entry() -> None:
            name = expect_identifier(parser, "a parameter name")
            parser.parse_punctuation("=")
            numbers[name] = IntegerAttr(parser.parse_integer(), i64)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry)
        return [DictionaryAttr(numbers)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(f"{name} = {self.number(name)}" for name in self.numbers.data))

    def number(self, name: str, default: int = 1) -> int:
        """A parameter by name."""
        value = self.numbers.data.get(name)
        return value.value.data if isinstance(value, IntegerAttr) else default


@irdl_attr_definition
class XdlopsParamsAttr(GemmParamsAttr):
    """`#rock.xdlops_gemm_derived_params`."""

    name = "rock.xdlops_gemm_derived_params"


@irdl_attr_definition
class MfmaParamsAttr(GemmParamsAttr):
    """`#rock.mfma_gemm_params`."""

    name = "rock.mfma_gemm_params"


@irdl_attr_definition
class WmmaParamsAttr(GemmParamsAttr):
    """`#rock.wmma_gemm_params`."""

    name = "rock.wmma_gemm_params"


ROCK_ATTRS: list[type[Attribute]] = [
    TransformMapAttr,
    AttentionParamsAttr,
    StoreMethodAttr,
    GemmFeaturesAttr,
    XdlopsParamsAttr,
    MfmaParamsAttr,
    WmmaParamsAttr,
]
