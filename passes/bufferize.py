"""bufferize: tensors become memrefs, and the results of a function arguments that it writes.

    #rows = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 16 + d1 * 8 + d2)>
      by [<Unmerge{1, 2, 8} ["g", "s", "d"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 2, 8] -> [16]>
    #flat = #rock.transform_map<affine_map<(d0) -> (0, d0 floordiv 8, d0 mod 8)>
      by [<Merge{1, 2, 8} ["raw"] at [0] -> ["g", "s", "d"] at [0, 1, 2]>] bounds = [16] -> [1, 2, 8]>
    func.func @f(%q: tensor<16xf16>, %kt: tensor<1x4x1xi64>, %vt: tensor<1x4x1xi64>) -> tensor<16xf16> {
      %queries = rock.transform %q by #rows : tensor<16xf16> to tensor<1x2x8xf16>
      %keys = rock.deref %kt : tensor<1x4x1xi64> -> tensor<1x4x8xf16>
      %values = rock.deref %vt : tensor<1x4x1xi64> -> tensor<1x4x8xf16>
      %rows = rock.attention{
        qk = %queries * tr %keys : tensor<1x2x8xf16>, tensor<1x4x8xf16>
        keyAddresses = (%keys : tensor<1x4x8xf16>)
        valueAddresses = (%values : tensor<1x4x8xf16>)
        softmax(qk) * %values : tensor<1x4x8xf16>
      } -> tensor<1x2x8xf16>
      %out = rock.transform %rows by #flat : tensor<1x2x8xf16> to tensor<16xf16>
      func.return %out : tensor<16xf16>
    }

becomes

    #rows = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 16 + d1 * 8 + d2)>
      by [<Unmerge{1, 2, 8} ["g", "s", "d"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 2, 8] -> [16]>
    func.func @f(%q: memref<16xf16>, %kt: memref<1x4x1xi64> {rock.page_table = {page_size = 8 : i64, elem = f16}},
                 %vt: memref<1x4x1xi64> {rock.page_table = {page_size = 8 : i64, elem = f16}},
                 %out: memref<16xf16> {rock.output = 0 : i32}) {
      %rows = rock.transform %out by #rows : memref<16xf16> to memref<1x2x8xf16>
      %queries = rock.transform %q by #rows : memref<16xf16> to memref<1x2x8xf16>
      %keys = rock.deref %kt : memref<1x4x1xi64> -> memref<1x4x8xf16>
      %values = rock.deref %vt : memref<1x4x1xi64> -> memref<1x4x8xf16>
      rock.attention{
        qk = %queries * tr %keys : memref<1x2x8xf16>, memref<1x4x8xf16>
        keyAddresses = (%keys : memref<1x4x8xf16>)
        valueAddresses = (%values : memref<1x4x8xf16>)
        %rows = softmax(qk) * %values : memref<1x4x8xf16> -> memref<1x2x8xf16>
      }
      func.return
    }

Each operation says itself how it stands on memrefs (`xpaged.ir.bufferizable`). A result that is a view of what an
operation computes costs nothing: the operation writes through the inverse view. A `rock.deref` of tensors becomes one
of memrefs, and still loads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from xpaged.ir.bufferization_models import bufferize_function
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass


@dataclass(frozen=True)
class BufferizePass(LevelPass):
    """Put every function on memrefs (see the module's text)."""

    name = "bufferize"
    takes: ClassVar[Level | None] = Level.ROCK
    leaves: ClassVar[Level | None] = Level.ROCK_MEMREF

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for op in list(module.body.block.ops):
            if isinstance(op, FuncOp):
                bufferize_function(op)
