"""TOSA as rocMLIR uses it: more operations than xDSL's dialect of the same name, older text forms taken, too.

This dialect takes the place of xDSL's in `xpaged.context`; both cannot be registered in one context.
"""

from xdsl.dialects.tosa import NanModeAttr
from xdsl.ir import Dialect

from xpaged.dialects.tosa import constants, elementwise, ops
from xpaged.dialects.tosa.base import ShapeType

Tosa = Dialect(
    "tosa",
    [
        constants.ConstOp,
        constants.ConstShapeOp,
        elementwise.AbsOp,
        elementwise.AddOp,
        elementwise.ArithmeticRightShiftOp,
        elementwise.CastOp,
        elementwise.CeilOp,
        elementwise.ClampOp,
        elementwise.EqualOp,
        elementwise.ErfOp,
        elementwise.ExpOp,
        elementwise.FloorOp,
        elementwise.GreaterEqualOp,
        elementwise.GreaterOp,
        elementwise.IdentityOp,
        elementwise.IntDivOp,
        elementwise.LogOp,
        elementwise.LogicalAndOp,
        elementwise.LogicalLeftShiftOp,
        elementwise.LogicalNotOp,
        elementwise.LogicalOrOp,
        elementwise.LogicalRightShiftOp,
        elementwise.MaximumOp,
        elementwise.MinimumOp,
        elementwise.MulOp,
        elementwise.NegateOp,
        elementwise.PowOp,
        elementwise.ReciprocalOp,
        elementwise.RsqrtOp,
        elementwise.SelectOp,
        elementwise.SigmoidOp,
        elementwise.SubOp,
        elementwise.TanhOp,
        ops.ConcatOp,
        ops.CustomOp,
        ops.MatMulOp,
        ops.PadOp,
        ops.ReduceMaxOp,
        ops.ReduceMinOp,
        ops.ReduceSumOp,
        ops.ReshapeOp,
        ops.SliceOp,
        ops.TileOp,
        ops.TransposeOp,
    ],
    [ShapeType, NanModeAttr],
)
