"""The project's claims, in the order of the suite; each module registers some of them."""

from importlib import import_module

from selfattn.registry import CLAIMS

_MODULES = (
    "architectures",
    "attention",
    "causal",
    "costs",
    "decoders",
    "encoders",
    "explanation",
    "heads",
    "interventions",
    "lengths",
    "norms",
    "recall",
    "states",
)
_ORDER = (
    *("bottleneck", "attention-removes", "reversal", "bidirectional", "alignment", "scores", "placement", "depth"),
    *("distance", "parallelism", "order", "averaging", "future-mask", "exposure", "key-value-heads", "hybrids"),
    *("weighted-sum", "extrapolation", "explanation", "scaling", "learning-rate", "heads", "pruning", "warm-up"),
    *("induction", "cause", "state-size"),
)
for _module in _MODULES:
    import_module(f"selfattn.claims.suite.{_module}")

CLAIMS.arrange(lambda claim: _ORDER.index(claim.name))
