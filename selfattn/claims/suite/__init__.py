"""The project's claims, in the order of the suite; each module registers one."""

from importlib import import_module

from selfattn.registry import CLAIMS

_ORDER = (
    *("bottleneck", "attention_removes", "reversal", "bidirectional", "alignment", "scores", "placement", "depth"),
    *("distance", "parallelism", "order", "averaging", "future_mask", "exposure", "key_value_heads", "hybrids"),
    *("weighted_sum", "extrapolation", "explanation", "scaling", "learning_rate"),
)
for _name in _ORDER:
    import_module(f"selfattn.claims.suite.{_name}")

CLAIMS.arrange(lambda claim: _ORDER.index(claim.__module__.rpartition(".")[2]))
