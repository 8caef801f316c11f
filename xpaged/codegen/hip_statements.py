"""The body of a kernel: which values get a name, which stand where they are used, and in which order things happen.

A value that is used once, in its own block, waits as an expression until its use is written. Before a statement that
changes something that a waiting expression reads, the expression gets a name; so it does before loops, branches and
barriers when all lanes have to evaluate it together.
"""

from collections.abc import Callable, Sequence
from pathlib import PurePath

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block as IrBlock
from xdsl.ir import BlockArgument, Operation, SSAValue

from xpaged.codegen import c_expr as c
from xpaged.codegen.c_expr import Expr
from xpaged.codegen.c_text import WIDTH, Block, Names, Node, banner, comment, layout
from xpaged.codegen.hip_context import Context, c_type, unknown
from xpaged.codegen.hip_floats import FLOATS
from xpaged.codegen.hip_integers import INTEGERS
from xpaged.codegen.hip_offsets import trips
from xpaged.codegen.hip_operations import (
    GLOBAL_MEMORY,
    LDS_MEMORY,
    OPERATIONS,
    check_access,
    global_offset,
    is_joined,
    lds_place,
    register,
)
from xpaged.codegen.hip_uses import Uses, is_last, is_transparent
from xpaged.dialects import hip
from xpaged.errors import XpagedError
from xpaged.ir.locations import describe

BUILDERS = {**INTEGERS, **FLOATS, **OPERATIONS}
_SILENT: frozenset[type[Operation]] = frozenset((scf.YieldOp, func.ReturnOp, memref.GetGlobalOp))
"""Operations that write nothing by themselves."""
_IDS: frozenset[type[Operation]] = frozenset((hip.WorkgroupIdOp, hip.LaneIdOp, hip.WaveIdOp))
_MEMORIES = frozenset((GLOBAL_MEMORY, LDS_MEMORY))
_LONGEST = 90
"""Columns of an expression that still stands inside another one."""
_LONGEST_REPEATED = 40
"""Columns of an expression of known numbers that is written wherever it is used."""
_SHORT = 14
"""Columns of any other integer expression that is."""

_DEFAULT_NAMES = {"bool": "ok", "int": "n", "i64": "n", "u64": "page", "float": "x"}


class Statements:
    """Writes the statements of one kernel."""

    def __init__(self, context: Context, names: Names) -> None:
        self.context = context
        self.names = names
        self.nodes: list[Node] = []
        self.depth = 1
        self._values: dict[SSAValue, Expr] = {}
        self._waiting: dict[SSAValue, Expr] = {}
        self._uses = Uses()
        self._left: dict[SSAValue, int] = {}  # uses of a waiting expression that are not written yet
        self._arrays: dict[SSAValue, str] = {}  # register arrays that are not declared yet, and their declarations
        self._statements: dict[type[Operation], Callable[..., None]] = {
            hip.RegsOp: self._regs,
            hip.SetOp: self._set,
            hip.StoreOp: self._store,
            hip.LdsStoreOp: self._lds_store,
            hip.LdsAllocOp: self._lds_alloc,
            hip.BarrierOp: self._barrier,
            hip.SchedBarrierOp: self._sched_barrier,
            hip.StageOp: self._stage,
            scf.ForOp: self._for,
            scf.IfOp: self._if,
        }

    def define(self, value: SSAValue, expr: Expr) -> None:
        """Say what an argument is called."""
        self._values[value] = expr

    def body(self, block: IrBlock) -> str:
        """The lines of the kernel's body."""
        self._uses = Uses(block, BUILDERS)
        self._ops(block)
        return "".join(line + "\n" for line in layout(self.nodes, 1))

    # ---- values

    def operand(self, value: SSAValue) -> Expr:
        """The expression of an operand."""
        expr = self._waiting.get(value)
        if expr is None:
            return self._values[value]
        self._left[value] -= 1
        if not self._left[value]:
            del self._waiting[value]
        return expr

    def atom(self, value: SSAValue) -> Expr:
        """An operand that may be repeated: a name or a literal."""
        if value in self._waiting and not self._waiting[value].is_name:
            self._name(value)
        return self.operand(value)

    def _name(self, value: SSAValue) -> None:
        """Give a waiting expression a name, here."""
        expr = self._waiting.pop(value)
        type_ = self._declared(value, expr)
        text = self.names.new(value.name_hint or _default_name(value, type_))
        const = "" if self.context.offsets.is_held(value) else "const "
        self.nodes.append(f"{const}{type_} {text} = {expr.text};")
        self._values[value] = c.name(text, type_)

    def _declared(self, value: SSAValue, expr: Expr) -> str:
        """The type of a variable: signed, but for addresses."""
        type_ = expr.type if expr.type == "u64" else self.context.type(value)
        return self.context.prelude.type(type_)

    def _settle(self, changed: frozenset[str] = frozenset(), *, collective: bool = False) -> None:
        """Name waiting expressions that read what is about to change (or that all lanes evaluate together)."""
        for value, expr in list(self._waiting.items()):
            if expr.reads & changed or (collective and (expr.collective or expr.reads_memory)):
                self._name(value)

    def _expression(self, op: Operation) -> None:
        (result,) = op.results
        uses = self._uses.of(result)
        if not uses:
            return
        expr = BUILDERS[type(op)](self.context, op, self._operands(op))
        if isinstance(op, arith.ConstantOp) or self._is_repeated(op, expr):
            self._values[result] = expr
        elif is_transparent(op) and self._of_a_name(op):
            self._values[result] = expr
        else:
            self._waiting[result] = expr
            self._left[result] = len(uses)
            if self._deserves_name(op, expr, uses):
                self._name(result)

    def _is_repeated(self, op: Operation, expr: Expr) -> bool:
        """Whether an integer needs no name however often it is used: what is known once loops are unrolled, alone or
        added to a name, and short expressions that nobody gave a name."""
        (result,) = op.results
        offsets = self.context.offsets
        if expr.reads or expr.collective or offsets.is_held(result) or expr.type not in (*c.SIGNED, *c.UNSIGNED):
            return False
        if type(op) in _IDS:
            return False
        if offsets.is_static(result) or (expr.split is not None and expr.split[0].is_name):
            return len(expr.text) <= _LONGEST_REPEATED
        return result.name_hint is None and len(expr.text) <= _SHORT

    def _of_a_name(self, op: Operation) -> bool:
        """Whether the operand of an operation is a name, however often it is written."""
        operand = self._values.get(op.operands[0])
        return operand is not None and operand.is_name

    def _operands(self, op: Operation) -> list[Expr]:
        if isinstance(op, hip.VectorOp) and not is_joined(op):
            return [self.atom(v) if hip.lanes_of(v.type) > 1 else self.operand(v) for v in op.operands]
        if isinstance(op, arith.CmpfOp) and op.predicate.value.data in (6, 7, 8, 14):
            return [self.atom(v) for v in op.operands]
        if isinstance(op, arith.SelectOp):
            self._eager((op.lhs, op.rhs), memory=True)
        elif isinstance(op, hip.LoadOp | hip.LdsLoadOp) and op.mask is not None:
            self._eager((op.base, op.offset), memory=True)
        return [self.operand(v) for v in op.operands]

    def _eager(self, values: Sequence[SSAValue], *, memory: bool = False) -> None:
        """Name waiting operands that may not end in a branch: what all lanes evaluate together, and (`memory`) reads,
        which would make a branch of a choice between values."""
        for value in values:
            expr = self._waiting.get(value)
            if expr is not None and (expr.collective or (memory and expr.reads_memory)):
                self._name(value)

    def _deserves_name(self, op: Operation, expr: Expr, uses: Sequence[Operation]) -> bool:
        """Whether a value gets a name at once: it is used several times or elsewhere, or its text is long."""
        user = uses[0]
        if any(use.parent is not op.parent for use in uses) or self.context.offsets.is_held(op.results[0]):
            return True
        if len(uses) > 1 and not (isinstance(op, hip.GetOp) and len(expr.text) <= _SHORT):
            return True
        if type(op) in _IDS:
            return True
        if expr.collective and isinstance(user, hip.StoreOp | hip.LdsStoreOp) and user.mask is not None:
            return True
        whole_line = isinstance(user, hip.SetOp | hip.StoreOp | hip.LdsStoreOp | scf.YieldOp)
        return len(expr.text) + 2 * self.depth > (2 * WIDTH if whole_line else _LONGEST)

    # ---- statements

    def _ops(self, block: IrBlock) -> None:
        for op in block.ops:
            if type(op) in _SILENT:
                continue
            if self._arrays and not isinstance(op, hip.SetOp):
                self._declare_arrays(op)
            if type(op) in BUILDERS:
                self._expression(op)
                continue
            write = self._statements.get(type(op))
            if write is None:
                raise unknown(op)
            write(op)

    def _regs(self, op: hip.RegsOp) -> None:
        type_ = op.result.type
        assert isinstance(type_, hip.RegsType)
        element = self.context.prelude.type(c_type(type_.element, op))
        text = self.names.new(op.result.name_hint or "regs")
        count = "" if type_.count.data == 1 else f"[{type_.count.data}]"
        self._arrays[op.result] = f"{element} {text}{count};"
        self._values[op.result] = c.name(text, element)

    def _declare_arrays(self, op: Operation) -> None:
        """Declare the register arrays that an operation (or one inside it) is the first to use."""
        if self._arrays:
            for inner in op.walk():
                for operand in inner.operands:
                    declaration = self._arrays.pop(operand, None)
                    if declaration is not None:
                        self.nodes.append(declaration)

    def _set(self, op: hip.SetOp) -> None:
        value = self.operand(op.value)
        operands = [self._values[op.regs], *(self.operand(i) for i in op.indices)]
        target = register(op.regs, operands, value.type)
        self._settle(frozenset((self._values[op.regs].text,)))
        declaration = self._arrays.pop(op.regs, None)
        if declaration == f"{operands[0].type} {target.text};":
            const = "const " if self._is_set_once(op) else ""
            self.nodes.append(f"{const}{operands[0].type} {target.text} = {value.text};")
            return
        if declaration is not None:
            self.nodes.append(declaration)
        self.nodes.append(c.assignment(target, value))

    def _is_set_once(self, op: hip.SetOp) -> bool:
        """Whether this is the only place that sets its register array."""
        return sum(isinstance(use.operation, hip.SetOp) for use in op.regs.uses) == 1

    def _store(self, op: hip.StoreOp) -> None:
        e = self.context
        mask = self._mask(op, (op.value, op.base, op.offset))
        value, base, offset = (self.operand(v) for v in (op.value, op.base, op.offset))
        check_access(op, op.value.type)
        far, offset = global_offset(e, op, offset, op.value.type)
        function = f"{e.prelude.use('store_far' if far else 'store')}<{e.type(op.value)}>"
        self._settle(frozenset((GLOBAL_MEMORY,)))
        self._effect(mask, op, f"{c.call(function, 'void', base, offset, value).text};")

    def _lds_store(self, op: hip.LdsStoreOp) -> None:
        e = self.context
        mask = self._mask(op, (op.value, op.offset))
        value, base, offset = (self.operand(v) for v in (op.value, op.base, op.offset))
        target = lds_place(e, op, op.value.type, base, offset)
        self._settle(frozenset((LDS_MEMORY,)))
        self._effect(mask, op, c.assignment(target, value))

    def _mask(self, op: hip.StoreOp | hip.LdsStoreOp, inside: Sequence[SSAValue]) -> Expr | None:
        """The condition of a masked store; what ends inside its branch must not need all lanes."""
        if op.mask is None:
            return None
        self._eager(inside)
        return self.operand(op.mask)

    def _effect(self, mask: Expr | None, op: hip.StoreOp | hip.LdsStoreOp, text: str) -> None:
        if mask is None:
            self.nodes.append(text)
            return
        last = self.nodes[-1] if self.nodes else None
        if isinstance(last, Block) and last.key is op.mask and last.otherwise is None:
            last.body.append(text)
        else:
            self.nodes.append(Block(f"if ({mask.text})", [text], key=op.mask))

    def _lds_alloc(self, op: hip.LdsAllocOp) -> None:
        parent = op.parent_op()
        if not isinstance(parent, func.FuncOp):
            raise XpagedError("LDS is allocated at the top of a kernel only", at=op)
        assert isinstance(op.result.type, MemRefType)
        element = self.context.prelude.type(c_type(op.result.type.element_type, op))
        text = self.names.new(op.result.name_hint or "lds")
        sizes = 1
        for extent in op.result.type.get_shape():
            sizes *= extent
        self.nodes.append(f"{self.context.prelude.use('LDS')} {element} {text}[{sizes}];")
        self._values[op.result] = c.name(text, element)

    def _barrier(self, op: hip.BarrierOp) -> None:
        self._settle(_MEMORIES, collective=True)
        self.nodes.append(f"{self.context.prelude.use('barrier')}();")

    def _sched_barrier(self, op: hip.SchedBarrierOp) -> None:
        self._settle(_MEMORIES, collective=True)
        self.nodes.append(f"{self.context.prelude.use('SCHED_BARRIER')}();")

    def _stage(self, op: hip.StageOp) -> None:
        self._settle(_MEMORIES, collective=True)
        place = describe(op)
        if place:
            file, *rest = place.rsplit(":", 2)
            piped = file.startswith("<")  # no file: the text came through a pipe, or from Python
            place = f"line {rest[0]}" if piped and rest else ":".join((PurePath(file).name, *rest))
        if self.nodes:
            self.nodes.append("")
        self.nodes.append(banner(op.title.data, place, 2 * self.depth))
        self.nodes += comment("" if op.note is None else op.note.data)

    # ---- loops and branches

    def _for(self, op: scf.ForOp) -> None:
        if "unsignedCmp" in op.properties or "unsignedCmp" in op.attributes:
            raise XpagedError("the HIP printer does not know loops that compare unsigned numbers", at=op)
        if trips(op) == 1:
            self._once(op)
            return
        variables = self._loop_variables(op)
        self._settle(self._changes(op) | _read(variables), collective=True)
        lower = self.context.signed(self.operand(op.lb), op.lb)
        upper = self._bound(op.ub)
        if not self.context.nonnegative(op.lb):
            upper = c.signed(upper)
        step = self._bound(op.step)
        induction, *carried = op.body.block.args
        type_ = self.context.prelude.type(c_type(induction.type, op))
        for argument, variable in zip(carried, variables, strict=True):
            self._values[argument] = variable
        with self.names.scope():
            text = self.names.new(induction.name_hint or "i")
            self._values[induction] = c.name(text, type_)
            count = f"++{text}" if step.literal == 1 else f"{text} += {step.text}"
            header = f"for ({type_} {text} = {lower.text}; {text} < {upper.at(c.SHIFT)}; {count})"
            if hip.UNROLL in op.attributes:
                header = f"{self.context.prelude.use('UNROLL')} {header}"
            elif trips(op) is not None and any(isinstance(each, hip.LoadOp) for each in op.walk()):
                # Unrolled unasked, it would have the loads of all its turns in registers at once.
                header = f"{self.context.prelude.use('ROLLED')} {header}"
            block = self._nested(header, op.body.block, variables)
        self.nodes.append(block)
        for result, variable in zip(op.results, variables, strict=True):
            self._values[result] = variable

    def _once(self, op: scf.ForOp) -> None:
        """A loop that runs exactly once is its body."""
        induction, *carried = op.body.block.args
        self._values[induction] = self.operand(op.lb)
        for argument, initial in zip(carried, op.iter_args, strict=True):
            self._values[argument] = self._frozen(initial, argument)
        self._ops(op.body.block)
        terminator = op.body.block.last_op
        assert terminator is not None
        for result, value in zip(op.results, terminator.operands, strict=True):
            self._values[result] = self._frozen(value, result)

    def _frozen(self, value: SSAValue, like: SSAValue) -> Expr:
        """A name or literal with the value that `value` has now."""
        expr = self.operand(value)
        if expr.is_name and not expr.reads:
            return expr
        type_ = self._declared(value, expr)
        text = self.names.new(like.name_hint or value.name_hint or _default_name(value, type_))
        self.nodes.append(f"const {type_} {text} = {expr.text};")
        return c.name(text, type_)

    def _bound(self, value: SSAValue) -> Expr:
        """A bound of a loop, which C evaluates again each time: nothing in it may change."""
        if value in self._waiting and (self._waiting[value].reads or self._waiting[value].collective):
            self._name(value)
        expr = self.operand(value)
        if expr.reads:
            expr = self._frozen(value, value)
        return self.context.signed(expr, value)

    def _changes(self, op: Operation) -> frozenset[str]:
        """What the operations inside `op` may change."""
        changed: set[str] = set()
        for inner in op.walk():
            match inner:
                case hip.SetOp() if inner.regs in self._values:
                    changed.add(self._values[inner.regs].text)
                case hip.StoreOp():
                    changed.add(GLOBAL_MEMORY)
                case hip.LdsStoreOp():
                    changed.add(LDS_MEMORY)
                case hip.BarrierOp():
                    changed |= _MEMORIES
                case _:
                    pass
        return frozenset(changed)

    def _variable(self, value: SSAValue, like: SSAValue, initial: Expr | None) -> Expr:
        """Declare a variable for what changes."""
        type_ = self._declared(value, initial) if initial is not None else self.context.type(value)
        text = self.names.new(like.name_hint or value.name_hint or _default_name(value, type_))
        self.context.prelude.type(type_)
        self.nodes.append(f"{type_} {text}{'' if initial is None else f' = {initial.text}'};")
        return c.variable(text, type_)

    def _loop_variables(self, op: scf.ForOp) -> list[Expr]:
        """The variables of a loop: the one that the initial value stands in where nobody else needs it, else new."""
        variables: list[Expr] = []
        for argument, initial in zip(op.body.block.args[1:], op.iter_args, strict=True):
            expr = self._values.get(initial)
            if expr is not None and expr.is_variable and expr not in variables and is_last(initial, op):
                self._settle(expr.reads)
                variables.append(expr)
            else:
                variables.append(self._variable(argument, argument, self.operand(initial)))
        return variables

    def _nested(
        self, header: str, block: IrBlock, variables: Sequence[Expr], started: Sequence[bool] | None = None
    ) -> Block:
        """The block of a region, which ends by setting `variables` to what the region yields, but for those that
        `started` with that value."""
        outer, self.nodes = self.nodes, []
        self.depth += 1
        loop = block.parent_op()
        with self.names.scope():
            for value in self.context.offsets.held.get(loop, ()) if isinstance(loop, scf.ForOp) else ():
                self.nodes.append(f"{self.context.prelude.use('HOLD')}({self._values[value].text});")
            self._ops(block)
            terminator = block.last_op
            yielded = terminator.operands if terminator is not None else ()
            ends = zip(variables, yielded, started or [False] * len(variables), strict=True)
            self._assign([(variable, value) for variable, value, done in ends if not done])
        self.depth -= 1
        inner, self.nodes = self.nodes, outer
        return Block(header, inner)

    def _assign(self, values: Sequence[tuple[Expr, SSAValue]]) -> None:
        """Set variables at once: each is set after the last one that reads its old value."""
        pending = {v.text: (v, self.operand(value), value) for v, value in values}
        pending = {text: entry for text, entry in pending.items() if entry[1].text != text}
        while pending:
            free = next((text for text in pending if not _is_read(text, pending)), None)
            if free is None:  # they read each other: the first one waits in a constant
                free, (variable, expr, value) = next(iter(pending.items()))
                text = self.names.new(f"new_{free}")
                self.nodes.append(f"const {self._declared(value, expr)} {text} = {expr.text};")
                pending[free] = variable, c.name(text, expr.type), value
            else:
                variable, expr, _ = pending.pop(free)
                self.nodes.append(c.assignment(variable, expr))

    def _if(self, op: scf.IfOp) -> None:
        then, other = op.true_region.block, op.false_region.block if op.false_region.blocks else None
        ends = [block.last_op if block is not None else None for block in (then, other)]
        condition = self.operand(op.cond)
        variables: list[Expr] = []
        started: list[bool] = []
        for number in range(len(op.results)):
            variable, start = self._branch_variable(op, number, ends, variables)
            variables.append(variable)
            started.append(start)
        self._settle(self._changes(op) | _read(variables), collective=True)
        block = self._nested(f"if ({condition.text})", then, variables)
        if other is not None:
            otherwise = self._nested("", other, variables, started).body
            if otherwise and not block.body:
                block = Block(f"if ({c.prefix('!', condition, 'bool').text})", otherwise)
            else:
                block.otherwise = otherwise or None
        if block.body or block.otherwise:
            self.nodes.append(block)
        for result, variable in zip(op.results, variables, strict=True):
            self._values[result] = variable

    def _branch_variable(
        self, op: scf.IfOp, number: int, ends: Sequence[Operation | None], taken: Sequence[Expr]
    ) -> tuple[Expr, bool]:
        """The variable of a result of a branch: one that holds the value of a side already, where nobody needs that
        value any more; else a new one, which starts as the value of an empty `else` (then the second is true)."""
        for end in ends:
            assert end is not None  # results need both sides
            value = end.operands[number]
            expr = self._values.get(value)
            if expr is not None and expr.is_variable and expr not in taken and is_last(value, op):
                return expr, False
        other, result = ends[1], op.results[number]
        assert other is not None
        initial = self._values.get(other.operands[number]) if other.prev_op is None else None
        return self._variable(result, result, initial), initial is not None


def _read(variables: Sequence[Expr]) -> frozenset[str]:
    """What expressions read that read one of `variables`."""
    return frozenset[str]().union(*(v.reads for v in variables))


def _is_read(text: str, pending: dict[str, tuple[Expr, Expr, SSAValue]]) -> bool:
    """Whether the new value of another variable needs the old value of the variable `text`."""
    reads = pending[text][0].reads
    return any(reads & new.reads for other, (_, new, _) in pending.items() if other != text)


def _default_name(value: SSAValue, type_: str) -> str:
    if isinstance(value, BlockArgument):
        return "x"
    if isinstance(value.owner, hip.WorkgroupIdOp):
        return "workgroup"
    if isinstance(value.owner, hip.LaneIdOp | hip.WaveIdOp):
        return "lane" if isinstance(value.owner, hip.LaneIdOp) else "wave"
    return _DEFAULT_NAMES.get(type_, "v")
