"""What the figures of the README come from, and how they are remade."""
