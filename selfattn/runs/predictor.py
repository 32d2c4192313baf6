"""What predicts: a model with its tokenizer and settings. Imports no torch where another engine computes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack

from selfattn.data.pairs import clean_text, compose, plain_text, plain_words
from selfattn.decoding.glossary import Glossary
from selfattn.decoding.options import DecodingOptions, DecodingSettings, Output, OwnSearch
from selfattn.decoding.texts import continue_texts, decode_texts
from selfattn.errors import SettingError, UserError, say
from selfattn.exports.ctranslate2_engine import Ctranslate2Engine
from selfattn.models.config import Limits, ModelConfig
from selfattn.registry import TASKS
from selfattn.runs.directory import RunDirectory
from selfattn.runs.exported import COMPARED, MODEL_FILES, compared, export_place, remember
from selfattn.runs.inputs import checked_prefixes, checked_texts, decoding_options
from selfattn.runs.record import RunConfig
from selfattn.settings import shown
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.listed import CharTokenizer, WordTokenizer
from selfattn.tokenizers.protocol import Tokenizer

Prefix: TypeAlias = str | Iterable[str | None] | None
"""What outputs begin with: a text for all of them, or for each input one or None; None: nothing."""


@dataclass(frozen=True)
class ExportedConfig(ModelConfig):
    """What is known of an exported model without torch.

    Attributes:
        known: its limits.
    """

    known: Limits

    def limits(self) -> Limits:
        """What it can read and write."""
        return self.known


@dataclass(frozen=True)
class _Settings(RunConfig):
    """Settings of a run, with those of the model as plain values: its classes need torch."""

    model: Mapping[str, Any]  # type: ignore[assignment]


class Predictor:
    """A model that predicts: a :class:`selfattn.runs.run.Run`, or an export of one that another engine computes.

    Attributes:
        path: the run directory.
        config: settings of the run.
        model: a model in evaluation mode, or an engine.
        tokenizer: of the training.
        reference: see :class:`selfattn.runs.run.Run`.
    """

    def __init__(self, path: Path, config: RunConfig, model: Any, tokenizer: Tokenizer) -> None:
        self.path = path
        self.config = config
        self.model = model
        self.tokenizer = tokenizer
        self.reference: Predictor | None = None

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.config.preset} trained on {self.config.task}>"

    @property
    def takes_pairs(self) -> bool:
        """Whether the run was trained on pairs; a language model was not."""
        return bool(TASKS[self.config.task].takes_pairs)

    def clean(self, text: str) -> str:
        """Return a text as the model reads it, which is how the training texts were cleaned.

        Every method cleans its texts in this way: :func:`selfattn.data.pairs.clean_text`, and for a language model
        :func:`selfattn.data.pairs.compose`. Where the vocabulary of the sources consists of characters or words, those
        that it lacks get their plain form (:func:`selfattn.data.pairs.plain_text`, `plain_words`). Places are those of
        the clean text.
        """
        if not self.takes_pairs:
            return compose(text)
        source = self.tokenizer.source
        clean = clean_text(text)
        symbols: set[str] = set()
        if isinstance(source, KeptTokenizer):
            symbols = source.kept_in(clean)
            source = source.base
        if isinstance(source, CharTokenizer):
            return plain_text(clean, {*source.known, *"".join(symbols)} if symbols else source.known)
        if isinstance(source, WordTokenizer):
            return plain_words(clean, {*source.known, *symbols} if symbols else source.known)
        return clean

    def predict(
        self,
        texts: Iterable[str],
        options: DecodingOptions | None = None,
        *,
        prefix: Prefix = None,
        glossary: Glossary | None = None,
        **decoding: Unpack[DecodingSettings],
    ) -> list[str]:
        """Return the output for each text.

        Args:
            texts: a list of inputs, cleaned by :meth:`clean`. An empty input, or one of spaces, gives an empty output.
                A language model continues each text, also an empty one, and returns it with the continuation.
            options: how to decode; default greedily.
            prefix: what the outputs begin with: a text for all, or for each input one or None. Default nothing.
            glossary: words that outputs must have; needs a beam of 2 or more. Default none.
            decoding: fields of :class:`selfattn.decoding.options.DecodingOptions`, instead of ``options``.

        Returns:
            One output for each input, in their order.

        Raises:
            SettingError: `texts` is a single text or no list of texts, or a setting is unknown or not allowed.
            UserError: a text is longer than the model can read, or a prefix has no tokens or is too long.

        Example:
            ``run.predict(["November 13, 2008", "11/13/08"], beam=5, prefix="20")``
        """
        chosen = decoding_options("predict", options, decoding)
        decoded = self.decode(checked_texts("predict", texts), chosen, prefix=prefix, glossary=glossary, scored=False)
        return [outputs[0].text for outputs in decoded]

    def decode(
        self,
        texts: Iterable[str],
        options: DecodingOptions | None = None,
        *,
        first: int = 0,
        targets: Iterable[str] = (),
        prefix: Prefix = None,
        glossary: Glossary | None = None,
        scored: bool = True,
        **decoding: Unpack[DecodingSettings],
    ) -> list[list[Output]]:
        """Return outputs for each text, with their scores.

        Args:
            texts: see :meth:`predict`.
            options: how to decode; default greedily.
            first: number of the first text, so that lists decoded one after the other give the samples of one long
                list. Default 0.
            targets: right outputs, where they are known: every output may be twice as long as the longest of them.
                Default unknown. Exported runs of CTranslate2 have no use for them.
            prefix: what the outputs begin with, see :meth:`predict`; their scores include it.
            glossary: words that outputs must have, see :meth:`predict`. An output that the model ended has them; one
                that is cut off may lack some (:func:`selfattn.decoding.glossary.missing`).
            scored: whether scores are wanted. Without them greedy decoding takes less time, and they may be NaN; those
                of a language model are computed all the same. Default True.
            decoding: fields of :class:`selfattn.decoding.options.DecodingOptions`, instead of ``options``.

        Returns:
            For each input, in their order, its outputs, the best first, those that are cut off
            (``finished`` is False) behind all finished ones: ``options.n_best`` of them, or fewer where a beam has
            fewer; for an empty input one, without a score.

        Raises:
            SettingError: `texts` is a single text or no list of texts, or a setting is unknown or not allowed.
            UserError: a text is longer than the model can read, or a prefix has no tokens or is too long.
        """
        options = decoding_options("decode", options, decoding)
        read = checked_texts("decode", texts)
        targets = checked_texts("decode: `targets`", targets)
        if not isinstance(first, int):
            raise SettingError(f"decode: `first`: expected a whole number, got {shown(first)}")
        texts = [self.clean(text) for text in read]
        required: list[list[str]] = []
        if glossary is not None:
            if not isinstance(glossary, Glossary):
                raise SettingError(f"`glossary`: expected a Glossary({{term: words}}), got {shown(glossary)}")
            if not self.takes_pairs or isinstance(self.model, OwnSearch):
                kind = "CTranslate2" if isinstance(self.model, OwnSearch) else "a language model"
                raise UserError(f"`glossary`: not for {kind}; load a run of pairs, with engine torch or onnx")
            if options.beam < 2:
                raise SettingError("`glossary`: needs a beam, which finds a place for its words; give `beam` 2 or more")
            glossary.check(self.tokenizer.target)
            required = [glossary.required(text) for text in read]
        if prefix is not None and not self.takes_pairs:
            raise UserError("`prefix`: a language model continues its input; write the prefix there")
        prefixes = checked_prefixes(prefix, texts, self.tokenizer.target, first=first)
        try:
            if self.takes_pairs and any(vars(self.config.model.limits()).values()):
                longest = max((len(self.tokenizer.source.encode(text)) + 1 for text in texts), default=0)
                self.config.model.limits().check(longest, options.max_length or 0)
            if self.takes_pairs:
                longest = 0
                if not isinstance(self.model, OwnSearch):
                    longest = max((len(self.tokenizer.target.encode(target)) + 1 for target in targets), default=0)
                limit = partial(self.config.output_limit, target=longest)
                more: dict[str, Any] = {"max_length": limit, "first": first, "prefixes": prefixes, "required": required}
                more["scored"] = scored
                outputs = decode_texts(self.model, self.tokenizer, texts, options, **more)
            else:
                context = self.config.max_length
                outputs = continue_texts(self.model, self.tokenizer, texts, options, context=context, first=first)
        except (ValueError, IndexError) as error:  # positions that the model does not have
            raise UserError(f"{self.path}: {self.config.preset}: {error}") from error
        if self.reference is not None and texts:
            beginning = prefixes[:COMPARED] if prefixes else None
            expected = self.reference.decode(read[:COMPARED], options, first=first, prefix=beginning, glossary=glossary)
            pairs = zip(expected, outputs, strict=False)
            if differing := sum([each.text for each in a] != [each.text for each in b] for a, b in pairs):
                say(f"{self.path}: outputs unlike those of torch: {differing} of the first {len(expected)}")
            elif isinstance(self.model, OwnSearch) and self.path != self.reference.path:
                count = sum(row[0].score is not None for row in expected)
                remember(self.reference.path, self.path, self.config.model.limits(), options.beam, count)
            self.reference = None
        return outputs

    def unknown(self, texts: Iterable[str]) -> Counter[str]:
        """Count the characters, or words, of texts that the vocabulary lacks, after cleaning (:meth:`clean`)."""
        return self.tokenizer.source.unknown(*map(self.clean, checked_texts("unknown", texts)))

    def about(self, data: object) -> dict[str, Any]:
        """Return run and data as plain JSON values, for the head of results."""
        return {"task": self.config.task, "run": str(self.path), "model": self.config.preset, "data": str(data)}

    @contextmanager
    def of_pairs(self, what: str) -> Iterator[None]:
        """Check that the run was trained on pairs, and name the model in errors inside a ``with`` block.

        Args:
            what: name of the computation for the message.

        Raises:
            UserError: the run is a language model, or the model raises a ValueError or an IndexError.
        """
        if not self.takes_pairs:
            raise UserError(f"{what}: {self.path} is a language model; take a run that was trained on pairs")
        try:
            yield
        except SettingError:
            raise
        except (ValueError, IndexError) as error:
            raise UserError(f"{self.path}: {self.config.preset}: {error}") from error


def open_compared(run: Path, beam: int) -> Predictor | None:
    """Open the export of a run for CTranslate2, without torch, where its outputs were compared with those of torch.

    Args:
        run: its directory.
        beam: that will be searched.

    Returns:
        None where there is no export, or one that is damaged, of another training, or still to be compared.
    """
    path = export_place(run, "ctranslate2")
    note = compared(run, path)
    if note is None or note.alike.get(str(beam), 0) < COMPARED:
        return None
    directory = RunDirectory(path)
    with suppress(UserError):  # said where the run is loaded
        directory.check(*MODEL_FILES)
        config = directory.config(kind=_Settings)
        if not config.plugins:
            config = RunConfig(**{**vars(config), "model": ExportedConfig(note.limits)})
            engine = Ctranslate2Engine(path / "ctranslate2")
            return Predictor(path, config, engine, directory.tokenizer())
    return None
