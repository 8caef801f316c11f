"""`xpaged gen`: an attention kernel, and what runs and checks it on a host, from the options of rocmlir-gen."""

from xpaged.gen.generate import generate, generate_from
from xpaged.gen.options import OPTIONS, Option, parse_options

__all__ = ["OPTIONS", "Option", "generate", "generate_from", "parse_options"]
