"""What predicts: a model with its tokenizer and settings. Imports no torch where another engine computes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack

from selfattn.codec import Plain, read, write
from selfattn.data.pairs import Example, Pair, clean_text, compose, plain_text, plain_words
from selfattn.decoding.glossary import Glossary
from selfattn.decoding.options import GREEDY, DecodingOptions, DecodingSettings, Output, OwnSearch, ScoresTargets
from selfattn.decoding.texts import continue_texts, decode_texts
from selfattn.errors import SettingError, UserError, number_of, say
from selfattn.evaluation.links import Link
from selfattn.exports.ctranslate2_engine import Ctranslate2Engine
from selfattn.files import beside, sha256_of
from selfattn.models.config import Limits, ModelConfig
from selfattn.registry import TASKS
from selfattn.runs.directory import CONFIG, RECORD, RunDirectory
from selfattn.runs.record import RunConfig, cpu_name
from selfattn.settings import divide, shown
from selfattn.tokenizers.kept import KeptTokenizer
from selfattn.tokenizers.listed import CharTokenizer, WordTokenizer
from selfattn.tokenizers.protocol import Tokenizer, count_units, token_texts, unit_of, unknown_line

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
            if differing := sum([output.text for output in a] != [output.text for output in b] for a, b in pairs):
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
    def of_pairs(self, call: str) -> Iterator[None]:
        """Check that the run was trained on pairs, and name the model in errors inside a ``with`` block.

        Args:
            call: name of the computation for the message.

        Raises:
            UserError: the run is a language model, or the model raises a ValueError or an IndexError.
        """
        if not self.takes_pairs:
            raise UserError(f"{call}: {self.path} is a language model; take a run that was trained on pairs")
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


def checked_texts(call: str, texts: Any) -> list[str]:
    """Return texts as a list.

    Args:
        call: name of the function, for the message.
        texts: any iterable of texts with an order, such as a list, a column of a table, or an open file.

    Raises:
        SettingError: it is a single text, no such iterable, or an item is no text.

    Example:
        >>> checked_texts("predict", ("a", "b"))
        ['a', 'b']
        >>> checked_texts("predict", "a")
        Traceback (most recent call last):
        selfattn.errors.SettingError: predict: expected a list of texts, got 'a'; write ['a']
    """
    if isinstance(texts, str):
        raise SettingError(f"{call}: expected a list of texts, got {shown(texts)}; write [{shown(texts)}]")
    items = _items(call, texts, "texts")
    for number, text in enumerate(items, 1):
        if not isinstance(text, str):
            raise SettingError(f"{call}: text {number}: expected a text, got {shown(text)}")
    return items


def checked_text(call: str, text: Any) -> str:
    """Return a text unchanged.

    Args:
        call: name of the function, for the message.
        text: to be checked.

    Raises:
        SettingError: it is no text.
    """
    if not isinstance(text, str):
        raise SettingError(f"{call}: expected a single text, got {shown(text)}")
    return text


def checked_prefixes(prefix: Any, texts: Sequence[str], tokenizer: Tokenizer, *, first: int = 0) -> list[str]:
    """Return what the outputs of each text begin with; nothing where nothing is requested.

    Spaces at the end stay. Otherwise a prefix is cleaned as the targets of a training are.

    Args:
        prefix: a text for all, or for each text one or None.
        texts: the inputs.
        tokenizer: of the targets.
        first: number of the first text, for the message; default 0.

    Raises:
        SettingError: it is none of these, or not one for each text.
        UserError: the tokenizer has no tokens for a prefix.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> checked_prefixes("20", ["11/13/08", "1/2/03"], CharTokenizer("0123456789-"))
        ['20', '20']
    """
    if prefix is None:
        return []
    items = [prefix] * len(texts) if isinstance(prefix, str) else _items("decode", prefix, "prefixes")
    if len(items) != len(texts):
        expected = f"a prefix for each of {number_of(len(texts), 'text')}"
        raise SettingError(f"decode: `prefix`: expected {expected}, got {len(items)}")
    prefixes = []
    for number, item in enumerate(items, first + 1):
        if item is not None and not isinstance(item, str):
            raise SettingError(f"decode: prefix {number}: expected a text or None, got {shown(item)}")
        text = clean_text(f"{item}|")[:-1] if item else ""
        ids = tokenizer.encode(text)
        if tokenizer.unk_id in ids or tokenizer.decode(ids) != text:
            where = "`prefix`" if isinstance(prefix, str) else f"prefix {number}"
            raise UserError(f"decode: {where}: the model cannot write {shown(text)}; its vocabulary has no such tokens")
        prefixes.append(text)
    return prefixes


def checked_pairs(call: str, pairs: Any) -> list[Pair]:
    """Return pairs as a list.

    Args:
        call: name of the function, for the message.
        pairs: any iterable of pairs with an order.

    Raises:
        SettingError: it is a single pair, no such iterable, an item is no pair, or a side of a pair is no text.

    Example:
        >>> checked_pairs("score", [("a", "b")])
        Traceback (most recent call last):
        selfattn.errors.SettingError: score: pair 1: expected selfattn.Pair(source, target), got ('a', 'b')
    """
    if isinstance(pairs, Pair):
        raise SettingError(f"{call}: expected a list of pairs, got a single pair; write [pair]")
    items = _items(call, pairs, "pairs")
    for number, pair in enumerate(items, 1):
        if not isinstance(pair, Pair):
            raise SettingError(f"{call}: pair {number}: expected selfattn.Pair(source, target), got {shown(pair)}")
        for side in (pair.source, pair.target):
            if not isinstance(side, str):
                raise SettingError(f"{call}: pair {number}: expected two texts, got {shown(side)}")
    return items


def _items(call: str, values: Any, kind: str) -> list[Any]:
    """Return the items of an iterable; a text, a set and a mapping have none that could be meant."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping | Set):
        raise SettingError(f"{call}: expected a list of {kind}, got {shown(values)}")
    return list(values)


def decoding_options(call: str, options: DecodingOptions | None, settings: Mapping[str, Any]) -> DecodingOptions:
    """Return how to decode, from options or from settings by name; without either greedily.

    Args:
        call: name of the function, for the message.
        options: all options.
        settings: fields of :class:`selfattn.decoding.options.DecodingOptions`.

    Raises:
        SettingError: both are given, a name is unknown, or a value is not allowed.

    Example:
        >>> decoding_options("predict", None, {"beam": 5}).beam
        5
    """
    if options is not None and not isinstance(options, DecodingOptions):
        names = ", ".join(field.name for field in fields(DecodingOptions))
        raise SettingError(f"{call}: expected DecodingOptions, got {shown(options)}; settings have names: {names}")
    if options is not None and settings:
        raise SettingError(f"{call}: `{next(iter(settings))}` beside DecodingOptions; set it there")
    (of_decoding,) = divide(settings, DecodingOptions)
    return DecodingOptions(**of_decoding) if of_decoding else options or GREEDY


ExportFormat = Literal["onnx", "ctranslate2"]
Engine = Literal["torch", "onnx", "ctranslate2"]
MODEL_FILES = "*.onnx*", "ctranslate2/*"
NOTE = ".compared.json"  # hidden, so no file of the run
COMPARED = 8
"""Outputs that another engine computes and that are compared with those of torch."""


@dataclass(frozen=True)
class Compared(Plain):
    """What an export of CTranslate2 remembers.

    Attributes:
        of: SHA-256 of the records of run and export and of the export's settings, version of the engine, processor.
            Where one of them is another now, nothing was compared.
        limits: what the model can read and write, which its settings say with torch alone.
        alike: number of outputs that were those of torch, by the size of the beam.
    """

    of: tuple[str, ...]
    limits: Limits
    alike: Mapping[str, int]


def export_format(path: Path) -> ExportFormat | None:
    """Return the format of an exported run; None for a run with its weights."""
    if (path / "step.onnx").exists():
        return "onnx"
    return "ctranslate2" if (path / "ctranslate2/model.bin").exists() else None


def export_place(path: Path, engine: ExportFormat) -> Path:
    """Return where :func:`export_once` keeps the export of a run."""
    full = path.resolve()
    repository = full.parent.parent
    if full.parent.name == "snapshots" and repository.name.startswith("models--"):  # in the cache of the Hub
        from huggingface_hub import cached_assets_path

        name = f"{repository.name}-{full.name}-{engine}"
        return cached_assets_path("selfattn", namespace="exports", subfolder=name)
    return beside(path, engine)


def compared(run: Path, export: Path) -> Compared | None:
    """Return what an export of CTranslate2 remembers; None where that is nothing, or of another training."""
    with suppress(UserError, OSError, ImportError):  # said where the run is loaded
        note = read(Compared, export / NOTE, advice="")
        return note if note.of == _state(run, export) else None
    return None


def remember(run: Path, export: Path, limits: Limits, beam: int, count: int) -> None:
    """Note in an export of CTranslate2 that outputs were alike; where it cannot be written, they are compared again."""
    note = compared(run, export)
    before = {} if note is None else note.alike
    alike = {**before, str(beam): before.get(str(beam), 0) + count}
    with suppress(UserError, OSError):
        write(export / NOTE, Compared(_state(run, export), limits, alike))


def _state(run: Path, export: Path) -> tuple[str, ...]:
    import ctranslate2

    files = run / RECORD, export / RECORD, export / CONFIG
    return *map(sha256_of, files), str(ctranslate2.__version__), cpu_name()


@dataclass(frozen=True)
class OutputDetails:
    """The tokens of an output, and what is known of each.

    Attributes:
        source_tokens: of the source, without its end.
        tokens: of the output, with ``<eos>`` where the model ended it.
        token_scores: natural log-probability of each of `tokens`, given the source and the tokens before it; None if
            not requested.
        alignment: links ``(source position, target position)`` as of :meth:`selfattn.runs.run.Run.align`; None if not
            requested.
    """

    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...] | None
    alignment: tuple[Link, ...] | None


def output_details(
    run: Predictor,
    texts: Sequence[str],
    outputs: Sequence[Sequence[Output]],
    *,
    align: bool = False,
    token_scores: bool = False,
) -> list[list[OutputDetails]]:
    """Return the details of outputs, which the model reads once more.

    Args:
        run: that has written them; trained on pairs.
        texts: the inputs.
        outputs: of each, from :meth:`selfattn.runs.predictor.Predictor.decode`.
        align: link each token to the source token that it attends to most, as `Run.align` does.
        token_scores: give the log-probability of each token; their sum is that of the output.

    Returns:
        For each input, in their order, the details of each of its outputs.

    Raises:
        UserError: the run is a language model, or has no attention to its source that could align.

    Example:
        ``output_details(run, texts, run.decode(texts), token_scores=True)[0][0].token_scores``
    """
    tokenizer = run.tokenizer
    examples: list[Example] = []
    scored: list[Example] = []
    scores: Iterator[tuple[float, ...] | None] = repeat(None)
    links: Iterator[tuple[Link, ...] | None] = repeat(None)
    with run.of_pairs("predict"):
        for text, row in zip(texts, outputs, strict=True):
            source = [*tokenizer.source.encode(run.clean(text)), tokenizer.eos_id]
            for output in row:
                if output.score is not None:
                    target = [*output.ids, tokenizer.eos_id]
                    examples.append(Example(source, target))
                    # An output that was cut off has no end to be scored, and perhaps no position for one.
                    scored.append(Example(source, target if output.finished else target[:-1]))
        if token_scores:
            if isinstance(run.model, ScoresTargets):
                of_examples = run.model.score_tokens(scored)
            else:
                from selfattn.decoding.scoring import score_tokens

                of_examples = score_tokens(run.model, scored)
            scores = map(tuple, of_examples)
        if align:
            from selfattn.evaluation.attention import token_links

            links = map(tuple, token_links(run.model, examples))
    rows = []
    for text, row in zip(texts, outputs, strict=True):
        source_tokens = token_texts(tokenizer.source, run.clean(text))[:-1]
        of_text = []
        for output in row:
            # Of an input that is empty or too long nothing was decoded.
            details = OutputDetails((), (), () if token_scores else None, () if align else None)
            if output.score is not None:
                details = OutputDetails(source_tokens, output_tokens(tokenizer, output), next(scores), next(links))
            of_text.append(details)
        rows.append(of_text)
    return rows


def output_tokens(tokenizer: Tokenizer, output: Output) -> tuple[str, ...]:
    """Return the text of each token of an output, and of its end if it has one.

    The texts together are the output, where the tokens are those that the tokenizer gives for it; a model may also
    write a text in other pieces, which are then named as `Tokenizer.pieces` names them. A placeholder of a kept symbol
    is named by its pattern.
    """
    target = tokenizer.target
    ids = list(output.ids)
    text = target.decode(ids)
    *tokens, end = target.pieces([*ids, tokenizer.eos_id])
    if target.encode(text) == ids:
        marks = target.marks if isinstance(target, KeptTokenizer) else set[str]()
        texts = token_texts(target, text)
        tokens = [name if part in marks else part for name, part in zip(tokens, texts, strict=False)]
    return (*tokens, end) if output.finished else tuple(tokens)


def unknown_characters(part: str, texts: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """Return a line with the share and examples of characters, or words, that a vocabulary lacks; none without any.

    Args:
        part: name of the texts.
        texts: as the tokenizer reads them.
        tokenizer: of their side.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> unknown_characters("targets", ["abß", "ß"], CharTokenizer("ab"))
        ["targets: 2 characters that the model does not know, 1 different: 'ß' 2 (50.0 % of all)"]
    """
    unknown = tokenizer.unknown(*texts)
    if not unknown:
        return []
    share = unknown.total() / count_units(tokenizer, texts)
    return [f"{part}: {unknown_line(unknown, unit_of(tokenizer))} ({100 * share:.1f} % of all)"]
