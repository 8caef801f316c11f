"""The MIGraphX operations that stand between shaped types and plain tensors; a value is the same on both sides."""

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import AttrConstraint, IRDLOperation, base, irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.migraphx.base import SHAPED, MIGraphXOp, shaped

_TENSOR: AttrConstraint[TensorType] = base(TensorType)


def _expect_logical(op: IRDLOperation, tensor: SSAValue, view: SSAValue) -> None:
    expected = shaped(view).as_tensor()
    if tensor.type != expected:
        raise VerifyException(f"'{op.name}' op: the logical tensor of {view.type} is {expected}, found {tensor.type}")


@irdl_op_definition
class AsLogicalShapeOp(MIGraphXOp):
    """The logical tensor of a shaped value: what its strides say is read."""

    name = "migraphx.mlir.as.logical.shape"
    input = operand_def(SHAPED)
    output = result_def(_TENSOR)
    assembly_format = "$input attr-dict `:` custom<Shaped>(type($input)) `to` type($output)"

    def verify_(self) -> None:
        _expect_logical(self, self.output, self.input)


@irdl_op_definition
class AsUnderlyingShapeOp(MIGraphXOp):
    """A logical tensor as a shaped value: it is written as the strides say."""

    name = "migraphx.mlir.as.underlying.shape"
    input = operand_def(_TENSOR)
    output = result_def(SHAPED)
    assembly_format = "$input attr-dict `:` type($input) `to` custom<Shaped>(type($output))"

    def verify_(self) -> None:
        _expect_logical(self, self.input, self.output)
