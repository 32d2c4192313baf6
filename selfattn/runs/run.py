"""A trained model: predict, score, align, look at its attention. `selfattn.runs.load` opens one."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import torch

from selfattn.data.pairs import Pair, encode_pairs
from selfattn.data.text import clean_text, compose, plain_text, plain_words
from selfattn.decoding.glossary import Glossary
from selfattn.decoding.options import DecodingOptions, DecodingSettings
from selfattn.decoding.scoring import TargetScore, TextScore, score_each_text, score_examples
from selfattn.decoding.texts import Output, OwnSearch, continue_texts, decode_texts
from selfattn.errors import SettingError, UserError, say
from selfattn.evaluation.alignment.attention_scores import token_links
from selfattn.evaluation.alignment.links import Link
from selfattn.evaluation.alignment.word_alignment import Way, word_links, words_of_pair
from selfattn.models.inside import Edit, Trace, edited, trace_model
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import TASKS
from selfattn.runs.attention_view import AttentionView, view_attention
from selfattn.runs.directory import CONFIG
from selfattn.runs.export import Format, Quantized, export
from selfattn.runs.inputs import checked_pairs, checked_prefixes, checked_text, checked_texts, decoding_options
from selfattn.runs.model import check_limits
from selfattn.runs.record import RunConfig
from selfattn.runs.task import TaskData, task_of_settings
from selfattn.settings import shown
from selfattn.tokenizers.char import CharTokenizer
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.protocol import Tokenizer, token_texts
from selfattn.tokenizers.words import WordTokenizer

Prefix: TypeAlias = str | Iterable[str | None] | None
"""What outputs begin with: a text for all of them, or for each input one or None; None: nothing."""

_CHECKED = 8  # outputs that another engine computes are compared with those of torch


class Run:
    """A trained model with its tokenizer and settings, from :func:`selfattn.load` or a training. Threads may share it.

    Attributes:
        path: the run directory.
        config: settings of the run.
        model: in evaluation mode.
        tokenizer: of the training.
        reference: the run with torch, where another engine computes; None after the first outputs are compared.
    """

    def __init__(self, path: Path, config: RunConfig, model: Seq2Seq, tokenizer: Tokenizer) -> None:
        self.path = path
        self.config = config
        self.model = model
        self.tokenizer = tokenizer
        self.reference: Run | None = None

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.config.preset} trained on {self.config.task}>"

    @cached_property
    def task(self) -> TaskData:
        """The task of the training with its options."""
        return task_of_settings(self.config.task, self.config.data, str(self.path / CONFIG))

    @property
    def takes_pairs(self) -> bool:
        """Whether the run was trained on pairs; a language model was not."""
        return bool(TASKS[self.config.task].takes_pairs)

    def clean(self, text: str) -> str:
        """Return a text as the model reads it, which is how the training texts were cleaned.

        Every method cleans its texts in this way: :func:`selfattn.data.text.clean_text`, and for a language model
        :func:`selfattn.data.text.compose`. Where the vocabulary of the sources consists of characters or words, those
        that it lacks get their plain form (:func:`selfattn.data.text.plain_text`, `plain_words`). Places are those of
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

    def clean_pair(self, pair: Pair) -> Pair:
        """Return a pair without spans, with the source cleaned by :meth:`clean` and the target by `clean_text`."""
        return Pair(self.clean(pair.source), clean_text(pair.target), pair.tag)

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
        decoded = self.decode(checked_texts("predict", texts), chosen, prefix=prefix, glossary=glossary)
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
        texts = [self.clean(text) for text in read]
        required: list[list[str]] = []
        if glossary is not None:
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
                check_limits(self.config.model, longest, options.max_length or 0)
            if self.takes_pairs:
                longest = 0
                if not isinstance(self.model, OwnSearch):
                    longest = max((len(self.tokenizer.target.encode(target)) + 1 for target in targets), default=0)
                limit = partial(self.config.output_limit, target=longest)
                more: dict[str, Any] = {"max_length": limit, "first": first, "prefixes": prefixes, "required": required}
                outputs = decode_texts(self.model, self.tokenizer, texts, options, **more)
            else:
                context = self.config.max_length
                outputs = continue_texts(self.model, self.tokenizer, texts, options, context=context, first=first)
        except (ValueError, IndexError) as error:  # positions that the model does not have
            raise UserError(f"{self.path}: {self.config.preset}: {error}") from error
        if self.reference is not None and texts:
            beginning = prefixes[:_CHECKED] if prefixes else None
            expected = self.reference.decode(read[:_CHECKED], options, first=first, prefix=beginning, glossary=glossary)
            self.reference = None
            pairs = zip(expected, outputs, strict=False)
            if differing := sum([each.text for each in a] != [each.text for each in b] for a, b in pairs):
                say(f"{self.path}: outputs unlike those of torch: {differing} of the first {len(expected)}")
        return outputs

    def score(self, pairs: Iterable[Pair]) -> list[TargetScore]:
        """Return how probable the target of each pair is, given its source.

        Raises:
            SettingError: `pairs` is no list of pairs.
            UserError: the run is a language model, a text is longer than the model can read, or a source or a target
                is empty.

        Example:
            ``run.score([Pair("11/13/08", "2008-11-13")])[0].log_probability``
        """
        with self.of_pairs("score"):
            cleaned = self._filled_pairs("score", pairs)
            return score_examples(self.model, encode_pairs(cleaned, self.tokenizer))

    def score_texts(self, texts: Iterable[str]) -> list[TextScore]:
        """Return how probable each text is to a language model, in windows as it was trained on.

        Raises:
            SettingError: `texts` is a single text or no list of texts.
            UserError: the run was trained on pairs.

        Example:
            ``run.score_texts(["A man"])[0].bits_per_character``
        """
        cleaned = [self.clean(text) for text in checked_texts("score_texts", texts)]
        if self.takes_pairs:
            raise UserError(f"score_texts: {self.path} was trained on pairs; take a language model, or `score`")
        return score_each_text(self.model, self.tokenizer, cleaned, context=self.config.max_length)

    def align(
        self,
        pairs: Iterable[Pair],
        *,
        layer: int = -1,
        head: int | None = None,
        shifted: bool = False,
        words: bool = False,
    ) -> list[list[Link]]:
        """Link each target token of each pair to the source token that it attends to most.

        Args:
            pairs: sources and targets; the targets are forced.
            layer: counted from 0, or from the end where negative; default the last.
            head: counted from 0; default the mean of the layer's heads.
            shifted: use the step that reads a token instead of the step that writes it; default False.
            words: link words, which are what stands between spaces, instead of tokens; default False.

        Returns:
            For each pair its links ``(source position, target position)``, counted from 0 as the parts of
            :meth:`aligned_parts` are.

        Raises:
            SettingError: `pairs` is no list of pairs, or `layer` or `head` is no whole number.
            UserError: the run is a language model, the model has no attention to its source or no such layer or head,
                a text is longer than the model can read, or a source or a target is empty.
        """
        for name, value in (("layer", layer), ("head", head or 0)):
            if not isinstance(value, int):
                raise SettingError(f"align: `{name}`: expected a whole number, got {shown(value)}")
        with self.of_pairs("align"):
            cleaned = self._filled_pairs("align", pairs)
            # Also for words: layers and heads are checked here.
            links = token_links(
                self.model, encode_pairs(cleaned, self.tokenizer), layer=layer, head=head, shifted=shifted
            )
            if not words:
                return links
            by_way = word_links(self.model, self.tokenizer, [words_of_pair(pair) for pair in cleaned])
            layers = 1 + max((way.layer for way in by_way), default=0)
            chosen = by_way.get(Way(layer % layers, head, shifted), [])
            return [sorted(of_pair, key=lambda link: link[::-1]) for of_pair in chosen]

    def aligned_parts(self, pair: Pair, *, words: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tokens, or the words, of both sides of a pair that :meth:`align` numbers from 0.

        Args:
            pair: cleaned as for :meth:`align`.
            words: return words; default False, tokens without the end token.
        """
        (checked,) = checked_pairs("aligned_parts", [pair])
        cleaned = self.clean_pair(checked)
        if words:
            sides = words_of_pair(cleaned)
            return sides.source, sides.target
        source = token_texts(self.tokenizer.source, cleaned.source)
        target = token_texts(self.tokenizer.target, cleaned.target)
        return source[:-1], target[:-1]

    def attention(self, text: str, *, dependence: bool = True) -> AttentionView:
        """Return the attention of the model while it writes the output for a text.

        Args:
            text: an input, not empty.
            dependence: also measure which source tokens the output depends on, by a pass for each; default True.

        Raises:
            SettingError: `text` is no text.
            UserError: the model has no attention, its weights overflow, or the text is empty.
        """
        if dependence and self.takes_pairs and not any(True for _ in self.model.parameters()):
            advice = "load the run itself, or take a picture, without it (dependence=False)"
            raise UserError(
                f"{self.path}: the dependence on the source needs gradients, which an export lacks; {advice}"
            )
        with self.of_pairs("attention"):
            text = self.clean(checked_text("attention", text))
            if not text:
                raise UserError("attention: the text is empty; give an input, such as a date")
            prediction = self.predict([text])[0]
            return view_attention(
                self.model, self.tokenizer, text, prediction, self.config.preset, str(self.path), dependence=dependence
            )

    def trace(self, text: str, output: str | None = None) -> Trace:
        """Return every intermediate of the model while it writes an output, by name and decoding step.

        Args:
            text: an input, not empty.
            output: what it writes; default its own output.

        Returns:
            See :class:`selfattn.models.inside.Trace`; ``trace.names`` lists the intermediates.

        Raises:
            SettingError: `text` is no text.
            UserError: the run is a language model, computes with another engine, or the text is empty.

        Example:
            ``run.trace("11/13/08")["decoder.cross_attn.weights"]`` is ``[h t s]``.
        """
        with self.of_pairs("trace"), torch.inference_mode():
            text = self.clean(checked_text("trace", text))
            if not text:
                raise UserError("trace: the text is empty; give an input, such as a date")
            written = self.predict([text])[0] if output is None else clean_text(checked_text("trace", output))
            tokenizer = self.tokenizer
            source_ids = [*tokenizer.source.encode(text), tokenizer.eos_id]
            target_in = [tokenizer.bos_id, *tokenizer.target.encode(written)]
            device = self.model.device
            trace = trace_model(
                self.model, torch.tensor(source_ids, device=device), torch.tensor(target_in, device=device)
            )
        sources = token_texts(tokenizer.source, text)
        return replace(trace, source_tokens=sources, target_tokens=token_texts(tokenizer.target, written))

    def intervene(self, *edits: Edit) -> "Run":
        """Return this run with changes inside its model; this run itself stays as it is.

        Args:
            edits: made by :func:`~selfattn.models.inside.ablate`, :func:`~selfattn.models.inside.reweigh` and
                :func:`~selfattn.models.inside.patch`, or an :class:`~selfattn.models.inside.Edit` of your own.

        Returns:
            A run that predicts, scores, aligns and shows attention with the changes.

        Raises:
            UserError: there is no intermediate of a name, or the run computes with another engine.

        Example:
            ``run.intervene(ablate("decoder.cross_attn", heads=[0])).predict(["11/13/08"])``
        """
        return Run(self.path, self.config, edited(self.model, *edits), self.tokenizer)

    def unknown(self, texts: Iterable[str]) -> Counter[str]:
        """Count the characters, or words, of texts that the vocabulary lacks, after cleaning (:meth:`clean`)."""
        return self.tokenizer.source.unknown(*map(self.clean, checked_texts("unknown", texts)))

    def export(self, to: Format, out: str | os.PathLike[str], *, quantize: Quantized | None = None) -> Path:
        """Write the run in the format of another program, into a new directory that `selfattn.load` opens as a run.

        Args:
            to: ``"onnx"``: encoder and one step as two graphs, for every model; see :mod:`selfattn.exports.onnx`.
                ``"ctranslate2"``: for its engine, where it supports the model; see :mod:`selfattn.exports.ctranslate2`.
            out: the directory; it must not exist, or be empty.
            quantize: type of the stored weights, for ctranslate2; default as they are.

        Returns:
            The directory.

        Raises:
            UserError: a package is missing, the format does not support the model, or the directory cannot be written.
        """
        export(self.path, self.config, self.model, self.tokenizer, to, Path(out), quantize)
        return Path(out)

    def push(self, name: str, *, private: bool = False, test: bool = True) -> str:
        """Publish the run on the Hugging Face Hub, with a model card.

        The checkpoint, local paths and the name of the machine are left out. ``load("hf://user/name")`` opens the run.
        ``HF_ENDPOINT`` names another Hub.

        Args:
            name: of the repository, ``user/name``; made if needed.
            private: whether a new repository is private; default False.
            test: measure the run on its test data for the card; default True.

        Returns:
            The URL of the commit.

        Raises:
            UserError: the name is not valid, the Hub cannot be reached, or it refuses.
        """
        from selfattn.runs.hub import push
        from selfattn.runs.measure import measure_run  # imports scipy

        measure = (lambda: measure_run(self.task, self)) if test else None
        return push(self.path, self.config, len(self.tokenizer), name, private=private, measure=measure)

    def about(self, data: object) -> dict[str, Any]:
        """Return run and data as plain JSON values, for the head of results."""
        return {"task": self.config.task, "run": str(self.path), "model": self.config.preset, "data": str(data)}

    def _filled_pairs(self, call: str, pairs: Iterable[Pair]) -> list[Pair]:
        """Return clean pairs; refuse one with an empty side, which has no score and no alignment."""
        cleaned = [self.clean_pair(pair) for pair in checked_pairs(call, pairs)]
        for number, pair in enumerate(cleaned, 1):
            if not (pair.source.strip() and pair.target.strip()):
                raise UserError(f"{call}: pair {number}: the source or the target is empty; leave the pair out")
        return cleaned

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
