"""outline-kernels: a function that does several things one after the other becomes several kernels.

    func.func @f(%q: memref<1x2x8xf16>, %k: memref<1x4x8xf16>, %v: memref<1x4x8xf16>, %w: memref<1x3x8xf16>,
                 %out: memref<1x2x8xf16> {rock.output = 0 : i32}) attributes {rock.kernel} {
      %rows = memref.alloc() : memref<1x2x8xf16>
      rock.attention{
        qk = %q * tr %k : memref<1x2x8xf16>, memref<1x4x8xf16>
        %rows = softmax(qk) * %v : memref<1x4x8xf16> -> memref<1x2x8xf16>
      }
      rock.attention{
        qk = %rows * tr %w : memref<1x2x8xf16>, memref<1x3x8xf16>
        %out = softmax(qk) * %w : memref<1x3x8xf16> -> memref<1x2x8xf16>
      }
      func.return
    }

becomes

    func.func @f(%q: memref<1x2x8xf16> {rock.argument = 0 : i32}, %k: memref<1x4x8xf16> {rock.argument = 1 : i32},
                 %v: memref<1x4x8xf16> {rock.argument = 2 : i32}, %rows: memref<1x2x8xf16> {rock.workspace = "rows"})
        attributes {rock.kernel, rock.part_of = "f"} {
      rock.attention{
        qk = %q * tr %k : memref<1x2x8xf16>, memref<1x4x8xf16>
        %rows = softmax(qk) * %v : memref<1x4x8xf16> -> memref<1x2x8xf16>
      }
      func.return
    }
    func.func @f_attention(%w: memref<1x3x8xf16> {rock.argument = 3 : i32},
                           %out: memref<1x2x8xf16> {rock.argument = 4 : i32, rock.output = 0 : i32},
                           %rows: memref<1x2x8xf16> {rock.workspace = "rows"})
        attributes {rock.kernel, rock.part_of = "f"} {
      rock.attention{
        qk = %rows * tr %w : memref<1x2x8xf16>, memref<1x3x8xf16>
        %out = softmax(qk) * %w : memref<1x3x8xf16> -> memref<1x2x8xf16>
      }
      func.return
    }

One kernel is made for each operation that reads and writes memory, in order; views (`rock.transform`, `rock.deref`) and
what else has no effect are copied into each kernel that uses them. What `memref.alloc` gave becomes a workspace: an
argument that the launcher allocates. The first attention (or the first operation, where there is none) keeps the name
of the function. A function with one such operation and no temporary is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import AllocOp, DeallocOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import is_side_effect_free

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.locations import copy_location
from xpaged.ir.pass_base import LevelPass
from xpaged.lowering.kernel import ARGUMENT, KERNEL, OUTPUT, PART_OF, WORKSPACE, argument_attributes, kernels_of
from xpaged.lowering.outputs import mark_outputs, written_by


@dataclass(frozen=True)
class OutlineKernelsPass(LevelPass):
    """Make a kernel of each operation that computes something (see the module's text)."""

    name = "outline-kernels"
    takes: ClassVar[Level | None] = Level.ROCK_MEMREF
    leaves: ClassVar[Level | None] = Level.ROCK_MEMREF

    def run(self, ctx: Context, module: ModuleOp) -> None:
        taken = {op.sym_name.data for op in module.walk() if isinstance(op, FuncOp)}
        for function in kernels_of(module):
            steps = [op for op in function.body.block.ops if _computes(op)]
            temporaries = any(isinstance(op, AllocOp) and op.memref.uses for op in function.body.block.ops)
            if len(steps) > 1 or (steps and temporaries):
                mark_outputs(function)  # while one function shows all that is written
                _Outlining(function, steps, taken).run()


def _computes(op: Operation) -> bool:
    """Whether an operation of a function's body reads or writes memory."""
    return not (isinstance(op, AllocOp | DeallocOp | ReturnOp) or is_side_effect_free(op))


def _kind(op: Operation) -> str:
    if isinstance(op, MergeAttentionOp):
        return "merge"
    return "attention" if isinstance(op, AttentionOp) else "elementwise"


class _Outlining:
    """Takes one function apart."""

    def __init__(self, function: FuncOp, steps: Sequence[Operation], taken: set[str]) -> None:
        self.function = function
        self.steps = steps
        self.taken = taken
        self.arguments = list(function.body.block.args)
        self.numbers = {op: number for number, op in enumerate(function.body.block.ops)}
        self.workspaces = self._name_workspaces()

    def run(self) -> None:
        """Put the kernels in place of the function."""
        function, name = self.function, self.function.sym_name.data
        if PART_OF in function.attributes:
            raise XpagedError(
                "a part of another function cannot be taken apart again", at=function, fix=f"remove {PART_OF}"
            )
        last = function.body.block.last_op
        if not isinstance(last, ReturnOp) or last.arguments:
            raise XpagedError(
                "a function that becomes several kernels writes its results to arguments",
                at=last or function,
                expected="memref arguments with rock.output, and func.return without operands",
            )
        used = [self._reach(value for inner in op.walk() for value in inner.operands) for op in self.steps]
        everywhere = set[SSAValue]().union(*(roots for _, roots in used))
        idle = [a for a in self.arguments if a not in everywhere]
        first = next((op for op in self.steps if isinstance(op, AttentionOp)), self.steps[0])
        block = function.parent
        assert block is not None
        for number, (op, (views, roots)) in enumerate(zip(self.steps, used, strict=True)):
            kernel = self._kernel(op, views, roots, idle if number == 0 else [])
            kernel.properties["sym_name"] = StringAttr(name if op is first else self._new_name(f"{name}_{_kind(op)}"))
            kernel.attributes[PART_OF] = StringAttr(name)
            block.insert_op_before(kernel, function)
        function.detach()
        function.erase()

    def _new_name(self, base: str) -> str:
        name = next(n for i in range(len(self.taken) + 1) if (n := base + (f"_{i}" if i else "")) not in self.taken)
        self.taken.add(name)
        return name

    def _name_workspaces(self) -> dict[SSAValue, str]:
        """A name for each temporary that no argument has."""
        names = {a.name_hint for a in self.arguments} | {f"arg{a.index}" for a in self.arguments}
        found: dict[SSAValue, str] = {}
        for op in self.function.body.block.ops:
            if isinstance(op, AllocOp) and op.memref.uses:
                if op.dynamic_sizes:
                    raise XpagedError("the size of a temporary is not known", at=op, found=op.memref.type)
                base = op.memref.name_hint or "workspace"
                name = next(n for i in range(len(names) + 1) if (n := base + (f"_{i}" if i else "")) not in names)
                names.add(name)
                found[op.memref] = name
        return found

    def _reach(self, values: Iterable[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
        """The operations without effect that make `values`, in order, and the arguments and temporaries below them."""
        block = self.function.body.block
        views: set[Operation] = set()
        roots: dict[SSAValue, None] = {}
        pending = list(values)
        while pending:
            value = pending.pop()
            owner = value.owner
            if value in self.workspaces or owner is block:
                roots[value] = None
            elif isinstance(owner, Operation) and owner.parent is block and owner not in views:
                if _computes(owner):
                    raise XpagedError(
                        "kernels share memory only: a value that one of them computes is used by another",
                        at=owner,
                        found=f"a result of '{owner.name}'",
                        fix="write it to a memref first",
                    )
                views.add(owner)
                pending += [operand for inner in owner.walk() for operand in inner.operands]
        return sorted(views, key=lambda op: self.numbers[op]), list(roots)

    def _order(self, roots: Iterable[SSAValue]) -> list[SSAValue]:
        """Arguments as the function has them, then temporaries as they are allocated."""
        some = set(roots)
        return [*(a for a in self.arguments if a in some), *(w for w in self.workspaces if w in some)]

    def _kernel(
        self, step: Operation, views: Sequence[Operation], roots: Sequence[SSAValue], idle: Sequence[SSAValue]
    ) -> FuncOp:
        ordered = self._order([*roots, *idle])
        block = Block(arg_types=[value.type for value in ordered])
        mapped: dict[SSAValue, SSAValue] = dict(zip(ordered, block.args, strict=True))
        for old, new in mapped.items():
            new.name_hint = self.workspaces.get(old, old.name_hint)
        known = written_by(step)
        written = {*idle, *self._reach(step.operands if known is None else known)[1]}
        for op in (*views, step):
            block.add_op(op.clone(mapped))
        end = ReturnOp()
        copy_location(step, end)
        block.add_op(end)
        kernel = FuncOp(
            self.function.sym_name.data,
            FunctionType.from_lists([value.type for value in ordered], []),
            Region(block),
            self.function.sym_visibility,
            arg_attrs=ArrayAttr([DictionaryAttr(self._attributes(value, value in written)) for value in ordered]),
        )
        kernel.attributes.update(self.function.attributes)
        kernel.attributes[KERNEL] = UnitAttr()
        copy_location(self.function, kernel)
        return kernel

    def _attributes(self, value: SSAValue, written: bool) -> dict[str, Attribute]:
        if not isinstance(value, BlockArgument) or value in self.workspaces:
            return {WORKSPACE: StringAttr(self.workspaces[value])}
        known = {ARGUMENT: IntegerAttr(value.index, i32), **argument_attributes(self.function, value.index)}
        if not written:  # a kernel that only reads what an earlier one wrote
            known.pop(OUTPUT, None)
        return known
