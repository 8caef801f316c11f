"""`rock.attention` and `rock.gridwise_attention_accel`: softmax(score(Q K^T)) V on views, K and V perhaps paged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.rock.attention_format import (
    OLD_NAMES,
    SEGMENTS,
    parse_attention,
    parse_gridwise,
    print_attention,
    print_gridwise,
)
from xpaged.dialects.rock.attrs import AttentionParamsAttr, GemmParamsAttr, StoreMethodAttr
from xpaged.dialects.rock.ops import Shaped
from xpaged.dialects.rock.score_region import is_whole, scalar_region
from xpaged.ir.bufferizable import Bufferizable, Bufferization
from xpaged.lowering.masks import Clamp

OPERANDS = (
    "queries",
    "keys",
    "values",
    "preSoftmaxElemWiseInputs",
    "currentSeqLen",
    "prefixOffset",
    "out",
    "lse",
    "keyAddresses",
    "valueAddresses",
)
"""The operand segments in order; texts from before paging end before `keyAddresses`."""


class Sizes(NamedTuple):
    """The sizes of an attention, all in elements.

    `groups` counts query heads over the whole batch (rows of Q, the output and the KV index), `kv_groups` those of K
    and V.
    """

    groups: int
    kv_groups: int
    seq_q: int
    seq_k: int
    dim_qk: int
    dim_v: int
    split_kv: int

    @property
    def repeats(self) -> int:
        """Query heads that share one KV head."""
        return self.groups // self.kv_groups


class _AttentionEffects(MemoryEffect):
    """On memrefs attention reads its inputs and writes its outputs; on tensors it has no effect."""

    @classmethod
    def get_effects(cls, op: Operation) -> frozenset[EffectInstance]:
        if op.results:
            return frozenset()
        return frozenset((EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE)))


class _AttentionBase(IRDLOperation):
    """What both attention operations share: operands, segments, old spellings, and rebuilding."""

    queries = operand_def()
    keys = operand_def()
    values = operand_def()
    preSoftmaxElemWiseInputs = var_operand_def()
    currentSeqLen = opt_operand_def()
    prefixOffset = opt_operand_def()
    out = opt_operand_def()
    lse = opt_operand_def()
    keyAddresses = opt_operand_def()
    valueAddresses = opt_operand_def()

    causal = opt_prop_def(UnitAttr)
    splitKV = opt_prop_def(IntegerAttr)
    balancedSplit = opt_prop_def(UnitAttr)
    slidingWindowLookBack = opt_prop_def(IntegerAttr)
    kvIndexClamp = opt_prop_def(DenseArrayBase.constr(i64))
    prefixOffsetClamp = opt_prop_def(DenseArrayBase.constr(i64))
    storeMethod = opt_prop_def(StoreMethodAttr)
    softmaxType = opt_prop_def()
    params0 = opt_prop_def(AttentionParamsAttr)
    params1 = opt_prop_def(AttentionParamsAttr)
    firstGemmIndices = opt_prop_def(DenseArrayBase)

    preSoftmaxBody = region_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def create(
        cls,
        *,
        properties: Mapping[str, Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        **rest: Any,
    ) -> Self:
        """As `Operation.create`, but takes older spellings, the segment list from before paging, and score regions on
        whole tensors or memrefs."""
        props, attrs = _normalized(cls.get_irdl_definition().properties, properties or {}, attributes or {})
        return super().create(
            properties=props, attributes=attrs, regions=[_on_scalars(region) for region in regions], **rest
        )

    @classmethod
    def build_from(
        cls,
        *,
        operands: Mapping[str, Iterable[SSAValue]],
        properties: Mapping[str, Attribute],
        attributes: Mapping[str, Attribute] | None = None,
        region: Region | None = None,
        result_types: Sequence[Attribute] = (),
    ) -> Self:
        """An operation from its operands by name; attributes that are properties of the operation become those."""
        segments = [list(operands.get(name, ())) for name in OPERANDS]
        sizes = DenseArrayBase.from_list(i32, [len(segment) for segment in segments])
        return cls.create(
            operands=[value for segment in segments for value in segment],
            properties={**properties, SEGMENTS: sizes},
            attributes=attributes,
            regions=[region or Region()],
            result_types=result_types,
        )

    def operands_by_name(self) -> dict[str, list[SSAValue]]:
        """The operands of each segment that has any."""
        found: dict[str, list[SSAValue]] = {}
        for name in OPERANDS:
            value: SSAValue | Sequence[SSAValue] | None = getattr(self, name)
            if value is not None:
                found[name] = [value] if isinstance(value, SSAValue) else list(value)
        return found

    def rebuilt(
        self,
        operands: Mapping[str, SSAValue | Sequence[SSAValue] | None] | None = None,
        properties: Mapping[str, Attribute | None] | None = None,
        result_types: Sequence[Attribute] | None = None,
    ) -> Self:
        """A copy with some operands and properties replaced (None removes); everything else, the page addresses and
        the score region among it, is carried over. The copy is not inserted."""
        by_name: dict[str, Iterable[SSAValue]] = dict(self.operands_by_name())
        for name, value in (operands or {}).items():
            by_name[name] = () if value is None else (value,) if isinstance(value, SSAValue) else tuple(value)
        props = {**self.properties, **(properties or {})}
        return type(self).build_from(
            operands=by_name,
            properties={name: attr for name, attr in props.items() if attr is not None},
            attributes=self.attributes,
            region=self.preSoftmaxBody.clone(),
            result_types=self.result_types if result_types is None else result_types,
        )

    @property
    def split_kv(self) -> int:
        """Parts that the keys are split into, each with a result of its own.

        Part `i` has the keys from `i * c` on, before `(i + 1) * c`, with `c` a part of all keys, rounded up; of these
        the masks leave some or none. With `balancedSplit` a kernel shares out the keys that the masks leave, and only
        what the parts give together is known.
        """
        return _int(self.splitKV, 1)

    @property
    def window(self) -> int | None:
        """Sliding window look-back, or None."""
        return None if self.slidingWindowLookBack is None else _int(self.slidingWindowLookBack, 0)

    @property
    def kv_index_clamp(self) -> Clamp | None:
        """What is done to each element of `currentSeqLen`; None for nothing."""
        return _clamp(self.kvIndexClamp)

    @property
    def prefix_offset_clamp(self) -> Clamp | None:
        """What is done to each element of `prefixOffset`; None for nothing."""
        return _clamp(self.prefixOffsetClamp)

    @property
    def softmax_type(self) -> AnyFloat:
        """The type that scores are rounded to where they enter the softmax, f32 unless said otherwise."""
        return self.softmaxType if isinstance(self.softmaxType, AnyFloat) else f32

    @property
    def is_paged(self) -> bool:
        """Whether K and V lie in pages."""
        return self.keyAddresses is not None


def _segments(**operands: SSAValue | Sequence[SSAValue] | None) -> list[list[SSAValue]]:
    """The operands, one or several or none a name, as segments in order."""
    by_name = {name: [] if x is None else [x] if isinstance(x, SSAValue) else list(x) for name, x in operands.items()}
    return [by_name.get(name, []) for name in OPERANDS]


def _int(attr: IntegerAttr | None, default: int) -> int:
    return default if attr is None else attr.value.data


def _clamp(attr: DenseArrayBase[I64] | None) -> Clamp | None:
    return None if attr is None else Clamp(*(int(x) for x in attr.get_values()))


def _on_scalars(region: Region) -> Region:
    """The score region on scalars; one that cannot be rewritten stays, and the verifier says why."""
    if not is_whole(region):
        return region
    try:
        result = scalar_region(region)
    except VerifyException:
        return region
    region.erase()
    return result


def _normalized(
    known: Iterable[str | Any], properties: Mapping[str, Attribute], attributes: Mapping[str, Attribute]
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Properties and attributes with older spellings replaced and every property in its place."""
    names = {name if isinstance(name, str) else name[0] for name in known} | {SEGMENTS}
    props: dict[str, Attribute] = {}
    attrs: dict[str, Attribute] = {}
    for given in (attributes, properties):
        for spelled, attr in given.items():
            name = {**OLD_NAMES, "operand_segment_sizes": SEGMENTS}.get(spelled, spelled)
            (props if name in names else attrs)[name] = attr
    _take_gemm_params(props, attrs)
    segments = props.get(SEGMENTS)
    if isinstance(segments, DenseArrayBase) and len(segments) == OPERANDS.index("keyAddresses"):
        sizes = [int(n) for n in segments.iter_values()]
        props[SEGMENTS] = DenseArrayBase.from_list(i32, [*sizes, 0, 0])
    return props, attrs


def _take_gemm_params(props: dict[str, Attribute], attrs: dict[str, Attribute]) -> None:
    """The tile sizes of both products, as rocMLIR's own passes leave them, as the perf_config that they came from."""
    first, second = props.get("params0"), props.get("params1")
    if isinstance(second, GemmParamsAttr):
        del props["params1"]
    if not isinstance(first, GemmParamsAttr):
        return
    del props["params0"]
    sizes = [
        first.number(name) for name in ("mPerBlock", "nPerBlock", "kpackPerBlock", "mPerWave", "mnPerXdl", "kpack")
    ]
    m0, n0, k0, wave, xdl, kpack = sizes
    m1 = second.number("mPerBlock") if isinstance(second, GemmParamsAttr) else m0
    schedule = first.number("scheduleVersion")
    text = f"attn:v2:{m0},{m1},{n0},{k0},{wave},{xdl},{kpack},1,{schedule},{first.number('outputSwizzle', 2)},1"
    attrs.setdefault("perf_config", StringAttr(text))


@irdl_op_definition
class AttentionOp(_AttentionBase, Bufferizable):
    """`rock.attention`: `out = softmax(score(queries * keys)) * values`, one head of Q for each leading index.

    Default layouts: queries `[G, Sq, Dqk]`, keys `[Gkv, Dqk, Sk]`, values `[Gkv, Sk, Dv]`, out
    `[G * splitKV, Sq, Dv]`, lse `[G * splitKV, Sq]`; the `..Transposed` flags exchange the last two dimensions. On
    memrefs the results are written to `out` and `lse`; on tensors they are results (the LSE when there are two).
    `currentSeqLen` (`lastValidKVIndex` in text) `[G]` is the last valid key of each row, inclusive. `keyAddresses`
    and `valueAddresses` are the `rock.deref`s that the views `keys` and `values` end in. `kvIndexClamp` and
    `prefixOffsetClamp`, `array<i64: least, most, add>`, say that `min(max(x, least), most) + add` is meant where
    `currentSeqLen` and `prefixOffset` hold `x`.

    Types: queries and keys are of one float type, or i8; scores are added up in f32, or exactly in i32, and what the
    score region makes of them is rounded once to `softmaxType` before the masks. The softmax is computed in f32, its
    weights are rounded once to the type of the values, and the second product is added up in f32. The output and the
    LSE are rounded once to their own types.
    """

    name = "rock.attention"
    numHeadsQ = opt_prop_def(IntegerAttr)
    numHeadsKV = opt_prop_def(IntegerAttr)
    qTransposed = opt_prop_def(UnitAttr)
    kTransposed = opt_prop_def(UnitAttr)
    vTransposed = opt_prop_def(UnitAttr)
    oTransposed = opt_prop_def(UnitAttr)
    preSoftmaxHasSplitKVTransforms = opt_prop_def(BoolAttr)
    results_ = var_result_def()
    traits = traits_def(_AttentionEffects())

    def __init__(
        self,
        queries: SSAValue,
        keys: SSAValue,
        values: SSAValue,
        *,
        preSoftmaxElemWiseInputs: Sequence[SSAValue] = (),
        currentSeqLen: SSAValue | None = None,
        prefixOffset: SSAValue | None = None,
        out: SSAValue | None = None,
        lse: SSAValue | None = None,
        keyAddresses: SSAValue | None = None,
        valueAddresses: SSAValue | None = None,
        numHeadsQ: int = 1,
        numHeadsKV: int = 1,
        qTransposed: bool = False,
        kTransposed: bool = False,
        vTransposed: bool = False,
        oTransposed: bool = False,
        causal: bool = False,
        splitKV: int = 1,
        slidingWindowLookBack: int | None = None,
        softmaxType: AnyFloat = f32,
        preSoftmaxBody: Region | None = None,
        perf_config: str | None = None,
        result_types: Sequence[Attribute] = (),
    ):
        """Attention on memrefs (`out` given) or tensors (`result_types` given, with the LSE's as the second)."""
        flags = {
            "qTransposed": qTransposed,
            "kTransposed": kTransposed,
            "vTransposed": vTransposed,
            "oTransposed": oTransposed,
            "causal": causal,
        }
        numbers = {"numHeadsQ": numHeadsQ, "numHeadsKV": numHeadsKV, "splitKV": splitKV}
        if slidingWindowLookBack is not None:
            numbers["slidingWindowLookBack"] = slidingWindowLookBack
        properties: dict[str, Attribute] = {name: UnitAttr() for name, present in flags.items() if present}
        properties |= {name: IntegerAttr(value, i32) for name, value in numbers.items()}
        properties["softmaxType"] = softmaxType
        segments = _segments(
            queries=queries,
            keys=keys,
            values=values,
            preSoftmaxElemWiseInputs=preSoftmaxElemWiseInputs,
            currentSeqLen=currentSeqLen,
            prefixOffset=prefixOffset,
            out=out,
            lse=lse,
            keyAddresses=keyAddresses,
            valueAddresses=valueAddresses,
        )
        super().__init__(
            operands=segments,
            properties=properties,
            attributes={} if perf_config is None else {"perf_config": StringAttr(perf_config)},
            regions=[preSoftmaxBody or Region()],
            result_types=[list(result_types)],
        )

    @property
    def heads_q(self) -> int:
        """Query heads of each batch entry, as far as the operation knows them."""
        return _int(self.numHeadsQ, 1)

    @property
    def heads_kv(self) -> int:
        """KV heads of each batch entry, as far as the operation knows them."""
        return _int(self.numHeadsKV, 1)

    @property
    def has_lse(self) -> bool:
        """Whether the log-sum-exp of each row is an output."""
        return self.lse is not None or len(self.results) == 2

    @property
    def has_split_scores(self) -> bool:
        """Whether score inputs are given for each part of the keys, `[G * splitKV, Sq, Sk / splitKV]`."""
        return bool(_int(self.preSoftmaxHasSplitKVTransforms, 0)) and self.split_kv > 1

    @property
    def on_tensors(self) -> bool:
        """Whether the operands are tensors."""
        return isinstance(self.queries.type, TensorType)

    @property
    def out_type(self) -> Shaped:
        """The type of the attention output, wherever it goes."""
        type_ = self.results[0].type if self.results else self.out.type if self.out is not None else None
        assert isinstance(type_, Shaped)
        return type_

    @property
    def lse_type(self) -> Shaped | None:
        """The type of the LSE output, or None."""
        type_ = self.results[1].type if len(self.results) == 2 else self.lse.type if self.lse is not None else None
        assert type_ is None or isinstance(type_, Shaped)
        return type_

    @property
    def sizes(self) -> Sizes:
        """The sizes, read from the operand types; the operation must verify."""
        q, k, v = (_shape(x, t) for x, t in self._inputs())
        return Sizes(q[0], k[0], q[1], k[2], q[2], v[2], self.split_kv)

    def _inputs(self) -> tuple[tuple[SSAValue, bool], ...]:
        return (
            (self.queries, self.qTransposed is not None),
            (self.keys, self.kTransposed is not None),
            (self.values, self.vTransposed is not None),
        )

    def bufferize(self, b: Bufferization) -> None:
        operands: dict[str, SSAValue | Sequence[SSAValue]] = {
            name: b.buffers(values) for name, values in self.operands_by_name().items()
        }
        operands |= {name: b.result_buffer(x) for name, x in zip(("out", "lse"), self.results, strict=False)}
        b.insert(self.rebuilt(operands, result_types=[]))

    def verify_(self) -> None:
        from xpaged.dialects.rock.attention_verify import verify_attention

        verify_attention(self)

    @classmethod
    def parse(cls, parser: Parser) -> AttentionOp:
        return cls.build_from(**parse_attention(parser))

    def print(self, printer: Printer) -> None:
        print_attention(self, printer)


def _shape(value: SSAValue, transposed: bool) -> tuple[int, int, int]:
    assert isinstance(value.type, Shaped)
    a, b, c = value.type.get_shape()
    return (a, c, b) if transposed else (a, b, c)


@irdl_op_definition
class GridwiseAttentionAccelOp(_AttentionBase):
    """`rock.gridwise_attention_accel`: attention as the grid of workgroups sees it, on memrefs.

    queries `[G, Dqk, N]`, keys `[G, Dqk, M]`, values `[G, M, Dv]`, out `[G, N, Dv]`, lse `[G, N]`, extra score inputs
    `[G, M, N]`, `currentSeqLen` and `prefixOffset` `[G]`. `G` counts KV heads over the batch, since the
    `numRepeatsGQA` query heads of a KV head are folded into the rows: row `n` is query `n // numRepeatsGQA`. M, N and
    the channels are padded to whole tiles; `prePadG0M` (keys) and `prePadG0N` (rows) are the lengths without padding.
    """

    name = "rock.gridwise_attention_accel"
    numRepeatsGQA = opt_prop_def(IntegerAttr)
    prePadG0M = opt_prop_def(IntegerAttr)
    prePadG0N = opt_prop_def(IntegerAttr)
    blockSize = opt_prop_def(IntegerAttr)
    gridSize = opt_prop_def(IntegerAttr)
    disableQBypassLDS = opt_prop_def(BoolAttr)
    enableSoftmax = opt_prop_def(BoolAttr)
    traits = traits_def(_AttentionEffects())

    def __init__(
        self,
        queries: SSAValue,
        keys: SSAValue,
        values: SSAValue,
        out: SSAValue,
        *,
        lse: SSAValue | None = None,
        preSoftmaxElemWiseInputs: Sequence[SSAValue] = (),
        currentSeqLen: SSAValue | None = None,
        prefixOffset: SSAValue | None = None,
        keyAddresses: SSAValue | None = None,
        valueAddresses: SSAValue | None = None,
        params0: AttentionParamsAttr,
        blockSize: int,
        gridSize: int,
        numRepeatsGQA: int = 1,
        prePadG0M: int | None = None,
        prePadG0N: int | None = None,
        causal: bool = False,
        splitKV: int = 1,
        balancedSplit: bool = False,
        slidingWindowLookBack: int | None = None,
        softmaxType: AnyFloat = f32,
        preSoftmaxBody: Region | None = None,
    ):
        """Attention over padded views; see the class for the shapes."""
        numbers = {
            "blockSize": blockSize,
            "gridSize": gridSize,
            "numRepeatsGQA": numRepeatsGQA,
            "prePadG0M": prePadG0M,
            "prePadG0N": prePadG0N,
            "splitKV": splitKV,
            "slidingWindowLookBack": slidingWindowLookBack,
        }
        properties: dict[str, Attribute] = {k: IntegerAttr(v, i32) for k, v in numbers.items() if v is not None}
        properties |= {"params0": params0, "softmaxType": softmaxType}
        properties |= {name: UnitAttr() for name, on in (("causal", causal), ("balancedSplit", balancedSplit)) if on}
        segments = _segments(
            queries=queries,
            keys=keys,
            values=values,
            preSoftmaxElemWiseInputs=preSoftmaxElemWiseInputs,
            currentSeqLen=currentSeqLen,
            prefixOffset=prefixOffset,
            out=out,
            lse=lse,
            keyAddresses=keyAddresses,
            valueAddresses=valueAddresses,
        )
        super().__init__(
            operands=segments,
            properties=properties,
            regions=[preSoftmaxBody or Region()],
        )

    @property
    def repeats(self) -> int:
        """Query heads folded into the rows."""
        return _int(self.numRepeatsGQA, 1)

    @property
    def valid_keys(self) -> int:
        """Keys without padding."""
        assert isinstance(self.keys.type, Shaped)
        return _int(self.prePadG0M, self.keys.type.get_shape()[2])

    @property
    def valid_rows(self) -> int:
        """Query rows (with folded heads) without padding."""
        assert isinstance(self.queries.type, Shaped)
        return _int(self.prePadG0N, self.queries.type.get_shape()[2])

    def verify_(self) -> None:
        from xpaged.dialects.rock.attention_verify import verify_gridwise

        verify_gridwise(self)

    @classmethod
    def parse(cls, parser: Parser) -> GridwiseAttentionAccelOp:
        return parse_gridwise(parser, cls.create)

    def print(self, printer: Printer) -> None:
        print_gridwise(self, printer)


ATTENTION_OPS: list[type[Operation]] = [AttentionOp, GridwiseAttentionAccelOp]
