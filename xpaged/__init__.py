"""A compiler for attention over a paged KV cache on AMD GPUs."""
