"""The project's own claims, in the order of the suite, by the door that a stranger's take."""

from importlib import import_module
from importlib.util import find_spec

from selfattn.registry import CLAIMS

_ROOMS = {
    "encoding": ("bottleneck", "attention_removes", "reversal", "bidirectional", "placement", "hybrids"),
    "learning": ("depth", "distance", "averaging", "future_mask", "exposure"),
    "attention": ("alignment", "scores", "parallelism", "order", "key_value_heads", "weighted_sum"),
}
_ORDER = (
    *("bottleneck", "attention_removes", "reversal", "bidirectional", "alignment", "scores", "placement", "depth"),
    *("distance", "parallelism", "order", "averaging", "future_mask", "exposure", "key_value_heads", "hybrids"),
    "weighted_sum",
)

for _name in _ORDER:
    _room = next(room for room, names in _ROOMS.items() if _name in names)
    _home = f"selfattn.claims.{_room}"
    if find_spec(_home) and find_spec(f"{_home}.{_name}"):
        import_module(f"{_home}.{_name}")

CLAIMS.arrange(lambda claim: _ORDER.index(claim.__module__.rpartition(".")[2]))
