"""
Functions for the host beside a kernel: they make inputs, run the kernel on the device's memory, and check the result.

    main                    inputs, the kernel, the CPU function, the comparison, prints
    rock_attention_inputs   fills q, k, v and the rest, k and v always in logical order
    rock_attention_gpu      memory of the device, the kernel, its results; a paged cache is cut into pages here
    host_naive_attention    the CPU function (`xpaged.gen.naive`)
    rock_attention_verify   three flags: 1 where a threshold holds; all three passed print `[1 1 1]`

They are ordinary MLIR of `func`, `memref`, `linalg.generic`, `arith`, `math` and `scf`, marked `rock.host`: no level
and no lowering concerns them, and `xpaged run` executes `main` and the CPU function beside the levels of the kernel.
Only printing is left to a library (`print_...`, and `print_verdict` for the flags). At this level the memory of the
device is memory like any other, so that copying to it is `memref.copy`.

Pages are placed in another order than the logical one: entry `i` of a table leads to place `(step i + start) mod n` of
the pool, with `step` and `n` coprime, so a kernel that ignores the table reads wrong rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, isqrt, prod

from xdsl.dialects import arith, math, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerType,
    MemRefType,
    ModuleOp,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xpaged.gen.generate import Comparison, Data, Harness
from xpaged.gen.loops import HostFunction, Scalars, at, declared
from xpaged.gen.naive import LOWEST, NAME, naive_arguments, naive_attention
from xpaged.sizes import AttentionProblem

Arguments = list[tuple[str, MemRefType[Attribute]]]
Combine = Callable[[SSAValue, SSAValue], Operation]
Element = Callable[[Scalars, SSAValue, SSAValue], SSAValue]
"""What is accumulated over all elements: gets the difference of two, and the size of the expected one."""


def add_harness(module: ModuleOp, p: AttentionProblem, harness: Harness) -> None:
    """Add the functions that `harness` asks for to the module of the kernel of `p`; the kernel itself goes where it is
    not wanted."""
    (kernel,) = [op for op in module.ops if isinstance(op, FuncOp)]
    made = _Functions(p, harness, kernel).functions()
    if not harness.kernel:
        kernel.detach()
    for function in made:
        module.body.block.add_op(function)
    module.verify()


class _Functions:
    def __init__(self, p: AttentionProblem, harness: Harness, kernel: FuncOp) -> None:
        self.p, self.harness, self.kernel = p, harness, kernel
        self.declared: dict[str, FuncOp] = {}
        types = [arg.type for arg in kernel.body.block.args]
        names = [arg.name_hint or "" for arg in kernel.body.block.args]
        self.kernel_types: dict[str, MemRefType[Attribute]] = {}
        for name, type_ in zip(names, types, strict=True):
            assert isinstance(type_, MemRefType)
            self.kernel_types[name] = type_
        self.device = [_logical(p, name, type_) for name, type_ in self.kernel_types.items()]
        self.outputs = [name for name in ("lse", "out") if name in self.kernel_types]
        self.inputs = [(name, type_) for name, type_ in self.device if name not in self.outputs]

    def functions(self) -> list[FuncOp]:
        """All functions, `main` last, and what they declare."""
        h = self.harness
        made = [_filled(self.p, self.inputs, h.data)]
        if h.kernel:
            made.append(self._wrapper())
            if self.p.parts > 1 and h.reference is not None:
                made.append(_merge(self.p, self.kernel_types))
        if h.reference is not None:
            made.append(naive_attention(self.p, h.reference))
        if h.kernel and h.reference is not None:
            made += [self._verify(name) for name in self.outputs]
        made.append(self._main())
        return [*made, *self.declared.values()]

    # The kernel on the device

    def _wrapper(self) -> FuncOp:
        f = HostFunction("rock_attention_gpu", self.device)
        on_device: list[SSAValue] = []
        for name, type_ in self.kernel_types.items():
            if name.endswith("_table"):
                on_device.append(self._pages(f, name.removesuffix("_table"), type_))
                continue
            there = f.alloc(f"{name}_device", type_.element_type, type_.get_shape())
            if name not in self.outputs:
                f.scalars.builder.insert(memref.CopyOp(f.arguments[name], there))
            on_device.append(there)
        self._launch(f, on_device)
        for name, there in zip(self.kernel_types, on_device, strict=True):
            if name in self.outputs:
                f.scalars.builder.insert(memref.CopyOp(there, f.arguments[name]))
        return f.finish()

    def _launch(self, f: HostFunction, arguments: Sequence[SSAValue]) -> None:
        call = CallOp(self.p.name, arguments, [])
        if self.harness.repeats == 1:
            f.scalars.builder.insert(call)
            return
        first, last, step = (f.scalars.integer(n, IndexType()) for n in (0, self.harness.repeats, 1))
        body = Block(arg_types=[IndexType()])
        body.add_ops([call, scf.YieldOp()])
        f.scalars.builder.insert(scf.ForOp(first, last, step, [], Region(body)))

    def _pages(self, f: HostFunction, name: str, table: MemRefType[Attribute]) -> SSAValue:
        """A pool with the pages of a cache in another order, and the table that leads to them."""
        p = self.p
        assert p.page_size is not None
        dim, element = (p.dim_qk, p.element_type) if name == "k" else (p.dim_v, p.value_type)
        size = p.page_size * dim // p.dim_qk
        (pages,) = table.get_shape()
        step, start = placement(pages)
        back = pow(step, -1, pages) if pages > 1 else 0
        pool = f.alloc(f"{name}_pool", element, (pages, size))
        cache = f.view(f.arguments[name], (pages, size))
        f.loop(
            [at(cache, 2, lambda d: (((d[0] + (pages - start)) * back) % pages if pages > 1 else d[0], d[1]))],
            at(pool, 2, lambda d: d),
            lambda _, x: x[0],
        )
        s = f.scalars
        base = s(arith.IndexCastOp(s(memref.ExtractAlignedPointerAsIndexOp.get(pool)), i64))
        entries = f.alloc(f"{name}_table", i64, (pages,))

        def entry(s: Scalars, _: Sequence[SSAValue]) -> SSAValue:
            place = s(arith.AddiOp(s(arith.MuliOp(s.position(0, i64), s.integer(step, i64))), s.integer(start, i64)))
            place = s(arith.RemUIOp(place, s.integer(pages, i64)))
            return s(arith.AddiOp(base, s(arith.MuliOp(place, s.integer(size * element.size, i64)))))

        f.loop([], at(entries, 1, lambda d: d), entry)
        return entries

    # Checking and printing

    def _reference_types(self) -> dict[str, MemRefType[Attribute]]:
        assert self.harness.reference is not None
        return dict(naive_arguments(self.p, self.harness.reference))

    def _verify(self, output: str) -> FuncOp:
        device = self._compared(output)
        name = "rock_attention_verify" if output == "out" else f"rock_attention_verify_{output}"
        return _verify(name, device, self._reference_types()[output], self.harness.comparison)

    def _compared(self, output: str) -> MemRefType[Attribute]:
        """The type of the result that is compared: parts over the keys are merged first."""
        type_ = self.kernel_types[output]
        (size,) = type_.get_shape()
        return MemRefType(type_.element_type, [size // self.p.parts])

    def _print(self, f: HostFunction, value: SSAValue) -> None:
        type_ = value.type
        assert isinstance(type_, MemRefType)
        name = f"print_{type_.element_type}_{prod(type_.get_shape())}"
        self.declared.setdefault(name, declared(name, type_))
        f.call(name, value)

    def _main(self) -> FuncOp:
        h = self.harness
        f = HostFunction("main", [])
        memory = {name: f.alloc(name, type_.element_type, type_.get_shape()) for name, type_ in self.device}
        inputs = [memory[name] for name, _ in self.inputs]
        f.call("rock_attention_inputs", *inputs)
        if h.print_inputs:
            for value in inputs:
                self._print(f, value)
        if h.kernel:
            f.call("rock_attention_gpu", *memory.values())
            if h.print_results:
                for name in self.outputs:
                    self._print(f, memory[name])
        if h.reference is None:
            return f.finish()
        expected: dict[str, SSAValue] = {}
        for name in self.outputs:
            type_ = self._reference_types()[name]
            expected[name] = f.alloc(f"{name}_expected", type_.element_type, type_.get_shape())
        f.call(NAME, *inputs, *expected.values())
        if h.print_reference or (h.print_results and not h.kernel):
            for value in expected.values():
                self._print(f, value)
        if h.kernel:
            self._compare(f, memory, expected)
        return f.finish()

    def _compare(self, f: HostFunction, memory: dict[str, SSAValue], expected: dict[str, SSAValue]) -> None:
        if self.p.parts > 1:
            merged = {name: self._compared(name) for name in self.outputs}
            new = {name: f.alloc(f"{name}_merged", t.element_type, t.get_shape()) for name, t in merged.items()}
            f.call("rock_attention_merge", memory["lse"], memory["out"], new["lse"], new["out"])
            memory = {**memory, **new}
        for name in self.outputs:
            verdict = f.alloc(f"{name}_verdict", i32, (3,))
            function = "rock_attention_verify" if name == "out" else f"rock_attention_verify_{name}"
            f.call(function, memory[name], expected[name], verdict)
            self.declared.setdefault("print_verdict", declared("print_verdict", verdict.type))
            f.call("print_verdict", verdict)


def placement(pages: int) -> tuple[int, int]:
    """(step, start) of the order in which `pages` pages are placed: entry `i` at `(step * i + start) mod pages`.

    No entry lies at its own place where there are two pages or more.
    """
    if pages < 2:
        return 1, 0
    step = next(s for s in range(max(1, round(pages * 0.618)), 2 * pages) if gcd(s, pages) == 1)
    while gcd(step - 1, pages) == 1 and pages > 2:  # then some entry would stay where it is
        step = next(s for s in range(step + 1, 4 * pages) if gcd(s, pages) == 1)
        if step > 2 * pages:
            step = 1
    start = next(c for c in range(max(1, pages // 3), 2 * pages) if c % gcd(step - 1, pages) or step == 1)
    return step % pages or 1, start % pages


def _logical(p: AttentionProblem, name: str, type_: MemRefType[Attribute]) -> tuple[str, MemRefType[Attribute]]:
    """An argument of the kernel, a page table as the cache behind it."""
    if name == "k_table":
        return "k", MemRefType(p.element_type, [p.kv_groups * p.seq_k * p.dim_qk])
    if name == "v_table":
        return "v", MemRefType(p.value_type, [p.kv_groups * p.seq_k * p.dim_v])
    return name, type_


def _filled(p: AttentionProblem, inputs: Arguments, data: Data) -> FuncOp:
    """The function that fills the inputs."""
    f = HostFunction("rock_attention_inputs", inputs)
    given = {"kv_index": p.kv_index, "prefix_offset": p.prefix_offset}
    for number, (name, type_) in enumerate(inputs):
        target = f.arguments[name]
        values = given.get(name)
        if values is not None:
            assert not isinstance(values, bool)
            for i, value in enumerate(values):
                s = f.scalars
                s.builder.insert(memref.StoreOp.get(s.integer(value), target, [s.integer(i, IndexType())]))
        elif data.ones:
            f.fill(target, 1)
        else:
            whole = data.whole or number in data.whole_inputs or isinstance(type_.element_type, IntegerType)
            _random(f, target, type_.element_type, data, whole, data.seed + number)
    return f.finish()


def _random(f: HostFunction, target: SSAValue, element: Attribute, data: Data, whole: bool, seed: int) -> None:
    """Fills a flat memref with numbers that follow from the seed and the position alone."""

    def body(s: Scalars, _: Sequence[SSAValue]) -> SSAValue:
        bits = s(arith.AddiOp(s.position(0), s.integer(_signed(seed * 0x9E3779B9))))
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
            bits = s(arith.XOrIOp(bits, s(arith.ShRUIOp(bits, s.integer(shift)))))
            if factor != 1:
                bits = s(arith.MuliOp(bits, s.integer(_signed(factor))))
        bits = s(arith.ShRUIOp(bits, s.integer(8)))  # 24 bits: exact in f32
        if whole:
            low, high = data.integers
            value = s(arith.RemUIOp(bits, s.integer(_signed(high - low + 1))))
            value = s(arith.AddiOp(value, s.integer(low)))
            if isinstance(element, IntegerType):
                return value if element == i32 else s(arith.TruncIOp(value, element))
            assert isinstance(element, AnyFloat)
            return s.as_float(s.as_float(value, f32), element)
        low, high = data.floats
        share = s(arith.MulfOp(s.as_float(bits, f32), s.number((high - low) * 2.0**-24, f32)))
        assert isinstance(element, AnyFloat)
        return s.as_float(s(arith.AddfOp(share, s.number(low, f32))), element)

    f.loop([], at(target, 1, lambda d: d), body)


def _signed(value: int) -> int:
    """The signed 32-bit number with the low bits of `value`."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _merge(p: AttentionProblem, types: dict[str, MemRefType[Attribute]]) -> FuncOp:
    """Joins the results over parts of the keys, weighted by the exponentials of their LSEs; empty parts weigh 0."""
    arguments: Arguments = []
    for suffix, share in (("", 1), ("_merged", p.parts)):
        for name in ("lse", "out"):
            (size,) = types[name].get_shape()
            arguments.append((name + suffix, MemRefType(types[name].element_type, [size // share])))
    f = HostFunction("rock_attention_merge", arguments)
    rows = (p.groups, p.seq_q)
    parts = f.view(f.arguments["lse"], (p.groups, p.parts, p.seq_q))
    shape = (p.groups, p.parts, *((p.dim_v, p.seq_q) if p.trans_o else (p.seq_q, p.dim_v)))
    outs = f.view(f.arguments["out"], shape)
    merged = f.view(f.arguments["out_merged"], (shape[0], *shape[2:]))
    merged_lse = f.view(f.arguments["lse_merged"], rows)
    largest, total = f.alloc("largest", f32, rows), f.alloc("sum", f32, rows)
    f.fill(largest, LOWEST[f32])
    f.loop(
        [at(parts, 3, lambda d: (d[0], d[2], d[1]))],
        at(largest, 3, lambda d: d[:2]),
        lambda s, x: s(arith.MaximumfOp(x[1], s.as_float(x[0], f32))),
        reduced=[2],
    )

    def weight(s: Scalars, lse: SSAValue, top: SSAValue) -> SSAValue:
        return s(math.ExpOp(s(arith.SubfOp(s.as_float(lse, f32), top))))

    f.fill(total, 0.0)
    f.loop(
        [at(parts, 3, lambda d: (d[0], d[2], d[1])), at(largest, 3, lambda d: d[:2])],
        at(total, 3, lambda d: d[:2]),
        lambda s, x: s(arith.AddfOp(x[2], weight(s, x[0], x[1]))),
        reduced=[2],
    )
    sums = f.alloc("products", f32, (p.groups, p.seq_q, p.dim_v))
    f.fill(sums, 0.0)
    f.loop(
        [
            at(parts, 4, lambda d: (d[0], d[3], d[1])),
            at(largest, 4, lambda d: d[:2]),
            at(outs, 4, lambda d: (d[0], d[3], d[2], d[1]) if p.trans_o else (d[0], d[3], d[1], d[2])),
        ],
        at(sums, 4, lambda d: d[:3]),
        lambda s, x: s(arith.AddfOp(x[3], s(arith.MulfOp(weight(s, x[0], x[1]), s.as_float(x[2], f32))))),
        reduced=[3],
    )

    def quotient(s: Scalars, x: Sequence[SSAValue]) -> SSAValue:
        divisor = s(arith.MaximumfOp(x[1], s.number(2.0**-126, f32)))
        return s.as_float(s(arith.DivfOp(x[0], divisor)), p.value_type)

    f.loop(
        [at(sums, 3, lambda d: d), at(total, 3, lambda d: d[:2])],
        at(merged, 3, lambda d: (d[0], d[2], d[1]) if p.trans_o else d),
        quotient,
    )
    lse_type = types["lse"].element_type
    assert isinstance(lse_type, AnyFloat)
    f.loop(
        [at(total, 2, lambda d: d), at(largest, 2, lambda d: d)],
        at(merged_lse, 2, lambda d: d),
        lambda s, x: s.as_float(s(arith.AddfOp(s(math.LogOp(x[0])), x[1])), lse_type),
    )
    return f.finish()


def _verify(
    name: str, device: MemRefType[Attribute], reference: MemRefType[Attribute], comparison: Comparison
) -> FuncOp:
    """Compares two flat results and sets three flags: root mean square, absolute and relative difference, or for
    `allclose` the one band three times. Equal infinities are no difference; a NaN fails."""
    f = HostFunction(name, [("device", device), ("expected", reference), ("verdict", MemRefType(i32, [3]))])
    (size,) = device.get_shape()
    columns = max(n for n in range(1, isqrt(size) + 1) if size % n == 0)  # in two steps: along rows, then the columns
    operands = [f.view(f.arguments[name], (size // columns, columns)) for name in ("device", "expected")]
    measured: list[SSAValue] = []

    def accumulate(name: str, combine: Combine, element: Element) -> None:
        parts, whole = f.alloc(f"{name}_of_columns", f64, (columns,)), f.alloc(name, f64, (1,))

        def step(s: Scalars, x: Sequence[SSAValue]) -> SSAValue:
            a, b = s.as_float(x[0], f64), s.as_float(x[1], f64)
            zero, magnitude = s.number(0.0, f64), s(math.AbsFOp(b))
            difference = s.select(s.compare("oeq", a, b), zero, s(math.AbsFOp(s(arith.SubfOp(a, b)))))
            finite = s.compare("olt", magnitude, s.number(float("inf"), f64))
            return s(combine(x[2], element(s, difference, s.select(finite, magnitude, zero))))

        f.fill(parts, 0.0)
        f.fill(whole, 0.0)
        f.loop([at(x, 2, lambda d: (d[1], d[0])) for x in operands], at(parts, 2, lambda d: d[:1]), step, reduced=[1])
        f.loop(
            [at(parts, 2, lambda d: d[1:])],
            at(whole, 2, lambda d: d[:1]),
            lambda s, x: s(combine(x[1], x[0])),
            reduced=[1],
        )
        measured.append(whole)

    relative = comparison.relative

    def outside(s: Scalars, difference: SSAValue, size: SSAValue) -> SSAValue:
        band = s(arith.MulfOp(size, s.number(relative or 0.0, f64)))
        if comparison.allclose:
            band = s(arith.AddfOp(band, s.number(comparison.absolute, f64)))
        return s.select(s.compare("ole", difference, band), s.number(0.0, f64), s.number(1.0, f64))

    accumulate("squares", arith.AddfOp, lambda s, difference, _: s(arith.MulfOp(difference, difference)))
    accumulate("largest", arith.MaximumfOp, lambda s, _, size: size)
    accumulate("worst", arith.MaximumfOp, lambda s, difference, _: difference)
    accumulate("outside", arith.AddfOp, outside)
    s = f.scalars
    zero = s.integer(0, IndexType())
    squares, largest, worst, count = (s(memref.LoadOp.get(value, [zero])) for value in measured)
    mean = s(math.SqrtOp(s(arith.DivfOp(squares, s.number(float(size), f64)))))
    none = s.compare("ole", count, s.number(0.0, f64))
    if comparison.allclose:
        flags = [none] * 3
    else:
        allowed = s(arith.MulfOp(largest, s.number(comparison.rms, f64)))
        flags = [s.compare("ole", mean, allowed), s.compare("ole", worst, s.number(comparison.absolute, f64))]
        flags.append(none if relative is not None else s(arith.ConstantOp.from_int_and_width(1, i1)))
    for i, flag in enumerate(flags):
        position = s.integer(i, IndexType())
        s.builder.insert(memref.StoreOp.get(s(arith.ExtUIOp(flag, i32)), f.arguments["verdict"], [position]))
    return f.finish()
