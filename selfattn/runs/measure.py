"""Measure a run on unseen data: pairs by the metrics of its task, texts by their perplexity."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from selfattn.data.readers.lines import read_texts
from selfattn.data.readers.pairs import PairFiles
from selfattn.data.splits import seen_in
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.decoding.scoring import score_texts
from selfattn.errors import SettingError, say
from selfattn.evaluation.buckets import evaluate_outputs, evaluate_part
from selfattn.evaluation.metrics import BITS_PER_CHARACTER, PERPLEXITY, CharacterErrorRate, ExactMatch, make_metric
from selfattn.evaluation.translation_metrics import script_warning
from selfattn.runs.predictor import Predictor, unknown_characters
from selfattn.runs.task import NO_FILES, HeldOut, TaskData, metric_names
from selfattn.tokenizers.protocol import unit_of


def measure_run(
    task: TaskData,
    run: Predictor,
    files: PairFiles = NO_FILES,
    options: DecodingOptions = GREEDY,
    against: Predictor | None = None,
) -> dict[str, Any]:
    """Measure a run on unseen data.

    Args:
        task: of the run.
        run: to be measured.
        files: default the test part of the run's data. A language model needs one file, with a text a line.
        options: how to decode; default greedily.
        against: another run of the task; default none.

    Returns:
        Plain JSON values: those of :func:`measure_pairs` or :func:`measure_texts`.

    Raises:
        UserError: the data are not usable, or a language model is given what only pairs have.
    """
    if not task.takes_pairs:
        if files.columns is not None or options != GREEDY:
            raise SettingError("evaluate: a language model reads no pairs and decodes nothing; leave the option out")
        if len(files.paths) != 1:
            raise SettingError("evaluate: a language model is measured on one file of texts; give it with `data`")
        return measure_texts(run, files.paths[0], files.encoding)
    test = task.held_out(files)
    if files.tag is not None:
        tagged = files.read()
        if [(pair.source, pair.target) for pair in tagged] != [(pair.source, pair.target) for pair in test.pairs]:
            raise SettingError(f"`tag` {files.tag}: the task reads other pairs from {test.name}; leave it out")
        test = replace(test, pairs=tagged)
    return measure_pairs(task, run, test, options, against)


def measure_pairs(
    task: TaskData, run: Predictor, test: HeldOut, options: DecodingOptions, against: Predictor | None
) -> dict[str, Any]:
    """Measure a run on pairs; for the arguments see :func:`measure_run`.

    Returns:
        Plain JSON values: ``task``, ``run``, ``model``, ``data``, ``beam``, ``length_penalty``, ``items``,
        ``metrics``, ``signatures``, ``intervals``, ``interval``, ``by_format`` (where pairs have kinds),
        ``unknown_characters``, or ``unknown_words``, of the inputs, ``cut_off`` outputs (at the longest length
        allowed). Where test pairs may repeat training pairs, also the results of those that do not: ``unseen``, and
        ``unseen_casefold`` with case ignored. With another run ``against``: its ``run``, ``model``, ``metrics`` and
        ``intervals``, ``p`` of each metric, and how many outputs are ``equal``.
    """
    pairs = test.pairs
    sources = [pair.source for pair in pairs]
    targets = [pair.target for pair in pairs]
    if task.language and (warning := script_warning(targets, task.language)):
        say(warning)
    best = [candidates[0] for candidates in run.decode(sources, options, targets=targets)]
    outputs = [output.text for output in best]
    names = dict.fromkeys((ExactMatch.name, CharacterErrorRate.name, *metric_names(task)))
    metrics = [make_metric(name, task.language) for name in names]
    results = run.about(test.name) | {"beam": options.beam, "length_penalty": options.length_penalty}
    against_outputs = None
    if against is not None:
        against_outputs = [candidates[0].text for candidates in against.decode(sources, options, targets=targets)]
    results |= evaluate_outputs(outputs, pairs, metrics, against_outputs)
    if against is not None:
        results["against"] |= {"run": str(against.path), "model": against.config.preset}
    results[f"unknown_{unit_of(run.tokenizer.source)}"] = run.unknown(sources).total()
    for line in unknown_characters("targets", targets, run.tokenizer.target):
        say(line)
    results["cut_off"] = sum(not output.finished for output in best)
    for name, casefold in (("unseen", False), ("unseen_casefold", True)) if test.known is not None else ():
        was_seen = seen_in(pairs, test.known or (), casefold=casefold)
        places = [place for place in range(len(pairs)) if not was_seen[place]]
        if places:
            results[name] = evaluate_part(outputs, pairs, metrics, places)
    return results


def measure_texts(run: Predictor, file: Path, encoding: str | None = None) -> dict[str, Any]:
    """Measure the perplexity of a language model on a text.

    Args:
        run: a language model.
        file: one text a line.
        encoding: of the file; see `selfattn.data.readers.lines.lines_of`.

    Returns:
        Plain JSON values: ``task``, ``run``, ``model``, ``data``, ``items`` (lines), ``characters``, ``tokens``,
        ``context``, ``metrics`` (``perplexity`` a token, ``bits_per_character`` and ``loss`` in nats a token) and
        ``unknown_characters``, or ``unknown_words``.

    Raises:
        UserError: the file is missing or not usable.
    """
    lines = read_texts(file, encoding)
    scores = score_texts(run.model, run.tokenizer, lines, context=run.config.max_length)
    return run.about(file) | {
        "items": len(lines),
        "characters": scores.characters,
        "tokens": scores.tokens,
        "context": run.config.max_length,
        "metrics": {
            PERPLEXITY: scores.perplexity,
            BITS_PER_CHARACTER: scores.bits_per_character,
            "loss": -scores.per_token,
        },
        f"unknown_{unit_of(run.tokenizer)}": run.unknown(lines).total(),
    }
