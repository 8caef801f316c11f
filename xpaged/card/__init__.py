"""The static performance card of a kernel: what its registers, its hot loop and the sizes of the problem allow.

* `assembly`: the text of a compiler as instructions, blocks and loops;
* `hot_loop`: what one turn of a loop is made of;
* `figures`: the card of a kernel from its assembly, its object and its work; `text`: the card for a reader.
"""
