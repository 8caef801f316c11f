"""What the waves of an attention kernel have to do, padding not counted: the attribute `rock.work` of its function.

Written by gemm-to-gridwise from the geometry and the tile sizes, read by the performance card.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Operation

from xpaged.errors import XpagedError
from xpaged.lowering.geometry import Geometry, bytes_of, round_up, workgroup_rows
from xpaged.lowering.masks import upper_key
from xpaged.lowering.staged_layouts import STAGED_ROWS

WORK = "rock.work"
_SAMPLED_ROWS = 1024

if TYPE_CHECKING:
    from xpaged.dialects.rock.attention import AttentionOp


class _Plain:
    """Mask rules on Python's numbers."""

    def const(self, value: int) -> int:
        return value

    def min(self, a: int, b: int) -> int:
        return min(a, b)

    def max(self, a: int, b: int) -> int:
        return max(a, b)

    def add(self, a: int, b: int) -> int:
        return a + b


@dataclass(frozen=True)
class Work:
    """One attention kernel. `problems` are independent, with `rows` query rows each; `groups` KV heads of all batch
    entries are read. Waves along the rows are `row_waves` in a problem and `query_waves` in a workgroup; `key_waves`
    take turns on the keys, `keys_per_tile` at a time. `kept_keys` of all `keys` are kept by the causal mask, on
    average and as far as it is known before a launch; the KV index is taken to be the last key."""

    problems: int
    groups: int
    rows: int
    row_waves: int
    wave_rows: int  # of a wave, padding counted
    query_waves: int
    key_waves: int
    keys_per_tile: int
    keys: int
    kept_keys: int
    split: int
    channels: int
    value_channels: int
    value_blocks: int
    element_bytes: int
    value_bytes: int
    staged: int  # 1: the query waves share what they load, through LDS

    @property
    def rows_per_wave(self) -> float:
        """Query rows that count, of a wave on average."""
        return self.rows / self.row_waves

    @property
    def tile_flops(self) -> float:
        """Floating-point operations of both products that one wave has to do for a tile of keys."""
        channels = (self.channels + self.value_channels) / self.value_blocks
        return 2 * self.rows_per_wave * self.keys_per_tile * channels

    @property
    def padded_tile_flops(self) -> float:
        """The same with the rows that are padding."""
        return self.tile_flops * self.wave_rows / self.rows_per_wave

    @property
    def tile_bytes(self) -> float:
        """Bytes of K and V of a tile of keys, as far as one workgroup needs them."""
        return self.keys_per_tile * (
            self.channels * self.element_bytes + self.value_channels * self.value_bytes / self.value_blocks
        )

    @property
    def wave_tile_bytes(self) -> float:
        """The part of `tile_bytes` that each wave loads: all of it, where waves do not share."""
        return self.tile_bytes / (self.query_waves if self.staged else 1)

    @property
    def least_tile_bytes(self) -> float:
        """What each wave would load if those of a workgroup never loaded anything twice."""
        return self.tile_bytes / self.query_waves

    @property
    def flops(self) -> int:
        """Floating-point operations of the two products of the whole problem."""
        return 2 * self.problems * self.rows * self.kept_keys * (self.channels + self.value_channels)

    @property
    def bytes(self) -> int:
        """Bytes of Q, K, V and the output, each once."""
        rows = self.problems * self.rows * (self.channels * self.element_bytes + self.value_channels * self.value_bytes)
        row = self.channels * self.element_bytes + self.value_channels * self.value_bytes
        return rows + self.groups * self.keys * row

    @property
    def tiles(self) -> int:
        """Tiles of keys that one wave goes through, on average."""
        return max(1, -(-self.kept_keys // (self.split * self.key_waves * self.keys_per_tile)))

    def attribute(self) -> DictionaryAttr:
        """The attribute that says it."""
        return DictionaryAttr({name: IntegerAttr(value, i64) for name, value in asdict(self).items()})

    @staticmethod
    def of(op: AttentionOp, geometry: Geometry, params: dict[str, int]) -> Work:
        """The work of an attention with these tile sizes."""
        return Work(
            problems=geometry.problems,
            groups=geometry.groups,
            rows=geometry.rows,
            row_waves=round_up(geometry.rows, workgroup_rows(params)) // params["rows_per_wave"],
            wave_rows=params["rows_per_wave"],
            query_waves=params["query_waves"],
            key_waves=params["key_waves"],
            keys_per_tile=params["keys_per_tile"],
            keys=geometry.keys,
            kept_keys=_kept_keys(geometry) if op.causal is not None and op.prefixOffset is None else geometry.keys,
            split=geometry.split,
            channels=geometry.channels,
            value_channels=geometry.value_channels,
            value_blocks=-(-geometry.value_channels // params["value_channels"]),
            element_bytes=bytes_of(geometry.element),
            value_bytes=bytes_of(geometry.value_element),
            staged=int(params["rows_per_wave"] == STAGED_ROWS),
        )


def work_of(function: Operation) -> Work | None:
    """What the attribute of a kernel says; None where it has none (it is no attention, or came in below that level)."""
    attribute = function.attributes.get(WORK)
    if attribute is None:
        return None
    data = attribute.data if isinstance(attribute, DictionaryAttr) else {}
    values = {name: value.value.data for name, value in data.items() if isinstance(value, IntegerAttr)}
    names = [field.name for field in fields(Work)]
    if sorted(values) != sorted(names) or min(values.values()) < 0:
        raise XpagedError(
            f"the attribute {WORK} does not say what a kernel does",
            at=function,
            found=attribute,
            expected=f"a whole number for each of {', '.join(names)}",
            fix="leave the attribute to gemm-to-gridwise",
        )
    return Work(**values)


def _kept_keys(geometry: Geometry) -> int:
    """Keys that a query row keeps under a causal mask, on average over evenly spaced rows."""
    ops, count = _Plain(), min(geometry.queries, _SAMPLED_ROWS)
    rows = [(2 * i + 1) * geometry.queries // (2 * count) for i in range(count)]
    return -(-sum(upper_key(ops, geometry.keys - 1, row, None) + 1 for row in rows) // count)
