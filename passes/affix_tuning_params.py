"""affix-tuning-params: the tile sizes of every attention, chosen or as a `perf_config` says.

    func.func @f(%q: memref<2x3x16xf16>, %kt: memref<1x40x1xi64>, %vt: memref<1x40x1xi64>, %out: memref<2x3x16xf16>)
        attributes {rock.kernel, arch = "gfx942"} {
      %keys = rock.deref %kt : memref<1x40x1xi64> -> memref<1x40x16xf16>
      %values = rock.deref %vt : memref<1x40x1xi64> -> memref<1x40x16xf16>
      rock.attention{
        qk = %q * tr %keys : memref<2x3x16xf16>, memref<1x40x16xf16>
        keyAddresses = (%keys : memref<1x40x16xf16>)
        valueAddresses = (%values : memref<1x40x16xf16>)
        %out = softmax(qk) * %values : memref<1x40x16xf16> -> memref<2x3x16xf16>
      } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32}
      func.return
    }

becomes

    func.func @f(%q: memref<2x3x16xf16>, %kt: memref<1x40x1xi64>, %vt: memref<1x40x1xi64>, %out: memref<2x3x16xf16>)
        attributes {rock.kernel, arch = "gfx942"} {
      %keys = rock.deref %kt : memref<1x40x1xi64> -> memref<1x40x16xf16>
      %values = rock.deref %vt : memref<1x40x1xi64> -> memref<1x40x16xf16>
      rock.attention{
        qk = %q * tr %keys : memref<2x3x16xf16>, memref<1x40x16xf16>
        keyAddresses = (%keys : memref<1x40x16xf16>)
        valueAddresses = (%values : memref<1x40x16xf16>)
        %out = softmax(qk) * %values : memref<1x40x16xf16> -> memref<2x3x16xf16>
      } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32,
         params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 4, channel_chunk = 16,
                                          value_channels = 16, stages = 2>}
      func.return
    }

Sizes that are there already stay. A `perf_config` (of the attention or of its function) gives keys and query rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from xpaged.arch import Arch, arch_of_function
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.attrs import AttentionParamsAttr
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass
from xpaged.lowering.geometry import (
    INSTRUCTION_ROWS,
    MAX_WAVES,
    Geometry,
    choose_params,
    direct_params,
    geometry_of,
    lds_bytes,
    round_up,
)
from xpaged.lowering.perf_config import PerfConfig, config_of


@dataclass(frozen=True)
class AffixTuningParamsPass(LevelPass):
    """Set `params0` of every rock.attention (see the module's text)."""

    name = "affix-tuning-params"
    takes: ClassVar[Level | None] = Level.ROCK_MEMREF
    leaves: ClassVar[Level | None] = Level.ROCK_MEMREF

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for op in module.walk():
            if isinstance(op, AttentionOp) and op.params0 is None:
                function = op.parent_op()
                assert isinstance(function, func.FuncOp)
                arch = arch_of_function(function)
                geometry = geometry_of(op)
                try:
                    for element in (geometry.element, geometry.value_element):
                        arch.matrix_instruction(str(element))
                except XpagedError as err:
                    raise err.locate(op) from None
                config = config_of(op)
                if config is None:
                    op.params0 = choose_params(geometry, arch)
                else:
                    op.params0 = _configured(config, geometry, arch, op)


def _configured(config: PerfConfig, geometry: Geometry, arch: Arch, op: AttentionOp) -> AttentionParamsAttr:
    """Tile sizes as a perf_config says: keys and query rows, both rounded up to whole matrix instructions, and stages
    of the key loop where there is room for them."""
    chosen = direct_params(geometry, arch).values()
    rows = min(config.rows, round_up(geometry.rows, INSTRUCTION_ROWS))
    chosen["query_waves"] = min(MAX_WAVES, round_up(rows, INSTRUCTION_ROWS) // INSTRUCTION_ROWS)
    chosen["keys_per_tile"] = round_up(config.keys, INSTRUCTION_ROWS)
    if chosen["keys_per_tile"] > 64:
        raise XpagedError(
            "mPerBlockG0 is more keys than the registers of a lane can hold",
            at=op,
            found=config.keys,
            expected="at most 64",
        )
    if config.stages is not None:
        chosen["stages"] = min(chosen["stages"], config.stages)
    while chosen["key_waves"] > 1 and (
        chosen["key_waves"] * chosen["query_waves"] > MAX_WAVES
        or lds_bytes(chosen["query_waves"], chosen["key_waves"], chosen["value_channels"], geometry.rows)
        > arch.lds_bytes
    ):
        chosen["key_waves"] //= 2
    return AttentionParamsAttr.of(**chosen)
