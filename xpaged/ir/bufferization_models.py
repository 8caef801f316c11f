"""How functions, and operations of xDSL's own dialects, go from tensors to memrefs, see `xpaged.ir.bufferizable`."""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.memref import CopyOp, GetGlobalOp, GlobalOp
from xdsl.dialects.tensor import CollapseShapeOp, EmptyOp, ExpandShapeOp, ExtractSliceOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xpaged.dialects.rock.ops import bufferize_view, place_view
from xpaged.dialects.rock.page_tables import mark_page_tables
from xpaged.errors import XpagedError
from xpaged.ir.bufferizable import Bufferization, BufferizationModel, memref_type, touches_tensors
from xpaged.ir.locations import copy_location
from xpaged.ir.transform_map import Builder as MapBuilder
from xpaged.ir.transform_map import TransformMap


def bufferize_function(func: FuncOp) -> None:
    """The tensors of a function become memrefs, and its results arguments that it writes, after the others.

    Arguments that hold page tables are marked with `rock.page_table`, those for results with `rock.output`. A result
    that cannot be computed in its place (it is an argument, or returned twice) is copied there.

    Raises XpagedError for a function that is not one block, and for operations without a form on memrefs.
    """
    blocks = list(func.body.blocks)
    if len(blocks) != 1 or not isinstance(last := blocks[0].last_op, ReturnOp):
        raise XpagedError("a function of one block is expected", at=func, found=f"{len(blocks)} blocks")
    block = blocks[0]
    attributes = [dict(attrs.data) for attrs in func.arg_attrs or [DictionaryAttr({})] * len(block.args)]
    ops = [op for op in block.ops if touches_tensors(op) and op is not last]
    for arg in list(block.args):
        if isinstance(arg.type, TensorType):
            Rewriter.replace_value_with_new_type(arg, memref_type(arg.type))
    b = Bufferization(block, ops)
    outputs: list[SSAValue] = []
    for index, value in enumerate(last.arguments):
        out = block.insert_arg(memref_type(value.type), len(block.args))
        out.name_hint = "out" if len(last.arguments) == 1 else f"out{index}"
        outputs.append(out)
        attributes.append({"rock.output": IntegerAttr(index, i32)})
        b.set_place(value, out)
    b.run()
    end = Builder(InsertPoint.before(last))
    for value, out in zip(last.arguments, outputs, strict=True):
        if not (b.is_in_place(value) and b.buffer(value) is out):
            end.insert(CopyOp(b.buffer(value), out)).location = last.location
    Rewriter.replace_op(last, new := ReturnOp())
    copy_location(last.location, new)
    b.erase()
    func.function_type = FunctionType.from_lists([arg.type for arg in block.args], [])
    func.arg_attrs = ArrayAttr([DictionaryAttr(attrs) for attrs in attributes])
    func.res_attrs = None
    mark_page_tables(func)


def tensor_shape(value: SSAValue) -> tuple[int, ...]:
    """The static shape of a tensor value that may have become a memref."""
    assert isinstance(value.type, TensorType | MemRefType)
    return value.type.get_shape()


class _View(BufferizationModel):
    """An operation that only shows its first operand in another shape."""

    def map_of(self, op: Operation) -> TransformMap:
        """The coordinates of the result to those of the operand."""
        raise AssertionError(op.name)

    def place(self, op: Operation, b: Bufferization) -> None:
        place_view(b, op.operands[0], op.results[0], self.map_of(op))

    def bufferize(self, op: Operation, b: Bufferization) -> None:
        bufferize_view(b, op.operands[0], op.results[0], self.map_of(op))


def _names(prefix: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(len(shape)))


def _expansion(wide: tuple[int, ...], narrow: tuple[int, ...], groups: list[list[int]]) -> TransformMap:
    """From the coordinates of `wide` to those of `narrow`, whose dim i is the dims `groups[i]` of `wide` in one."""
    builder = MapBuilder(_names("dim", narrow), narrow)
    for i, dims in enumerate(groups):
        if len(dims) == 1:
            builder.rename(f"exp{dims[0]}", f"dim{i}")
        elif dims:
            builder.unmerge([f"exp{d}" for d in dims], f"dim{i}", [wide[d] for d in dims])
        else:
            builder.const_dim(f"dim{i}", 0)
    for d in range(len(wide)):
        if not any(d in dims for dims in groups):
            builder.add_dim(f"exp{d}", wide[d])
    return builder.build()


def _reassociation(op: ExpandShapeOp | CollapseShapeOp) -> list[list[int]]:
    return [[int(d.value.data) for d in group] for group in op.reassociation]


class _Expand(_View):
    def map_of(self, op: Operation) -> TransformMap:
        assert isinstance(op, ExpandShapeOp)
        return _expansion(tensor_shape(op.result), tensor_shape(op.src), _reassociation(op))


class _Collapse(_View):
    def map_of(self, op: Operation) -> TransformMap:
        assert isinstance(op, CollapseShapeOp)
        return _expansion(tensor_shape(op.src), tensor_shape(op.result), _reassociation(op)).inverse()


class _ExtractSlice(_View):
    def map_of(self, op: Operation) -> TransformMap:
        assert isinstance(op, ExtractSliceOp)
        offsets, sizes, strides = (
            list(a.get_values()) for a in (op.static_offsets, op.static_sizes, op.static_strides)
        )
        if op.offsets or op.sizes or op.strides or any(s != 1 for s in strides):
            raise XpagedError(
                "only slices with static offsets and sizes and stride 1 are taken",
                at=op,
                found=f"offsets {offsets}, sizes {sizes}, strides {strides}",
            )
        source, result = tensor_shape(op.source), tensor_shape(op.result)
        builder = MapBuilder(_names("dim", source), source)
        dropped = len(source) - len(result)
        for i, (begin, size) in enumerate(zip(offsets, sizes, strict=True)):
            if dropped and size == 1:
                builder.const_dim(f"dim{i}", begin)
                dropped -= 1
            elif size == source[i]:
                builder.pass_through(f"dim{i}")
            else:
                builder.slice(f"dim{i}", begin, begin + size)
        return builder.build()


class _Empty(BufferizationModel):
    def bufferize(self, op: Operation, b: Bufferization) -> None:
        b.result_buffer(op.results[0])


class _Constant(BufferizationModel):
    """A constant tensor is a constant memref of the module."""

    def bufferize(self, op: Operation, b: Bufferization) -> None:
        assert isinstance(op, ConstantOp)
        module = op.get_toplevel_object()
        assert isinstance(module, ModuleOp)
        assert isinstance(op.value, DenseIntOrFPElementsAttr)
        names = {g.sym_name.data for g in module.body.block.ops if isinstance(g, GlobalOp)}
        name = next(n for i in range(len(names) + 1) if (n := f"constant_{i}") not in names)
        type_ = memref_type(op.result.type)
        constant = GlobalOp.get(StringAttr(name), type_, op.value, constant=UnitAttr())
        copy_location(op.location, constant)
        Builder(InsertPoint.at_start(module.body.block)).insert(constant)
        b.set_buffer(op.result, b.insert(GetGlobalOp(name, type_)).memref)


class _Generic(BufferizationModel):
    """`linalg.generic` writes each result into its place; what it only reads of an output is copied there first."""

    def bufferize(self, op: Operation, b: Bufferization) -> None:
        assert isinstance(op, GenericOp)
        reads = [bool(arg.uses) for arg in op.body.block.args[len(op.inputs) :]]
        outputs: list[SSAValue] = []
        for init, result, is_read in zip(op.outputs, op.results, reads, strict=True):
            outputs.append(b.result_buffer(result))
            if is_read:
                b.insert(CopyOp(b.buffer(init), outputs[-1]))
        region = op.body.clone()
        b.insert(
            GenericOp(
                b.buffers(op.inputs), outputs, region, op.indexing_maps, op.iterator_types, [], op.doc, op.library_call
            )
        )


MODELS: dict[type[Operation], BufferizationModel] = {
    ExpandShapeOp: _Expand(),
    CollapseShapeOp: _Collapse(),
    ExtractSliceOp: _ExtractSlice(),
    EmptyOp: _Empty(),
    ConstantOp: _Constant(),
    GenericOp: _Generic(),
}
