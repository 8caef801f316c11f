"""Hypothesis strategies: whole attention graphs, small enough to run at every level in a fraction of a second.

    @given(attention_graphs(), st.integers(0, 1000))
    def test_every_level(graph, seed):
        report = xpaged.run(xpaged.parse(graph.text), level="all", seed=seed, check=True)
        assert report.ok, report.as_json()

Hypothesis is no dependency of xpaged: install it (`pip install hypothesis`) to use this module.
"""

from hypothesis import strategies as st

from xpaged.testing.graphs import BIASES, MASKS, QUERIES, AttentionGraph


def _divisors(n: int) -> list[int]:
    return [i for i in range(1, n + 1) if n % i == 0]


@st.composite
def attention_graphs(
    draw: st.DrawFn, *, elements: tuple[str, ...] = ("f16", "f32", "bf16"), paged: bool | None = None
) -> AttentionGraph:
    """Graphs of any whole number of query heads a KV head, with masks in any order, paged or not.

    `elements` are the types of Q, K and V to draw from; `paged` asks for caches with pages, or without.
    """
    heads_kv, repeats = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    seq_k, dim_qk = draw(st.sampled_from([1, 4, 9, 16])), draw(st.sampled_from([4, 8]))
    element = draw(st.sampled_from(elements))
    wide = ["f32"] if element != "f32" else ["f16"]
    page_size = None
    if draw(st.booleans()) if paged is None else paged:
        # Any number of elements that K's pages may have, as long as V's hold as many tokens.
        page_size = draw(st.sampled_from(_divisors(heads_kv * seq_k))) * dim_qk
    addresses = ["pointers", "pointers", "run"]
    masks = draw(st.lists(st.sampled_from(MASKS), max_size=3, unique=True).map(tuple))
    if page_size is not None and heads_kv == 1 and "index" in masks and "window" not in masks:
        addresses += ["guarded", "guarded"]
    return AttentionGraph(
        batch=draw(st.integers(1, 2)),
        heads_q=heads_kv * repeats,
        heads_kv=heads_kv,
        seq_q=draw(st.sampled_from([1, 3, 5])),
        seq_k=seq_k,
        spare=draw(st.sampled_from([0, 0, 3])),
        padded=draw(st.sampled_from([0, 0, 2])),
        dim_qk=dim_qk,
        dim_v=draw(st.sampled_from([4, 8])),
        page_size=page_size,
        addresses=draw(st.sampled_from(addresses)),
        page_header=draw(st.sampled_from([0, 0, 3])),
        layer=draw(st.integers(0, 1)),
        element=element,
        scale=draw(st.sampled_from([None, 0.25])),
        softcap=draw(st.sampled_from([None, None, 5.0])),
        bias=draw(st.sampled_from([None, None, *BIASES])),
        masks=masks,
        window=draw(st.integers(1, 3)),
        kept=draw(st.booleans()),
        softmax_type=draw(st.sampled_from([None, *wide])),
        lse=draw(st.booleans()),
        queries=draw(st.sampled_from(QUERIES)),
        swapped=draw(st.booleans()),
        flat_result=draw(st.booleans()),
    )
