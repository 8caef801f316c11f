"""A sequence of passes, run with verification, and the trace of what each of them did."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from xpaged.context import context
from xpaged.errors import XpagedError, did_you_mean
from xpaged.ir.locations import set_source, source_of
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.printing import print_module
from xpaged.ir.verify import verify
from xpaged.passes import get_all_passes

PassTable = dict[str, Callable[[], type[ModulePass]]]


def parse_passes(text: str, available: PassTable | None = None) -> list[ModulePass]:
    """
    The passes of a text such as `bufferize,gemm-to-gridwise{option=1}`, out of `available` (by default xpaged's and
    xDSL's).

    Raises XpagedError for a malformed text, an unknown pass or a wrong option.
    """
    try:
        specs = list(parse_pipeline(text))
    except (ArgSpecParseError, ValueError, RuntimeError) as err:
        message = str(err.args[0] if err.args else err)
        raise XpagedError(
            "this is not a list of passes",
            found=repr(text),
            expected="pass,pass{option=value option=value}",
            fix=message.strip().splitlines()[-1].strip() if isinstance(err, ArgSpecParseError) else None,
        ) from None
    return [_find(spec, available) for spec in specs]


def _find(spec: ArgSpec, available: PassTable | None) -> ModulePass:
    own = get_all_passes()
    table = available or own
    factory = table.get(spec.name)
    if factory is None and available is None:
        from xdsl.transforms import get_all_passes as get_stock_passes

        table = {**get_stock_passes(), **own}
        factory = table.get(spec.name)
    if factory is None:
        fix = did_you_mean(spec.name, table) or f"the passes of xpaged are {', '.join(own)}"
        raise XpagedError(f"unknown pass '{spec.name}'", fix=fix)
    pass_type = factory()
    try:
        return pass_type.from_spec(spec)
    except (ValueError, TypeError) as err:
        from xdsl.passes import get_pass_option_infos

        options = [f"{info.name.replace('_', '-')}: {info.expected_type}" for info in get_pass_option_infos(pass_type)]
        raise XpagedError(
            f"pass '{spec.name}' does not take these options",
            found=str(spec),
            expected=", ".join(options) if options else "no options",
            fix=str(err),
        ) from None


@dataclass
class Stage:
    """One pass of a trace."""

    name: str
    options: dict[str, object]
    """The options that differ from their defaults."""
    seconds: float
    """Run time of the pass, verification and level checks included."""
    module_before: ModuleOp | None = field(repr=False)
    module_after: ModuleOp | None = field(repr=False)

    @cached_property
    def before(self) -> str:
        """The module's text before the pass; empty when no trace was asked for."""
        return "" if self.module_before is None else print_module(self.module_before)

    @cached_property
    def after(self) -> str:
        """The module's text after the pass; empty when no trace was asked for."""
        return "" if self.module_after is None else print_module(self.module_after)

    @cached_property
    def changed(self) -> bool:
        """Whether the pass changed the module (always false when no trace was asked for)."""
        if self.module_before is None or self.module_after is None:
            return False
        return not self.module_before.is_structurally_equivalent(self.module_after)

    def diff(self) -> str:
        """A unified diff of the text before and after."""
        import difflib

        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), f"before {self.name}", f"after {self.name}", lineterm=""
        )
        return "\n".join(lines)


@dataclass
class Trace:
    """What a pipeline did: the final module and one stage for each pass, found by index or by name."""

    module: ModuleOp = field(repr=False)
    stages: list[Stage]

    def __getitem__(self, key: int | str) -> Stage:
        if isinstance(key, int):
            return self.stages[key]
        for stage in self.stages:
            if stage.name == key:
                return stage
        raise KeyError(key)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __len__(self) -> int:
        return len(self.stages)


class Pipeline:
    """
    Passes to be run in order, from a text such as `migraphx-to-tosa,tosa-to-rock`.

    Every pass of xpaged checks the levels that it takes and leaves; after every pass the module is verified.
    """

    def __init__(self, passes: str) -> None:
        self.passes = parse_passes(passes)

    def __repr__(self) -> str:
        return f"Pipeline({','.join(str(each) for each in self.passes)!r})"

    def apply(self, module: ModuleOp) -> None:
        """Run the passes on `module` in place. Raises XpagedError when one refuses."""
        ctx = context()
        for each in self.passes:
            apply_pass(each, ctx, module)

    def run(self, module: ModuleOp, trace: bool = True) -> Trace:
        """
        Run the passes on a copy of `module` and return what happened; `module` itself stays as it is.

        With `trace` every stage keeps the module before and after it. Raises XpagedError when a pass refuses.
        """
        ctx = context()
        module = _copy(module)
        stages: list[Stage] = []
        before = _copy(module) if trace else None
        for each in self.passes:
            start = time.perf_counter()
            apply_pass(each, ctx, module)
            seconds = time.perf_counter() - start
            after = _copy(module) if trace else None
            stages.append(Stage(each.name, dict(each.spec().parameters), seconds, before, after))
            before = after
        return Trace(module, stages)


def _copy(module: ModuleOp) -> ModuleOp:
    copy = module.clone()
    set_source(copy, source_of(module))
    return copy


def apply_pass(each: ModulePass, ctx: Context, module: ModuleOp) -> None:
    """
    Run one pass in place and verify the result (xDSL's own passes leave that to the caller).

    Raises XpagedError that names the pass when it refuses, or when a pass of xDSL fails.
    """
    if isinstance(each, LevelPass):
        each.apply(ctx, module)
        return
    try:
        each.apply(ctx, module)
        verify(module)
    except XpagedError as err:
        err.during = err.during or each.name
        raise
    except Exception as err:  # xDSL's passes raise what they like on modules that they were not written for
        message = str(err).strip().splitlines()
        raise XpagedError(f"pass '{each.name}' failed: {message[0] if message else type(err).__name__}") from err
