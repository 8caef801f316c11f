"""The MIGraphX dialect: graphs of tensors as MIGraphX emits them, with strides in the types."""

from xdsl.ir import Dialect

from xpaged.dialects.migraphx import elementwise, ops
from xpaged.dialects.migraphx.shaped import MIXRShapedType

MIGraphX = Dialect(
    "migraphx",
    [
        elementwise.LiteralOp,
        elementwise.AddOp,
        elementwise.SubOp,
        elementwise.MulOp,
        elementwise.DivOp,
        elementwise.PowOp,
        elementwise.MaxOp,
        elementwise.MinOp,
        elementwise.EqualOp,
        elementwise.GreaterOp,
        elementwise.ClipOp,
        elementwise.WhereOp,
        elementwise.ConvertOp,
        elementwise.AbsOp,
        elementwise.NegOp,
        elementwise.ReluOp,
        elementwise.CeilOp,
        elementwise.FloorOp,
        elementwise.ErfOp,
        elementwise.ExpOp,
        elementwise.LogOp,
        elementwise.RecipOp,
        elementwise.RsqrtOp,
        elementwise.SigmoidOp,
        elementwise.SqrtOp,
        elementwise.TanhOp,
        ops.TransposeOp,
        ops.ReshapeOp,
        ops.SliceOp,
        ops.BroadcastOp,
        ops.MultiBroadcastOp,
        ops.SoftmaxOp,
        ops.ReduceMaxOp,
        ops.ReduceSumOp,
        ops.ReduceMeanOp,
        ops.DotOp,
        ops.DerefOp,
    ],
    [MIXRShapedType],
)
