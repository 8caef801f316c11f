"""`xpaged opt` and `xpaged-opt`: xDSL's driver with xpaged's dialects, passes, printer and messages."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.targets.mlir import MLIRTarget
from xdsl.universe import Universe
from xdsl.utils.exceptions import ArgSpecParseError, ShrinkException
from xdsl.xdsl_opt_main import xDSLOptMain

from xpaged.cli.shell import DONE, REFUSED, emit, guarded
from xpaged.context import DIALECTS
from xpaged.errors import XpagedError
from xpaged.files import read_text, write_files
from xpaged.ir.parsing import parse_in
from xpaged.ir.printing import print_module
from xpaged.passes import get_all_passes
from xpaged.pipeline import apply_pass, parse_passes
from xpaged.universe import TARGETS

_SPLIT = "// -----"


@dataclass(frozen=True)
class TextTarget(MLIRTarget):
    """xDSL's MLIR target, printed by xpaged: names that re-parse, attribute aliases."""

    name = "mlir"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Write the module's text; xDSL's own printer does it where a flag asks for what ours does not have."""
        if self.syntax_highlight or self.print_properties_as_attributes:
            super().emit(ctx, module, output)
            return
        generic = self.print_generic_format
        output.write(print_module(module, aliases=not generic, generic=generic, locations=self.print_debuginfo))


class OptMain(xDSLOptMain):
    """The driver: construct it with the command line, then `run()`. Both raise XpagedError for a bad input."""

    version_format = "xpaged-opt, on xdsl {xdsl_version}"
    prog: ClassVar[str] = "xpaged-opt"

    passes: list[ModulePass]

    def __init__(self, description: str, args: Sequence[str]) -> None:
        if "--disable-verify" in args:
            argparse.ArgumentParser(self.prog).error(
                "--disable-verify would switch verification off for the whole process; xpaged does not offer it"
            )
        super().__init__(description, args)

    def register_all_dialects(self) -> None:
        """Every dialect of xDSL and its plug-ins; xpaged's own ones (tosa is one) come first."""
        for name, factory in {**Universe.get_multiverse().all_dialects, **DIALECTS}.items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        """xDSL's passes and xpaged's."""
        super().register_all_passes()
        for name, factory in get_all_passes().items():
            self.register_pass(name, factory)

    def register_all_targets(self) -> None:
        """xDSL's targets and xpaged's `hip`; `mlir` prints with xpaged's printer."""
        super().register_all_targets()
        self.available_targets.update(TARGETS)
        self.available_targets["mlir"] = lambda: TextTarget

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        """xDSL's flags, each spelled in full."""
        arg_parser.prog = self.prog
        arg_parser.allow_abbrev = False
        super().register_all_arguments(arg_parser)
        arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
        arg_parser.epilog = "\n  ".join(["xpaged's own passes:", *get_all_passes()])

    def setup_pipeline(self) -> None:
        """Build the passes that `-p` names."""
        self.passes = parse_passes(self.args.passes, self.available_passes)

    def apply_passes(self, prog: ModuleOp) -> None:
        """Run the passes in order, with verification after each, and print what the flags ask for."""
        for index, each in enumerate(self.passes):
            start = time.perf_counter()
            apply_pass(each, self.ctx, prog)
            if self.args.time_passes:
                print(f"Pass {each.name} took {time.perf_counter() - start} seconds", file=sys.stderr)
            if self.args.print_between_passes and index + 1 < len(self.passes):
                print(f"// IR after {each.name}:\n{print_module(prog)}", file=sys.stderr)

    def run(self) -> None:
        """Parse, run the passes, and write everything at the end; nothing is written when something is refused."""
        text, name = read_text(self.args.input_file or "-")
        chunks = text.split(_SPLIT) if self.args.split_input_file else [text]
        results: list[str] = []
        skipped = 0
        for chunk in chunks:
            try:
                module = self._parse("\n" * skipped + chunk, name)
                self.apply_passes(module)
                results.append(self.output_resulting_program(module))
            except XpagedError as err:
                if not (self.args.verify_diagnostics or self.args.parsing_diagnostics):
                    raise
                results.append(err.render() + "\n")
            skipped += chunk.count("\n")
        output = f"{_SPLIT}\n".join(results)
        if self.args.output_file is None:
            emit(output)
        else:
            write_files({Path(self.args.output_file): output})

    def _parse(self, text: str, name: str) -> ModuleOp:
        """Parse MLIR text with xpaged's parser, anything else with the frontend of its name or file ending."""
        ending = self.args.frontend or Path(name).suffix.removeprefix(".")
        if ending != "mlir" and ending.split("{")[0] in self.available_frontends:
            module = self.parse_chunk(BytesIO(text.encode()), ending)
            if module is None:
                raise XpagedError(f"'{name}' holds no module")
            return module
        return parse_in(self.ctx, text, name, implicit_module=not self.args.no_implicit_module)


class _OptCommand(OptMain):
    prog = "xpaged opt"


def _run(driver: type[OptMain], argv: Sequence[str]) -> int:
    try:
        main = driver("xDSL's optimizer driver with the dialects and passes of xpaged", argv)
        try:
            main.run()
        except ShrinkException:
            return DONE  # the input still shows what it is being reduced for
        return REFUSED if main.args.shrink else DONE
    except ArgSpecParseError as err:  # a BaseException in xDSL
        raise XpagedError(f"a malformed option value: {str(err).strip().splitlines()[-1].strip()}") from err


def command(argv: Sequence[str]) -> int:
    """Run `xpaged opt`."""
    return _run(_OptCommand, argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `xpaged-opt`, the same under a name of its own."""
    return guarded(lambda arguments: _run(OptMain, arguments), sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
