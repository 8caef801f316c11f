"""Mutants of kernels: the checks are checked."""
