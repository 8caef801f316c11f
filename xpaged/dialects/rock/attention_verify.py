"""What `rock.attention` and `rock.gridwise_attention_accel` demand of their operands and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import I64, AnyFloat, BFloat16Type, DenseArrayBase, Float16Type, Float32Type, i8, i32
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.rock.ops import DerefOp, Shaped, YieldOp, same_kind, shaped_type
from xpaged.dialects.rock.score_region import SCORE_OPS, is_whole, scalar_region
from xpaged.dialects.rock.views import chain_of
from xpaged.ir.transform_map import TransformMap

if TYPE_CHECKING:
    from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp

_SOFTMAX_TYPES = (Float16Type, BFloat16Type, Float32Type)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise VerifyException(message)


def verify_attention(op: AttentionOp) -> None:
    """Check an attention; VerifyException names the rule that is broken, with the values."""
    name = op.name
    split = op.split_kv
    _require(split >= 1, f"{name}: splitKV must be positive, found {split}")
    _require(split == 1 or op.has_lse, f"{name}: splitKV = {split} needs an LSE: the parts are merged with it")
    _common(op)
    for what, heads in (("numHeadsQ", op.heads_q), ("numHeadsKV", op.heads_kv)):
        _require(heads > 0, f"{name}: {what} must be positive, found {heads}")
    _require(
        op.heads_q % op.heads_kv == 0,
        f"{name}: numHeadsQ = {op.heads_q} is not a multiple of numHeadsKV = {op.heads_kv}",
    )

    q, k, v = (
        _rank3(value, f"{name}: {what}")
        for value, what in ((op.queries, "queries"), (op.keys, "keys"), (op.values, "values"))
    )
    _require(
        q.element_type == k.element_type,
        f"{name}: queries and keys have different element types {q.element_type} and {k.element_type}",
    )
    _require(
        isinstance(q.element_type, AnyFloat) or q.element_type == i8,
        f"{name}: queries and keys hold floats or i8, found {q.element_type}",
    )
    _require(isinstance(v.element_type, AnyFloat), f"{name}: values hold floats, found {v.element_type}")
    sizes = op.sizes
    factor = op.heads_q // op.heads_kv
    _require(
        sizes.groups == sizes.kv_groups * factor == v.get_shape()[0] * factor,
        f"{name}: queries have {sizes.groups} heads over the batch, keys {sizes.kv_groups} and values "
        f"{v.get_shape()[0]}; expected queries = {factor} * keys = {factor} * values "
        f"(numHeadsQ = {op.heads_q}, numHeadsKV = {op.heads_kv})",
    )
    k_dim = k.get_shape()[2 if op.kTransposed is not None else 1]
    v_len = v.get_shape()[2 if op.vTransposed is not None else 1]
    _require(sizes.dim_qk == k_dim, f"{name}: queries have head dimension {sizes.dim_qk}, keys {k_dim}")
    _require(sizes.seq_k == v_len, f"{name}: there are {sizes.seq_k} keys, but {v_len} values")
    _window(op, sizes.seq_k)

    _outputs(op, q)
    for operand, what in ((op.currentSeqLen, "lastValidKVIndex"), (op.prefixOffset, "prefixOffset")):
        _per_row(name, operand, what, sizes.groups)
    if op.has_split_scores:
        _require(
            sizes.seq_k % split == 0 or not op.preSoftmaxElemWiseInputs,
            f"{name}: score inputs for each part of the keys need equal parts: {sizes.seq_k} keys, splitKV = {split}",
        )
        expected = (sizes.groups * split, sizes.seq_q, sizes.seq_k // split)
    else:
        expected = (sizes.groups, sizes.seq_q, sizes.seq_k)
    _score_region(name, op.preSoftmaxBody, op.preSoftmaxElemWiseInputs, q.element_type, expected)
    _paged(name, op.keys, op.values, op.keyAddresses, op.valueAddresses)
    for side, view, length in (
        ("keys", op.keys, sizes.seq_k * sizes.dim_qk),
        ("values", op.values, v_len * sizes.dim_v),
    ):
        _page_sizes(name, side, view, op.heads_kv, length)


def verify_gridwise(op: GridwiseAttentionAccelOp) -> None:
    """Check a gridwise attention; VerifyException names the rule that is broken, with the values."""
    name = op.name
    _common(op)
    _require(
        op.enableSoftmax is None or op.enableSoftmax.value.data != 0, f"{name}: enableSoftmax = false is no attention"
    )
    _require(op.split_kv >= 1, f"{name}: splitKV must be positive, found {op.split_kv}")
    _require(op.split_kv == 1 or op.lse is not None, f"{name}: splitKV = {op.split_kv} needs an LSE")
    _require(op.out is not None, f"{name}: no output memref")
    assert op.out is not None
    q, k, v, o = (
        _rank3(value, f"{name}: {what}")
        for value, what in ((op.queries, "queries"), (op.keys, "keys"), (op.values, "values"), (op.out, "out"))
    )
    groups, dim, rows = q.get_shape()
    keys, dim_v = k.get_shape()[2], v.get_shape()[2]
    for what, type_, expected in (
        ("keys [G, Dqk, M]", k, (groups, dim, keys)),
        ("values [G, M, Dv]", v, (groups, keys, dim_v)),
        ("out [G * splitKV, N, Dv]", o, (groups * op.split_kv, rows, dim_v)),
    ):
        _require(
            type_.get_shape() == expected,
            f"{name}: {what} must be {list(expected)} for queries [G, Dqk, N] = {list(q.get_shape())}, found {type_}",
        )
    if op.lse is not None:
        lse = shaped_type(op.lse, f"{name}: lse")
        expected = (groups * op.split_kv, rows)
        _require(lse.get_shape() == expected, f"{name}: lse [G, N] must be {list(expected)}, found {lse}")
    for operand, what in ((op.currentSeqLen, "lastValidKVIndex"), (op.prefixOffset, "prefixOffset")):
        _per_row(name, operand, what, groups)
    for what, attr in (
        ("blockSize", op.blockSize),
        ("gridSize", op.gridSize),
        ("numRepeatsGQA", op.numRepeatsGQA),
    ):
        _require(attr is None or attr.value.data > 0, f"{name}: {what} must be positive, found {attr}")
    for what, attr, padded in (("prePadG0M", op.prePadG0M, keys), ("prePadG0N", op.prePadG0N, rows)):
        _require(
            attr is None or 0 < attr.value.data <= padded,
            f"{name}: {what} must be in 1..{padded}, the padded length, found {attr}",
        )
    _window(op, op.valid_keys)
    _score_region(name, op.preSoftmaxBody, op.preSoftmaxElemWiseInputs, q.element_type, (groups, keys, rows))
    _paged(name, op.keys, op.values, op.keyAddresses, op.valueAddresses)


def _common(op: AttentionOp | GridwiseAttentionAccelOp) -> None:
    name = op.name
    _require(op.balancedSplit is None or op.split_kv > 1, f"{name}: balancedSplit needs splitKV, found {op.split_kv}")
    if op.storeMethod is not None:
        _require(op.storeMethod.data == "set", f"{name}: storeMethod must be set, found {op.storeMethod.data}")
    _require(op.prefixOffset is None or op.causal is not None, f"{name}: prefixOffset needs causal")
    for what, clamp, needs, operand in (
        ("kvIndexClamp", op.kvIndexClamp, "lastValidKVIndex", op.currentSeqLen),
        ("prefixOffsetClamp", op.prefixOffsetClamp, "prefixOffset", op.prefixOffset),
    ):
        _clamp(name, what, clamp, needs, operand)
    _require(
        op.softmaxType is None or isinstance(op.softmaxType, _SOFTMAX_TYPES),
        f"{name}: softmaxType must be f16, bf16 or f32, found {op.softmaxType}",
    )


def _clamp(name: str, what: str, clamp: DenseArrayBase[I64] | None, needs: str, operand: SSAValue | None) -> None:
    """Bounds in order, and numbers that i32 holds before and after the sum."""
    if clamp is None:
        return
    _require(operand is not None, f"{name}: {what} needs {needs}")
    numbers = [int(x) for x in clamp.get_values()]
    _require(len(numbers) == 3, f"{name}: {what} must be [least, most, add], found {len(numbers)} numbers")
    least, most = numbers[:2]
    _require(least <= most, f"{name}: {what} has least = {least} above most = {most}")
    _require(
        all(-(2**31) <= x < 2**31 for x in numbers),
        f"{name}: {what} has numbers that i32 does not hold: {', '.join(map(str, numbers))}",
    )


def _rank3(value: SSAValue, what: str) -> Shaped:
    type_ = shaped_type(value, what)
    _require(len(type_.get_shape()) == 3, f"{what} must have rank 3, found {type_}")
    return type_


def _window(op: AttentionOp | GridwiseAttentionAccelOp, keys: int) -> None:
    window = op.window
    if window is None:
        return
    _require(op.currentSeqLen is not None, f"{op.name}: slidingWindowLookBack = {window} needs lastValidKVIndex")
    _require(
        1 <= window <= keys,
        f"{op.name}: slidingWindowLookBack must be in 1..{keys}, the number of keys, found {window}",
    )


def _outputs(op: AttentionOp, q: Shaped) -> None:
    """Outputs are written memrefs or result tensors, and have the sizes that the inputs imply."""
    name, sizes, split = op.name, op.sizes, op.split_kv
    if op.on_tensors:
        _require(len(op.results) in (1, 2), f"{name}: on tensors there are 1 or 2 results, found {len(op.results)}")
        _require(op.lse is None or len(op.results) == 2, f"{name}: an lse tensor is written, but it is not a result")
        pairs = zip((op.out, op.lse), op.results, strict=False)
        for init, result in pairs:
            _require(
                init is None or init.type == result.type,
                f"{name}: a result has type {result.type}, what it is written into {init.type if init else None}",
            )
    else:
        _require(not op.results, f"{name}: on memrefs there are no results, found {len(op.results)}")
        _require(op.out is not None, f"{name}: on memrefs the output must be given")
    for value in op.operands:
        if isinstance(value.type, Shaped):
            _require(same_kind(value.type, q), f"{name}: operands are memrefs and tensors mixed: {q} and {value.type}")
    out = op.out_type
    shape = out.get_shape()
    _require(len(shape) == 3, f"{name}: the output must have rank 3, as the queries, found {out}")
    _require(shape[0] % split == 0, f"{name}: output batch {shape[0]} is not a multiple of splitKV = {split}")
    _require(
        shape[0] // split == sizes.groups,
        f"{name}: output batch {shape[0]} / splitKV {split} is {shape[0] // split}, the query batch is {sizes.groups}",
    )
    rows, channels = (shape[2], shape[1]) if op.oTransposed is not None else (shape[1], shape[2])
    _require(rows == sizes.seq_q, f"{name}: the output has {rows} rows, there are {sizes.seq_q} queries")
    _require(channels == sizes.dim_v, f"{name}: the output has head dimension {channels}, the values {sizes.dim_v}")
    _require(isinstance(out.element_type, AnyFloat), f"{name}: the output holds floats, found {out}")
    lse = op.lse_type
    if lse is not None:
        expected = (shape[0], sizes.seq_q)
        _require(len(lse.get_shape()) == 2, f"{name}: the LSE must have rank 2, found {lse}")
        _require(lse.get_shape() == expected, f"{name}: the LSE must be {list(expected)}, found {lse}")
        _require(isinstance(lse.element_type, AnyFloat), f"{name}: the LSE holds floats, found {lse}")


def _per_row(name: str, operand: SSAValue | None, what: str, groups: int) -> None:
    if operand is None:
        return
    type_ = shaped_type(operand, f"{name}: {what}")
    _require(type_.element_type == i32, f"{name}: {what} holds i32, found {type_}")
    _require(
        type_.get_shape() == (groups,),
        f"{name}: {what} must have one entry for each of the {groups} heads over the batch, found {type_}",
    )


def _score_region(
    name: str, region: Region, inputs: Sequence[SSAValue], operand_type: Attribute, shape: tuple[int, ...]
) -> None:
    """The score region is empty, or one block of scalars: the score, then one for each extra input."""
    for i, value in enumerate(inputs):
        type_ = shaped_type(value, f"{name}: score input {i}")
        _require(
            type_.get_shape() == shape, f"{name}: score input {i} must be {list(shape)}, as the scores, found {type_}"
        )
    if not region.blocks:
        _require(not inputs, f"{name}: {len(inputs)} score inputs, but no region that uses them")
        _require(operand_type != i8, f"{name}: scores of i8 operands are i32 and need a region that makes them floats")
        return
    if is_whole(region):
        scalar_region(region)  # says what keeps the region from being rewritten when the operation was made
    _require(len(region.blocks) == 1, f"{name}: the score region has {len(region.blocks)} blocks, expected 1")
    block = region.block
    score = "i32" if operand_type == i8 else "f32"
    expected = [score, *(str(value.type.element_type) for value in inputs if isinstance(value.type, Shaped))]
    found = [str(arg.type) for arg in block.args]
    _require(
        found == expected,
        f"{name}: the score region takes ({', '.join(expected)}): the score, then one scalar for each input; "
        f"found ({', '.join(found)})",
    )
    inside: set[SSAValue] = set(block.args)
    for op in block.ops:
        _require(
            isinstance(op, YieldOp) or type(op) in SCORE_OPS,
            f"{name}: the score region holds arith and math operations on scalars, found '{op.name}'",
        )
        for operand in op.operands:
            _require(operand in inside, f"{name}: '{op.name}' in the score region uses a value from outside")
        inside.update(op.results)
    last = block.last_op
    _require(isinstance(last, YieldOp), f"{name}: the score region must end in rock.yield")
    assert isinstance(last, YieldOp)
    yielded = [value.type for value in last.values]
    _require(
        len(yielded) == 1 and isinstance(yielded[0], AnyFloat),
        f"{name}: the score region yields one float, found ({', '.join(map(str, yielded))})",
    )


def _paged(
    name: str, keys: SSAValue, values: SSAValue, key_pages: SSAValue | None, value_pages: SSAValue | None
) -> None:
    """Both address operands or none, each a deref, and the very one that the view chain of its side ends in."""
    if key_pages is None and value_pages is None:
        for side, view in (("keys", keys), ("values", values)):
            _require(
                chain_of(view).deref is None,
                f"{name}: the view '{side}' ends in a rock.deref, but keyAddresses and valueAddresses are not given",
            )
        return
    if key_pages is None or value_pages is None:
        given, missing = (
            ("keyAddresses", "valueAddresses") if value_pages is None else ("valueAddresses", "keyAddresses")
        )
        raise VerifyException(f"{name}: {given} is given without {missing}; K and V are paged together or not at all")
    for side, view, what, pages in (
        ("keys", keys, "keyAddresses", key_pages),
        ("values", values, "valueAddresses", value_pages),
    ):
        deref = pages.owner
        _require(
            isinstance(deref, DerefOp), f"{name}: {what} must be the result of a rock.deref, found {_origin(pages)}"
        )
        chain = chain_of(view)
        _require(
            chain.deref is not None,
            f"{name}: {what} is given, but the view '{side}' ends in {_origin(chain.root)}, not in a rock.deref",
        )
        _require(
            chain.deref is deref,
            f"{name}: the view '{side}' ends in another rock.deref than the one given as {what}",
        )


def _origin(value: SSAValue) -> str:
    owner = value.owner
    return f"the result of '{owner.name}'" if isinstance(owner, Operation) else f"an argument of type {value.type}"


def _page_sizes(name: str, side: str, view: SSAValue, heads: int, length: int) -> None:
    """The pages hold exactly what the view names: `numPages * pageSize == numHeadsKV * seqLenK * headDim`.

    Elements at the ends of every page that the view leaves out straight above the deref (a slice of its last
    dimension) do not belong to the pages in this sense; heads that the view repeats count once. A view with padding
    names elements that no page has, and is not held to it.
    """
    chain = chain_of(view)
    if chain.deref is None or any(t.kind == "Pad" for m in chain.maps for t in m.transforms):
        return
    deref = chain.deref
    page_size = _sliced_page(deref.page_size, chain.maps)
    pages = deref.num_pages * page_size
    assert isinstance(view.type, Shaped)
    groups = view.type.get_shape()[0]
    repeats = prod(
        n // t.params[i] if t.kind == "Broadcast" else n
        for m in chain.maps
        for t in m.transforms
        if t.kind in ("Broadcast", "AddDim")
        for i, n in enumerate(m.upper_bounds[d] for d in t.upper_dims)
    )
    _require(
        deref.batch * pages * repeats == groups * length,
        f"{name}: the pages of '{side}' hold numPages * pageSize = {deref.num_pages} * {page_size} = {pages} "
        f"elements for each of {deref.batch} batch entries, {deref.batch * pages} in all; the view names "
        f"heads * seqLenK * headDim = {groups // repeats} * {length} = {groups // repeats * length} "
        f"(numHeadsKV = {heads})",
    )


def _sliced_page(page_size: int, maps: Sequence[TransformMap]) -> int:
    """The elements of a page `[batch, page, offset]` that the lowest map shows."""
    for t in maps[-1].transforms if maps else ():
        if t.kind == "Slice" and 2 in t.lower_dims:
            return maps[-1].upper_bounds[t.upper_dims[t.lower_dims.index(2)]]
    return page_size
