"""Claim: attention learns which word comes from which, though nobody tells it."""

from __future__ import annotations

from selfattn.claims.attention.linked_phrases import subwords, training, unseen
from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.drawing import across_arms, chart, percent, table
from selfattn.claims.rules import MARGIN, contrast, minus, share_error
from selfattn.claims.sequences import loss_of
from selfattn.claims.training import resized, train_for
from selfattn.evaluation.alignment.error_rate import count_alignment, diagonal
from selfattn.evaluation.alignment.links import GoldPair
from selfattn.evaluation.alignment.word_alignment import Way, word_links
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import register
from selfattn.report.blocks import Block, Spot
from selfattn.report.drawing.scale import number_scale
from selfattn.results.claims import Contrast
from selfattn.tokenizers.subword import SubwordTokenizer

WIDTH, TRAINED_ON, JUDGED = 64, 4096, 200
SCORES = ("dot", "scaled_dot", "general", "additive", "concat", "location")
READERS = (*SCORES, "heads")
BLIND = ("shuffled-rnn", "shuffled-heads")
RATES = (1e-2, 2e-2)
FLOORS = ("diagonal", "untrained", "shuffled")
SHARED = {"share_embeddings": True, "tie_output": True}
RNN = {"encoder.hidden_dim": WIDTH // 2, "encoder.direction": "both", "decoder.hidden_dim": WIDTH}
RNN |= {"decoder.initial_state": "project", "decoder.max_source_length": 64, **SHARED}


@register.claim("alignment")
class Alignment(Claim):
    """Alignment error rate of attention, for every score and for a Transformer's heads, against what knows nothing."""

    name = "alignment"
    source = "Bahdanau et al. 2015, section 5.2.1; Luong et al. 2015, section 5.4; Chen et al. 2020, section 3.1"
    seconds = (40.0, 330.0)
    points = tuple(f"{name}-{floor}" for name in READERS for floor in FLOORS)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Every score in an RNN, a Transformer; and one of each that was trained on the sources of other phrases."""
        readers = (Arm(name, {"reader": name, "shuffled": False}, RATES) for name in READERS)
        blind = zip(BLIND, ("general", "heads"), strict=True)
        return *readers, *(Arm(name, {"reader": own, "shuffled": True}, RATES[-1:]) for name, own in blind)

    def measure(
        self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 600, pairs: int = TRAINED_ON
    ) -> dict[str, float]:
        """Train on phrases; choose head and step on validation; give errors on the test, also of what knows nothing."""
        tokenizer, judged = subwords(), min(JUDGED, pairs)
        (validation, batch), (test, _) = unseen("valid", judged), unseen("test", judged)
        model = build(model_of(arm.settings["reader"]), vocab_size=len(tokenizer), seed=seed)
        before = errors(model, tokenizer, test)[chosen(errors(model, tokenizer, validation))]
        steps = steps // 3 if quick else steps
        examples = training(seed, pairs, shuffled=arm.settings["shuffled"])
        train_for(model, examples, steps=steps, lr=rate, seed=seed)
        after, aside = errors(model, tokenizer, test), errors(model, tokenizer, validation)
        along = [diagonal(len(pair.source), len(pair.target)) for pair in test]
        return {
            "valid": loss_of(model, batch),
            "error": after[chosen(aside)],
            "writes": after[chosen(aside, shifted=False)],
            "reads": after[chosen(aside, shifted=True)],
            "step-later": float(chosen(aside).shifted),
            "untrained": before,
            "diagonal": count_alignment(along, [pair.links for pair in test]).aer or 0.0,
        }

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Each reader's error is below that of all three by the margin."""
        return self.below(found, READERS)

    def conditions(self, found: Found) -> dict[str, tuple[Contrast, ...]]:
        """Where the score looks at the words; where the decoder is an RNN; where it is a Transformer."""
        rnn = tuple(name for name in SCORES if name != "location")
        rules = {"content": (*rnn, "heads"), "rnn": rnn, "heads": ("heads",)}
        return {condition: self.below(found, readers) for condition, readers in rules.items()}

    @staticmethod
    def below(found: Found, readers: tuple[str, ...]) -> tuple[Contrast, ...]:
        """Hold the errors of some readers against those of what knows nothing."""

        def lead(name: str, floor: str) -> Contrast:
            own = found.values(name, "error")
            nothing = (BLIND[name == "heads"], "error") if floor == "shuffled" else (name, floor)
            least = share_error(own, JUDGED)
            return contrast(f"{name}-{floor}", minus(own, found.values(*nothing)), "below", -MARGIN, least_error=least)

        return tuple(lead(name, floor) for name in readers for floor in FLOORS)

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """The error of every reader beside what knows nothing, and which step is read."""
        places = dict(enumerate((*READERS, *BLIND), 1))
        lines = {line: across_arms(found, places, line) for line in ("error", "untrained")}
        along = found.mean(READERS[0], "diagonal").mean
        lines["diagonal"] = tuple(Spot(place, along) for place in places)
        figures = ("error", "writes", "reads", "untrained")
        rows = {arm: (f"{place}", *(percent(found.mean(arm, one)) for one in figures)) for place, arm in places.items()}
        plot = chart(self, "alignment-error", lines, of="line", across=number_scale([len(places)]))
        return plot, table(self, "alignment-errors", ("place", *figures), rows)


def model_of(reader: str) -> ModelConfig:
    """An LSTM that reads both ways with Luong's attention and one score; or a Transformer's heads."""
    if reader == "heads":
        return resized("transformer", SHARED, dim=WIDTH, ffn_dim=2 * WIDTH)
    return resized("luong-general", {**RNN, "decoder.score": reader}, embed_dim=WIDTH)


def errors(model: Seq2Seq, tokenizer: SubwordTokenizer, pairs: list[GoldPair]) -> dict[Way, float]:
    """Return the alignment error rate of every layer, head and step."""
    found, right = word_links(model, tokenizer, pairs), [pair.links for pair in pairs]
    return {way: count_alignment(links, right).aer or 0.0 for way, links in found.items()}


def chosen(found: dict[Way, float], *, shifted: bool | None = None) -> Way:
    """Return the way with the least error, of all or of one step."""
    return min((way for way in found if shifted in (None, way.shifted)), key=found.__getitem__)
