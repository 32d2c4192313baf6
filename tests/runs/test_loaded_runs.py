"""Loaded runs: used by threads at once, within limits; several write together.

How long outputs may be follows from the inputs, so that a model that copies is right on longer ones.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fake_models import Writer
from hypothesis import given
from hypothesis import strategies as st
from small_runs import accept_changes
from torch import nn

from selfattn.data.pairs import Example, Pair, encode_pairs
from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import decode_texts
from selfattn.errors import UserError
from selfattn.files import sha256_of
from selfattn.models.build import Ensemble, EnsembleConfig, build
from selfattn.models.config import Limits
from selfattn.models.families import PRESETS, EncoderDecoderConfig, TransformerConfig
from selfattn.runs.directory import CONFIG, RunDirectory, files_in
from selfattn.runs.fit import within_limits
from selfattn.runs.load import load
from selfattn.runs.record import RunConfig
from selfattn.runs.run import Run
from selfattn.runs.train import train as train_on
from selfattn.runs.training_set import output_limits
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.training.config import TrainingConfig


def test_threads_may_share_a_run(runs):
    run = runs["rnn-attention"]
    texts = ["1 May 1999", "Tuesday, 5 March 1985"] * 4
    with ThreadPoolExecutor(4) as pool:
        views, outputs = pool.map(run.attention, texts), pool.map(lambda text: run.predict([text])[0], texts)
        views, outputs = list(views), list(outputs)
    expected = [run.attention(text) for text in texts[:2]] * 4
    for view, alone in zip(views, expected, strict=True):
        assert view.gradient is not None
        assert alone.gradient is not None
        torch.testing.assert_close(view.gradient, alone.gradient)
    assert outputs == [view.prediction for view in expected]


def test_another_default_dtype_or_device_is_named(runs, tmp_path):
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"a {number}\tb {number}\n" for number in range(50)))
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(UserError, match=r"torch's default dtype is torch\.float64, and models of runs are float32"):
            load(runs["transformer"].path)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        for use in (
            lambda: load(runs["transformer"].path),
            lambda: train_on("dates", out=tmp_path / "run", data=(data,)),
        ):
            with pytest.raises(UserError, match="torch's default device is meta; set it to cpu"):
                use()


def test_modes_of_the_program_around_change_nothing(runs, train, tmp_path):
    brief = {"epochs": 1, "items_per_epoch": 32, "batch_size": 16, "validation_items": 2}
    weights = []
    for number, mode in enumerate((nullcontext(), torch.inference_mode(), torch.no_grad())):
        with mode:
            run = train("rnn-attention", tmp_path / str(number), training=brief)
        weights.append((run.path / "model.safetensors").read_bytes())
    assert weights == weights[:1] * 3
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(UserError, match="autocast is on around the training"):
        train("rnn-attention", tmp_path / "autocast")
    with torch.inference_mode():
        run = load(runs["rnn-attention"].path)
        assert run.attention("1 May 1999").gradient is not None
    assert run.attention("1 May 1999").gradient is not None


def test_the_limits_of_a_model_hold_in_training_and_prediction(runs, train, tmp_path, monkeypatch):
    run = runs["rnn-plain"]
    monkeypatch.setattr(type(run.config.model), "limits", lambda self: Limits(source=5))
    with pytest.raises(UserError, match="a source of 11 tokens: this model has at most 5 positions"):
        run.predict(["1 May 1999"])
    with pytest.raises(UserError, match="rnn-plain: cannot read the longest pair of these data: a source of"):
        train("rnn-plain", tmp_path / "run")
    long = [Example([4, 2], [5, 2]), Example([4] * 6, [5, 2])]  # not among the pairs that were searched for the longest
    for examples in (long, iter(long)):
        with pytest.raises(UserError, match="training data: a source of 6 tokens: this model has at most 5 positions"):
            list(within_limits(examples, run.config.model))
    monkeypatch.setattr(type(run.config.model), "limits", lambda self: Limits(target=5))
    with pytest.raises(UserError, match="an output of 6 tokens: this model has at most 5 positions"):
        run.predict(["1 May 1999"], DecodingOptions(max_length=6))


def test_a_training_starts_from_the_weights_of_a_run(runs, tmp_path):
    first = runs["rnn-plain"]
    settings = {"epochs": 1, "items_per_epoch": 64, "validation_items": 5, "lr": 1e-9}
    second = train_on("dates", out=tmp_path / "run", init_from=first.path, locales=("en_US",), **settings)
    assert second.config.model == first.config.model
    assert files_in(tmp_path / "run" / "tokenizer") == files_in(first.path / "tokenizer")
    weights = zip(first.model.state_dict().values(), second.model.state_dict().values(), strict=True)
    assert all(torch.allclose(before, after, atol=1e-6) for before, after in weights)
    assert RunDirectory(second.path).config().init_from == sha256_of(first.path / "model.safetensors")
    with pytest.raises(UserError, match="begun with"):
        train_on("dates", out=tmp_path / "run", model="rnn-plain", resume=True, locales=("en_US",), **settings)


# Runs that share a vocabulary write together: each token by the mean of their probabilities

TEXTS = ["november 13, 2008", "", "1 May 1999"]


def test_the_probabilities_are_the_mean(close):
    configs = [PRESETS[name].config for name in ("transformer", "rnn-attention", "decoder-only")]
    models = [build(config, vocab_size=7, pad_id=0, seed=seed) for seed, config in enumerate(configs)]
    source, target_in = torch.tensor([[4, 5, 2], [6, 2, 0]]), torch.tensor([[1, 4, 5], [1, 6, 4]])
    each = [model(source, target_in, source_mask=source > 0).softmax(dim=-1) for model in models]
    together = Ensemble(models)
    logits = together(source, target_in, source_mask=source > 0)
    close(logits.exp(), torch.stack(each).mean(dim=0))
    state = together.start(together.encode(source, source > 0))
    for place in range(3):
        stepped, state = together.step(target_in[:, place], state)
        close(stepped, logits[:, place])
    turned = state.reorder(torch.tensor([1, 0]))
    close(together.step(target_in[:, 0].flip(0), turned)[0], together.step(target_in[:, 0], state)[0].flip(0))


def test_a_run_with_itself_is_the_run(runs):
    run = runs["transformer"]
    twice = load(run.path, run.path)
    for options in (DecodingOptions(), DecodingOptions(beam=3, n_best=2), DecodingOptions(sample=True)):
        expected, found = run.decode(TEXTS, options), twice.decode(TEXTS, options)
        assert [[one.text for one in own] for own in found] == [[one.text for one in own] for own in expected]
    pairs = [Pair("1 May 1999", "1999-05-01")]
    assert twice.score(pairs)[0].log_probability == pytest.approx(run.score(pairs)[0].log_probability, abs=1e-4)


def test_families_write_together_on_the_command_line(runs, cli):
    paths = [runs[name].path for name in ("transformer", "rnn-attention", "rnn-plain")]
    both = load(*paths)
    assert both.config.preset == "transformer + rnn-attention + rnn-plain"
    done = cli("predict", *paths, "--beam", "2", stdin="\n".join(TEXTS) + "\n").success()
    assert done.out.splitlines() == both.predict(TEXTS, DecodingOptions(beam=2))
    assert cli("predict").code == 2


def test_what_does_not_go_together_is_refused(runs, train, tmp_path):
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"a {number}\tb {number}\n" for number in range(50)))
    brief = {"max_steps": 1, "batch_size": 8, "validation_items": 2}
    other = train("transformer", tmp_path / "other", data=(data,), training=brief)
    with pytest.raises(UserError, match="has another vocabulary than"):
        load(runs["transformer"].path, other.path)
    both = load(runs["transformer"].path, runs["rnn-plain"].path)
    with pytest.raises(UserError, match="have no attention in common"):
        both.attention("1 May 1999")
    with pytest.raises(UserError, match="export one of its runs"):
        both.export("onnx", tmp_path / "out")


def test_limits_are_those_of_all():
    learned = TransformerConfig(position="learned", max_length=9)
    first = EncoderDecoderConfig(encoder=learned, decoder=replace(learned, max_length=7))
    second = EncoderDecoderConfig(encoder=TransformerConfig(), decoder=replace(learned, max_length=5))
    limits = EnsembleConfig((first, second, PRESETS["decoder-only"].config)).limits()
    assert (limits.source, limits.target, limits.together) == (9, 5, None)


# How long outputs may be

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
    transformer = PRESETS["transformer"].config
    bounded = replace(transformer, decoder=replace(transformer.decoder, position="learned", max_length=40))
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
