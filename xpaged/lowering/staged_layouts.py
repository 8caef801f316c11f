"""Register and LDS layouts of a kernel for many query rows, whose waves share K and V through LDS.

A wave has 32 query columns and multiplies with 32x32 instructions, so that each element that it reads from LDS serves
32 rows.  Row i = b + 4 g + 8 a of such a product (b < 4, g < 2, a < 4) ends in lane group g, register b + 4 a.  K row i
is therefore key b + 4 a + 16 g: P has neighbouring keys in neighbouring registers, and V is read four keys at a time to
match, so P stays where it is.  V^T row i is a channel with the same digits; the store of O undoes it.

Each of eight waves brings an eighth of the keys of a tile from memory:

* K rows as they are, 16 bytes a lane; a row in LDS has 16 bytes more than it needs, and rows lie in the order of i, so
  that eight lanes that read 16 bytes of their rows meet all 32 banks;
* V rows four keys at a time; a lane transposes its block in registers, and LDS holds chunks of 16 bytes: 2 channels of
  4 keys, the two operands of one read.  Chunks lie in the order of i too: neighbouring lanes write, and read,
  neighbouring chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from xpaged.dialects.rock.attrs import ROWS_PER_WAVE
from xpaged.ir.layout import COPY, Digit, Layout
from xpaged.ir.transform_map import Builder
from xpaged.lowering.layouts import AttentionLayouts

STAGED_ROWS = ROWS_PER_WAVE[1]  # query columns of a wave
STAGED_CHANNELS = (64, 128)  # of Q and K, and of V
STAGED_KEYS = 64  # keys of a tile
STAGED_WAVES = 8
CHUNK = 8  # elements of 16 bits in 16 bytes


def staged_lds_bytes(channels: int, value_channels: int) -> int:
    """What K and V of one tile take in LDS."""
    return 2 * STAGED_KEYS * (channels + CHUNK + value_channels)


def _rows(dim: int, stride: int) -> list[tuple[int, int, int]]:
    """The digits b, g, a of an operand's 32 rows, along coordinate `dim` in steps of `stride`."""
    return [(4, dim, stride), (2, dim, 16 * stride), (4, dim, 4 * stride)]


@dataclass(frozen=True)
class StagedLayouts(AttentionLayouts):
    """Layouts for STAGED_KEYS keys, `channels` and `value_channels` of STAGED_CHANNELS, 16-bit types; coordinate 0 is
    always 1."""

    @property
    def columns(self) -> int:
        """Query columns of a workgroup."""
        return self.query_waves * STAGED_ROWS

    def _waves(self, *, keys: bool, queries: bool) -> list[Digit]:
        return [Digit(self.query_waves, 2, STAGED_ROWS) if queries else Digit(self.query_waves, COPY)]

    # ---- from memory to LDS

    @cached_property
    def k_rows(self) -> Layout:
        """K [1, keys, channels] as it comes from memory: a wave has eight keys, a lane 16 bytes of some of them."""
        lanes = self.channels // CHUNK
        rows, keys = 64 // lanes, self.keys // self.query_waves
        return Layout.of(
            (1, self.keys, self.channels),
            wave=[(self.query_waves, 1, keys)],
            lane=[(lanes, 2, CHUNK), (rows, 1, 1)],
            regs=[(CHUNK, 2, 1), (keys // rows, 1, rows)],
        )

    @property
    def _part(self) -> int:
        """Channels of V that a lane brings of each of its four keys, and steps between the rows of V^T."""
        return self.value_channels // 32

    @cached_property
    def v_rows(self) -> Layout:
        """V^T [1, value channels, keys] as it comes from memory: a lane has a few channels of four keys."""
        return Layout.of(
            (1, self.value_channels, self.keys),
            wave=[(self.query_waves, 2, 8)],
            lane=[*_rows(1, self._part), (2, 2, 4)],
            regs=[(self._part, 1, 1), (4, 2, 1)],
        )

    @cached_property
    def v_chunks(self) -> Layout:
        """The same with the four keys of a channel in neighbouring registers, as LDS takes them."""
        rows = self.v_rows
        regs = [(4, 2, 1), (2, 1, 1), (self._part // 2, 1, 2)]
        return Layout.of(rows.shape, wave=rows.wave, lane=rows.lane, regs=regs)

    @property
    def k_shape(self) -> tuple[int, ...]:
        """K in LDS: [block of 32 keys, a, g, b, channels and padding]."""
        return self.keys // 32, 4, 2, 4, self.channels + CHUNK

    def k_view(self) -> list[Builder]:
        """From K in LDS to [1, keys, channels]."""
        names = ("block", "a", "g", "b", "c")
        slim = Builder(names, self.k_shape).pass_through(*names[:4]).slice("c", 0, self.channels)
        merged = Builder(names, (*self.k_shape[:4], self.channels))
        return [slim, merged.add_dim("one", 1).merge("k", ("block", "g", "a", "b")).pass_through("c")]

    @property
    def v_shape(self) -> tuple[int, ...]:
        """V in LDS: [keys / 4, pair of channels, a, g, b, channel of the pair, key]."""
        return self.keys // 4, self._part // 2, 4, 2, 4, 2, 4

    def v_view(self) -> list[Builder]:
        """From V in LDS to [1, value channels, keys]."""
        names = ("quad", "pair", "a", "g", "b", "x", "e")
        merged = Builder(names, self.v_shape).add_dim("one", 1).merge("c", ("g", "a", "b", "pair", "x"))
        return [merged.merge("k", ("quad", "e"))]

    # ---- the products

    @cached_property
    def k(self) -> Layout:
        """K as an operand: a lane has one key of each block, and 16 bytes of every 32."""
        return Layout.of(
            (1, self.keys, self.channels),
            wave=self._waves(keys=True, queries=False),
            lane=[*_rows(1, 1), (2, 2, CHUNK)],
            regs=[(CHUNK, 2, 1), (self.channels // (2 * CHUNK), 2, 2 * CHUNK), (self.keys // 32, 1, 32)],
        )

    @cached_property
    def q(self) -> Layout:
        """Q^T [1, channels, columns]: the same channel order as K."""
        return Layout.of(
            (1, self.channels, self.columns),
            wave=self._waves(keys=False, queries=True),
            lane=[(32, 2, 1), (2, 1, CHUNK)],
            regs=[(CHUNK, 1, 1), (self.channels // (2 * CHUNK), 1, 2 * CHUNK)],
        )

    @cached_property
    def s(self) -> Layout:
        """S^T and P^T [1, keys, columns]: lane l has column l % 32 and 16 keys of each block."""
        return Layout.of(
            (1, self.keys, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(32, 2, 1), (2, 1, 16)],
            regs=[(16, 1, 1), (self.keys // 32, 1, 32)],
        )

    @cached_property
    def p(self) -> Layout:
        """P^T stays where the first product leaves it."""
        return self.s

    @cached_property
    def v(self) -> Layout:
        """V^T as an operand: a lane has pairs of channels of four keys of every 16."""
        return Layout.of(
            (1, self.value_channels, self.keys),
            wave=self._waves(keys=True, queries=False),
            lane=[*_rows(1, self._part), (2, 2, 16)],
            regs=[(4, 2, 1), (2, 1, 1), (self._part // 2, 1, 2), (4, 2, 4), (self.keys // 32, 2, 32)],
        )

    @cached_property
    def o(self) -> Layout:
        """O^T [1, value channels, columns] as the instruction leaves it."""
        return Layout.of(
            (1, self.value_channels, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(32, 2, 1), (2, 1, 16 * self._part)],
            regs=[(16, 1, self._part), (2, 1, 1), (self._part // 2, 1, 2)],
        )

    @cached_property
    def o_rows(self) -> Layout:
        """O^T with neighbouring channels in neighbouring registers, for wide stores."""
        return Layout.of(
            (1, self.value_channels, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(32, 2, 1), (2, 1, 16 * self._part)],
            regs=[(CHUNK, 1, 1), (2 * self._part, 1, CHUNK)],
        )
