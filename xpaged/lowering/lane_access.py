"""Loads and stores of one lane: a piece of a tile, in as few and as wide accesses as its place in memory allows."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, VectorType, i64
from xdsl.ir import Attribute, SSAValue

from xpaged.dialects import hip
from xpaged.dialects.rock.tile_type import TileType
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.layout import Digit
from xpaged.lowering.access import Place, place_of, run_at
from xpaged.lowering.emitter import Emitter, fits_i32
from xpaged.lowering.lane_tiles import (
    LaneTile,
    RegsTile,
    ScalarTile,
    cut,
    join,
    new_registers,
    register_loops,
    vector_size,
)

Buffers = dict[SSAValue, SSAValue]  # arguments and LDS buffers: old value -> new value
WIDEST = 16  # bytes


def element_bytes(type_: Attribute) -> int:
    """The size of an element in memory."""
    if isinstance(type_, IntegerType):
        return max(1, type_.width.data // 8)
    return type_.bitwidth // 8  # pyright: ignore


class _Piece:
    """The memory side of one tile: places of its vectors, and how wide an access may be."""

    def __init__(
        self,
        emitter: Emitter,
        tile: TileType,
        view: SSAValue,
        indices: Sequence[IndexExpr],
        share: Sequence[IndexExpr],
        buffers: Buffers,
        where: LaneTile | None = None,
    ) -> None:
        self.where = where
        self.emitter, self.tile, self.view = emitter, tile, view
        self.indices, self.share, self.buffers = list(indices), list(share), buffers
        self.bytes = element_bytes(tile.element_type)
        first = tile.layout.regs[0] if vector_size(tile) > 1 else Digit(1, -1, 0)
        self.size, self.first = vector_size(tile), first
        self.second, self.joined = Digit(1, -1, 0), 1  # vectors that lie behind one another and make one access
        self.width = self._widest()
        if self.width == self.size > 1 and where is None:
            self._join()

    @property
    def digits_inside(self) -> int:
        """The register digits that one access covers."""
        return (self.size > 1) + (self.joined > 1)

    def place(self, at: Sequence[IndexExpr], step: IndexExpr | int) -> Place:
        """The place of the element at register coordinates `at`, `step` registers into its vector."""
        coordinates = [a + b for a, b in zip(self.share, self.stepped(at, step), strict=True)]
        return place_of(self.view, [*self.indices, *coordinates])

    def stepped(self, at: Sequence[IndexExpr], step: IndexExpr | int) -> list[IndexExpr]:
        """Register coordinates `step` registers into the vector at `at`."""
        out = list(at)
        step = IndexExpr.of(step)
        if self.joined > 1:
            vector = step // self.size
            out[self.second.dim] = out[self.second.dim] + vector * self.second.stride
            step = step % self.size
        if self.first.dim >= 0:
            out[self.first.dim] = out[self.first.dim] + step * self.first.stride
        return out

    def alive(self, at: Sequence[IndexExpr], part: int) -> SSAValue | None:
        """The mask of access number `part` of the vector at `at`."""
        return None if self.where is None else self.where.element(self.emitter, self.stepped(at, part * self.width))

    def run(self, at: Sequence[IndexExpr], part: IndexExpr | int) -> Place:
        """The place of access number `part` of a vector."""
        if self.width == 1:
            return self.place(at, part)
        run = IndexExpr.var("run", 0, self.width - 1)
        place = run_at(self.place(at, IndexExpr.of(part) * self.width + run), run, self.width)
        assert place is not None
        return place

    def digits(self) -> list[IndexExpr]:
        """Register coordinates with one free variable a digit, for questions about all registers at once."""
        at = [IndexExpr.const(0) for _ in self.tile.layout.shape]
        for number, digit in enumerate(self.tile.layout.regs[self.digits_inside :]):
            at[digit.dim] = at[digit.dim] + IndexExpr.var(f"digit{number}", 0, digit.size - 1) * digit.stride
        return at

    def _widest(self) -> int:
        width = self.size
        if self.where is not None and self.first.dim >= 0 and self.where.tile.get_shape()[self.first.dim] != 1:
            width = 1  # the mask may cut a vector
        while width > 1 and (self.size % width or width & (width - 1) or width * self.bytes > WIDEST):
            width -= 1
        at = self.digits()
        while width > 1:
            run = IndexExpr.var("run", 0, width - 1)
            parts = self.size // width
            part = IndexExpr.var("part", 0, parts - 1)
            if run_at(self.place(at, part * width + run), run, width) is not None:
                break
            width //= 2
        return width

    def _join(self) -> None:
        """Make one access of neighbouring vectors where they are one aligned piece of memory of 16 bytes at most."""
        regs, size = self.tile.layout.regs, self.size
        if len(regs) < 2 or self.size * regs[1].size * self.bytes > WIDEST or regs[1].size & (regs[1].size - 1):
            return
        self.second, self.joined = regs[1], regs[1].size
        width = size * self.joined
        run = IndexExpr.var("run", 0, width - 1)
        if run_at(self.place(self.digits(), run), run, width) is None:
            self.second, self.joined = Digit(1, -1, 0), 1
        else:
            self.width = width

    def page_digits(self) -> list[Digit]:
        """The register digits that the page depends on: their loops go outermost, so a page is looked up once."""
        entry = self.place(self.digits(), 0).entry
        if entry is None:
            return []
        digits = self.tile.layout.regs[self.digits_inside :]
        return [d for number, d in enumerate(digits) if entry.depends_on(f"digit{number}")]

    def base(self, place: Place, hint: str) -> SSAValue:
        """The buffer, or the address of the page: looked up where its entry is known, and once."""
        emitter = self.emitter
        if place.entry is None:
            return self.buffers[place.base]
        entry = place.entry
        depth = emitter.depth_of(entry)
        known = emitter.scopes[depth].pages
        key = (place.base, entry)
        if key not in known:
            index = emitter.index(entry, hint=f"{hint}_page")
            if not entry.within(0, place.entries):
                # Only padding can point past the table, and padding is not read: any valid entry will do.
                last = emitter.constant(place.entries - 1, index.type)
                index = emitter.value(arith.MinUIOp(index, last), depth)
            table = self.buffers[place.base]
            known[key] = emitter.value(hip.LoadOp(table, index, i64), depth, f"{hint}_address")
        return known[key]

    def offset(self, place: Place, hint: str) -> SSAValue:
        """The element offset of an access."""
        wide = not fits_i32(place.offset, self.bytes)
        return self.emitter.index(place.offset, wide=wide, hint=f"{hint}_offset")


def _vector(element: Attribute, size: int) -> Attribute:
    return element if size == 1 else VectorType(element, [size])


def load_tile(
    emitter: Emitter,
    tile: TileType,
    view: SSAValue,
    indices: Sequence[IndexExpr],
    share: Sequence[IndexExpr],
    where: LaneTile | None,
    buffers: Buffers,
    hint: str | None,
    target: RegsTile | None = None,
) -> LaneTile:
    """The lane's piece of a tile, read from memory; `share` is the lane's and wave's part of the coordinates.
    `target` is an array that may be overwritten."""
    piece = _Piece(emitter, tile, view, indices, share, buffers, where)
    name = hint or "tile"

    def part(at: Sequence[IndexExpr], number: int) -> SSAValue:
        place = piece.run(at, number)
        base = piece.base(place, name)
        ok = emitter.both(piece.alive(at, number), emitter.all_of(place.conditions, f"{name}_exists"))
        kind = hip.LdsLoadOp if hip.is_lds(base.type) else hip.LoadOp
        return emitter.value(kind(base, piece.offset(place, name), _vector(tile.element_type, piece.width), ok))

    if tile.layout.registers == 1:
        return ScalarTile(tile, part([IndexExpr.const(0)] * len(tile.shape), 0))
    held = target or new_registers(emitter, tile, hint)
    with register_loops(emitter, tile.layout, skip=piece.digits_inside, outer=piece.page_digits()) as (at, number):
        if piece.joined > 1:
            whole = part(at, 0)
            for p in range(piece.joined):
                held.put(emitter, cut(emitter, whole, p * piece.size, piece.size), number + p * piece.size)
        else:
            held.put(emitter, join(emitter, [part(at, p) for p in range(piece.size // piece.width)]), number)
    return held


def store_tile(
    emitter: Emitter,
    value: LaneTile,
    view: SSAValue,
    indices: Sequence[IndexExpr],
    share: Sequence[IndexExpr],
    copies: Sequence[tuple[IndexExpr, int, int]],
    buffers: Buffers,
    hint: str,
) -> None:
    """Write the lane's piece of a tile; of several lanes with the same elements only the first one writes."""
    tile = value.tile
    piece = _Piece(emitter, tile, view, indices, share, buffers)
    once = emitter.all_of(copies, "first_copy")

    def put(at: Sequence[IndexExpr], number: int, element: SSAValue) -> None:
        place = piece.run(at, number)
        base = piece.base(place, hint)
        ok = emitter.both(once, emitter.all_of(place.conditions, f"{hint}_exists"))
        kind = hip.LdsStoreOp if hip.is_lds(base.type) else hip.StoreOp
        emitter.insert(kind(element, base, piece.offset(place, hint), ok))

    if not isinstance(value, RegsTile):
        put([IndexExpr.const(0)] * len(tile.shape), 0, value.element(emitter, [IndexExpr.const(0)] * len(tile.shape)))
        return
    with register_loops(emitter, tile.layout, skip=piece.digits_inside) as (at, number):
        if piece.joined > 1:
            vectors = [value.vector(emitter, number + p * piece.size) for p in range(piece.joined)]
            put(at, 0, join(emitter, vectors))
        else:
            whole = value.vector(emitter, number)
            for p in range(piece.size // piece.width):
                element = cut(emitter, whole, p * piece.width, piece.width) if piece.size > 1 else whole
                put(at, p, element)


def load_scalar(
    emitter: Emitter, view: SSAValue, indices: Sequence[IndexExpr], buffers: Buffers, hint: str | None
) -> SSAValue:
    """One element that is the same for all lanes, through a view."""
    place = place_of(view, indices)
    assert place.entry is None
    type_ = view.type.element_type  # pyright: ignore
    ok = emitter.all_of(place.conditions)
    wide = not fits_i32(place.offset, element_bytes(type_))
    loaded = emitter.value(hip.LoadOp(buffers[place.base], emitter.index(place.offset, wide=wide), type_, ok))
    return emitter.value(hip.UniformOp(loaded), hint=hint)
