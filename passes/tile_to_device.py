"""tile-to-device: from tiles of a workgroup to the program of one lane.

    #k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 8], regs = [8 -> d2]>
    #tiles = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (0, d0, d1 * 512 + d2 * 32 + d3)> by
      [<ConstDim{0, 1} [] at [] -> ["b"] at [0]>, <PassThrough ["it"] at [0] -> ["p"] at [1]>,
       <Unmerge{1, 16, 32} ["w", "k", "d"] at [1, 2, 3] -> ["e"] at [2]>] bounds = [64, 1, 16, 32] -> [1, 64, 512]>
    func.func @f(%kt: memref<1x64x1xi64>, %o: memref<64x1x16x32xf16>)
        attributes {rock.kernel, arch = "gfx942", rock.grid_size = 64 : i32, rock.block_size = 64 : i32} {
      %pages = rock.deref %kt : memref<1x64x1xi64> -> memref<1x64x512xf16>
      %keys = rock.transform %pages by #tiles : memref<1x64x512xf16> to memref<64x1x16x32xf16>
      %it = rock.workgroup_id : index
      %k = rock.tile_load %keys[%it] : memref<64x1x16x32xf16> -> !rock.tile<1x16x32xf16, #k>
      rock.tile_store %k, %o[%it] : !rock.tile<1x16x32xf16, #k>, memref<64x1x16x32xf16>
      func.return
    }

becomes, in part,

      %lane = hip.lane_id : i32
      %it = hip.workgroup_id : i32
      %k = hip.regs : !hip.regs<1 x vector<8xf16>>
      %k_address = hip.load %kt[%it] : memref<1x64x1xi64>, i32 -> i64
      %col = arith.remui %lane,
      %group = arith.divui %lane,
      %k_offset = arith.addi
      hip.load %k_address[%k_offset] : i64, i32 -> vector<8xf16>
      hip.set
      hip.get %k[
      hip.store

Every tile becomes what one lane holds of it (a register array, one value, or an index expression), every view becomes
address arithmetic, and every product becomes matrix instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp, i32, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from xpaged.arch import arch_of_function
from xpaged.dialects import hip
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.ops import DerefOp, TransformOp
from xpaged.dialects.rock.page_tables import mark_page_tables
from xpaged.dialects.rock.tile_reductions import TileIfAnyOp, TileReduceLaneOp, TileReduceOp
from xpaged.dialects.rock.tile_type import TileType
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.layout import Home
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass
from xpaged.lowering.emitter import Emitter
from xpaged.lowering.kernel import LDS_BYTES, block_size, grid_size, is_kernel
from xpaged.lowering.lane_access import element_bytes, load_scalar, load_tile, store_tile
from xpaged.lowering.lane_compute import any_of, convert_layout, fill, map_tile, mask, multiply, reduce_tile
from xpaged.lowering.lane_tiles import (
    IndexTile,
    LaneTile,
    RegsTile,
    ScalarTile,
    new_registers,
    register_loops,
    vector_size,
)


@dataclass(frozen=True)
class TileToDevicePass(LevelPass):
    """Lower tiles to one lane's program (see the module's text)."""

    name = "tile-to-device"
    takes: ClassVar[Level | None] = Level.TILE
    leaves: ClassVar[Level | None] = Level.DEVICE

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for function in [op for op in module.ops if isinstance(op, func.FuncOp)]:
            if is_kernel(function):
                mark_page_tables(function)  # from here on nothing else says what its pages are
                _Lowering(function).run()


class _Lowering:
    """Rewrites one kernel: the old body is walked once, the new one is built beside it."""

    def __init__(self, function: func.FuncOp) -> None:
        self.function = function
        self.arch = arch_of_function(function)
        old = function.body.block
        self.old = old
        self.new = Block(arg_types=[a.type for a in old.args])
        self.emitter = Emitter(self.new)
        self.tiles: dict[SSAValue, LaneTile] = {}
        self.scalars: dict[SSAValue, SSAValue] = {}
        self.indices: dict[SSAValue, IndexExpr] = {}
        self.lds: dict[SSAValue, SSAValue] = {}
        self.lds_sizes: list[int] = []
        for before, after in zip(old.args, self.new.args, strict=True):
            after.name_hint = before.name_hint
            self.lds[before] = after

    def run(self) -> None:
        """Lower the body and put it in place of the old one."""
        e = self.emitter
        wave_size = self.arch.wave_size
        self._check_kernel()
        lane = e.value(hip.LaneIdOp(), hint="lane")
        self.lane = e.lane = e.variable("lane", wave_size - 1, lane)
        for weight, size, hint in ((1, 16, "col"), (16, wave_size // 16, "group")):
            e.name(self.lane // weight % size, hint)
        self.wave = IndexExpr.const(0)
        if self.waves > 1:
            self.wave = e.variable("wave", self.waves - 1, e.value(hip.WaveIdOp(), hint="wave"))
        self._block(self.old)
        taken = hip.lds_total(self.lds_sizes)
        if taken > self.arch.lds_bytes:
            expected = f"at most {self.arch.lds_bytes} bytes on {self.arch.name}"
            raise XpagedError("the LDS buffers do not fit", at=self.function, found=taken, expected=expected)
        for block in list(self.function.body.blocks):
            self.function.body.detach_block(block)
        self.function.body.add_block(self.new)
        self.old.drop_all_references()
        self.function.attributes[LDS_BYTES] = IntegerAttr(taken, i64)

    def _check_kernel(self) -> None:
        """Refuse arguments and launches that a kernel cannot have."""
        for argument in self.old.args:
            if not isinstance(argument.type, MemRefType):
                raise XpagedError(
                    "a kernel takes buffers and page tables", at=self.function, found=argument.type, expected="memrefs"
                )
        block, grid, wave_size = block_size(self.function), grid_size(self.function), self.arch.wave_size
        if block % wave_size or not 1 <= block <= self.arch.max_workgroup:
            expected = f"a multiple of {wave_size}, {self.arch.max_workgroup} at most"
            raise XpagedError("a workgroup is made of whole waves", at=self.function, found=block, expected=expected)
        if grid < 1:
            raise XpagedError("a launch has workgroups", at=self.function, found=grid, expected="1 or more")
        self.waves = block // wave_size

    def _check_layouts(self, op: Operation) -> None:
        """Refuse a tile that is spread over other waves and lanes than the workgroup has."""
        for result in op.results:
            if isinstance(result.type, TileType):
                found = result.type.layout.size("wave"), result.type.layout.size("lane")
                if found != (self.waves, self.arch.wave_size):
                    raise XpagedError(
                        "a tile is not spread over the workgroup",
                        at=op,
                        found=f"a layout of {found[0]} wave(s) of {found[1]} lanes",
                        expected=f"{self.waves} of {self.arch.wave_size}, copies included",
                    )

    # ---- values

    @property
    def numbers(self) -> list[tuple[Home, IndexExpr]]:
        """The lane and wave number, with the digits that read them."""
        return [("lane", self.lane), ("wave", self.wave)]

    def index(self, value: SSAValue) -> IndexExpr:
        """An index value of the tile level as an expression."""
        if value not in self.indices:
            raise XpagedError(
                "an index is made of workgroup and loop numbers, constants, sums, and products, quotients and "
                "remainders by constants",
                at=value,
            )
        return self.indices[value]

    def access(self, op: Operation, view: SSAValue, indices: Sequence[SSAValue]) -> list[IndexExpr]:
        """The indices of an access, which must lie inside the view for every workgroup and trip."""
        assert isinstance(view.type, MemRefType)
        found = [self.index(i) for i in indices]
        for expr, extent in zip(found, view.type.get_shape(), strict=False):
            if not expr.within(0, extent):
                raise XpagedError(
                    "an index may leave its view",
                    at=op,
                    found=f"{expr.lo} .. {expr.hi}",
                    expected=f"0 .. {extent - 1}",
                )
        return found

    def scalar(self, value: SSAValue) -> SSAValue:
        """A scalar of the tile level; index values become i32."""
        if value not in self.scalars:
            self.scalars[value] = self.emitter.index(self.index(value), hint=value.name_hint)
        return self.scalars[value]

    def share(self, layout_tile: SSAValue | TileType) -> list[IndexExpr]:
        """The part of a tile's coordinates that the lane and the wave decide."""
        type_ = layout_tile if isinstance(layout_tile, TileType) else tile.tile_of(layout_tile)
        layout = type_.layout
        out = [IndexExpr.const(0) for _ in layout.shape]
        for home, number in self.numbers:
            weight = 1
            for digit in layout.digits(home):
                if digit.dim >= 0:
                    out[digit.dim] = out[digit.dim] + number // weight % digit.size * digit.stride
                weight *= digit.size
        return out

    def copies(self, type_: TileType) -> list[tuple[IndexExpr, int, int]]:
        """Conditions that only the first of several lanes with the same elements meets."""
        out: list[tuple[IndexExpr, int, int]] = []
        for home, number in self.numbers:
            weight = 1
            for digit in type_.layout.digits(home):
                if digit.dim < 0:
                    out.append((number // weight % digit.size, 0, 1))
                weight *= digit.size
        return out

    # ---- operations

    def _block(self, block: Block) -> None:
        for op in list(block.ops):
            self.emitter.location = op.location
            self._check_layouts(op)
            self._lower(op)

    @singledispatchmethod
    def _lower(self, op: Operation) -> None:
        """Scalar arithmetic; everything else has a method of its own."""
        if op.results and all(isinstance(r.type, IndexType) for r in op.results) and self._index_op(op):
            return
        if not op.name.startswith(("arith.", "math.")) or op.regions:
            raise XpagedError(f"tile-to-device cannot lower {op.name}", at=op)
        self._clone(op)

    def _clone(self, op: Operation) -> None:
        if isinstance(op, arith.IndexCastOp):
            result = self.scalar(op.input)
            if result.name_hint is None:
                result.name_hint = op.result.name_hint
            if op.result.type == i64:
                result = self.emitter.value(arith.ExtSIOp(result, i64))
            self.scalars[op.result] = result
            return
        mapping = {operand: self.scalar(operand) for operand in op.operands}
        clone = op.clone(mapping)
        for result in clone.results:
            if isinstance(result.type, IndexType):
                Rewriter.replace_value_with_new_type(result, i32)
        self.emitter.insert(clone)
        for before, after in zip(op.results, clone.results, strict=True):
            self.scalars[before] = after
            after.name_hint = before.name_hint

    def _index_op(self, op: Operation) -> bool:
        """Index arithmetic with constants stays symbolic."""
        if isinstance(op, arith.ConstantOp):
            assert isinstance(op.value, IntegerAttr)
            self.indices[op.result] = IndexExpr.const(op.value.value.data)
            return True
        if isinstance(op, arith.MinSIOp):
            return self._least(op)
        if not isinstance(op, arith.AddiOp | arith.MuliOp | arith.DivUIOp | arith.RemUIOp):
            return False
        if op.lhs not in self.indices or op.rhs not in self.indices:
            return False
        a, b = self.indices[op.lhs], self.indices[op.rhs]
        if isinstance(op, arith.AddiOp):
            result = a + b
        elif isinstance(op, arith.MuliOp):
            if a.constant is None and b.constant is None:
                return False
            result = a * b
        else:
            if b.constant is None:
                return False
            if b.constant < 1:
                raise XpagedError(
                    "an index is divided by a positive number", at=op, found=b.constant, expected="1 or more"
                )
            result = a // b.constant if isinstance(op, arith.DivUIOp) else a % b.constant
        self.indices[op.result] = result
        if op.result.name_hint and result.terms:
            self.emitter.name(result, op.result.name_hint)
        return True

    def _least(self, op: arith.MinSIOp) -> bool:
        """The smaller of two indices: a new variable, no larger than what is known of either."""
        known = [self.indices[v].hi for v in op.operands if v in self.indices]
        if not known:
            return False
        value = self.emitter.value(arith.MinSIOp(self.scalar(op.lhs), self.scalar(op.rhs)), hint=op.result.name_hint)
        self.indices[op.result] = self.emitter.fresh(op.result.name_hint or "least", min(known), value)
        return True

    @_lower.register
    def _workgroup_id(self, op: tile.WorkgroupIdOp) -> None:
        value = self.emitter.value(hip.WorkgroupIdOp(), hint=op.result.name_hint or "workgroup")
        self.indices[op.result] = self.emitter.variable("workgroup", grid_size(self.function) - 1, value)

    @_lower.register
    def _stage(self, op: tile.StageOp) -> None:
        self.emitter.insert(hip.StageOp(op.title.data))

    @_lower.register
    def _view(self, op: TransformOp | DerefOp) -> None:
        """Views are read where a tile is loaded or stored."""

    @_lower.register
    def _lds_alloc(self, op: tile.LdsAllocOp) -> None:
        self.lds[op.result] = self.emitter.value(hip.LdsAllocOp(op.result.type), 0, op.result.name_hint)
        assert isinstance(op.result.type, MemRefType)
        self.lds_sizes.append(prod(op.result.type.get_shape()) * element_bytes(op.result.type.element_type))

    @_lower.register
    def _constant(self, op: memref.GetGlobalOp) -> None:
        new = memref.GetGlobalOp(op.name_, op.memref.type)
        self.lds[op.memref] = self.emitter.value(new, 0, op.memref.name_hint)

    @_lower.register
    def _barrier(self, op: tile.BarrierOp) -> None:
        self.emitter.insert(hip.BarrierOp())

    @_lower.register
    def _sched_barrier(self, op: tile.SchedBarrierOp) -> None:
        self.emitter.insert(hip.SchedBarrierOp())

    @_lower.register
    def _fill(self, op: tile.TileFillOp) -> None:
        self.tiles[op.result] = fill(self.emitter, tile.tile_of(op.result), self.scalar(op.value), op.result.name_hint)

    @_lower.register
    def _tile_index(self, op: tile.TileIndexOp) -> None:
        type_ = tile.tile_of(op.result)
        base = self.index(op.base)
        strides = op.strides.get_values()
        for coordinate, stride in zip(self.share(type_), strides, strict=True):
            base = base + coordinate * int(stride)
        self.tiles[op.result] = IndexTile(type_, base, tuple(int(s) for s in strides), op.result.name_hint)

    @_lower.register
    def _load(self, op: tile.TileLoadOp) -> None:
        type_ = tile.tile_of(op.result)
        indices = self.access(op, op.view, op.indices)
        where = None if op.mask is None else self.tiles[op.mask]
        self.tiles[op.result] = load_tile(
            self.emitter,
            type_,
            op.view,
            indices,
            self.share(type_),
            where,
            self.lds,
            op.result.name_hint,
            self._reloaded(op),
        )

    def _reloaded(self, op: tile.TileLoadOp) -> RegsTile | None:
        """The array that a loop carries this tile in for its next turn, where its old contents are not needed any
        more: it is loaded in place."""
        loop = op.parent_op()
        if not isinstance(loop, scf.ForOp) or op.result.uses.get_length() != 1:
            return None
        (use,) = op.result.uses
        if use.operation is not loop.body.block.last_op:
            return None
        argument = loop.body.block.args[1 + use.index]
        position = {each: number for number, each in enumerate(loop.body.block.ops)}
        if any(position.get(u.operation, len(position)) > position[op] for u in argument.uses):
            return None
        held = self.tiles[argument]
        return held if isinstance(held, RegsTile) else None

    @_lower.register
    def _store(self, op: tile.TileStoreOp) -> None:
        type_ = tile.tile_of(op.value)
        indices = self.access(op, op.view, op.indices)
        store_tile(
            self.emitter,
            self.tiles[op.value],
            op.view,
            indices,
            self.share(type_),
            self.copies(type_),
            self.lds,
            op.value.name_hint or "tile",
        )

    @_lower.register
    def _scalar_load(self, op: memref.LoadOp) -> None:
        if isinstance(op.res.type, IndexType):
            raise XpagedError("memory holds no index values", at=op, found=op.memref.type, expected="i32 elements")
        indices = self.access(op, op.memref, op.indices)
        self.scalars[op.res] = load_scalar(self.emitter, op.memref, indices, self.lds, op.res.name_hint)

    @_lower.register
    def _mma(self, op: tile.TileMmaOp) -> None:
        c = self._owned(op, op.c)
        a, b = self.tiles[op.a], self.tiles[op.b]
        assert isinstance(a, RegsTile)
        assert isinstance(b, RegsTile)
        assert isinstance(c, RegsTile)
        multiply(self.emitter, self.arch.instruction(op.instruction.data), a, b, c, op)
        self.tiles[op.result] = c

    @_lower.register
    def _map(self, op: tile.TileMapOp) -> None:
        inputs: list[LaneTile | SSAValue] = [
            self.tiles[v] if isinstance(v.type, TileType) else self.scalar(v) for v in op.inputs
        ]
        target: RegsTile | None = None
        for value in op.inputs:
            if value.type == op.result.type and self._dies(op, value) and isinstance(self.tiles[value], RegsTile):
                held = self.tiles[value]
                assert isinstance(held, RegsTile)
                target = held
                break
        self.tiles[op.result] = map_tile(self.emitter, op, inputs, target)

    @_lower.register
    def _mask(self, op: tile.TileMaskOp) -> None:
        scores = self._owned(op, op.scores)
        keys = self.index(op.base)
        strides = tuple(int(s) for s in op.strides.get_values())
        for coordinate, stride in zip(self.share(op.scores), strides, strict=True):
            keys = keys + coordinate * stride
        bounds = [None if b is None else self.tiles[b] for b in (op.upper, op.lower)]
        type_ = tile.tile_of(op.scores)
        self.tiles[op.result] = mask(self.emitter, scores, IndexTile(type_, keys, strides, "key"), bounds[0], bounds[1])

    @_lower.register
    def _reduce(self, op: TileReduceOp | TileReduceLaneOp) -> None:
        value = self.tiles[op.value]
        self.tiles[op.result] = reduce_tile(
            self.emitter,
            value,
            op.kind.data,
            op.dim.value.data,
            tile.tile_of(op.result),
            op.result.name_hint,
            between_lanes=isinstance(op, TileReduceOp),
        )

    @_lower.register
    def _if_any(self, op: TileIfAnyOp) -> None:
        e = self.emitter
        condition = any_of(e, self.tiles[op.condition])
        held = [self._carried(op, initial, initial.name_hint) for initial in op.initial]
        scalars = [h.value for h in held if isinstance(h, ScalarTile)]
        with e.condition(e.value(hip.AnyOp(condition), hint=op.condition.name_hint), scalars) as branch:
            for argument, mine in zip(op.body.block.args, held, strict=True):
                self.tiles[argument] = mine
            self._block(op.body.block)
            terminator = op.body.block.last_op
            assert isinstance(terminator, tile.TileYieldOp)
            values = self._end_values(terminator.values, held)
            if scalars:
                e.yield_(*values)
        results = iter(branch.results)
        for result, mine in zip(op.res, held, strict=True):
            self._bind(result, mine, results)

    @_lower.register
    def _convert(self, op: tile.TileConvertLayoutOp) -> None:
        value = self.tiles[op.value]
        self.tiles[op.result] = convert_layout(self.emitter, value, tile.tile_of(op.result), op.result.name_hint)

    # ---- register arrays that change in place

    def _dies(self, op: Operation, value: SSAValue) -> bool:
        """Whether `op` is the only use of a tile, in the block that the tile belongs to."""
        owner = value.owner if isinstance(value.owner, Block) else value.owner.parent
        return value.uses.get_length() == 1 and owner is op.parent

    def _owned(self, op: Operation, value: SSAValue) -> LaneTile:
        """A tile that may be changed: the value itself when this is its last use, else a copy."""
        held = self.tiles[value]
        if not isinstance(held, RegsTile) or self._dies(op, value):
            return held
        return self._copy(held, value.name_hint)

    def _copy(self, source: RegsTile, hint: str | None, target: RegsTile | None = None) -> RegsTile:
        target = new_registers(self.emitter, source.tile, hint) if target is None else target
        skip = 1 if vector_size(source.tile) > 1 else 0
        with register_loops(self.emitter, source.tile.layout, skip=skip) as (_, number):
            target.put(self.emitter, source.vector(self.emitter, number), number)
        return target

    # ---- control flow

    def _carried(self, op: Operation, initial: SSAValue, hint: str | None) -> LaneTile:
        """A tile that `op` changes in place (an array), or that changes with its results (one value)."""
        mine = self.tiles[initial]
        if isinstance(mine, IndexTile):
            raise XpagedError(f"a tile of indices cannot be carried by {op.name}", at=op)
        if isinstance(mine, RegsTile) and not self._dies(op, initial):
            mine = self._copy(mine, hint)
        if isinstance(mine, RegsTile) and hint:
            mine.regs.name_hint = hint
        return mine

    @_lower.register
    def _for(self, op: scf.ForOp) -> None:
        e = self.emitter
        bound = op.attributes.get("rock.trip_bound")
        if not isinstance(bound, IntegerAttr):
            raise XpagedError(
                "a tile-level loop needs the attribute rock.trip_bound, the most trips it can make", at=op
            )
        if op.step not in self.indices or self.indices[op.step].constant != 1:
            raise XpagedError("a tile-level loop goes in steps of 1", at=op)
        inner = list(op.body.block.args[1:])
        held: list[LaneTile | SSAValue] = []
        for initial, argument in zip(op.iter_args, inner, strict=True):
            is_tile = isinstance(initial.type, TileType)
            held.append(self._carried(op, initial, argument.name_hint) if is_tile else self.scalar(initial))
        carried = [h.value if isinstance(h, ScalarTile) else h for h in held if isinstance(h, ScalarTile | SSAValue)]
        if op.ub in self.indices and self.indices[op.ub].hi > bound.value.data:
            found, expected = self.indices[op.ub].hi, f"at most rock.trip_bound = {bound.value.data}"
            raise XpagedError("a loop makes more trips than it says", at=op, found=found, expected=expected)
        upper = self.scalar(op.ub)
        with e.loop(
            op.body.block.args[0].name_hint or "it",
            upper,
            start=self.scalar(op.lb),
            carried=carried,
            bound=bound.value.data,
            unroll=hip.UNROLL in op.attributes,
        ) as (induction, loop):
            self.indices[op.body.block.args[0]] = induction
            arguments = iter(loop.body.block.args[1:])
            for argument, mine in zip(inner, held, strict=True):
                self._bind(argument, mine, arguments)
            self._block(op.body.block)
            terminator = op.body.block.last_op
            assert isinstance(terminator, scf.YieldOp)
            values = self._end_values(terminator.arguments, held)
            if carried:
                e.yield_(*values)
        results = iter(loop.results)
        for result, mine in zip(op.results, held, strict=True):
            self._bind(result, mine, results)

    def _bind(self, value: SSAValue, held: LaneTile | SSAValue, carried: Iterator[SSAValue]) -> None:
        if isinstance(held, RegsTile):
            self.tiles[value] = held
            return
        new = next(carried)
        new.name_hint = value.name_hint
        if isinstance(held, ScalarTile):
            self.tiles[value] = ScalarTile(held.tile, new)
        else:
            self.scalars[value] = new

    def _end_values(self, yielded: Sequence[SSAValue], held: Sequence[LaneTile | SSAValue]) -> list[SSAValue]:
        """Move what a region yields into the arrays that it was given; returns the values that are no arrays."""
        own = {h.regs for h in held if isinstance(h, RegsTile)}
        moves: list[tuple[RegsTile, RegsTile]] = []
        values: list[SSAValue] = []
        for value, target in zip(yielded, held, strict=True):
            if isinstance(target, RegsTile):
                source = self.tiles[value]
                assert isinstance(source, RegsTile)
                if source.regs is not target.regs:
                    if source.regs in own:
                        source = self._copy(source, None)
                    moves.append((source, target))
            elif isinstance(target, ScalarTile):
                values.append(self._scalar_of(value))
            else:
                values.append(self.scalar(value))
        for source, target in moves:
            self._copy(source, None, target)
        return values

    def _scalar_of(self, value: SSAValue) -> SSAValue:
        held = self.tiles[value]
        zeros = [IndexExpr.const(0)] * len(tile.tile_of(value).shape)
        return held.element(self.emitter, zeros)

    @_lower.register
    def _if(self, op: scf.IfOp) -> None:
        others = [o for block in op.false_region.blocks for o in block.ops if not isinstance(o, scf.YieldOp)]
        if op.results or others:
            raise XpagedError("a tile-level scf.if has one branch and no results", at=op)
        with self.emitter.condition(self.scalar(op.cond)):
            self._block(op.true_region.block)

    @_lower.register
    def _end(self, op: scf.YieldOp | tile.TileYieldOp) -> None:
        """Loops and branches end their blocks themselves."""

    @_lower.register
    def _return(self, op: func.ReturnOp) -> None:
        self.emitter.insert(func.ReturnOp())
