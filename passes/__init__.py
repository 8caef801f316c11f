"""The lowering passes, one a file."""

if __name__ != "xpaged.passes":
    raise ImportError("import the passes as xpaged.passes; a plain `import passes` would make a second copy of every class")
