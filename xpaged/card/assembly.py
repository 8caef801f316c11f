"""The assembly text of a compiler, read as instructions, basic blocks and loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

# What an instruction is, by the first pattern that its mnemonic matches.
_KINDS = [
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"v_s?w?mfmac?_|v_s?wmmac?_", "matrix"),
        (r"v_accvgpr", "accumulator_move"),
        (r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_", "transcendental"),
        (r"v_(mul_(lo|hi)_[ui]32|mad_[ui]64_[ui]32)", "wide_product"),
        (r"v_(cvt|pack|perm_b32)", "convert"),
        (r"v_(pk_)?mov", "move"),
        (r"v_", "vector"),
        (r"scratch_", "scratch"),
        (r"(global|buffer|flat|tbuffer)_load", "load"),
        (r"(global|buffer|flat|tbuffer)_", "store"),
        (r"ds_(b?permute|swizzle)", "lds_exchange"),
        (r"ds_(read|load)", "lds_read"),
        (r"ds_(write|store)", "lds_write"),
        (r"ds_", "lds_other"),
        (r"s_(buffer_)?load", "scalar_load"),
        (r"s_wait", "wait"),
        (r"s_barrier(_signal|$)", "barrier"),
        (r"s_(c?branch|setpc|swappc|call|endpgm)", "branch"),
        (r"s_(nop|delay_alu|sleep|barrier_wait)", "nop"),
        (r"s_", "scalar"),
    )
]
VECTOR_KINDS = ("vector", "convert", "move", "accumulator_move", "wide_product")
"""Kinds of the vector unit, beside `transcendental` and `matrix`, which take one of its issue slots too."""

_LABEL = re.compile(r'"?([\w.$@]+)"?:')
_SPILL = re.compile(r"\boff, s\[0:3\], (0|s32)\b")  # private memory, where no scratch_ instructions exist
_BITS = re.compile(r"_(?:d16_)?(?:hi_)?[buif](\d+)(?:_|$)")


@dataclass(frozen=True)
class Instruction:
    """One line: mnemonic without the suffix of its encoding, operands as text."""

    name: str
    operands: str

    @cached_property
    def kind(self) -> str:
        """One of the kinds of this module; `other` for what it does not know."""
        kind = next((kind for pattern, kind in _KINDS if pattern.match(self.name)), "other")
        return "scratch" if kind in ("load", "store") and _SPILL.search(self.operands) else kind

    @property
    def bytes(self) -> int:
        """What a load, a store or an LDS access moves for each lane."""
        if words := re.search(r"dwordx(\d)", self.name):
            return 4 * int(words[1])
        if self.kind.startswith("lds") and (bits := re.search(r"_b(\d+)", self.name)):
            return int(bits[1]) // 8 * (2 if re.search(r"(read|write|load|store)_?2", self.name) else 1)
        for word, size in (("dword", 4), ("short", 2), ("byte", 1)):
            if word in self.name:
                return size
        return int(bits[1]) // 8 if (bits := _BITS.search(self.name)) else 4

    @property
    def loads_left(self) -> int | None:
        """How many loads from memory this wait lets stay in flight; None for what waits for no load."""
        if self.kind != "wait":
            return None
        if self.name.startswith("s_wait_loadcnt"):
            number = int(self.operands, 0)
            return number >> 8 if self.name.endswith("_dscnt") else number
        if self.name == "s_waitcnt":
            if found := re.search(r"vmcnt\((\d+)\)", self.operands):
                return int(found[1])
            return 0 if self.operands in ("0", "0x0") else None
        return None

    @property
    def target(self) -> str | None:
        """The label that a branch goes to."""
        return self.operands.split()[0] if self.operands and re.match(r"s_c?branch", self.name) else None

    @property
    def ends(self) -> bool:
        """Whether the next line is never reached from here."""
        return self.name == "s_branch" or self.name.startswith(("s_endpgm", "s_setpc"))


@dataclass(frozen=True)
class Block:
    """Instructions that run one after the other, under the label that leads to them."""

    label: str | None
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class Loop:
    """A loop: its first block's label and all of its blocks; `inner` when it holds no other loop."""

    label: str | None
    blocks: tuple[Block, ...]
    inner: bool

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """All of its instructions in the order of the text, those of branches that are rarely taken too."""
        return tuple(each for block in self.blocks for each in block.instructions)

    def count(self, *kinds: str) -> int:
        """How many instructions are of these kinds."""
        return sum(each.kind in kinds for each in self.instructions)


@dataclass(frozen=True)
class Function:
    """One function of the text."""

    name: str
    blocks: tuple[Block, ...]

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Its natural loops in the order of their first blocks."""
        after = self._successors()
        dominators = _dominators(after)
        bodies: dict[int, set[int]] = {}
        for block, following in enumerate(after):
            for head in following:
                if head in dominators[block]:
                    bodies.setdefault(head, {head}).update(_body(head, block, after))
        return tuple(
            Loop(
                self.blocks[head].label,
                tuple(self.blocks[i] for i in sorted(body)),
                not any(other != head and other in body for other in bodies),
            )
            for head, body in sorted(bodies.items())
        )

    @cached_property
    def hot_loop(self) -> Loop | None:
        """The innermost loop with most matrix instructions (the shortest of several), else with most loads."""

        def heat(loop: Loop) -> tuple[int, ...]:
            products, length = loop.count("matrix"), len(loop.instructions)
            return products, -length if products else 0, loop.count("load"), length

        return max((loop for loop in self.loops if loop.inner), key=heat, default=None)

    def _successors(self) -> list[tuple[int, ...]]:
        """For each block, those that may follow it."""
        places: dict[str | None, int] = {
            block.label: i for i, block in enumerate(self.blocks) if block.label is not None
        }
        after: list[tuple[int, ...]] = []
        for i, block in enumerate(self.blocks):
            last = block.instructions[-1] if block.instructions else None
            to = places.get(last.target) if last is not None else None
            falls = i + 1 < len(self.blocks) and not (last is not None and last.ends)
            after.append((*([to] if to is not None else []), *([i + 1] if falls else [])))
        return after


def read_assembly(text: str) -> dict[str, Function]:
    """The functions of an assembly text by name; empty when there are none."""
    functions: dict[str, list[Block]] = {}
    blocks: list[Block] | None = None
    label: str | None = None
    lines: list[Instruction] = []

    def close(following: str | None) -> None:
        nonlocal label
        if blocks is not None and (lines or label is not None):
            blocks.append(Block(label, tuple(lines)))
        lines.clear()
        label = following

    for line in text.splitlines():
        words = re.split(r";|//", line, maxsplit=1)[0].strip()
        if words == ".amdgpu_metadata":  # what follows is no code
            break
        if (named := _LABEL.match(words)) is not None:
            name = named[1]
            if name.startswith(".L") and not name.startswith(".Lfunc_end"):
                close(name)
            elif not name.startswith(".") or name.startswith(".Lfunc_end"):
                close(None)
                blocks = functions.setdefault(name, []) if not name.startswith(".") else None
        elif words and not words.startswith(".") and blocks is not None:
            name, _, operands = words.replace("\t", " ").partition(" ")
            lines.append(Instruction(re.sub(r"_e(32|64)$", "", name), operands.strip()))
            if lines[-1].kind == "branch":
                close(None)
    close(None)
    return {
        name: Function(name, tuple(found))
        for name, found in functions.items()
        if any(block.instructions for block in found)
    }


def _dominators(after: Sequence[Sequence[int]]) -> list[set[int]]:
    """For each block, the blocks that every way to it leads through."""
    before: list[list[int]] = [[] for _ in after]
    for block, following in enumerate(after):
        for each in following:
            before[each].append(block)
    every = set(range(len(after)))
    found = [{0}, *(set(every) for _ in after[1:])]
    changed = True
    while changed:
        changed = False
        for block in range(1, len(after)):
            ways = [found[each] for each in before[block]]
            new = {block} | (set.intersection(*ways) if ways else set())
            if new != found[block]:
                found[block], changed = new, True
    return found


def _body(head: int, last: int, after: Sequence[Sequence[int]]) -> set[int]:
    """The blocks of the loop that goes back from `last` to `head`."""
    body, pending = {head, last}, [last]
    while pending:
        block = pending.pop()
        if block == head:
            continue
        for each, following in enumerate(after):
            if block in following and each not in body:
                body.add(each)
                pending.append(each)
    return body
