"""Register layouts of an attention kernel, from its matrix instructions and tile sizes.

The kernel computes S^T = K Q^T and O^T = V^T P^T.  A lane group of the first product's D holds `R` keys next to each
other of every 16 (which row of D is which key is a matter of the lanes that K's rows are loaded into), and the second
product takes keys in just these groups as its reduction index: P leaves the first product exactly where the second
wants it.  Only where both halves of a wave have to hold all of P (RDNA3) they exchange their halves.  K rows and V
rows are read along their channels, several at a time; the reduction order of K Q^T is permuted the same way in K and
Q, the channel order of O^T is undone at the store.

Waves: `query_waves` of them share the keys, each has 16 query columns of its own; `key_waves` take turns on key tiles
and are coordinate 0 of every tile that differs between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from xpaged.arch.table import MatrixInstruction
from xpaged.ir.layout import COPY, Digit, Layout

_Digits = list[tuple[int, int, int] | Digit]


@dataclass(frozen=True)
class AttentionLayouts:
    """Layouts for tiles of `keys` keys, `channels` channels of Q and K, and `value_channels` channels of V.

    All three are multiples of 16, and of what the instructions multiply at once; tile coordinates are
    [key wave, rows, columns].  `second` is the instruction of the second product, None for that of the first one.
    """

    instruction: MatrixInstruction
    query_waves: int
    key_waves: int
    keys: int
    channels: int
    value_channels: int
    second: MatrixInstruction | None = None

    @property
    def value_instruction(self) -> MatrixInstruction:
        """The instruction of the second product."""
        return self.second or self.instruction

    @property
    def columns(self) -> int:
        """Query columns of a workgroup."""
        return self.query_waves * self.instruction.n

    @property
    def groups(self) -> int:
        """Lane groups that hold different rows of a product."""
        return self.instruction.result_groups

    @cached_property
    def channel_vector(self) -> int:
        """Channels of K that one lane reads in a row: whole operands of the instruction, 8 where there are as many."""
        vector = max(8, self.instruction.elements)
        while vector > self.instruction.elements and self.channels % (self.instruction.operand_groups * vector):
            vector //= 2
        return vector

    @cached_property
    def value_vector(self) -> int:
        """Channels of V that one lane reads in a row."""
        vector = 8
        while self.value_channels % (16 * vector):
            vector //= 2
        return vector

    @property
    def _value_keys(self) -> int:
        """Keys of every 16 that one lane holds of V and P."""
        return 16 // self.value_instruction.operand_groups

    def _waves(self, *, keys: bool, queries: bool) -> list[Digit]:
        return [
            Digit(self.query_waves, 2, 16) if queries else Digit(self.query_waves, COPY),
            Digit(self.key_waves, 0, 1) if keys else Digit(self.key_waves, COPY),
        ]

    def _rows(self, instruction: MatrixInstruction, stride: int) -> _Digits:
        """Lanes of an operand with 16 rows, such that lane group g of the product holds rows R g .. R g + R - 1."""
        groups, registers = instruction.result_groups, instruction.registers
        if instruction.result_block == 1:
            return [(groups, 1, registers * stride), (registers, 1, stride)]
        return [(16, 1, stride)]

    @cached_property
    def k(self) -> Layout:
        """K [key waves, keys, channels]: a lane has one key of 16 and channels from vector * its group."""
        i, c = self.instruction, self.channel_vector
        step = i.operand_groups * c
        return Layout.of(
            (self.key_waves, self.keys, self.channels),
            wave=self._waves(keys=True, queries=False),
            lane=[*self._rows(i, 1), Digit(i.copies), (i.operand_groups, 2, c)],
            regs=[(c, 2, 1), (self.channels // step, 2, step), (self.keys // 16, 1, 16)],
        )

    @cached_property
    def q(self) -> Layout:
        """Q^T [1, channels, columns]: the same channel order as K."""
        i, c = self.instruction, self.channel_vector
        return Layout.of(
            (1, self.channels, self.columns),
            wave=self._waves(keys=False, queries=True),
            lane=[(16, 2, 1), Digit(i.copies), (i.operand_groups, 1, c)],
            regs=[(c, 1, 1), (self.channels // (i.operand_groups * c), 1, i.operand_groups * c)],
        )

    @cached_property
    def s(self) -> Layout:
        """S^T [key waves, keys, columns]: lane l has column l % 16 and R keys from R * its group of every 16."""
        r = self.instruction.registers
        return Layout.of(
            (self.key_waves, self.keys, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(16, 2, 1), (self.groups, 1, r)],
            regs=[(r, 1, 1), (self.keys // 16, 1, 16)],
        )

    @cached_property
    def p(self) -> Layout:
        """P^T as the second product takes it: S^T, or with the keys of both halves of the wave in each lane."""
        i = self.value_instruction
        return Layout.of(
            (self.key_waves, self.keys, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(16, 2, 1), Digit(i.copies), (i.operand_groups, 1, self._value_keys)],
            regs=[(self._value_keys, 1, 1), (self.keys // 16, 1, 16)],
        )

    def _v(self, *, rows: bool) -> Layout:
        i, c, k = self.value_instruction, self.value_vector, self._value_keys
        channels, blocks = (c, 1, 1), max(1, i.elements // k)
        keys: _Digits = [(k, 2, 1), (blocks, 2, 16)]
        more: _Digits = [(self.value_channels // (16 * c), 1, 16 * c), (self.keys // (16 * blocks), 2, 16 * blocks)]
        return Layout.of(
            (self.key_waves, self.value_channels, self.keys),
            wave=self._waves(keys=True, queries=False),
            lane=[*self._rows(i, c), Digit(i.copies), (i.operand_groups, 2, k)],
            regs=[channels, *keys, *more] if rows else [*keys, channels, *more],
        )

    @cached_property
    def v_rows(self) -> Layout:
        """V^T [key waves, value channels, keys] as it is read: a lane has `value_vector` channels of each key."""
        return self._v(rows=True)

    @cached_property
    def v(self) -> Layout:
        """V^T as the instruction wants it: the keys of an operand in neighbouring registers."""
        return self._v(rows=self.value_instruction.elements == 1)

    @cached_property
    def o(self) -> Layout:
        """O^T [key waves, value channels, columns] as the instruction leaves it."""
        r, c = self.value_instruction.registers, self.value_vector
        return Layout.of(
            (self.key_waves, self.value_channels, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(16, 2, 1), (self.groups, 1, r * c)],
            regs=[(r, 1, c), (c, 1, 1), (self.value_channels // (16 * c), 1, 16 * c)],
        )

    @cached_property
    def o_rows(self) -> Layout:
        """O^T with neighbouring channels in neighbouring registers, for wide stores."""
        c = 16 // self.groups * self.value_vector
        wide = min(c, 8)
        return Layout.of(
            (self.key_waves, self.value_channels, self.columns),
            wave=self._waves(keys=True, queries=True),
            lane=[(16, 2, 1), (self.groups, 1, c)],
            regs=[(wide, 1, 1), (c // wide, 1, wide), (self.value_channels // (self.groups * c), 1, self.groups * c)],
        )

    @cached_property
    def row_parts(self) -> Layout:
        """One value a query column and key wave, all key waves in the registers of each lane."""
        return Layout.of(
            (self.key_waves, 1, self.columns),
            wave=self._waves(keys=False, queries=True),
            lane=[(16, 2, 1), (self.groups, COPY, 1)],
            regs=[(self.key_waves, 0, 1)],
        )

    @cached_property
    def o_parts(self) -> Layout:
        """O^T of all key waves, each wave with its share of the channels: what the join adds up."""
        share = self.value_channels // (self.groups * self.key_waves)
        wide = 8
        while share % wide:
            wide //= 2
        return Layout.of(
            (self.key_waves, self.value_channels, self.columns),
            wave=[Digit(self.query_waves, 2, 16), Digit(self.key_waves, 1, self.groups * share)],
            lane=[(16, 2, 1), (self.groups, 1, share)],
            regs=[(wide, 1, 1), (share // wide, 1, wide), (self.key_waves, 0, 1)],
        )
