"""What became of every operation of a graph: in an attention, or outside of it and why."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.tosa import ops
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, level_of
from xpaged.ir.locations import describe
from xpaged.lowering.attention_fuse import Fused, fuse_attentions
from xpaged.lowering.dead_code import erase_dead
from xpaged.lowering.elementwise_kernels import is_computed
from xpaged.lowering.tosa_views import is_view


@dataclass(frozen=True)
class Explanation:
    """One operation of a graph at level tosa."""

    name: str
    """The operation's name, such as `tosa.mul`."""
    location: str
    """Where it stands, `file:line:column` and its name, or just the name."""
    function: str
    """The function that it stands in."""
    fused: bool
    """Whether an attention kernel does its work (or it has none: views, constants)."""
    reason: str
    """What it is in the attention, or why it is not in one."""


def explain_fusion(module: ModuleOp) -> list[Explanation]:
    """Every operation of a module at level migraphx or tosa, in order, with what `tosa-to-rock` makes of it.

    The module is not changed. An attention that is refused is explained, too, with the reason of the refusal. Raises
    XpagedError for a module that stands lower, or that `migraphx-to-tosa` refuses.
    """
    from xpaged.passes.pipelines import lower

    module = module.clone()
    if (level := level_of(module)) > Level.TOSA:
        raise XpagedError("only graphs are fused into attention", at=module, found=f"level {level.value}")
    lower(module, Level.TOSA)
    return [each for op in module.walk() if isinstance(op, FuncOp) and op.body.blocks for each in _explained(op)]


def _explained(function: FuncOp) -> Iterable[Explanation]:
    listed = [op for op in function.walk() if op is not function and not isinstance(op, ReturnOp)]
    places = {op: (op.name, describe(op)) for op in listed}
    derefs = [op for op in listed if rocmlir_names.is_deref(op)]
    views = {op for op in listed if is_view(op)}
    products = {op for op in listed if isinstance(op, ops.MatMulOp | ops.ReduceOp)}
    computed = {op for op in listed if is_computed(op)}
    erase_dead(function)
    unused = {op for op in listed if op.parent is None}
    refusal, done = None, Fused()
    try:
        _convert_derefs(derefs)
        done = fuse_attentions(function)
    except XpagedError as error:
        refusal = f"refused: {error.what}" + (f", found {error.found}" if error.found is not None else "")
    erase_dead(function)
    around = around_attentions(done.attentions)
    for op in listed:
        name, place = places[op]
        gone = op.parent is None
        if op in unused:
            reason = "nothing uses it"
        elif refusal is not None:
            reason, gone = refusal, False
        elif op in done.roles:
            reason = done.roles[op] + ("" if gone else "; also used outside of the attention")
            gone = True
        elif gone:
            reason = "a view of an operand" if op in views else "a page table" if op in derefs else "part of an operand"
        elif op in views:
            reason, gone = "a view: it moves nothing", True
        elif op.name.startswith("tosa.const"):
            reason, gone = "a constant", True
        elif op in done.reasons:
            reason = f"a product that is not the last one of an attention: {done.reasons[op]}"
        else:
            where = around.get(op, "no attention uses it")
            what = "an operation"
            if op in products:
                what = "a reduction or product, which no kernel computes"
            elif op in computed:
                what = "in an elementwise kernel"
            reason = f"{what}, outside of attention: {where}"
        yield Explanation(name, place, function.sym_name.data, gone and op not in unused, reason)


def _convert_derefs(derefs: Iterable[Operation]) -> None:
    from xpaged.passes.tosa_to_rock_deref import convert_deref

    for op in derefs:
        if op.parent is not None and isinstance(op, ops.CustomOp):
            convert_deref(op)


def around_attentions(attentions: Sequence[AttentionOp]) -> dict[Operation, str]:
    """What operations that compute an operand of an attention, or work on its results, have to do with it, in words."""
    return _after(attentions) | _before(attentions)


def _before(attentions: Iterable[AttentionOp]) -> dict[Operation, str]:
    """What operations that operands of attentions are computed from compute."""
    found: dict[Operation, str] = {}
    for attention in attentions:
        for name, value in (("Q", attention.queries), ("K", attention.keys), ("V", attention.values)):
            pending: list[SSAValue] = [value]
            while pending:
                owner = pending.pop().owner
                if isinstance(owner, Operation) and not isinstance(owner, AttentionOp) and owner not in found:
                    found[owner] = f"it computes {name} of the attention, which is read from memory"
                    pending += owner.operands
    return found


def _after(attentions: Iterable[AttentionOp]) -> dict[Operation, str]:
    """What operations that use results of attentions do."""
    found: dict[Operation, str] = {}
    pending: list[Operation] = list(attentions)
    while pending:
        for result in pending.pop().results:
            for use in result.uses:
                if use.operation not in found:
                    found[use.operation] = "it works on the output of the attention"
                    pending.append(use.operation)
    return found
