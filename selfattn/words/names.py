"""Keys of the names that records hold: metrics, gates, parts of the test, models.

A record holds a name alone (`overlap`); its text stands in the catalogues under a key (`gate.overlap`). All such keys
of the catalogues are listed here as they are, so that a search for a key leads here and to its texts.
"""

from typing import Literal

NameKind = Literal["metric", "gate", "bucket", "bucket.part", "bucket.note", "name", "scores"]

NAME_KEYS = frozenset(
    {
        # metrics
        "metric.exact_match",
        "metric.character_error_rate",
        "metric.word_error_rate",
        "metric.phone_error_rate",
        "metric.macro_exact_match",
        "metric.macro_word_error_rate",
        "metric.macro_phone_error_rate",
        "metric.word recall",
        "metric.bleu",
        "metric.chrf",
        "metric.ter",
        "metric.bits_per_character",
        "metric.perplexity",
        "metric.word accuracy",
        "metric.bleu_tokens",
        "metric.bleu_lowercased_tokenised",
        # gates, and what each says
        "gate.causal",
        "gate.padding",
        "gate.batch",
        "gate.forward = step",
        "gate.overfitting",
        "gate.endings",
        "gate.repetition",
        "gate.variety",
        "gate.published baseline",
        "gate.same data",
        "gate.same training",
        "gate.matched budgets",
        "gate.same machine",
        "gate.similar texts",
        "gate.overlap",
        "gate.known targets",
        "gate.validation = test",
        "gate.unigrams",
        "gate.causal.what",
        "gate.padding.what",
        "gate.batch.what",
        "gate.forward = step.what",
        "gate.overfitting.what",
        "gate.endings.what",
        "gate.repetition.what",
        "gate.variety.what",
        "gate.published baseline.what",
        "gate.same data.what",
        "gate.same training.what",
        "gate.matched budgets.what",
        "gate.same machine.what",
        "gate.similar texts.what",
        "gate.overlap.what",
        "gate.known targets.what",
        "gate.validation = test.what",
        "gate.unigrams.what",
        # divisions of the test items
        "bucket.format",
        "bucket.kind",
        "bucket.length",
        "bucket.field",
        "bucket.years",
        "bucket.unseen years",
        "bucket.withheld years",
        "bucket.unseen formats",
        "bucket.few examples",
        "bucket.rare words",
        "bucket.words",
        "bucket.reference length",
        # parts of a division
        "bucket.part.year",
        "bucket.part.month",
        "bucket.part.day",
        "bucket.part.hour",
        "bucket.part.minute",
        "bucket.part.second",
        "bucket.part.period",
        "bucket.part.weekday",
        "bucket.part.number",
        "bucket.part.unit",
        "bucket.part.currency",
        "bucket.part.language",
        "bucket.part.date",
        "bucket.part.date and time",
        "bucket.part.list",
        "bucket.part.price",
        "bucket.part.span",
        "bucket.part.time",
        "bucket.part.unseen years",
        "bucket.part.unseen formats",
        "bucket.part.all items",
        # notes beside a division
        "bucket.note.characters of the source",
        "bucket.note.words of the source",
        "bucket.note.a field is right where the answer has it as the target has",
        "bucket.note.all intervals of this table hold together (Bonferroni)",
        "bucket.note.a further test set, beside the one that decides; all intervals of this table hold together (Bonferroni)",  # noqa: E501
        "bucket.note.never shown in training",
        "bucket.note.share of the references' words that the outputs have, by how often training shows the word",
        "bucket.note.by how often the training text shows the word; accuracy: F-measure of the words of outputs and references",  # noqa: E501
        "bucket.note.by how often the set of references shows the word; accuracy: F-measure of the words of outputs and references",  # noqa: E501
        "bucket.note.characters of the target",
        "bucket.note.words of the target",
        # models, as sentences name them
        "name.transformer",
        "name.rnn-attention",
        "name.rnn-peeky",
        "name.rnn-plain",
        # scores of two models in a metric
        "scores.exact_match",
    }
)


def name_key(kind: NameKind, name: str) -> str:
    """Return the key of a name in a record.

    Args:
        kind: of what it is the name.
        name: in the record. The catalogues need not have it: a task brings texts for names of its own.

    Example:
        >>> name_key("gate", "overlap") in NAME_KEYS, name_key("gate", "my gate") in NAME_KEYS
        (True, False)
    """
    return f"{kind}.{name}"
