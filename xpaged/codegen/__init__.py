"""From the device level to files: HIP text, compilers, code objects, launch descriptions."""
