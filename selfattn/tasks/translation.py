"""The translation task; `python -m tasks.translation` does what `selfattn train translation` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from selfattn.cli.app import make_app, run_app
from selfattn.cli.settings import command_line, with_settings
from selfattn.cli.translation_options import (
    COMPARE_TRANSLATION,
    CompareTranslation,
    TrainTranslation,
    TranslationData,
)
from selfattn.comparison.engine import compare, show
from selfattn.console import say
from selfattn.data.pairs import Pair
from selfattn.data.readers.pair_files import read_pairs
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.decoding.texts import predict
from selfattn.errors import UserError
from selfattn.evaluation.alignment.gold_files import GoldPair, read_gold
from selfattn.evaluation.metrics.evaluate import evaluate
from selfattn.evaluation.metrics.metric import make_metric, score_outputs
from selfattn.evaluation.metrics.translation import translation_metrics
from selfattn.figures.gates import Floor
from selfattn.figures.record import Record
from selfattn.models.presets import get_preset
from selfattn.models.protocol import Seq2Seq
from selfattn.report.write import ReportFiles
from selfattn.runs.directory import RunConfig, check_is_free
from selfattn.runs.fit import fit
from selfattn.runs.held_out import held_out_test, is_trained_on
from selfattn.runs.run import Run
from selfattn.runs.splits import PairData
from selfattn.runs.task import Lesson, Task
from selfattn.runs.training_set import make_material, trained_on
from selfattn.tasks.floor import stated_floor
from selfattn.tasks.recipes import QUICK_TEST_ITEMS, translation_recipe, translation_size
from selfattn.tasks.translation_data import CorpusPairs, EmbeddedPhrases
from selfattn.tokenizers.char import CharTokenizer
from selfattn.tokenizers.load import SeparateTokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.tokenizers.subword import SubwordTokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import is_main_process
from selfattn.training.validation import Criterion

TASK = "translation"
TEST_ITEMS = 2000  # embedded phrases
VOCAB_SIZE = 8000  # subwords, where the texts give as many


class TranslationTask(Task):
    """Translation as a comparison needs it.

    Args:
        options: where pairs come from, and what tokens they are cut into.
        training: how, with seed 0.
        decoding: of the tests.
        test_items: at most so many; None for all there are.
        gold: sentences with hand-made links; default none.
        floor: what others reached; default unknown.
    """

    name = TASK

    def __init__(
        self,
        options: TranslationData,
        training: TrainingConfig,
        decoding: DecodingOptions,
        test_items: int | None,
        gold: Sequence[GoldPair] = (),
        floor: Floor | None = None,
    ) -> None:
        self.gold, self.floor = gold, floor
        self.options, self.training, self.decoding, self.test_items = options, training, decoding, test_items
        if not options.is_cldr:
            self.headline = make_metric("bleu", options.target).headline

    def lesson(self, training: TrainingConfig, *, first: int | None = None) -> Lesson:
        """Open the data and make the tokenizer."""
        data = make_data(self.options, training)
        tokenizer = make_tokenizer(self.options, data)
        measure = partial(_measure, bleu=not self.options.is_cldr, language=self.options.target)
        material, max_length = make_material(
            data, tokenizer, training, measure, keep=True, first=first, sampling=self.options.sampling
        )
        return Lesson(
            training,
            material,
            max_length,
            data.settings | ({} if first is None else {"first": first}),
            data.test(self.test_items),
            data.validation(training.validation_items),
            partial(trained_on, data, training, first),
            has_words=True,
            gold=self.gold,
            notes=data.notes,
        )

    def scores(self, predictions: Sequence[str], pairs: Sequence[Pair]) -> dict[str, float]:
        """Exact match, BLEU, chrF, TER, and where there is a tradition of it the lowercased tokenised BLEU."""
        metrics = ("exact_match", *translation_metrics(self.options.target))
        return score_outputs(metrics, predictions, [pair.target for pair in pairs], self.options.target)


def make_data(options: TranslationData, training: TrainingConfig) -> PairData:
    """Open the data.

    Raises:
        UserError: they are not usable.
    """
    if options.is_cldr:
        return EmbeddedPhrases(options.source, options.target, training.seed)
    return CorpusPairs(options, training.seed)


def make_tokenizer(options: TranslationData, data: PairData) -> Tokenizer:
    """Make the vocabulary of the training texts, the same for every seed.

    Raises:
        UserError: the texts do not give a vocabulary of that size.
    """
    sample = data.sample()
    kind = options.tokenizer or ("characters" if options.is_cldr else "bpe")
    if kind == "characters":
        return CharTokenizer.train(text for pair in sample for text in (pair.source, pair.target))
    size, clip = options.vocab_size or VOCAB_SIZE, options.vocab_size is None
    if options.separate:
        source = SubwordTokenizer.train((pair.source for pair in sample), vocab_size=size, kind=kind, clip=clip)
        target = SubwordTokenizer.train((pair.target for pair in sample), vocab_size=size, kind=kind, clip=clip)
        return SeparateTokenizer(source, target)
    texts = (text for pair in sample for text in (pair.source, pair.target))
    return SubwordTokenizer.train(texts, vocab_size=size, kind=kind, clip=clip)


def _measure(tokenizer: Tokenizer, pairs: Sequence[Pair], *, max_length: int, bleu: bool, language: str) -> Criterion:
    """Judge by what is decoded greedily: exact matches of phrases, BLEU of sentences."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]

    def figures(model: Seq2Seq, loss: float) -> Mapping[str, float]:
        outputs = predict(model, tokenizer, sources, max_length=max_length)
        return score_outputs(("exact_match", "bleu")[: 1 + bleu], outputs, targets, language)

    return Criterion(figures, "bleu" if bleu else "exact_match")


def train_translation(options: TrainTranslation) -> Run:
    """Train one model to translate, and keep the run in ``options.out``.

    Args:
        options: see :class:`selfattn.cli.translation_options.TrainTranslation`.

    Raises:
        UserError: a setting, the data or the directory is not usable.
    """
    options.check_data()
    if not options.resume:
        check_is_free(options.out)
    preset = translation_size(get_preset(options.model).config, phrases=options.is_cldr)
    model = with_settings(preset, options.set, options.model)
    recipe = translation_recipe(phrases=options.is_cldr, quick=options.quick)
    training = options.training.applied_to(recipe, seed=options.seed)
    data = make_data(options, training)
    tokenizer = make_tokenizer(options, data)
    measure = partial(_measure, bleu=not options.is_cldr, language=options.target)
    material, max_length = make_material(data, tokenizer, training, measure, sampling=options.sampling)
    config = RunConfig(TASK, options.model, model, training, data.settings, max_length)
    command = command_line("selfattn train translation", options)
    return fit(config, material, options.out, command=command, notes=data.notes, **options.for_fit())


def compare_translation(options: CompareTranslation) -> tuple[Record, ReportFiles]:
    """Train models to translate, test them, and write the report into ``options.out``.

    Args:
        options: see :class:`selfattn.cli.translation_options.CompareTranslation`.

    Raises:
        UserError: a setting, the data or the directory is not usable.
    """
    options.check_data()
    if not options.models:
        recurrent = "rnn-attention" if options.is_cldr else "luong-bidirectional"
        options = replace(options, models=(recurrent, "transformer"))
    training = options.training.applied_to(translation_recipe(phrases=options.is_cldr, quick=options.quick), seed=0)
    beam = options.beam if options.beam is not None else 1 if options.is_cldr else 5
    usual = 0.0 if options.is_cldr or beam == 1 else 1.0
    penalty = usual if options.length_penalty is None else options.length_penalty
    decoding = DecodingOptions(beam=beam, length_penalty=penalty)
    items = options.test_items
    if items is None and options.is_cldr:
        items = QUICK_TEST_ITEMS if options.quick else TEST_ITEMS
    if options.gold is None and (options.sentences is not None or options.base is not None):
        raise UserError("--sentences and --base go with --gold: give the file with the links as well")
    gold = () if options.gold is None else read_gold(options.gold, sentences=options.sentences, base=options.base)
    floor = stated_floor(options.floor, options.floor_source, options.target)
    task = TranslationTask(options, training, decoding, items, gold, floor)
    return compare(
        task,
        options,
        command_line("selfattn compare translation", options),
        lambda config: translation_size(config, phrases=options.is_cldr),
    )


def evaluate_translation(
    run: Run,
    data: Sequence[Path] = (),
    options: DecodingOptions = GREEDY,
    columns: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Test a run on pairs it has not been trained on.

    Args:
        run: a run of this task.
        data: two parallel files or one file of pairs. Where there are none, and of the file that the run was trained
            on, the part that was held out for it.
        options: how to decode; default greedily.
        columns: of source and target in one file; see `selfattn.data.readers.pair_files.read_pairs`.

    Returns:
        Plain JSON values: ``task``, ``run``, ``model``, ``data``, ``beam``, ``length_penalty``, ``items``,
        ``metrics``, ``signatures``, ``intervals`` of the exact match, ``interval``, ``by_format`` (where pairs have
        kinds) and ``unknown_characters`` of the inputs.

    Raises:
        UserError: the files, or the run's own data, are not usable.
    """
    settings = run.config.data
    pairs, named = _pairs_to_test(settings, data, columns)
    target = str(settings.get("target_language", ""))
    evaluation = evaluate(lambda texts: run.predict(texts, options), pairs)
    metrics = translation_metrics(target)
    scores = score_outputs(metrics, evaluation.predictions, [pair.target for pair in pairs], target)
    signatures = {name: make_metric(name, target).signature for name in metrics}
    found = {
        "task": TASK,
        "run": str(run.path),
        "model": run.config.preset,
        "data": named,
        "beam": options.beam,
        "length_penalty": options.length_penalty,
    }
    found |= evaluation.to_json() | {"unknown_characters": run.unknown([pair.source for pair in pairs]).total()}
    return found | {"metrics": evaluation.to_json()["metrics"] | scores, "signatures": signatures}


def _pairs_to_test(
    settings: Mapping[str, Any], data: Sequence[Path], columns: tuple[str, str] | None
) -> tuple[list[Pair], str]:
    """Choose the pairs to test on, and say where they are from."""
    if data and not is_trained_on(settings, data):
        return read_pairs(*data, columns=columns), " ".join(map(str, data))
    source, target = str(settings["source_language"]), str(settings["target_language"])
    if settings.get("kind") == "cldr":
        return EmbeddedPhrases(source, target, 0).test(TEST_ITEMS), f"cldr, {source} to {target}"
    return held_out_test(settings)


def train_command(options: TrainTranslation) -> None:
    """Train one model to translate; without files, on phrases of CLDR."""
    train_translation(options)
    if is_main_process():
        say(f"{options.out}: done; try: selfattn predict {options.out}")


def compare_command(options: CompareTranslation = COMPARE_TRANSLATION) -> None:
    """Compare models on translation; without files, on phrases of CLDR."""
    show(compare_translation, options)


def main() -> None:
    """Run `selfattn train translation` under the name of this module."""
    app = make_app("tasks.translation", help="Train one model to translate; the same as `selfattn train translation`.")
    app.default(train_command)
    run_app(app)


if __name__ == "__main__":
    main()
