"""The project's claims, in the order of the suite; each module registers some of them."""

from importlib import import_module
from pkgutil import iter_modules

from selfattn.registry import CLAIMS

_ORDER = (
    *("bottleneck", "attention-removes", "reversal", "bidirectional", "alignment", "scores", "placement", "depth"),
    *("distance", "parallelism", "order", "averaging", "future-mask", "exposure", "key-value-heads", "hybrids"),
    *("weighted-sum", "extrapolation", "explanation", "scaling", "learning-rate", "heads", "pruning", "warm-up"),
    *("induction", "cause", "state-size", "guided-alignment"),
)
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

CLAIMS.arrange(lambda claim: _ORDER.index(claim.name))
