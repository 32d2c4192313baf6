"""How long outputs may be: it follows from the inputs, so that a model that copies is right on longer ones."""

import json
from dataclasses import replace
from pathlib import Path

import torch
from fake_models import Writer
from hypothesis import given
from hypothesis import strategies as st
from small_runs import accept_changes
from torch import nn

from selfattn.data.pairs import Pair, encode_pairs
from selfattn.decoding.texts import decode_texts
from selfattn.models.build import build
from selfattn.models.config import config_from_dict, config_to_dict
from selfattn.models.families import PRESETS
from selfattn.runs.directory import CONFIG
from selfattn.runs.record import RunConfig
from selfattn.runs.run import Run
from selfattn.runs.training_set import output_limits
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.training.config import TrainingConfig

TOKENIZER = CharTokenizer("abcd")


def copied(source, read):
    column = source[:, min(read.shape[1], source.shape[1]) - 1]
    return nn.functional.one_hot(torch.where(column == 0, TOKENIZER.eos_id, column), len(TOKENIZER)).float()


def config(**changes):
    return RunConfig("dates", "copying", PRESETS["transformer"].config, TrainingConfig(), {}, **changes)


def copies(settings, texts, targets=()):
    run = Run(Path("run"), settings, Writer(copied), TOKENIZER)
    decoded = run.decode(texts, targets=targets)
    return [best.text == text and best.finished for text, (best, *_) in zip(texts, decoded, strict=True)]


def test_a_model_that_copies_is_right_on_longer_inputs():
    texts = ["abcd" * count for count in (1, 2, 5, 50)]
    trained_to_10 = config(max_length=2 * 11, longest_source=11)
    assert copies(trained_to_10, texts) == [True] * 4
    assert copies(replace(trained_to_10, longest_source=0), texts) == [True, True, True, False]  # runs of before
    # Known targets may always be written.
    terse = config(max_length=4, longest_source=30)  # long sources, short targets
    assert copies(terse, ["abcdabcd"]) == [False]
    assert copies(terse, ["abcdabcd"], targets=["abcdabcd"]) == [True]


def test_positions_end_what_an_output_may_have():
    values = config_to_dict(PRESETS["transformer"].config)
    values["decoder"] |= {"position": "learned", "max_length": 40}
    bounded = config_from_dict(values)
    limited = replace(config(max_length=22, longest_source=11), model=bounded)
    assert [limited.output_limit(source) for source in (5, 11, 12, 200)] == [22, 22, 24, 40]


def test_a_run_names_its_longest_source_and_an_older_one_is_resumed(train, tmp_path):
    run = train("rnn-plain", out=tmp_path / "run")
    assert run.config.longest_source > 10
    assert run.config.output_limit(10) == run.config.max_length
    file = tmp_path / "run" / CONFIG
    values = json.loads(file.read_text())
    del values["longest_source"]
    file.write_text(json.dumps(values))
    accept_changes(tmp_path / "run")
    assert train("rnn-plain", out=tmp_path / "run", resume=True).config.longest_source == 0


LIMITED = CharTokenizer("ab ")
SIDES = st.text("ab ", min_size=1, max_size=40)
PAIRS = st.lists(st.builds(Pair, SIDES, SIDES), min_size=1, max_size=9)


@given(PAIRS, PAIRS)
def test_a_limit_is_twice_the_longest_target_of_sources_up_to_twice_as_long(pairs, known):
    limits = output_limits(pairs, encode_pairs(pairs, LIMITED), known, LIMITED)
    for pair, limit in zip(pairs, limits, strict=True):
        near = [each for each in [*pairs, *known] if len(each.source) <= 2 * len(pair.source) + 10]
        assert limit == 2 * max(len(each.target) + 1 for each in near)


def test_each_row_of_a_batch_stops_at_its_own_limit():
    decoded = decode_texts(Writer(copied), TOKENIZER, ["a", "abc"], max_length=lambda source: source)
    assert [best.text for (best, *_) in decoded] == ["a", "abc"]
    model = build("transformer", vocab_size=len(LIMITED), seed=1)
    texts = ["a", "ab a", "b"]
    outputs = decode_texts(model, LIMITED, texts, max_length=[3, 9, 2])
    for text, limit, output in zip(texts, (3, 9, 2), outputs, strict=True):
        alone = decode_texts(model, LIMITED, [text], max_length=limit)[0]
        assert output[0].text == alone[0].text
