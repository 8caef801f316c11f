"""func: calls. (Functions and returns are the evaluator's own business.)"""

from xdsl.dialects import func

from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule


@rule(func.CallOp)
def call(op: func.CallOp, b: Compiler) -> OpCode:
    program, name, single = b.program, op.callee.string_value(), len(op.results) == 1

    def run(m: Machine, *args: Value) -> Value:
        results = program.call(m, name, args)
        return results[0] if single else results

    return run
