"""The evaluator: every block is turned once into a list of steps over numbered slots, then run on NumPy values.

Values. A scalar is an array of shape `(P,)`, or `(1,)` where it is the same for all `P` lanes; a vector adds its shape
behind, as does a tile (where a "lane" is a whole workgroup); a tensor is a plain array of its own shape. `index` is
int64, `i1` bool, floats are kept in their own type. A memref is a `views.MemRef`.

Rules. A rule says what an operation does. It is called once, when the block that holds the operation is compiled, and
returns the function that is called each time the operation runs:

    @rule(arith.AddfOp)
    def addf(op, b):
        return lambda m, x, y: x + y

The function gets the machine and the operands' values; it returns the result, a tuple for several results, or None
for none. `b.region(region)` compiles a region of the operation into `run(machine, args) -> tuple of yielded values`;
`b.dtype(type)` is the NumPy type of values of an IR type: with `exact` evaluation float64 for every float type.

Masks. `machine.mask` is None when all lanes are active, else `bool[P]`. Rules without effects may compute inactive
lanes (their results are never used); rules with effects must leave them alone.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, ContainerType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator, SymbolTable

from xpaged.errors import XpagedError
from xpaged.interpreter import rules
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.numerics import Array, dtype_of, is_float
from xpaged.ir.locations import describe

Value = Any
"""An interpreter value: an array, a MemRef, or what the rules of a dialect agree on."""

RegionCode = Callable[["Machine", Sequence[Value]], tuple[Value, ...]]
OpCode = Callable[..., Value]
Step = Callable[["Machine", list[Value]], None]
Maker = Callable[[Any, "Compiler"], OpCode]
Wrap = Callable[[Operation, OpCode, "Compiler"], OpCode]
"""Puts something around the code of each operation, such as a check."""

_RULES: dict[type[Operation], Maker] = {}


def rule(*ops: type[Operation]) -> Callable[[Maker], Maker]:
    """Registers the decorated function as the rule of each of `ops`."""

    def register(make: Maker) -> Maker:
        for op in ops:
            _RULES[op] = make
        return make

    return register


class Pure:
    """An operation's code that needs no machine: called with the operands' values alone."""

    __slots__ = ("fn",)

    def __init__(self, fn: Callable[..., Value]) -> None:
        self.fn = fn

    def __call__(self, m: "Machine", *values: Value) -> Value:
        """As the code of an operation that does need it."""
        return self.fn(*values)


def nullary(fn: Callable[[], Value]) -> OpCode:
    """Code of an operation without operands that needs no machine."""
    return Pure(fn)


def unary(fn: Callable[[Array], Value]) -> OpCode:
    """Code of an operation on one operand that needs no machine."""
    return Pure(fn)


def binary(fn: Callable[[Array, Array], Value]) -> OpCode:
    """Code of an operation on two operands that needs no machine."""
    return Pure(fn)


def ternary(fn: Callable[[Array, Array, Array], Value]) -> OpCode:
    """Code of an operation on three operands that needs no machine."""
    return Pure(fn)


class Machine:
    """What a program runs on: a memory, and `lanes` lanes in `len(groups)` workgroups of `lanes_per_group` each.

    Lane `p` is thread `p % lanes_per_group` of workgroup `groups[p // lanes_per_group]`. At the tile level a workgroup
    is one lane; where nothing runs in lanes there is exactly one. `grid` is the number of workgroups of the whole
    launch. `ops` counts executed operations, `lane_ops` the same times the lanes that were active;
    `printed` is what was printed, with the name of the function that did.
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        groups: Array | Sequence[int] = (0,),
        lanes_per_group: int = 1,
        wave_size: int = 64,
        grid: int = 1,
        exact: bool = False,
    ) -> None:
        self.memory = Memory() if memory is None else memory
        self.groups = np.asarray(groups, np.int64)
        self.lanes_per_group = lanes_per_group
        self.wave_size = wave_size
        self.grid = grid
        self.exact = exact
        self.lanes = len(self.groups) * lanes_per_group
        self.workgroup_id: Array = np.repeat(self.groups, lanes_per_group)
        self.group_index: Array = np.repeat(np.arange(len(self.groups)), lanes_per_group)
        self.thread_id: Array = np.tile(np.arange(lanes_per_group), len(self.groups))
        self.wave_id: Array = self.thread_id // wave_size
        self.lane_id: Array = self.thread_id % wave_size
        self.mask: Array | None = None
        self.active = self.lanes
        self.frame: list[Value] = []
        self.iteration: Sequence[Array] = ()  # coordinates of the innermost linalg.generic
        self.printed: list[tuple[str, Array]] = []
        self.arrivals: list[Any] = []  # loads to LDS that have started, the oldest first
        self.ops = 0
        self.most_ops: float = float("inf")  # after which the program is taken to run for ever
        self.lane_ops = 0

    @contextmanager
    def masked(self, mask: Array) -> Generator[None]:
        """Runs the body with only the lanes of `mask` (`bool[P]`, a part of those that are active) active."""
        before = self.mask, self.active
        self.active = int(np.count_nonzero(mask))
        self.mask = None if self.active == self.lanes else mask
        try:
            yield
        finally:
            self.mask, self.active = before

    def and_mask(self, condition: Array) -> Array:
        """`bool[P]`: the active lanes for which `condition` (`bool[P]` or `bool[1]`) holds."""
        if self.mask is not None:
            return condition & self.mask
        return condition if condition.shape[0] == self.lanes else np.broadcast_to(condition, (self.lanes,))


def merge(mask: Array, new: Value, old: Value) -> Value:
    """`new` in the lanes of `mask` (`bool[P]`), `old` elsewhere."""
    if isinstance(new, np.ndarray):
        if not isinstance(old, np.ndarray):
            return old.merge(~mask, new)
        if new.ndim > 1:
            mask = mask.reshape(-1, *([1] * (new.ndim - 1)))
        return np.where(mask, new, old)
    if new is old:
        return new
    if isinstance(new, tuple):
        return tuple(merge(mask, n, o) for n, o in zip(new, old, strict=True))
    return new.merge(mask, old)


class Compiler:
    """Compiles the blocks of one function. Slots are reused as soon as their value has had its last use."""

    def __init__(self, program: "Program") -> None:
        self.program = program
        self.exact = program.exact
        self.slots: dict[SSAValue, int] = {}
        self.size = 0
        self._free: list[int] = []

    def dtype(self, type: Attribute) -> np.dtype[Any]:
        """The NumPy type of values of (or with elements of) `type`."""
        dtype = dtype_of(type)
        return np.dtype(np.float64) if self.exact and is_float(dtype) else dtype

    def region(self, region: Region) -> RegionCode:
        """The region as a function of its block arguments that returns what its terminator is given."""
        block = region.blocks.first
        if block is None or block.next_block is not None:
            raise XpagedError("the interpreter takes regions of exactly one block", at=region.parent_op())
        return self.block(block)

    def block(self, block: Block) -> RegionCode:
        """As `region`, for one block."""
        dying, used = _last_uses(block)
        args = [self._new_slot(a) for a in block.args]
        self._release(a for a in block.args if a not in used)
        ops: list[Operation] = []
        steps: list[Step] = []
        results: list[int] = []
        for op in block.ops:
            ins = [self.slots[o] for o in op.operands]
            if op.has_trait(IsTerminator):
                results = ins
            else:
                ops.append(op)
                steps.append(_step(self._code(op), ins, [self._new_slot(r) for r in op.results]))
            self._release(dying.get(op, ()))
            self._release(r for r in op.results if r not in used)
        return _block_code(ops, steps, args, results)

    def _code(self, op: Operation) -> OpCode:
        make = self.program.rules.get(type(op)) or _RULES.get(type(op))
        if make is None:
            rules.load(op.name.split(".")[0])
            make = _RULES.get(type(op))
        if make is None:
            raise XpagedError(f"the interpreter has no rule for {op.name!r}", at=op)
        try:
            code = make(op, self)
        except Exception as error:
            _place(error, op)
            raise
        if self.program.wrap is not None:
            return self.program.wrap(op, code, self)
        return _told_types(op, code) if self.exact else code

    def _new_slot(self, value: SSAValue) -> int:
        if self._free:
            slot = self._free.pop()
        else:
            slot = self.size
            self.size += 1
        self.slots[value] = slot
        return slot

    def _release(self, values: Iterable[SSAValue]) -> None:
        self._free.extend(self.slots[v] for v in values)


def _told_types(op: Operation, code: OpCode) -> OpCode:
    """In exact evaluation a value may be an object that bounds its own error: it is told the type of each result."""
    types = [dtype_of(r.type) if _holds_floats(r.type) else None for r in op.results]
    if len(types) != 1 or types[0] is None:
        return code
    dtype = types[0]

    def run(m: Machine, *values: Value) -> Value:
        result = code(m, *values)
        rounded = getattr(result, "rounded", None)
        return result if rounded is None else rounded(dtype)

    return run


def _holds_floats(type: Attribute) -> bool:
    if isinstance(type, ContainerType):
        type = type.get_element_type()
    return isinstance(type, AnyFloat)


def _last_uses(block: Block) -> tuple[dict[Operation, list[SSAValue]], set[SSAValue]]:
    """For each operation of `block` the values of the block whose last use is in it (or inside it), and all values of
    the block that are used at all."""
    dying: dict[Operation, list[SSAValue]] = {}
    used: set[SSAValue] = set()
    for op in reversed(tuple(block.ops)):
        for inner in op.walk():
            for operand in inner.operands:
                if operand not in used:
                    owner = operand.owner
                    if (owner if isinstance(owner, Block) else owner.parent) is block:
                        used.add(operand)
                        dying.setdefault(op, []).append(operand)
    return dying, used


def _step(code: OpCode, ins: list[int], outs: list[int]) -> Step:
    """One operation as a function of the machine and the frame, specialised by its numbers of operands and results."""
    if len(outs) == 1:
        return _pure_step(code.fn, ins, outs[0]) if isinstance(code, Pure) else _single_step(code, ins, outs[0])
    if not outs:

        def effect(m: Machine, f: list[Value]) -> None:
            code(m, *[f[i] for i in ins])

        return effect

    def several(m: Machine, f: list[Value]) -> None:
        for out, value in zip(outs, code(m, *[f[i] for i in ins]), strict=True):
            f[out] = value

    return several


def _pure_step(fn: Callable[..., Value], ins: list[int], o: int) -> Step:
    match ins:
        case [a]:

            def step(m: Machine, f: list[Value]) -> None:
                f[o] = fn(f[a])
        case [a, b]:

            def step(m: Machine, f: list[Value]) -> None:
                f[o] = fn(f[a], f[b])
        case _:

            def step(m: Machine, f: list[Value]) -> None:
                f[o] = fn(*[f[i] for i in ins])

    return step


def _single_step(code: OpCode, ins: list[int], o: int) -> Step:
    match ins:
        case [a]:

            def step(m: Machine, f: list[Value]) -> None:
                f[o] = code(m, f[a])
        case [a, b]:

            def step(m: Machine, f: list[Value]) -> None:
                f[o] = code(m, f[a], f[b])
        case _:

            def step(m: Machine, f: list[Value]) -> None:
                f[o] = code(m, *[f[i] for i in ins])

    return step


def _block_code(ops: list[Operation], steps: list[Step], args: list[int], results: list[int]) -> RegionCode:
    count = len(steps)

    def run(m: Machine, values: Sequence[Value]) -> tuple[Value, ...]:
        f = m.frame
        for slot, value in zip(args, values, strict=True):
            f[slot] = value
        m.ops += count
        m.lane_ops += count * m.active
        if m.ops > m.most_ops:
            raise XpagedError("the program runs on and on", found=f"more than {m.most_ops} operations")
        step = None
        try:
            for step in steps:
                step(m, f)
        except Exception as error:
            _place(error, ops[steps.index(step)] if step is not None else None)
            raise
        return tuple([f[r] for r in results])

    return run


def _place(error: Exception, op: Operation | None) -> None:
    """Makes `error` name `op`, unless it names an operation already."""
    if op is None:
        return
    if isinstance(error, XpagedError):
        if not (error.where or error.op):
            error.locate(op)
    elif not getattr(error, "__notes__", None):
        error.add_note(f"while interpreting {op.name} {describe(op)}")


class Program:
    """A module made ready to run. With `exact` every float is a float64 and no operation rounds to a narrower type:
    the mathematics that the module means, as far as its operations go. Values may then also be objects that follow
    their own errors: the evaluator calls their `rounded(dtype)` with the type of each result, and conversions their
    `narrowed(dtype)`."""

    def __init__(
        self,
        module: ModuleOp,
        *,
        exact: bool = False,
        rules: Mapping[type[Operation], Maker] | None = None,
        wrap: Wrap | None = None,
    ) -> None:
        """`rules` go before the registered ones; `wrap` is put around the code of every operation."""
        self.module = module
        self.exact = exact
        self.rules = rules or {}
        self.wrap = wrap
        self._functions: dict[str, tuple[RegionCode, int]] = {}

    def call(self, machine: Machine, name: str, args: Sequence[Value]) -> tuple[Value, ...]:
        """Runs function `name` and returns its results.

        Raises XpagedError (MemoryFault among them) with the operation's name and place.
        """
        if name not in self._functions:
            self._functions[name] = self._compile(name)
        code, size = self._functions[name]
        frame, machine.frame = machine.frame, [None] * size
        try:
            with np.errstate(all="ignore"):
                return code(machine, args)
        finally:
            machine.frame = frame

    def _compile(self, name: str) -> tuple[RegionCode, int]:
        op = SymbolTable.lookup_symbol(self.module, name)
        if not isinstance(op, func.FuncOp) or not op.body.blocks:
            raise XpagedError(f"there is no function {name!r} with a body to run", at=self.module)
        compiler = Compiler(self)
        code = compiler.region(op.body)
        return code, compiler.size
