"""func: calls. (Functions and returns are the evaluator's own business.)

A function of the run-time library that prints, `print_...` without a body, adds its name and what it is called with to
the machine's `printed`.
"""

from xdsl.dialects import func
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule
from xpaged.interpreter.views import materialize


@rule(func.CallOp)
def call(op: func.CallOp, b: Compiler) -> OpCode:
    program, name, single = b.program, op.callee.string_value(), len(op.results) == 1
    if name.startswith("print_") and _is_declaration(SymbolTable.lookup_symbol(program.module, name)):

        def show(m: Machine, *args: Value) -> None:
            m.printed += [(name, materialize(m.memory, x)) for x in args]

        return show

    def run(m: Machine, *args: Value) -> Value:
        results = program.call(m, name, args)
        return results[0] if single else results

    return run


def _is_declaration(op: Operation | None) -> bool:
    return isinstance(op, func.FuncOp) and op.is_declaration
