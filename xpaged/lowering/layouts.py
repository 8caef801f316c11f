"""Register layouts of an attention kernel, from a matrix instruction and tile sizes.

The kernel computes S^T = K Q^T and O^T = V^T P^T.  With the instruction's row i of D in lane group `i // 4`, register
`i % 4`, P leaves the first product exactly where the second wants it: keys stand in (group, register) as reduction
index.  K rows and V rows are read along their channels, several at a time; the reduction order of K Q^T is permuted
the same way in K and Q, the channel order of O^T is undone at the store.

Waves: `query_waves` of them share the keys, each has 16 query columns of its own; `key_waves` take turns on key tiles
and are coordinate 0 of every tile that differs between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from xpaged.arch.table import MatrixInstruction
from xpaged.ir.layout import COPY, Digit, Layout


@dataclass(frozen=True)
class AttentionLayouts:
    """Layouts for tiles of `keys` keys, `channels` channels of Q and K, and `value_channels` channels of V.

    All three are multiples of 16; tile coordinates are [key wave, rows, columns].
    """

    instruction: MatrixInstruction
    query_waves: int
    key_waves: int
    keys: int
    channels: int
    value_channels: int

    @property
    def columns(self) -> int:
        """Query columns of a workgroup."""
        return self.query_waves * self.instruction.n

    @cached_property
    def channel_vector(self) -> int:
        """Channels of K that one lane reads in a row: whole operands of the instruction, up to 8."""
        groups = 64 // self.instruction.m
        vector = 8
        while vector > self.instruction.elements and self.channels % (groups * vector):
            vector //= 2
        return vector

    @cached_property
    def value_vector(self) -> int:
        """Channels of V that one lane reads in a row."""
        vector = 8
        while self.value_channels % (16 * vector):
            vector //= 2
        return vector

    def _waves(self, *, keys: bool, queries: bool) -> list[Digit]:
        return [
            Digit(self.query_waves, 2, 16) if queries else Digit(self.query_waves, COPY),
            Digit(self.key_waves, 0, 1) if keys else Digit(self.key_waves, COPY),
        ]

    @cached_property
    def k(self) -> Layout:
        """K [key waves, keys, channels]: lane l has key l % 16 and channels from vector * (l / 16)."""
        c = self.channel_vector
        return Layout.of(
            (self.key_waves, self.keys, self.channels),
            wave=self._waves(keys=True, queries=False),
            lane=[(16, 1, 1), (4, 2, c)],
            regs=[(c, 2, 1), (self.channels // (4 * c), 2, 4 * c), (self.keys // 16, 1, 16)],
        )

    @cached_property
    def q(self) -> Layout:
        """Q^T [1, channels, columns]: the same channel order as K."""
        c = self.channel_vector
        return Layout.of(
            (1, self.channels, self.columns),
            wave=self._waves(keys=False, queries=True),
            lane=[(16, 2, 1), (4, 1, c)],
            regs=[(c, 1, 1), (self.channels // (4 * c), 1, 4 * c)],
        )

    @cached_property
    def s(self) -> Layout:
        """S^T and P^T [key waves, keys, columns]: lane l has column l % 16 and keys 4 * (l / 16) + register."""
        return Layout.of(
            (self.key_waves, self.keys, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(16, 2, 1), (4, 1, 4)],
            regs=[(4, 1, 1), (self.keys // 16, 1, 16)],
        )

    @cached_property
    def v_rows(self) -> Layout:
        """V^T [key waves, value channels, keys] as it is read: a lane has `value_vector` channels of each of 4 keys."""
        c = self.value_vector
        return Layout.of(
            (self.key_waves, self.value_channels, self.keys),
            wave=self._waves(keys=True, queries=False),
            lane=[(16, 1, c), (4, 2, 4)],
            regs=[(c, 1, 1), (4, 2, 1), (self.value_channels // (16 * c), 1, 16 * c), (self.keys // 16, 2, 16)],
        )

    @cached_property
    def v(self) -> Layout:
        """V^T as the instruction wants it: the keys of an operand in neighbouring registers."""
        c = self.value_vector
        if self.instruction.elements == 1:
            return self.v_rows
        return Layout.of(
            (self.key_waves, self.value_channels, self.keys),
            wave=self._waves(keys=True, queries=False),
            lane=[(16, 1, c), (4, 2, 4)],
            regs=[(4, 2, 1), (c, 1, 1), (self.value_channels // (16 * c), 1, 16 * c), (self.keys // 16, 2, 16)],
        )

    @cached_property
    def o(self) -> Layout:
        """O^T [key waves, value channels, columns] as the instruction leaves it."""
        c = self.value_vector
        return Layout.of(
            (self.key_waves, self.value_channels, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(16, 2, 1), (4, 1, 4 * c)],
            regs=[(4, 1, c), (c, 1, 1), (self.value_channels // (16 * c), 1, 16 * c)],
        )

    @cached_property
    def o_rows(self) -> Layout:
        """O^T with neighbouring channels in neighbouring registers, for wide stores."""
        c = 4 * self.value_vector
        wide = min(c, 8)
        return Layout.of(
            (self.key_waves, self.value_channels, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(16, 2, 1), (4, 1, c)],
            regs=[(wide, 1, 1), (c // wide, 1, wide), (self.value_channels // (4 * c), 1, 4 * c)],
        )

    @cached_property
    def row_parts(self) -> Layout:
        """One value a query column and key wave, all key waves in the registers of each lane."""
        return Layout.of(
            (self.key_waves, 1, self.columns),
            wave=self._waves(keys=False, queries=True),
            lane=[(16, 2, 1), (4, COPY, 1)],
            regs=[(self.key_waves, 0, 1)],
        )

    @cached_property
    def o_parts(self) -> Layout:
        """O^T of all key waves, each wave with its share of the channels: what the join adds up."""
        share = self.value_channels // (4 * self.key_waves)
        wide = 8
        while share % wide:
            wide //= 2
        return Layout.of(
            (self.key_waves, self.value_channels, self.columns),
            wave=[Digit(self.query_waves, 2, 16), Digit(self.key_waves, 1, 4 * share)],
            lane=[(16, 2, 1), (4, 1, share)],
            regs=[(wide, 1, 1), (share // wide, 1, wide), (self.key_waves, 0, 1)],
        )
