"""A trained model: predict, score, align, look at its attention. `selfattn.runs.load` opens one."""

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import torch

from selfattn.data.pairs import Pair, clean_text, encode_pairs
from selfattn.decoding.scoring import TargetScore, TextScore, score_each_text, score_examples
from selfattn.errors import SettingError, UserError, say
from selfattn.evaluation.links import Link
from selfattn.files import names_in
from selfattn.models.build import EnsembleConfig
from selfattn.models.inside import Edit, Trace, edited, edits_of, trace_model
from selfattn.models.protocol import Seq2Seq
from selfattn.ownership import new_directory, remove_remains
from selfattn.registry import TASKS
from selfattn.runs.directory import CONFIG, TOKENIZER, RunDirectory, check_is_free
from selfattn.runs.predictor import (
    MODEL_FILES,
    ExportFormat,
    Predictor,
    checked_pairs,
    checked_text,
    checked_texts,
    export_format,
    export_place,
)
from selfattn.runs.task import TaskData, task_of_run
from selfattn.settings import shown
from selfattn.tokenizers.protocol import token_texts

if TYPE_CHECKING:
    from selfattn.runs.attention_view import AttentionView

Quantized = Literal["int8", "int8_float32", "int8_float16", "int16", "float16", "bfloat16"]


class Run(Predictor):
    """A trained model with its tokenizer and settings, from :func:`selfattn.load` or a training. Threads may share it.

    It predicts as a :class:`selfattn.runs.predictor.Predictor` does: `predict`, `decode`, `clean`, `unknown`.

    Attributes:
        path: the run directory.
        config: settings of the run.
        model: in evaluation mode.
        tokenizer: of the training.
        reference: the run with torch, where another engine computes; None after the first outputs are compared.
    """

    model: Seq2Seq

    @cached_property
    def task(self) -> TaskData:
        """The task of the training with its options."""
        return task_of_run(self.config, str(self.path / CONFIG))

    def clean_pair(self, pair: Pair) -> Pair:
        """Return a pair without spans, with the source cleaned by :meth:`clean` and the target by `clean_text`."""
        return Pair(self.clean(pair.source), clean_text(pair.target), pair.tag)

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
            UserError: the run was trained on pairs, or a text is empty.

        Example:
            ``run.score_texts(["A man"])[0].bits_per_character``
        """
        cleaned = [self.clean(text) for text in checked_texts("score_texts", texts)]
        if self.takes_pairs:
            raise UserError(f"score_texts: {self.path} was trained on pairs; take a language model, or `score`")
        if "" in cleaned:
            raise UserError(f"score_texts: text {cleaned.index('') + 1} is empty; leave it out")
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
        from selfattn.evaluation.attention import AttentionReading, token_links, word_links, words_of_pair

        for name, value in (("layer", layer), ("head", 0 if head is None else head)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise SettingError(f"align: `{name}`: expected a whole number, got {shown(value)}")
        with self.of_pairs("align"):
            cleaned = self._filled_pairs("align", pairs)
            examples = encode_pairs(cleaned, self.tokenizer)
            # Also for words: layers and heads are checked here.
            links = token_links(self.model, examples, layer=layer, head=head, shifted=shifted)
            if not words:
                return links
            by_way = word_links(self.model, self.tokenizer, [words_of_pair(pair) for pair in cleaned])
            layers = 1 + max((way.layer for way in by_way), default=0)
            chosen = by_way.get(AttentionReading(layer % layers, head, shifted), [])
            return [sorted(of_pair, key=lambda link: link[::-1]) for of_pair in chosen]

    def aligned_parts(self, pair: Pair, *, words: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tokens, or the words, of both sides of a pair that :meth:`align` numbers from 0.

        Args:
            pair: cleaned as for :meth:`align`.
            words: return words; default False, tokens without the end token.
        """
        from selfattn.evaluation.attention import words_of_pair

        (checked,) = checked_pairs("aligned_parts", [pair])
        cleaned = self.clean_pair(checked)
        if words:
            sides = words_of_pair(cleaned)
            return sides.source, sides.target
        source = token_texts(self.tokenizer.source, cleaned.source)
        target = token_texts(self.tokenizer.target, cleaned.target)
        return source[:-1], target[:-1]

    def attention(self, text: str, *, dependence: bool = True) -> "AttentionView":
        """Return the attention of the model while it writes the output for a text.

        Args:
            text: an input, not empty.
            dependence: also measure which source tokens the output depends on, by a pass for each; default True.

        Raises:
            SettingError: `text` is no text.
            UserError: the model has no attention, its weights overflow, or the text is empty.
        """
        from selfattn.runs.attention_view import view_attention

        if dependence and self.takes_pairs and not any(True for _ in self.model.parameters()):
            reason = "the dependence on the source needs gradients, which an export lacks"
            advice = "load the run itself, or take a picture, without it (dependence=False)"
            raise UserError(f"{self.path}: {reason}; {advice}")
        with self.of_pairs("attention"):
            text = self._filled_text("attention", text)
            prediction = self.predict([text])[0]
            return view_attention(self, text, prediction, dependence=dependence)

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
        from selfattn.runs.attention_view import batch_of_one

        with self.of_pairs("trace"), torch.inference_mode():
            text = self._filled_text("trace", text)
            written = self.predict([text])[0] if output is None else clean_text(checked_text("trace", output))
            batch = batch_of_one(self, text, written)
            trace = trace_model(self.model, batch.source[0], batch.target_in[0])
        sources = token_texts(self.tokenizer.source, text)
        return replace(trace, source_tokens=sources, target_tokens=token_texts(self.tokenizer.target, written))

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

    def export(self, to: ExportFormat, out: str | os.PathLike[str], *, quantize: Quantized | None = None) -> Path:
        """Write the run in the format of another program, into a new directory that `selfattn.load` opens as a run.

        Args:
            to: ``"onnx"``: encoder and one step as two graphs, for every model; see :mod:`selfattn.exports.onnx`.
                ``"ctranslate2"``: for its engine, where it supports the model; see :mod:`selfattn.exports.ctranslate2`.
            out: the directory; it must not exist, or be empty.
            quantize: type of the stored weights, for ctranslate2; default as they are.

        Returns:
            The directory.

        Raises:
            SettingError: there is no such format.
            UserError: a package is missing, the format does not support the model, the run has interventions, or the
                directory cannot be written.
        """
        self._refuse_edits("export")
        export(self, to, Path(out), quantize)
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
            UserError: the name is not valid, the run has interventions, the Hub cannot be reached, or it refuses.
        """
        from selfattn.runs.hub import push
        from selfattn.runs.measure import measure_run  # imports scipy

        self._refuse_edits("push")
        measure = (lambda: measure_run(self.task, self)) if test else None
        return push(self, name, private=private, measure=measure)

    def _refuse_edits(self, call: str) -> None:
        """Refuse a run whose model computes otherwise than its files say."""
        if edits_of(self.model)[1]:
            raise UserError(f"{call}: interventions are computed in this process alone; {call} the run without them")

    def _filled_text(self, call: str, text: str) -> str:
        """Return a text as the model reads it; refuse an empty one, for which nothing is written."""
        clean = self.clean(checked_text(call, text))
        if not clean:
            raise UserError(f"{call}: the text is empty; give an input, such as a date")
        return clean

    def _filled_pairs(self, call: str, pairs: Iterable[Pair]) -> list[Pair]:
        """Return clean pairs; refuse one with an empty side, which has no score and no alignment."""
        cleaned = [self.clean_pair(pair) for pair in checked_pairs(call, pairs)]
        for number, pair in enumerate(cleaned, 1):
            if not (pair.source.strip() and pair.target.strip()):
                raise UserError(f"{call}: pair {number}: the source or the target is empty; leave the pair out")
        return cleaned


def open_exported(path: Path, kind: ExportFormat) -> Seq2Seq:
    """Open the model of an exported run.

    Raises:
        UserError: the other program is not installed, or a file is missing, broken, or not of this run.
    """
    RunDirectory(path).check(*MODEL_FILES)
    if kind == "onnx":
        from selfattn.exports.onnx import OnnxModel

        return OnnxModel(path)
    from selfattn.exports.ctranslate2 import Ctranslate2Model

    return Ctranslate2Model(path / kind)


def export(
    run: Run, to: ExportFormat, out: Path, quantize: Quantized | None = None, *, advice: str = "choose another `out`"
) -> None:
    """Write a run in another format; see :meth:`selfattn.runs.run.Run.export`."""
    path = run.path
    config = run.config
    if to not in get_args(ExportFormat):
        raise SettingError(f"export: `to`: expected one of {', '.join(get_args(ExportFormat))}, got {shown(to)}")
    if export_format(path) is not None:
        raise UserError(f"{path}: is an exported run already; export the run that it was made from")
    if quantize is not None and to != "ctranslate2":
        raise SettingError(f"`quantize` is for ctranslate2; {to} keeps the weights of the training")
    if isinstance(config.model, EnsembleConfig):
        raise UserError("export: an ensemble; export one of its runs")
    remove_remains(out)
    check_is_free(out, resumes=False)
    with new_directory(out, advice) as folder:
        if to == "onnx":
            from selfattn.exports.onnx import to_onnx

            to_onnx(run.model, folder)
        else:
            from selfattn.exports.ctranslate2 import to_ctranslate2

            (folder / to).mkdir()
            longest = TASKS[config.task].max_input
            lengths = longest, config.output_limit(longest)
            to_ctranslate2(run.model, config.model, run.tokenizer, folder / to, lengths=lengths, quantize=quantize)
        RunDirectory(path).copy(folder, f"{TOKENIZER}/*", CONFIG)
        RunDirectory(folder).write_record(RunDirectory(path).record())


def export_once(run: Run, engine: ExportFormat) -> Path:
    """Return the directory of a run in the format of an engine: itself, or ``RUN-ENGINE`` beside it, made where needed.

    Of a run from the Hub, the export lies in the cache of ``huggingface_hub`` for files of other libraries, not among
    the files of the Hub.

    Raises:
        UserError: a package is missing, the engine does not support the model, or what is there is of another training.
    """
    path = run.path
    if export_format(path) == engine:
        return path
    out = export_place(path, engine)
    if export_format(out) != engine:
        if out.exists() and (not out.is_dir() or names_in(out)):
            raise UserError(f"{out}: is in the way of the export for {engine}, and is none; move it away")
        advice = f"export the run to another place by selfattn export --to {engine} --out DIRECTORY, and use that"
        try:
            export(run, engine, out, advice=advice)
            say(f"{out}: exported for {engine}, for this and later calls")
        except UserError:
            if export_format(out) != engine:  # another process was not faster
                raise
    records = [replace(RunDirectory(folder).record(), files={}) for folder in (path, out)]
    if records[0] != records[1]:
        raise UserError(f"{out}: was exported from another training than {path} has now; remove it to export again")
    return out
