"""Mutants of kernels: the checks are checked.

`python -m xpaged.testing.mutants` plants one mistake at a time in the kernels of every family (a barrier dropped, a
lane map off by one, operands swapped ...), on the device IR and in the HIP text, runs what comes out, and reports which
mistakes the checks notice: the reference, the memory court, and at level host the order of lanes and waves.
"""
