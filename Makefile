# python >= 3.11 with pip is all that has to be there: every target sets itself up in .venv first.

.PHONY: demo bars test mutants lint format

demo:  ## compile the examples, run every level on the CPU, check it, plant a fault and catch it
	@.ci/setup toolchain
	@.venv/bin/python -m xpaged.demo

bars:  ## the figures that kernels have to reach, ours beside those of peers (BARS="--toolchain clang --json")
	@.ci/setup toolchain
	@.venv/bin/python -m benchmarks.bars $(BARS)

test:  ## all tests: pytest (Hypothesis among them) and lit
	@.ci/setup dev
	.venv/bin/python -m pytest -q -n 2
	.venv/bin/lit -q filecheck

mutants:  ## plant every mistake in every kernel, see that the checks notice it (an hour or more)
	@.ci/setup toolchain
	.venv/bin/python -m xpaged.testing.mutants --text 50 --jobs 2

lint:  ## style and types
	@.ci/setup dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/pyright

format:  ## rewrite the sources in the one style
	@.ci/setup dev
	.venv/bin/ruff check --fix
	.venv/bin/ruff format
