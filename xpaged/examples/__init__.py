"""The example modules: attention of a small language model over a paged cache, as MIGraphX and as TOSA text."""

from importlib.resources import files

NAMES = ("decode", "prefill", "decode_tosa", "prefill_tosa")


def example(name: str) -> str:
    """The text of an example module; KeyError for a name that is not in `NAMES`."""
    if name not in NAMES:
        raise KeyError(name)
    return files(__name__).joinpath(f"{name}.mlir").read_text(encoding="utf-8")
