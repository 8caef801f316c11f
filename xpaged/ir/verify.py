"""Verification of a module, with the operation and its place in the message."""

from collections.abc import Iterable, Mapping

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from xpaged.errors import XpagedError
from xpaged.ir.locations import describe
from xpaged.lowering.kernel import ARGUMENT, OUTPUT, WORKSPACE, identity_of


def verify(module: Operation) -> None:
    """
    Check `module` and everything inside it: each operation's own verifier, block structure, and that every operand is
    defined before it is used. Raises XpagedError that names the first operation that fails, inner ones first.
    """
    _verify_op(module, set())


def _verify_op(op: Operation, visible: set[SSAValue]) -> None:
    for index, operand in enumerate(op.operands):
        if operand not in visible:
            raise XpagedError(
                f"operand {index} of '{op.name}' is used before it is defined, or is defined in another region",
                at=op,
                found=_value_text(operand),
                fix="move the definition above its use",
            )
    inner = set[SSAValue]() if op.has_trait(IsolatedFromAbove) else visible
    for region in op.regions:
        _verify_region(region, inner)
    try:
        for region in op.regions:
            for block in region.blocks:
                _verify_block(block)
        op.verify(verify_nested_ops=False)
        if isinstance(op, FuncOp):
            _verify_attribute_lists(op)
    except (VerifyException, ValueError) as err:
        raise XpagedError(_message(op, err), at=op) from err


def _verify_attribute_lists(func: FuncOp) -> None:
    """One dictionary for each argument and result, which xDSL does not check (it prints as many as both have)."""
    types = func.function_type
    for name, attrs, count in (
        ("arg_attrs", func.arg_attrs, len(types.inputs)),
        ("res_attrs", func.res_attrs, len(types.outputs)),
    ):
        if attrs is not None and len(attrs) != count:
            raise VerifyException(f"'func.func': {name} holds {len(attrs)} dictionaries, expected {count}")
    for index, each in enumerate(func.arg_attrs or ()):
        _verify_argument_attributes(index, each.data)
    buffers = [identity_of(argument) for argument in func.body.block.args] if func.body.blocks else []
    for index, buffer in enumerate(buffers):
        if buffer in buffers[:index]:
            raise VerifyException(f"'func.func': argument {index} is buffer {buffer} for the second time")


def _verify_argument_attributes(index: int, attributes: Mapping[str, Attribute]) -> None:
    """The attributes that say what an argument of a kernel is."""
    table, workspace = attributes.get("rock.page_table"), attributes.get(WORKSPACE)
    for name, what in ((OUTPUT, "a result"), (ARGUMENT, "an argument")):
        number = attributes.get(name)
        if number is not None and not (isinstance(number, IntegerAttr) and number.value.data >= 0):
            raise VerifyException(f"'func.func': {name} of argument {index} must be the number of {what}: {number}")
    if workspace is not None and not (isinstance(workspace, StringAttr) and workspace.data):
        raise VerifyException(f"'func.func': {WORKSPACE} of argument {index} must be a name: {workspace}")
    if table is not None:
        entries = table.data if isinstance(table, DictionaryAttr) else {}
        size, element = entries.get("page_size"), entries.get("elem")
        if not (isinstance(size, IntegerAttr) and size.value.data > 0 and isinstance(element, TypeAttribute)):
            raise VerifyException(
                f"'func.func': rock.page_table of argument {index} must be "
                f"{{page_size = N : i64, elem = TYPE}} with N > 0, found {table}"
            )


def _verify_region(region: Region, visible: set[SSAValue]) -> None:
    """Walk the blocks in order; `visible` is what may be used, and is left as it was found."""
    added: list[SSAValue] = []

    def define(values: Iterable[SSAValue]) -> None:
        for value in values:
            visible.add(value)
            added.append(value)

    blocks = list(region.blocks)
    if len(blocks) > 1:  # several blocks: xpaged's levels use none, so their order is not judged here
        for block in blocks:
            define(block.args)
            for op in block.ops:
                define(op.results)
    for block in blocks:
        define(block.args)
        for op in block.ops:
            _verify_op(op, visible)
            define(op.results)
    visible.difference_update(added)


def _verify_block(block: Block) -> None:
    """The check of an empty block, which xDSL makes on the block and not on an operation."""
    if block.first_op is None:
        block.verify()


def _message(op: Operation, err: Exception) -> str:
    text = str(err.args[0] if err.args else err).strip()
    text = text.removeprefix("Operation does not verify: ")
    return text if f"'{op.name}'" in text or op.name in text else f"'{op.name}': {text}"


def _value_text(value: SSAValue) -> str:
    where = describe(value)
    name = f"%{value.name_hint}" if value.name_hint else "a value"
    return f"{name} : {value.type}" + (f", defined at {where}" if where else "")
