"""Running a module on the CPU, level by level, and comparing every level with the reference: what `xpaged run` does."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from xpaged.arch import arch_of
from xpaged.errors import XpagedError, did_you_mean
from xpaged.interpreter.compare import Output, compare, numbers
from xpaged.interpreter.court import Court, CourtProgram, Stats
from xpaged.interpreter.evaluator import Machine, Program, Wrap
from xpaged.interpreter.host_functions import MAIN, NAIVE, VERDICT, host_function, run_main, second_opinion
from xpaged.interpreter.inputs import (
    Entry,
    Inputs,
    Placed,
    entry_of,
    from_arrays,
    in_memory_order,
    kernel_of,
    place,
)
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.numerics import Array, dtype_of, is_float
from xpaged.interpreter.reference import Attention, Reference, capture, elements, references, whole
from xpaged.interpreter.sampling import mark_dead, random_inputs
from xpaged.interpreter.views import materialize
from xpaged.ir.levels import MODULE_LEVELS, Level, level_of
from xpaged.ir.locations import set_source, source_of
from xpaged.lowering.kernel import argument_attributes, block_size, grid_size, is_host
from xpaged.lowering.perf_config import notes_of as schedule_notes
from xpaged.passes.pipelines import lower
from xpaged.testing.bounds import unit

EditText = Callable[[str], str]
"""Changes a HIP text."""
Edit = Callable[[ModuleOp, Level], None]
"""Changes a module that stands at a level, in place."""

_BATCH_LANES = 1 << 13
_BATCH_GROUPS = 64
_RUNS_ON = 20
"""A changed program may execute so many times the operations of the right one."""
_GRAPH_SCORES = 1 << 22
"""Graphs with more scores than this are not evaluated in float64 as a whole."""


@dataclass
class LevelReport:
    """What one level did. `cpu_seconds` are those of this process; `lane_ops` is one for each operation and lane."""

    ok: bool = True
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    outputs: list[Output] = field(default_factory=list[Output])
    ops: int = 0
    lane_ops: int = 0
    stats: dict[str, Any] | None = None


@dataclass
class Report:
    """What a run found: `ok` when every level ran without a fault and, if checked, lies within its bounds."""

    levels: dict[str, LevelReport] = field(default_factory=dict[str, LevelReport])
    faults: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    notes: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults and all(level.ok for level in self.levels.values())

    def as_json(self) -> dict[str, Any]:
        """The report as plain data, as `--json` prints it."""
        levels = {
            name: {"ok": level.ok, "seconds": level.seconds, "outputs": [o.as_json() for o in level.outputs]}
            | ({} if level.stats is None else {"stats": level.stats})
            for name, level in self.levels.items()
        }
        return {"ok": self.ok, "levels": levels, "faults": self.faults, "notes": self.notes}

    def arrays(self) -> dict[str, Array]:
        """`<level>/out<i>` of every level that ran; bf16 and fp8 as their bits."""
        found: dict[str, Array] = {}
        for name, level in self.levels.items():
            for output in level.outputs:
                values = output.values
                if is_float(values.dtype) and values.dtype.kind != "f":
                    values = values.view(np.dtype(f"u{values.dtype.itemsize}"))
                found[f"{name}/out{output.number}"] = values
        return found


def run(
    module: ModuleOp,
    inputs: Mapping[str, Any] | None = None,
    *,
    level: Level | str | Sequence[Level | str] | None = None,
    seed: int | None = None,
    arch: str | None = None,
    blocks: int | None = None,
    check: bool = False,
    court: bool | None = None,
    stats: bool = False,
    edit: Edit | None = None,
) -> Report:
    """Executes `module` on the CPU at `level`, or several (its own when None; "all": every one from its own down).

    `inputs` are arrays by name (see `inputs.from_arrays`); without them data are random from `seed`, with pages
    shuffled and everything dead poisoned from level rock on. `blocks` runs that many workgroups (of several kernels: of
    the last one, the others whole) at the tile, device and host levels. The level host is left out of "all", with a
    note, where this machine cannot run it. `check` compares every level with the reference. `court` judges every access
    to memory at the device level (None: where `check` is set); `stats` counts there what is moved. `edit` is called
    with a copy of each lowered module before it is executed, and may change it: a fault planted there should be found.
    The module itself is not changed.

    With `check`, functions for the host beside the kernel are executed too: a CPU function as one more level, and
    `main`. Of a module that has functions for the host alone, `main` is executed.

    Faults of the program are in the report. Raises XpagedError when the module or the inputs are refused.
    """
    if not any(isinstance(op, FuncOp) and not is_host(op) for op in module.walk()) and host_function(module, MAIN):
        return _run_only_main(module)
    trial = _Run(module, inputs, seed, arch, blocks, check, check if court is None else court, stats, edit)
    report = trial.run(level)
    if (court or stats) and Level.DEVICE.value not in report.levels:
        report.notes.append("the memory court and its statistics are those of level device, which was not run")
    return report


def _run_only_main(module: ModuleOp) -> Report:
    """A module of functions for the host alone: what `main` prints are its outputs."""
    report = Report()
    started = time.perf_counter()
    printed = run_main(module)
    result = LevelReport(seconds=time.perf_counter() - started)
    for number, (name, values) in enumerate(printed):
        flat = values.reshape(-1)
        result.outputs.append(Output(number, name, flat, np.ones(flat.size, np.bool_)))
    report.levels[MAIN] = result
    return report


def _level(level: Level | str) -> Level:
    if isinstance(level, Level):
        return level
    names = [each.value for each in Level]
    if level not in names:
        raise XpagedError(f"there is no level {level!r}", fix=did_you_mean(level, names))
    return Level(level)


class _Run:
    def __init__(
        self,
        module: ModuleOp,
        inputs: Mapping[str, Any] | None,
        seed: int | None,
        arch: str | None,
        blocks: int | None,
        check: bool,
        court: bool,
        stats: bool,
        edit: Edit | None,
    ) -> None:
        if blocks is not None and blocks < 1:
            raise XpagedError("the number of workgroups to run must be positive", found=blocks)
        if seed is not None and seed < 0:
            raise XpagedError("the seed of random data must not be negative", found=seed)
        self.module = _copy(module)
        self.here = level_of(self.module)
        self.given, self.arch, self.blocks, self.check, self.edit = inputs, arch, blocks, check, edit
        self.court, self.stats = court, stats
        self.edit_text: EditText | None = None
        self.wrap: Wrap | None = None
        self.most_ops = float("inf")
        self.seed = 0 if seed is None else seed
        self.rng = np.random.default_rng(self.seed)
        self.report = Report()
        self.arguments = entry_of(self.module).arguments

    def run(self, level: Level | str | Sequence[Level | str] | None) -> Report:
        levels = self._levels(level)
        if self.arch is not None or levels[-1] >= Level.GRIDWISE:
            self.report.notes += arch_of(self.module, self.arch)[1]
        if levels[-1] >= Level.GRIDWISE:
            self.report.notes += schedule_notes(self.module)
        rock, attentions = self.take_inputs(levels)
        if self.check and rock is None:
            raise XpagedError(
                f"a module at level {self.here.value} does not say what it should compute",
                at=self.module,
                fix="check a module at level gridwise or above, or run without --check",
            )
        self._note_graph_levels(levels)
        expected = self.expected(levels, rock, attentions)
        current = self.module
        for each in levels:
            current = lower(current if each > self.here else _copy(current), each, self.arch)
            result = LevelReport()
            self.report.levels[each.value] = result
            try:
                self.execute(self._edited(current, each), each, result)
            except XpagedError as error:
                self.fault(each, error)
                result.ok = False
                continue
            if self.check:
                result.ok &= compare(result.outputs, expected[each < Level.ROCK])
        if self.check and any(is_host(op) for op in self.module.ops):
            self._host_functions(expected[False])
        return self.report

    def take_inputs(self, levels: Sequence[Level]) -> tuple[ModuleOp | None, list[Attention]]:
        """Makes or takes the inputs; returns the module at a level where attention is one operation, if any, and what
        each attention of it is."""
        rock = self._rock(levels)
        if rock is not None:
            self._take_page_tables(rock)
        return rock, self._make_inputs(rock)

    def _host_functions(self, expected: Reference) -> None:
        """What the functions for the host say: the CPU function on these inputs, and the program on its own."""
        if host_function(self.module, NAIVE) is not None:
            started = time.perf_counter()
            result = LevelReport(outputs=second_opinion(self.module, self.arguments, self.inputs))
            self.report.levels[NAIVE] = result
            result.ok = compare(result.outputs, whole(expected))
            result.seconds = time.perf_counter() - started
        if host_function(self.module, MAIN) is not None:
            try:
                printed = run_main(self.module)
            except XpagedError as error:
                self.fault(Level.ROCK_MEMREF, error)
                return
            for flags in (values for name, values in printed if name == VERDICT):
                self.report.notes.append(f"main printed [{' '.join(map(str, flags))}]")
                if not flags.all():
                    what = "main found a difference between the kernel and the CPU function"
                    self.fault(Level.ROCK_MEMREF, XpagedError(what, found=str(flags)))

    def expected(
        self, levels: Sequence[Level], rock: ModuleOp | None, attentions: Sequence[Attention]
    ) -> dict[bool, Reference]:
        """The references that `levels` are compared with: for graphs (True) and for kernels."""
        if not self.check or rock is None:
            return {}
        kinds = sorted({each < Level.ROCK for each in (*levels, self.here)})
        found = references(rock, self.inputs, [self._graph_type() if graph else None for graph in kinds])
        expected = dict(zip(kinds, found, strict=True))
        if self.here < Level.ROCK:
            self._check_lowering(found[-1], attentions)
        return expected

    def _edited(self, module: ModuleOp, level: Level) -> ModuleOp:
        if self.edit is None:
            return module
        copy = _copy(module)
        self.edit(copy, level)
        return copy

    def _levels(self, level: Level | str | Sequence[Level | str] | None) -> list[Level]:
        if level == "all":
            return self._all_levels()
        if level is None:
            level = self.here
        levels = sorted({_level(each) for each in ([level] if isinstance(level, Level | str) else level)})
        if not levels:
            raise XpagedError("there is no level to run", expected=", ".join(each.value for each in Level))
        if levels[0] < self.here:
            raise XpagedError(
                f"the module stands at level {self.here.value}, which is past {levels[0].value}", at=self.module
            )
        return levels

    def _all_levels(self) -> list[Level]:
        from xpaged.codegen.host import unable

        levels = [each for each in MODULE_LEVELS if each >= self.here]
        if (reason := unable()) is None:
            return [*levels, Level.HOST]
        self.report.notes.append(f"level host was left out: {reason}")
        return levels

    def _take_page_tables(self, rock: ModuleOp) -> None:
        """Tell a graph what its page tables hold, which is known for sure once its addresses are understood."""
        if rock is self.module:
            return
        tables = [
            {
                name: attr
                for name, attr in argument_attributes(kernel_of(rock), index).items()
                if name == "rock.page_table"
            }
            for index in range(len(self.arguments))
        ]
        function = kernel_of(self.module)
        if any(tables):
            attributes = [argument_attributes(function, index) | table for index, table in enumerate(tables)]
            function.arg_attrs = ArrayAttr([DictionaryAttr(each) for each in attributes])
            self.arguments = entry_of(self.module).arguments

    def _rock(self, levels: Sequence[Level]) -> ModuleOp | None:
        """The module at a level where attention is one operation; None below, and where the graph has none."""
        if self.here > Level.GRIDWISE:
            return None
        if self.here >= Level.ROCK:
            return self.module
        try:
            return lower(_copy(self.module), Level.ROCK, self.arch)
        except XpagedError as error:
            if levels[-1] >= Level.ROCK or self.check:
                raise
            self.report.notes.append(f"the graph was not understood as attention: {error.what}")
            return None

    def _make_inputs(self, rock: ModuleOp | None) -> list[Attention]:
        if self.given is None:
            self.inputs = random_inputs(self.arguments, self.rng, rock)
        else:
            self.inputs = from_arrays(self.arguments, self.given, self.rng)
        attentions = [] if rock is None else capture(rock, self.inputs)
        if self.given is not None:
            mark_dead(attentions, self.inputs)
        return attentions

    def _note_graph_levels(self, levels: Sequence[Level]) -> None:
        graphs = [each.value for each in levels if each < Level.ROCK]
        if graphs:
            self.report.notes.append(
                f"{' and '.join(graphs)}: the graph is executed as written, so dead slots and unmapped pages hold "
                "finite values there, and rows that keep no key are not compared"
            )

    def _graph_type(self) -> np.dtype[Any]:
        """The coarsest float type of the graph: what its operations round to."""
        types = {getattr(result.type, "element_type", None) for op in self.module.walk() for result in op.results}
        floats = [dtype_of(type) for type in types if isinstance(type, AnyFloat)]
        floats += [a.dtype for a in self.arguments if is_float(a.dtype)]
        return max(floats, key=unit, default=np.dtype(np.float32))

    def _check_lowering(self, expected: Reference, attentions: Sequence[Attention]) -> None:
        """The graph itself in float64 must agree with the reference, which was made from what it was lowered to."""
        if sum(elements(a) for a in attentions) > _GRAPH_SCORES:
            self.report.notes.append("the graph is too large to be evaluated in float64 as well as level by level")
            return
        memory = Memory()
        placed = place(self.arguments, self.inputs, memory, poison=False)
        function = kernel_of(self.module)
        name, types = function.sym_name.data, function.function_type.outputs
        results = Program(self.module, exact=True).call(Machine(memory, exact=True), name, placed.values)
        for number, (result, type) in enumerate(zip(results, types, strict=True)):
            found = numbers(in_memory_order(materialize(memory, result), type).reshape(-1))
            wanted = expected.outputs[number]
            compared = ~np.isnan(wanted.value)
            with np.errstate(invalid="ignore"):
                close = np.abs(found - wanted.value) <= 2.0**-20 * (wanted.bound + np.abs(wanted.value))
            if not (close | ~compared | (found == wanted.value)).all():
                self.report.faults.append(
                    {
                        "level": Level.ROCK.value,
                        "kind": "wrong-lowering",
                        "what": f"result {number} of the graph in float64 differs from what it is lowered to",
                        "op": "",
                        "location": "",
                        "address": None,
                    }
                )

    # One level

    def execute(self, module: ModuleOp, level: Level, result: LevelReport) -> None:
        entry = entry_of(module)
        self._note_whole_kernels(entry, level)
        if level is Level.HOST:
            self._execute_text(module, entry, result)
            return
        memory = Memory()
        placed = place(entry.arguments, self.inputs, memory, poison=level >= Level.ROCK)
        judge = self._judge(entry, memory, placed, level)
        program = Program(module, wrap=self.wrap) if judge is None else CourtProgram(module, judge)
        started, started_cpu = time.perf_counter(), time.process_time()
        try:
            for function, slots in zip(entry.functions, entry.slots, strict=True):
                values = [placed.values[i] for i in slots]
                if judge is not None:
                    judge.begin_launch()
                if level < Level.TILE:
                    machine = Machine(memory)
                    values = program.call(machine, function.sym_name.data, values)
                    result.ops, result.lane_ops = result.ops + machine.ops, result.lane_ops + machine.lane_ops
                    for number, value in enumerate(values):
                        type = function.function_type.outputs.data[number]
                        array = in_memory_order(np.asarray(materialize(memory, value)), type)
                        result.outputs.append(Output(number, f"out{number}", array, np.ones(array.size, np.bool_)))
                else:
                    groups = self._groups(function, last=function is entry.functions[-1])
                    self._launch(program, function, level, memory, values, groups, result)
        finally:  # what was found before a refusal may be the reason for it
            if judge is not None:
                self.report.faults += [finding.as_json(level.value) for finding in judge.findings.values()]
                result.ok &= not judge.findings
                result.stats = None if judge.stats is None else judge.stats.as_json()
        result.seconds, result.cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
        self._read_outputs(entry, memory, placed, level, result)

    def _judge(self, entry: Entry, memory: Memory, placed: Placed, level: Level) -> Court | None:
        """The memory court, where one was asked for."""
        if level is not Level.DEVICE or not (self.court or self.stats) or self.wrap is not None:
            return None
        results = [a for a in entry.arguments if a.output is not None and a.index in placed.bases]
        return Court(memory, {placed.bases[a.index]: a.name for a in results}, Stats() if self.stats else None)

    def _note_whole_kernels(self, entry: Entry, level: Level) -> None:
        """With chosen workgroups: those of the last kernel, which may need anything that the ones before it write."""
        *before, last = (function.sym_name.data for function in entry.functions)
        if self.blocks is None or level < Level.TILE or not before:
            return
        note = f"only workgroups of the last kernel, {last}, are chosen: {', '.join(before)} ran whole"
        if note not in self.report.notes:
            self.report.notes.append(note)

    def _execute_text(self, module: ModuleOp, entry: Entry, result: LevelReport) -> None:
        from xpaged.interpreter.host_level import run_host

        started = time.perf_counter()
        last = entry.functions[-1]
        arch = arch_of(last, self.arch)[0]
        groups = self._groups(last, last=True).tolist()
        result.outputs = run_host(module, arch, entry, self.inputs, groups, self.edit_text)
        result.seconds = time.perf_counter() - started
        for output in result.outputs:
            self._check_written(output, Level.HOST, result)

    def _groups(self, function: FuncOp, last: bool) -> Array:
        """The workgroups to run: all, or of the last kernel the chosen ones."""
        grid = grid_size(function)
        if self.blocks is None or self.blocks >= grid or not last:
            return np.arange(grid)
        return np.sort(np.random.default_rng(self.seed).choice(grid, self.blocks, replace=False))

    def _launch(
        self,
        program: Program,
        function: FuncOp,
        level: Level,
        memory: Memory,
        values: Sequence[Any],
        groups: Array,
        result: LevelReport,
    ) -> None:
        """Runs workgroups of a kernel in batches."""
        grid = grid_size(function)
        lanes = block_size(function) if level is Level.DEVICE else 1
        wave = arch_of(function, self.arch)[0].wave_size
        batch = max(1, _BATCH_LANES // lanes) if lanes > 1 else _BATCH_GROUPS
        for at in range(0, len(groups), batch):
            mark = memory.mark()
            some = groups[at : at + batch]
            machine = Machine(memory, groups=some, lanes_per_group=lanes, wave_size=wave, grid=grid)
            machine.most_ops = self.most_ops
            program.call(machine, function.sym_name.data, values)
            memory.release(mark)
            result.ops += machine.ops
            result.lane_ops += machine.lane_ops

    def _read_outputs(self, entry: Entry, memory: Memory, placed: Placed, level: Level, result: LevelReport) -> None:
        for arg in sorted((a for a in entry.arguments if a.output is not None), key=lambda a: a.output or 0):
            base, bytes = placed.bases[arg.index], arg.count * arg.dtype.itemsize
            written: Array = np.all(memory.written(base, bytes).reshape(arg.count, -1), axis=1)
            values = memory.read_array(base, arg.dtype, arg.count)
            assert arg.output is not None
            output = Output(arg.output, arg.name, values, written)
            result.outputs.append(output)
            self._check_written(output, level, result, base)

    def _check_written(self, output: Output, level: Level, result: LevelReport, base: int | None = None) -> None:
        """An element of an output that nobody wrote is a fault, unless only a part of the workgroups ran."""
        partial = self.blocks is not None and level >= Level.TILE
        if output.written.all() or (partial and output.written.any()):
            return
        missing = np.flatnonzero(~output.written)
        result.ok = False
        self.report.faults.append(
            {
                "level": level.value,
                "kind": "unwritten-output",
                "what": f"{len(missing)} of {output.written.size} elements of output {output.name!r} were never "
                f"written, the first is element {missing[0]}",
                "op": "",
                "location": "",
                "address": None if base is None else hex(base + int(missing[0]) * output.values.dtype.itemsize),
            }
        )

    def fault(self, level: Level, error: XpagedError) -> None:
        number: int | None = getattr(error, "address", None)  # of a bad access, simulated or real
        address = None if number is None else hex(number & ((1 << 64) - 1))
        what = error.what if error.found is None else f"{error.what}: {error.found}"
        kind = "error" if number is None else "bad-access"
        entry = {"kind": kind, "what": what, "op": error.op, "location": error.where, "address": address}
        entry["level"] = level.value
        self.report.faults.append(entry)


class Trial:
    """A kernel with random inputs and the reference for them, before which changed versions of what it is lowered to
    are put: `module` is that, at level device, and may be changed in place.

    Raises XpagedError when the kernel is refused.
    """

    def __init__(
        self,
        kernel: ModuleOp,
        *,
        seed: int = 0,
        change: Callable[[Entry, Inputs, list[Attention]], None] | None = None,
        lowered: ModuleOp | None = None,
    ) -> None:
        """`change` may change the random inputs; `lowered` is the kernel at level device, where that is at hand."""
        self._run = run = _Run(kernel, None, seed, None, None, True, True, False, None)
        rock, attentions = run.take_inputs([Level.DEVICE])
        if change is not None:
            change(entry_of(run.module), run.inputs, attentions)
        self._expected = run.expected([Level.DEVICE], rock, attentions)[False]
        self.module = lower(_copy(run.module), Level.DEVICE) if lowered is None else lowered
        run.most_ops = _RUNS_ON * max(self.judge().levels[Level.DEVICE.value].ops, 1)

    def watch(self, wrap: Wrap) -> Report:
        """Executes `module` without the memory court, with `wrap` around the code of every operation."""
        self._run.wrap = wrap
        try:
            return self.judge()
        finally:
            self._run.wrap = None

    def judge(self, level: Level = Level.DEVICE, edit: EditText | None = None) -> Report:
        """Executes `module`, at level host with its text changed by `edit`, and compares the results."""
        run, report, result = self._run, Report(), LevelReport()
        run.report, run.edit_text, report.levels[level.value] = report, edit, result
        try:
            run.execute(self.module, level, result)
            result.ok &= compare(result.outputs, self._expected)
        except XpagedError as error:
            run.fault(level, error)
            result.ok = False
        return report


def _copy(module: ModuleOp) -> ModuleOp:
    copy = module.clone()
    set_source(copy, source_of(module))
    return copy
