"""A trained model as a user meets it: load it, ask it, look inside."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from selfattn.data.examples import encode_pairs
from selfattn.data.pairs import Pair
from selfattn.decoding.alignment import Link, align_examples
from selfattn.decoding.options import GREEDY, DecodingOptions, WeightPrecision
from selfattn.decoding.scoring import TargetScore, score_examples
from selfattn.decoding.texts import Output
from selfattn.errors import UserError
from selfattn.evaluation.alignment.dependence import by_blocking, by_gradient
from selfattn.models.build import build, count_parameters
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import TASKS
from selfattn.runs.attention_view import AttentionView
from selfattn.runs.directory import CONFIG, WEIGHTS, RunConfig, RunDirectory
from selfattn.runs.precision import reduce_precision
from selfattn.runs.task import Task
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import DeviceName
from selfattn.training.device import choose_device

if TYPE_CHECKING:
    from selfattn.runs.sharing.exported import Format, Quantized


class Run:
    """A model with its tokenizer and settings.

    Made by :func:`load`, or by training.

    Attributes:
        path: its run directory.
        config: everything that decided it.
        model: in evaluation mode.
        tokenizer: the one it was trained with.
    """

    def __init__(self, path: Path, config: RunConfig, model: Seq2Seq, tokenizer: Tokenizer) -> None:
        self.path = path
        self.config = config
        self.model = model
        self.tokenizer = tokenizer

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.config.preset} trained on {self.config.task}>"

    @cached_property
    def task(self) -> Task:
        """The task that it was trained on, with the options that it had."""
        kind: type[Task] = TASKS[self.config.task]
        return kind.from_settings(self.config.data, str(self.path / CONFIG))

    @property
    def takes_pairs(self) -> bool:
        """Whether it was trained on pairs; a language model was not."""
        return bool(TASKS[self.config.task].takes_pairs)

    def predict(self, texts: Sequence[str], options: DecodingOptions = GREEDY) -> list[str]:
        """Write the output for each text.

        Args:
            texts: a list of inputs; one that is empty or only spaces gives an empty output. A language model takes
                each as the beginning of a text and gives it back with its continuation, even an empty one.
            options: how to decode; default greedily.

        Returns:
            One output for each input, in their order.

        Raises:
            TypeError: a single text instead of a list.
            UserError: a text is longer than the model can read.
        """
        return [outputs[0].text for outputs in self.decode(texts, options)]

    def decode(self, texts: Sequence[str], options: DecodingOptions = GREEDY, *, first: int = 0) -> list[list[Output]]:
        """Write outputs for each text, with their scores.

        Args:
            texts: see :meth:`predict`.
            options: how to decode; default greedily.
            first: the number of the first text; of many lists one after the other, each with its own, the samples are
                those of one long list. Default 0.

        Returns:
            For each input, in their order, its outputs, the best first: ``options.n_best`` of them, fewer where a beam
            finds fewer, one for an empty input.

        Raises:
            TypeError: a single text instead of a list.
            UserError: a text is longer than the model can read.
        """
        if isinstance(texts, str):
            raise TypeError("predict takes a list of texts: run.predict([text])")
        texts = [_nfc(text) for text in texts]  # as training texts are
        try:
            kind: type[Task] = TASKS[self.config.task]
            return kind.decode(self, texts, options, first)
        except ValueError as error:  # positions that the model does not have
            longest = max(map(len, texts), default=0)
            raise UserError(
                f"the model cannot read an input of {longest} characters: {error}"
                if options.max_length is None
                else f"an input of {longest} characters and an output of {options.max_length} tokens are too long for "
                f"the model: {error}"
            ) from error

    def score(self, pairs: Sequence[Pair]) -> list[TargetScore]:
        """Say how probable the target of each pair is, given its source.

        Raises:
            UserError: the run is a language model, or a text is longer than the model can read.
        """
        with self.asked_of_pairs("score"):
            return score_examples(self.model, self.tokenizer, encode_pairs(_composed(pairs), self.tokenizer))

    def align(
        self, pairs: Sequence[Pair], *, layer: int = -1, head: int | None = None, shifted: bool = False
    ) -> list[list[Link]]:
        """Link the target tokens of each pair to the source tokens that they attend to most.

        Args:
            pairs: sources and the targets that the model is made to write.
            layer: counted from 0, or from the end where negative; default the last.
            head: counted from 0; default the mean of the layer's heads.
            shifted: attention of the step that reads a token instead of the one that writes it; default False.

        Returns:
            For each pair its links ``(source position, target position)``, counted from 0.

        Raises:
            UserError: the run is a language model, the model has no attention to its source or no such layer or head,
                or a text is longer than the model can read.
        """
        with self.asked_of_pairs("align"):
            examples = encode_pairs(_composed(pairs), self.tokenizer)
            return align_examples(self.model, self.tokenizer, examples, layer=layer, head=head, shifted=shifted)

    def attention(self, text: str, *, dependence: bool = True) -> AttentionView:
        """Show what the model attends to while it writes the output for a text, and what the output depends on.

        Args:
            text: an input with something in it.
            dependence: also ask which source tokens the output depends on, which takes a pass for each; default True.

        Raises:
            UserError: the model has no attention, or the text is empty.
        """
        with self.asked_of_pairs("attention"), torch.inference_mode():
            if not text.strip():
                raise UserError("attention: the text is empty; give an input, such as a date")
            tokenizer, text = self.tokenizer, _nfc(text)
            prediction = self.predict([text])[0]
            source_ids = [*tokenizer.source.encode(text), tokenizer.eos_id]
            # The target is what the model wrote, so every row of weights belongs to a step that it really made.
            target_ids = [*tokenizer.target.encode(prediction), tokenizer.eos_id]
            device = self.model.device
            source = torch.tensor([source_ids], device=device)
            target_in = torch.tensor([[tokenizer.bos_id, *target_ids[:-1]]], device=device)
            mask = torch.ones_like(source, dtype=torch.bool)
            maps = self.model.attention_maps(source, target_in, source_mask=mask)
        if not maps.cross:
            raise UserError(f"{self.path}: {self.config.preset} has no attention to show; try a model that has")
        cross, encoder, decoder = (
            tuple(weights[0].float().cpu() for weights in layers) for layers in (maps.cross, maps.encoder, maps.decoder)
        )
        blocking = gradient = None
        if dependence:
            ids, target = (torch.tensor(each, device=device) for each in (source_ids, target_ids))
            blocking = by_blocking(self.model, ids, torch.cat([target.new_tensor([tokenizer.bos_id]), target[:-1]]))
            gradient = by_gradient(self.model, ids, target, bos_id=tokenizer.bos_id)
        tokens = token_texts(tokenizer.source, text), token_texts(tokenizer.target, prediction)
        return AttentionView(text, prediction, *tokens, cross, encoder, decoder, blocking, gradient, self.config.preset)

    def unknown(self, texts: Sequence[str]) -> Counter[str]:
        """Count the characters of the texts that the model does not know, in the form in which it reads them."""
        return self.tokenizer.source.unknown(*map(_nfc, texts))

    def export(self, to: Format, out: str | os.PathLike[str], *, quantize: Quantized | None = None) -> Path:
        """Write the run in the format of another program, into a new directory that :func:`load` opens as a run.

        Args:
            to: ``"onnx"``: encoder and one step as two graphs, for every model; see
                :mod:`selfattn.exports.onnx_export`. ``"ctranslate2"``: for its engine, what it can hold; see
                :mod:`selfattn.convert.ctranslate2`.
            out: the directory; there is nothing, or an empty one.
            quantize: how the weights are stored, for ctranslate2; default as they are.

        Returns:
            The directory.

        Raises:
            UserError: a package is missing, the format cannot hold the model, or the directory cannot be filled.
        """
        from selfattn.runs.sharing.exported import export

        export(self, to, Path(out), quantize)
        return Path(out)

    def push(self, name: str, *, private: bool = False, test: bool = True) -> str:
        """Publish the run on the Hugging Face Hub, with a model card that says what it is and how good.

        Its checkpoint stays here, and so do local paths and the name of the machine. ``load("hf://user/name")`` opens
        it. ``HF_ENDPOINT`` names another Hub.

        Args:
            name: of the repository, ``user/name``; made where there is none.
            private: of a new repository; default False.
            test: measure the run on the test part of its data for the card; default True.

        Returns:
            Where the commit is seen.

        Raises:
            UserError: the name is none, the Hub cannot be reached, or it refuses.
        """
        from selfattn.runs.sharing.hub import push

        return push(self, name, private=private, test=test)

    def about(self, data: object) -> dict[str, Any]:
        """Say in plain JSON values which run was asked on which data, to stand in front of what was found."""
        return {"task": self.config.task, "run": str(self.path), "model": self.config.preset, "data": str(data)}

    @contextmanager
    def asked_of_pairs(self, what: str) -> Iterator[None]:
        """Ask something that only a run on pairs can answer; what the model cannot do is said with its name.

        Args:
            what: is asked, for the message.

        Raises:
            UserError: the run is a language model, or the model says that it cannot.
        """
        if not self.takes_pairs:
            raise UserError(f"{what}: {self.path} is a language model; take a run that was trained on pairs")
        try:
            yield
        except ValueError as error:
            raise UserError(f"{self.path}: {self.config.preset}: {error}") from error


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _composed(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs as the model reads them; spans are not looked at."""
    return [Pair(_nfc(pair.source), _nfc(pair.target), pair.tag) for pair in pairs]


def token_texts(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    """Return the text of each token of a text and its end: as it stands there, or by name where it has no text alone.

    Args:
        tokenizer: of this side.
        text: any.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> token_texts(CharTokenizer("ab "), "a bz")
        ('a', ' ', 'b', '<unk>', '<eos>')
    """
    ids, spans = tokenizer.encode(text), tokenizer.spans(text)
    shared = Counter(spans)
    found = []
    for number, (start, end) in zip(ids, spans, strict=True):
        has_text = start < end and shared[start, end] == 1 and number != tokenizer.unk_id
        found.append(text[start:end] if has_text else tokenizer.pieces([number])[0])
    return (*found, tokenizer.pieces([tokenizer.eos_id])[0])


def load(
    path: str | os.PathLike[str],
    *others: str | os.PathLike[str],
    device: DeviceName = "cpu",
    precision: WeightPrecision = "float32",
) -> Run:
    """Load a trained model.

    Args:
        path: a run directory, made by training or by :meth:`Run.export`; or ``hf://user/name``, or
            ``hf://user/name@revision``, of the Hugging Face Hub.
        others: further ones of the same task and vocabulary, of any family: they write together, by the mean of their
            probabilities.
        device: where it computes; ``auto`` takes a GPU where there is one.
        precision: of the weights; see :func:`selfattn.runs.precision.reduce_precision`.

    Raises:
        UserError: a file is missing or broken, the device is not there, or it does not compute in that precision; the
            message names it. Or runs do not go together.
    """
    if others:
        from selfattn.runs.sharing.together import together

        runs = [load(one, device=device, precision=precision) for one in (path, *others)]
        return Run(runs[0].path, *together(runs), runs[0].tokenizer)
    from selfattn.runs.sharing.exported import format_of, open_exported
    from selfattn.runs.sharing.hub import fetch, is_address

    directory = RunDirectory(fetch(path) if is_address(path) else Path(path))
    config, tokenizer = directory.config(), directory.tokenizer()
    if (kind := format_of(directory.path)) is not None:
        if choose_device(device).type != "cpu":
            raise UserError(
                f"{directory.path}: an exported run computes on the CPU; load the run, or leave `device` out"
            )
        if precision != "float32":
            raise UserError(
                f"{directory.path}: an exported run has the precision that it was exported with; load the run"
            )
        return Run(directory.path, config, open_exported(directory.path, kind).eval(), tokenizer)
    count = directory.count_weights()
    with torch.device("meta"):  # before memory is taken for a model that cannot be the one
        asked, _ = count_parameters(build_model(config.model, tokenizer, config.training.seed))
    if asked > count:
        raise UserError(
            f"{directory.path / WEIGHTS}: not the weights of the model in {CONFIG} (it has {asked:,} numbers, the file "
            f"{count:,}); restore the file or train again"
        )
    model = build_model(config.model, tokenizer, config.training.seed)
    directory.load_weights(model)
    model.to(choose_device(device)).eval()
    reduce_precision(model, precision)
    return Run(directory.path, config, model, tokenizer)


def build_model(config: ModelConfig, tokenizer: Tokenizer, seed: int) -> Seq2Seq:
    """Build a model for the tokens of a tokenizer, with first weights.

    Args:
        config: what it is made of.
        tokenizer: of both sides; the source may have a vocabulary of its own.
        seed: of the run.

    Raises:
        UserError: source and target have vocabularies of their own, and the model needs one for both.
    """
    try:
        return build(
            config,
            vocab_size=len(tokenizer),
            pad_id=tokenizer.pad_id,
            seed=seed,
            source_vocab_size=len(tokenizer.source),
        )
    except ValueError as error:
        advice = "leave `separate` out"
        raise UserError(f"this model has one vocabulary for source and target: {error}; {advice}") from None
