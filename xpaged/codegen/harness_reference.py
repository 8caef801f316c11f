"""The mathematics of a module at level `rock-memref` as C++ in double, for the host program beside a kernel.

Every buffer is read and written in logical order through the views of the module, pages in the order of their table:
neither a table nor an address is looked at. Beside each value goes a first-order bound on its error; the roundings that
it counts are those of `xpaged.testing.bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith, math, memref
from xdsl.dialects.builtin import AnyFloat, DictionaryAttr, FloatAttr, IntegerAttr, IntegerType, MemRefType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.dialects.rock.ops import DerefOp, Shaped, TransformOp, YieldOp
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import apply_chain
from xpaged.lowering import masks
from xpaged.lowering.kernel import argument_attributes

_BINARY: dict[type[Operation], str] = {
    arith.AddfOp: "{} + {}",
    arith.SubfOp: "{} - {}",
    arith.MulfOp: "{} * {}",
    arith.DivfOp: "{} / {}",
    arith.AddiOp: "{} + {}",
    arith.SubiOp: "{} - {}",
    arith.MuliOp: "{} * {}",
    arith.MaximumfOp: "larger({}, {})",
    arith.MinimumfOp: "smaller({}, {})",
    arith.MaxnumfOp: "fmax({}, {})",
    arith.MinnumfOp: "fmin({}, {})",
    arith.MaxSIOp: "larger({}, {})",
    arith.MinSIOp: "smaller({}, {})",
    math.PowFOp: "pow({}, {})",
}
_UNARY: dict[type[Operation], str] = {
    arith.NegfOp: "-{}",
    **dict.fromkeys((arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp, arith.UIToFPOp, arith.ExtSIOp, arith.ExtUIOp), "{}"),
    arith.FPToSIOp: "trunc({})",
    math.ExpOp: "exp({})",
    math.Exp2Op: "exp2({})",
    math.LogOp: "log({})",
    math.Log2Op: "log2({})",
    math.SqrtOp: "sqrt({})",
    math.RsqrtOp: "1 / sqrt({})",
    math.TanhOp: "tanh({})",
    math.ErfOp: "erf({})",
    math.AbsFOp: "fabs({})",
    math.FloorOp: "floor({})",
    math.CeilOp: "ceil({})",
}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass
class Reference:
    """C++ of the reference: functions, and the calls of `make_inputs`, `mark_live` and the steps in order."""

    functions: list[str] = field(default_factory=list[str])
    steps: list[str] = field(default_factory=list[str])
    live: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    temporaries: list[str] = field(default_factory=list[str])


def _flat(value: SSAValue, coordinates: Sequence[IndexExpr]) -> IndexExpr:
    """The position of an element of a memref that is no view."""
    assert isinstance(value.type, Shaped)
    position = IndexExpr.const(0)
    for coordinate, extent in zip(coordinates, value.type.get_shape(), strict=True):
        position = position * extent + coordinate
    return position


class _Text(str):
    """C++ text of an index, with the operators that index expressions are rebuilt with."""

    def __add__(self, other: Any) -> _Text:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Text(f"({self} + {other})")

    def __mul__(self, other: Any) -> _Text:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Text(f"{self} * {other}")

    def __floordiv__(self, other: Any) -> _Text:
        return _Text(f"({self}) / {other}")

    def __mod__(self, other: Any) -> _Text:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Text(f"(({self}) % {other})")


def _index(expr: IndexExpr) -> str:
    return str(expr.map(lambda variable: _Text(variable.name)))


class _MaskText:
    """The arithmetic of the mask rules on C++ `long`s."""

    def const(self, value: int) -> str:
        return f"{value}L"

    def min(self, a: str, b: str) -> str:
        return f"std::min<long>({a}, {b})"

    def max(self, a: str, b: str) -> str:
        return f"std::max<long>({a}, {b})"

    def add(self, a: str, b: str) -> str:
        return f"({a} + {b})"


def reference_of(function: FuncOp, buffers: Mapping[SSAValue, int]) -> Reference:
    """The reference of a function at level `rock-memref`; `buffers` numbers its arguments.

    Raises XpagedError, with the operation, for a step that is neither attention nor elementwise.
    """
    return _Reference(function, buffers).made


class _Reference:
    def __init__(self, function: FuncOp, buffers: Mapping[SSAValue, int]) -> None:
        self.function = function
        self.places = {value: f"b[{number}]" for value, number in buffers.items()}
        self.made = Reference()
        self.attentions = 0
        steps = [op for op in function.body.block.ops if not isinstance(op, TransformOp | DerefOp | ReturnOp)]
        computing = [op for op in steps if not isinstance(op, memref.AllocOp | memref.DeallocOp)]
        self.sampled = len(computing) == 1
        for op in steps:
            match op:
                case memref.AllocOp():
                    self._temporary(op)
                case memref.DeallocOp() | arith.ConstantOp():
                    pass
                case AttentionOp():
                    self._attention(op)
                case MergeAttentionOp():
                    self._merge(op)
                case GenericOp():
                    self._generic(op)
                case memref.CopyOp():
                    self._copy(op)
                case _:
                    raise XpagedError(
                        f"a host program has no reference for '{op.name}'",
                        at=op,
                        expected="attention and elementwise linalg.generic",
                        fix="compile without --emit harness",
                    )

    def _temporary(self, op: memref.AllocOp) -> None:
        assert isinstance(op.memref.type, MemRefType)
        name = f"t{len(self.made.temporaries)}"
        size = 1
        for extent in op.memref.type.get_shape():
            size *= extent
        self.made.temporaries.append(f"    {name}.size({size});")
        self.made.functions.append(f"static Values {name};  // {op.memref.type}")
        self.places[op.memref] = name

    # Elements

    def _element(self, view: SSAValue, coordinates: Sequence[IndexExpr]) -> tuple[str, str, str]:
        """The buffer of an element of a view, its position, and the condition under which it exists ("" for always)."""
        chain = chain_of(view)
        root = chain.table.root if chain.table is not None else chain.root
        if root not in self.places:
            raise XpagedError("an operand is no view of an argument", at=view)
        lower, conditions = apply_chain(chain.maps, coordinates)
        if chain.table is None:
            position = _flat(chain.root, lower)
        else:  # the entry of the table first, which may be seen through views too
            batch, page, offset = lower
            entry, needed = apply_chain(chain.table.maps, [batch, page, IndexExpr.const(0)])
            conditions = [*conditions, *needed]
            position = _flat(root, entry) * self._page_size(root) + offset
        tests = [f"{_index(e)} >= {low} && {_index(e)} < {high}" for e, low, high in conditions]
        return self.places[root], _index(position), " && ".join(tests)

    def _page_size(self, table: SSAValue) -> int:
        """Elements of a page behind a table; an attention may read a part of each only."""
        assert isinstance(table, BlockArgument)
        mark = argument_attributes(self.function, table.index).get("rock.page_table")
        size = mark.data.get("page_size") if isinstance(mark, DictionaryAttr) else None
        if not isinstance(size, IntegerAttr):
            raise XpagedError("a page table does not say how large its pages are", at=table)
        return size.value.data

    def _read(self, view: SSAValue, coordinates: Sequence[IndexExpr]) -> tuple[str, str]:
        """C++ of the value of an element and of the bound on its error; 0 where it does not exist."""
        buffer, position, test = self._element(view, coordinates)
        value, error = f"{buffer}.value[{position}]", f"{buffer}.error[{position}]"
        return (f"({test} ? {value} : 0)", f"({test} ? {error} : 0)") if test else (value, error)

    def _write(self, view: SSAValue, coordinates: Sequence[IndexExpr], value: str, error: str) -> str:
        buffer, position, test = self._element(view, coordinates)
        store = f"set({buffer}, {position}, {value}, {error});"
        return f"if ({test}) {store}" if test else store

    # Scalars

    def _scalars(self, name: str, block: Block) -> None:
        """A function of the scalars of a region: the result, with the roundings on the way added up."""
        names: dict[SSAValue, str] = {arg: f"x[{i}]" for i, arg in enumerate(block.args)}
        lines = [f"static double {name}(const double *x, double *rounding) {{"]
        for number, op in enumerate(block.ops):
            if isinstance(op, YieldOp | LinalgYieldOp):
                lines.append(f"    return {self._name(op.operands[0], names)};")
                break
            text = self._operation(op, names)
            result = op.results[0]
            names[result] = f"v{number}"
            lines.append(f"    double v{number} = {text};")
            if isinstance(result.type, AnyFloat) and not isinstance(
                op, arith.ConstantOp | arith.ExtFOp | arith.SelectOp
            ):
                lines.append(f"    *rounding += {_unit(result.type)} * fabs(v{number});")
        self.made.functions.append("\n".join([*lines, "}"]))

    def _name(self, value: SSAValue, names: Mapping[SSAValue, str]) -> str:
        if value in names:
            return names[value]
        assert isinstance(value.owner, Operation)
        return f"({self._operation(value.owner, names)})"

    def _operation(self, op: Operation, names: Mapping[SSAValue, str]) -> str:
        operands = [self._name(x, names) for x in op.operands]
        match op:
            case arith.ConstantOp() if isinstance(op.value, FloatAttr | IntegerAttr):
                return _number(op.value.value.data)
            case arith.SelectOp():
                return "{} != 0 ? {} : {}".format(*operands)
            case arith.CmpfOp() | arith.CmpiOp():
                return self._comparison(op, operands)
            case arith.AndIOp() | arith.OrIOp() if op.result.type == IntegerType(1):
                return (" && " if isinstance(op, arith.AndIOp) else " || ").join(f"{x} != 0" for x in operands)
            case math.FmaOp():
                return "{} * {} + {}".format(*operands)
            case _ if type(op) in _BINARY:
                return _BINARY[type(op)].format(*operands)
            case _ if type(op) in _UNARY:
                return _UNARY[type(op)].format(*operands)
            case _:
                raise XpagedError(
                    f"a host program has no reference for '{op.name}'", at=op, fix="compile without --emit harness"
                )

    def _comparison(self, op: arith.CmpfOp | arith.CmpiOp, operands: Sequence[str]) -> str:
        table = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
        floats = [
            *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
            *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
        ]
        name = (floats if isinstance(op, arith.CmpfOp) else table)[op.predicate.value.data]
        sign = _COMPARE.get(name[-2:])
        if sign is None or (isinstance(op, arith.CmpfOp) and name[0] == "u" and name != "une"):
            raise XpagedError(f"a host program has no reference for a comparison '{name}'", at=op)
        return f"{operands[0]} {sign} {operands[1]}"

    # Steps

    def _loops(self, extents: Mapping[str, int], body: Sequence[str]) -> list[str]:
        lines: list[str] = []
        for depth, (name, extent) in enumerate(extents.items(), 1):
            lines.append("    " * depth + f"for (long {name} = 0; {name} < {extent}; {name}++)")
        inside = "    " * (len(extents) + 1)
        lines[-1] += " {"
        return [*lines, *(inside + line for line in body), "    " * len(extents) + "}"]

    def _copy(self, op: memref.CopyOp) -> None:
        assert isinstance(op.source.type, MemRefType)
        extents = {f"i{d}": n for d, n in enumerate(op.source.type.get_shape())}
        at = [IndexExpr.var(name, 0, n - 1) for name, n in extents.items()]
        value, error = self._read(op.source, at)
        self.made.steps += self._loops(extents, [self._write(op.destination, at, value, error)])

    def _generic(self, op: GenericOp) -> None:
        if any(kind.data is not IteratorType.PARALLEL for kind in op.iterator_types):
            raise XpagedError("a host program has no reference for a reduction outside attention", at=op)
        extents = {f"i{d}": n for d, n in enumerate(op.get_static_loop_ranges())}
        at = [IndexExpr.var(name, 0, n - 1) for name, n in extents.items()]
        coordinates = [
            [IndexExpr.of(e.eval(at, ())) for e in attr.data.results]  # pyright: ignore[reportArgumentType]
            for attr in op.indexing_maps
        ]
        name = f"elementwise{len(self.made.functions)}"
        block = op.body.block
        if any(isinstance(each, LinalgYieldOp) and len(each.operands) != 1 for each in block.ops):
            raise XpagedError("a host program has no reference for several results of one linalg.generic", at=op)
        self._scalars(name, block)
        reads = [
            self._read(x, c) if arg.uses else ("0", "0")
            for x, c, arg in zip(op.operands, coordinates, block.args, strict=True)
        ]
        element = block.args[-1].type
        body = [
            f"double x[] = {{{', '.join(value for value, _ in reads)}}}, e[] = {{{', '.join(e for _, e in reads)}}};",
            f"double error = 0, value = followed({name}, x, e, {len(reads)}, &error);",
            self._write(op.outputs[0], coordinates[-1], "value", f"error + {_unit(element)} * fabs(value)"),
        ]
        self.made.steps += self._loops(extents, body)

    def _attention(self, op: AttentionOp) -> None:
        sizes, number = op.sizes, self.attentions
        self.attentions += 1
        g, i, j = (
            IndexExpr.var("g", 0, sizes.groups - 1),
            IndexExpr.var("i", 0, sizes.seq_q - 1),
            IndexExpr.var("j", 0, sizes.seq_k - 1),
        )
        d, c = IndexExpr.var("d", 0, sizes.dim_qk - 1), IndexExpr.var("c", 0, sizes.dim_v - 1)
        h = g // sizes.repeats
        q = self._read(op.queries, [g, d, i] if op.qTransposed else [g, i, d])
        k = self._read(op.keys, [h, j, d] if op.kTransposed else [h, d, j])
        v = self._read(op.values, [h, c, j] if op.vTransposed else [h, j, c])
        rules = _MaskText()
        names = {"kv_index": op.currentSeqLen, "offset": op.prefixOffset}
        given = {name: self._read(value, [g])[0] for name, value in names.items() if value is not None}
        before = [f"const long {name} = (long){text};" for name, text in given.items()]
        before.append(f"const long last = {masks.last_key(rules, _given('kv_index', given), sizes.seq_k)};")
        upper = masks.upper_key(rules, "last", "i" if op.causal else None, _given("offset", given))
        lower = masks.lower_key(rules, "last", op.window) or "0"
        self._live(op, [*(b for b in before if "long offset" not in b), f"const long first = {lower};"], h, j, d, c)
        score = self._score(op, number, [g, i, j])
        out = IndexExpr.var("p", 0, sizes.split_kv - 1) + g * sizes.split_kv
        results = [self._write_result(op, [out, i, c])]
        lse_types = op.lse_type
        if op.lse is not None:
            results.append(self._write(op.lse, [out, i], "lse", "lse_error"))
        chunk = -(-sizes.seq_k // sizes.split_kv)
        total = sizes.groups * sizes.seq_q
        work = sizes.seq_k * (sizes.dim_qk + sizes.dim_v)
        rows = f"rows_of({total}, {work})" if self.sampled else f"{total}L"
        types = [_constants(t) for t in (op.values.type, op.out_type, lse_types or op.out_type)]
        quantized = isinstance(op.queries.type, Shaped) and isinstance(op.queries.type.element_type, IntegerType)
        self.made.functions.append(
            f"""// softmax(score(Q K^T)) V: {sizes.groups} heads, {sizes.seq_q} rows, {sizes.seq_k} keys.
static void attention{number}(std::vector<Values> &b) {{
    const long rows = {rows};
    std::vector<double> s({sizes.seq_k}), e({sizes.seq_k});
    for (long n = 0; n < rows; n++) {{
        [[maybe_unused]] const long row = spread(n, rows, {total}L), g = row / {sizes.seq_q}, i = row % {sizes.seq_q};
        {chr(10).join("        " + line for line in before).lstrip()}
        const long keep_from = {lower}, keep_to = {upper} + 1;
        for (long p = 0; p < {sizes.split_kv}; p++) {{
            const long from = std::max<long>(keep_from, p * {chunk}L);
            const long to = std::min<long>(keep_to, (p + 1) * {chunk}L);
            double most = -INFINITY, top = 0;
            for (long j = from; j < to; j++) {{
                double sum = 0, size = 0, off = 0;
                for (long d = 0; d < {sizes.dim_qk}; d++) {{
                    double a = {q[0]}, w = {k[0]};
                    sum += a * w;
                    size += fabs(a * w);
                    off += fabs(a) * {k[1]} + fabs(w) * {q[1]};
                }}
                double raw = {"0" if quantized else f"gamma_of({sizes.dim_qk}) * size"} + off;
{score}
                most = std::max(most, s[j]);
                if (std::isfinite(s[j])) top = std::max(top, fabs(s[j]));
            }}
            double total = 0, below = 0;
            const double sums = gamma_of(2 * std::max<long>(to - from, 1) + 16);
            for (long j = from; j < to; j++) {{
                double x = e[j] + 3 * ULP32 * (fabs(s[j]) + top);
                s[j] = most == -INFINITY ? 0 : exp(s[j] - most);
                e[j] = s[j] == 0 ? 0 : expm1(x) + 2 * ULP32;
                total += s[j];
                below += s[j] * e[j];
            }}
            below = total > 0 ? below / total + sums : 0;
            for (long c = 0; c < {sizes.dim_v}; c++) {{
                double sum = 0, off = 0, size = 0;
                for (long j = from; j < to; j++) {{
                    if (s[j] == 0) continue;
                    double w = {v[0]};
                    sum += s[j] * w;
                    size += fabs(w);
                    off += s[j] * (fabs(w) * (e[j] + {types[0][0]} + sums) + {v[1]});
                }}
                double value = total > 0 ? sum / total : 0;
                double error = total > 0 ? off / total + {types[0][1]} * size / std::max(total, 1.0) : 0;
                error += fabs(value) * (below + 4 * ULP32);
                error += {types[1][0]} * (fabs(value) + error) + {types[1][1]};
                {results[0]}
            }}
            double lse = total > 0 ? most + log(total) : -INFINITY;
            double lse_error = total > 0 ? below + 4 * ULP32 * (top + fabs(lse)) + {types[2][0]} * fabs(lse) : 0;
            {results[1] if len(results) > 1 else "(void)lse, (void)lse_error;"}
        }}
    }}
}}"""
        )
        self.made.steps.append(f"    attention{number}(b);")

    def _merge(self, op: MergeAttentionOp) -> None:
        assert isinstance(op.out.type, MemRefType)
        groups, rows, channels = op.out.type.get_shape()
        n, number = op.split_kv, len(self.made.functions)
        g, i, c = (
            IndexExpr.var("g", 0, groups - 1),
            IndexExpr.var("i", 0, rows - 1),
            IndexExpr.var("c", 0, channels - 1),
        )
        at = g * n + IndexExpr.var("p", 0, n - 1)
        lse, part = self._read(op.lses, [at, i]), self._read(op.parts, [at, i, c])
        types = [_constants(x.type) for x in (op.out, op.out if op.lse is None else op.lse)]
        result = self._write(op.out, [g, i, c], "value", "error")
        log_result = "(void)lse, (void)off;" if op.lse is None else self._write(op.lse, [g, i], "lse", "off")
        self.made.functions.append(
            f"""// The results over {n} parts of the keys become one: {groups} heads, {rows} rows.
static void merge{number}([[maybe_unused]] std::vector<Values> &b) {{
    std::vector<double> w({n});
    for (long row = 0; row < {groups * rows}L; row++) {{
        const long g = row / {rows}, i = row % {rows};
        double most = -INFINITY, worst = 0, longest = 0, total = 0;
        for (long p = 0; p < {n}; p++) {{
            const double lse = {lse[0]};
            if (!std::isfinite(lse)) continue;
            most = std::max(most, lse);
            worst = std::max(worst, {lse[1]});
            longest = std::max(longest, fabs(lse));
        }}
        for (long p = 0; p < {n}; p++) total += w[p] = most == -INFINITY ? 0 : exp({lse[0]} - most);
        const double weight = expm1(worst + 6 * ULP32 * longest) + 2 * ULP32 + gamma_of({2 * n + 16});
        for (long c = 0; c < {channels}; c++) {{
            double value = 0, size = 0, error = 0;
            for (long p = 0; p < {n}; p++) {{
                if (w[p] == 0) continue;
                const double x = {part[0]}, share = w[p] / total;
                value += share * x;
                size += share * fabs(x);
                error += share * {part[1]};
            }}
            error += (2 * weight + 4 * ULP32) * size;
            error += {types[0][0]} * (fabs(value) + error) + {types[0][1]};
            {result}
        }}
        const double lse = total > 0 ? most + log(total) : -INFINITY;
        double off = worst + weight + 8 * ULP32 * (longest + fabs(lse)) + {types[1][0]} * fabs(lse);
        off = total > 0 ? off : 0;
        {log_result}
    }}
}}"""
        )
        self.made.steps.append(f"    merge{number}(b);")

    def _write_result(self, op: AttentionOp, at: Sequence[IndexExpr]) -> str:
        assert op.out is not None
        coordinates = [at[0], at[2], at[1]] if op.oTransposed else at
        return self._write(op.out, coordinates, "value", "error")

    def _score(self, op: AttentionOp, number: int, at: Sequence[IndexExpr]) -> str:
        """What makes the score that enters the softmax, `s[j]`, and the bound on its error, `e[j]`."""
        indent = "                "
        softmax = _unit(op.softmax_type)
        if not op.preSoftmaxBody.blocks:
            return f"{indent}s[j] = sum;\n{indent}e[j] = raw + {softmax} * fabs(sum);"
        self._scalars(f"score{number}", op.preSoftmaxBody.block)
        reads = [("sum", "raw"), *(self._read(x, at) for x in op.preSoftmaxElemWiseInputs)]
        if op.preSoftmaxHasSplitKVTransforms is not None and op.preSoftmaxHasSplitKVTransforms.value.data:
            part = -(-op.sizes.seq_k // op.split_kv)
            inside = [at[0] * op.split_kv + at[2] // part, at[1], at[2] % part]
            reads[1:] = [self._read(x, inside) for x in op.preSoftmaxElemWiseInputs]
        lines = [
            f"double x[] = {{{', '.join(value for value, _ in reads)}}};",
            f"double xe[] = {{{', '.join(error for _, error in reads)}}};",
            "e[j] = 0;",
            f"s[j] = followed(score{number}, x, xe, {len(reads)}, &e[j]);",
            f"e[j] += {softmax} * fabs(s[j]);",
        ]
        return "\n".join(indent + line for line in lines)

    def _live(
        self, op: AttentionOp, before: Sequence[str], h: IndexExpr, j: IndexExpr, d: IndexExpr, c: IndexExpr
    ) -> None:
        """Marks the elements of K and V that a key which counts lies in, for every query head."""
        marks: list[str] = []
        for view, at, name, extent in (
            (op.keys, [h, j, d] if op.kTransposed else [h, d, j], "d", op.sizes.dim_qk),
            (op.values, [h, c, j] if op.vTransposed else [h, j, c], "c", op.sizes.dim_v),
        ):
            buffer, position, test = self._element(view, at)
            mark = f"{buffer}.live[{position}] = 1;"
            marks.append(f"for (long {name} = 0; {name} < {extent}; {name}++) {f'if ({test}) ' if test else ''}{mark}")
        body = [*before, "for (long j = first; j <= last; j++) {", *("    " + mark for mark in marks), "}"]
        self.made.live += self._loops({"g": op.sizes.groups}, body)


def _given(name: str, given: Mapping[str, str]) -> str | None:
    return name if name in given else None


def _number(value: float | int) -> str:
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"({value!r})" if value < 0 else repr(value)


def _unit(type_: Attribute) -> str:
    """The unit roundoff of a type, as a number of C++; f32 is charged a whole ulp, as everywhere."""
    from xpaged.interpreter.numerics import dtype_of
    from xpaged.testing import bounds

    element = type_.element_type if isinstance(type_, Shaped) else type_
    if not isinstance(element, AnyFloat):
        return "0"
    unit = bounds.unit(dtype_of(element))
    return "0" if unit < 2.0**-40 else "ULP32" if unit <= bounds.ULP32 else unit.hex()


def _constants(type_: Attribute) -> tuple[str, str]:
    """Unit roundoff, and half the distance between subnormals, of the elements of a type; (0, 0) for f32 P."""
    from xpaged.interpreter.numerics import dtype_of
    from xpaged.testing import bounds

    element = type_.element_type if isinstance(type_, Shaped) else type_
    return _unit(element), bounds.tiny(dtype_of(element)).hex()
