"""gridwise-to-tile: the online softmax as a loop over key tiles; the first level that reads through a deref.

    #swap = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d2, d1)> by
      [<PassThrough ["g"] at [0] -> ["g"] at [0]>, <PassThrough ["d"] at [1] -> ["d"] at [2]>,
       <PassThrough ["key"] at [2] -> ["key"] at [1]>] bounds = [3, 16, 96] -> [3, 96, 16]>
    func.func @f(%q: memref<3x16x16xf16>, %kt: memref<3x96x1xi64>, %vt: memref<3x96x1xi64>, %last: memref<3xi32>,
                 %o: memref<3x16x16xf16>)
        attributes {rock.kernel, arch = "gfx942", rock.grid_size = 3 : i32, rock.block_size = 64 : i32} {
      %kd = rock.deref %kt : memref<3x96x1xi64> -> memref<3x96x16xf16>
      %vd = rock.deref %vt : memref<3x96x1xi64> -> memref<3x96x16xf16>
      %k = rock.transform %kd by #swap : memref<3x96x16xf16> to memref<3x16x96xf16>
      rock.gridwise_attention_accel(%q, %k, %vd, %last, %o, %kd, %vd) preSoftmaxOps = {}
        {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1, 0, 1, 1>,
         params0 = #rock.attention_params<keys_per_tile = 32, query_waves = 1, key_waves = 1, channel_chunk = 16,
                                          value_channels = 16, stages = 2>}
        : memref<3x16x16xf16>, memref<3x16x96xf16>, memref<3x96x16xf16>, memref<3xi32>, memref<3x16x16xf16>,
          memref<3x96x16xf16>, memref<3x96x16xf16>
      func.return
    }

becomes, in part,

      %workgroup = rock.workgroup_id : index
      %k_tiles = rock.transform %k by
      %kv_index = memref.load %last[%workgroup] : memref<3xi32>
      %last_key = arith.minsi %kv_index,
      %q_rows = rock.tile_load %q_tiles_1[%workgroup,
      %k_1 = rock.tile_load %k_tiles_1[%workgroup,
      %m_1, %l_1, %acc_1, %k_2 = scf.for %it =
        %next = arith.minsi
        %v_rows = rock.tile_load %v_tiles_1[%workgroup, %it,
        rock.sched_barrier
        %s_1 = rock.tile_mma "mfma_f32_16x16x16_f16" %k_3, %q_rows, %s
        rock.sched_barrier
        %k_4 = rock.tile_load %k_tiles_1[%workgroup, %next,
        rock.sched_barrier
        %top = rock.tile_reduce_lane "max" %s_1 along 1
        %rises = rock.tile_map
        %m_3, %l_3, %acc_3 = rock.tile_if_any %rises
          %row_top = rock.tile_reduce "max" %top_1 along 1
        %p = rock.tile_map
          math.exp2
        %sum = rock.tile_reduce_lane "sum" %p along 1
        %acc_6 = rock.tile_mma "mfma_f32_16x16x16_f16" %v, %p_packed, %acc_3
        scf.yield %m_3, %l_6, %acc_6, %k_4
      } {rock.trip_bound = 3 : i32}
      %m_5, %l_7, %acc_7 = scf.for %it_1 = %full_tiles to %tiles
        %k_5 = rock.tile_load %k_tiles_1[%workgroup, %it_1,
        %x = rock.tile_mask %s_3 keys %first_key
        %v_rows_1 = rock.tile_load %v_tiles_1[%workgroup, %it_1,
      } {rock.trip_bound = 3 : i32}
      %l_13 = rock.tile_reduce "sum" %l_7 along 1
      rock.tile_store %o_packed, %o_tiles_1[%workgroup,

Exponents are in units of log2, so that 2^x is the hardware's own instruction. Whole tiles of kept keys come first,
without masks; their K is loaded a turn ahead and their V before it is needed, so that loads are always in flight. The
tiles that a mask cuts follow. `m` is no running maximum but a reference that scores may exceed by a factor of 2^8: only
then, and at the first key, a wave moves it. Each lane sums up its own part of P; lanes exchange once, at the end. Where
waves take turns on the keys, what they have is joined through LDS at the end. With `rows_per_wave = 32` waves share K
and V through LDS instead (`xpaged.lowering.attention_staged`).
An elementwise kernel (a `linalg.generic`) becomes one load for each input, a `rock.tile_map` and a store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from xpaged.dialects.rock.attention import GridwiseAttentionAccelOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass
from xpaged.lowering.attention_staged import tiles_of
from xpaged.lowering.elementwise_tiles import is_elementwise, to_tiles
from xpaged.lowering.merge_tiles import MergeTiles
from xpaged.lowering.tile_checks import check_merge, check_tiles


@dataclass(frozen=True)
class GridwiseToTilePass(LevelPass):
    """Lower rock.gridwise_attention_accel to tiles (see the module's text)."""

    name = "gridwise-to-tile"
    takes: ClassVar[Level | None] = Level.GRIDWISE
    leaves: ClassVar[Level | None] = Level.TILE

    def run(self, ctx: Context, module: ModuleOp) -> None:
        lowered: set[Operation | None] = set()
        for op in list(module.walk()):
            if isinstance(op, GridwiseAttentionAccelOp) or is_elementwise(op):
                if op.parent_op() in lowered:
                    raise XpagedError(
                        f"a kernel does one thing, for which the launch is made, and this is a second '{op.name}'",
                        at=op,
                    )
                lowered.add(op.parent_op())
                if isinstance(op, GridwiseAttentionAccelOp):
                    check_tiles(op)
                    tiles_of(op).run()
                elif isinstance(op, GenericOp):
                    to_tiles(op)
            elif isinstance(op, MergeAttentionOp):
                check_merge(op)
                MergeTiles(op).run()
