"""The verdict says what the numbers of the record say, and nothing else."""

import re
from dataclasses import replace

import pytest
from report_records import read

from selfattn.models.families import PRESETS
from selfattn.report.blocks import HeatMap, Table
from selfattn.report.ranking import difference_unit, headline_name, obstacles, ranked, set_aside
from selfattn.report.sections.models import alignment_section, fairness_section, heads_section
from selfattn.report.sections.quality import pair_table, statistics_section
from selfattn.report.verdict import badges, limits, origin, question, standing, verdict
from selfattn.results.plan import AtBudget, Budgets
from selfattn.results.quality import BudgetDifference, Crossing, Estimate
from selfattn.results.record import Gate, HeadScore, HeadScores, TuningTrial
from selfattn.results.subject import NO_SUBJECT
from selfattn.words.messages import SOURCE, Message, catalogue, name_key


@pytest.fixture
def rich():
    return read("rich")


def said(record, lang="en"):
    """The lead and every other sentence of the answer."""
    answer = verdict(record)
    sentences = (answer.lead, *answer.others, *answer.aside, *limits(record))
    return " ".join(sentence.say(lang) for sentence in sentences).replace("\u00a0", " ")


def lead(record):
    return verdict(record).lead.say("en").replace("\u00a0", " ")


def texts(block, lang="en"):
    """All that a block says."""
    if isinstance(block, Message):
        return block.say(lang)
    if hasattr(block, "__dict__"):
        return " ".join(texts(value, lang) for value in vars(block).values())
    return " ".join(texts(part, lang) for part in block) if isinstance(block, tuple | list) else str(block)


@pytest.mark.parametrize(
    ("languages", "shown"), [(("en", "de"), "en → de"), (("und", "und"), None), (("und", "de"), "→ de")]
)
def test_languages_that_are_unknown_are_left_out(rich, languages, shown):
    settings = dict(zip(("source_language", "target_language"), languages, strict=True))
    assert origin(replace(rich, settings=settings))[1] == (shown or rich.created[:10])


def only(record, *names):
    pairs = tuple(test for test in record.pairs if {test.first, test.second} <= set(names))
    models = tuple(model for model in record.models if model.name in names)
    return replace(record, models=models, pairs=pairs)


def with_models(record, **changes):
    """The record with other fields of some models (dashes in names as underscores)."""
    models = (replace(model, **changes.get(model.name.replace("-", "_"), {})) for model in record.models)
    return replace(record, models=tuple(models))


def with_pair(record, **changes):
    """The record with another test of the two models with attention, from the Transformer's side."""

    def tests():
        for test in record.pairs:
            if {test.first, test.second} == {"transformer", "rnn-attention"}:
                test = replace(test if test.first == "transformer" else test.swapped(), **changes)
            yield test

    return replace(record, pairs=tuple(tests()))


def badge_texts(record):
    return [(badge.kind, badge.text.say("en")) for badge in badges(record)]


def test_the_question_is_about_the_pair_and_its_size(rich):
    asked = question(rich).say("en")
    assert asked == "Does a Transformer convert dates better than an RNN with attention of the same size?"
    assert "same size" not in question(with_models(rich, transformer={"parameters_non_embedding": 10**6})).say("en")
    assert "the RNN with one vector at every step" in question(only(rich, "rnn-plain", "rnn-peeky")).say("en")
    assert "3 models" in question(only(rich, "rnn-plain", "rnn-peeky", "transformer")).say("en")
    assert question(only(rich, "transformer")).say("en") == "How well does the Transformer convert dates?"
    assert "“spelling”" in question(replace(rich, task="spelling", subject=NO_SUBJECT)).say("en")


CONDITION = "After 480,000 dates, each with the settings tuned for it, "
SCORES = "the Transformer gets 99.96 % right, the RNN with attention 99.94 %"
TURNED = "the RNN with attention gets 99.94 % right, the Transformer 99.96 %"
GAP = "(difference 0.02 [−0.07, 0.11] points, 3 runs each)."


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, f"Not told apart. {CONDITION}{SCORES} {GAP}"),
        ({"word": "better"}, f"Yes. {CONDITION}{SCORES} {GAP}"),
        ({"word": "worse"}, f"No. {CONDITION}{TURNED} {GAP}"),
        (
            {"separated": True, "p_holm": 0.17, "difference": 0.0},
            f"Not told apart. {CONDITION}{SCORES}. With 3 runs each the gap may be chance (p = 0.17).",
        ),
    ],
)
def test_the_answer_states_scores_test_and_condition(rich, changes, answer):
    assert lead(with_pair(rich, **changes)) == answer


def test_an_open_answer_says_how_many_runs_would_settle_it_and_no_difference_too_wide_to_mean_anything(rich):
    gap = {"difference": 0.0185, "low": -0.003, "high": 0.04, "p_holm": 0.17, "separated": True}
    runs = {"transformer": (0.99, 0.999, 0.98), "rnn_attention": (0.96, 0.99, 0.97)}
    models = {name: {"metrics": {"exact_match": Estimate(sum(r) / 3, 0.9, 1.0, r)}} for name, r in runs.items()}
    answer = lead(with_pair(with_models(rich, **models), **gap))
    assert re.search(r"With 3 runs each the gap may be chance \(p = 0.17\); about \d+ would settle it\.", answer)
    assert "어느 쪽이 나은지 판단할 수 없습니다" in said(with_pair(rich, **gap), "ko")
    wide = with_pair(rich, difference=-0.05, low=-0.58, high=0.49)
    assert lead(wide).endswith("(the difference cannot be estimated from 3 runs).")
    cells = [texts(row.cells[2]) for row in pair_table(wide, "exact_match").rows]
    assert cells.count("cannot be estimated from 3 runs") == 1


def test_one_run_of_each_decides_nothing():
    record = read("dates")
    assert lead(record).endswith("cannot show whether the gap is chance; at least 3 of each are needed.")
    assert "With and without attention the models are not told apart" in said(record)
    assert "Every model was trained once (seed 0) and tested on 5,000 unseen dates" in said(record)
    first, *others = (standing(record, model).say("en") for model in ranked(record))
    assert (first, set(others)) == ("best score", {"one run each"})
    assert {texts(row.cells[-1]) for row in pair_table(record, "exact_match").rows} == {"one run each"}
    assert ("note", "one run each") in badge_texts(record)


def test_metrics_that_disagree_are_named():
    record = read("translation")
    assert "do not agree" not in said(record)
    turned = tuple(test.swapped() if test.metric == "chrf" else test for test in record.pairs)
    other = tuple(replace(a, first=b.first, second=b.second) for a, b in zip(turned, record.pairs, strict=True))
    sentence = "The metrics do not agree: the Transformer leads in BLEU, the RNN with attention in chrF."
    assert sentence in said(replace(record, pairs=other))


def test_many_models_have_a_best_or_equals(rich):
    three = only(rich, "rnn-plain", "rnn-peeky", "transformer")
    assert lead(three).startswith(f"{CONDITION}transformer 99.96 % [99.88, 100.00] is best in exact match; next is")
    same = tuple(replace(test, word="not told apart") for test in three.pairs)
    text = lead(replace(three, pairs=same))
    assert text.startswith(f"The best models are not told apart. {CONDITION[:-2]}: transformer")
    assert lead(only(rich, "transformer")).endswith("There is no second model to compare with.")
    lower = replace(rich, headline=replace(rich.headline, better="lower"))
    assert [model.name for model in ranked(lower)] == [model.name for model in ranked(rich)][::-1]
    assert standing(lower, ranked(lower)[0]).say("en") == "best mean"


def test_a_margin_says_where_the_difference_lies(rich):
    tested = with_pair(rich, word="better", difference=0.02, low=0.008, high=0.03)
    assert "margin" not in said(tested)
    assert "may be smaller than the stated margin of 1 points." in said(replace(tested, margin=1.0))


@pytest.mark.parametrize(
    ("word", "sentence"),
    [("worse", "Attention is worth 35.7 [33.5, 37.8] points: the RNN"), ("better", "Attention does not help here")],
)
def test_what_attention_is_worth(rich, word, sentence):
    pairs = tuple(replace(test, word=word) if test.first in ("rnn-plain", "rnn-peeky") else test for test in rich.pairs)
    assert sentence in said(replace(rich, pairs=pairs))


@pytest.mark.parametrize(("training", "badge"), [({"lr": 0.1}, "given"), ({}, "one learning rate for all")])
def test_rates_that_were_not_tuned_are_said(rich, training, badge):
    bare = {"trials": (), "config": {"training": training}}
    record = with_models(replace(rich, tuning=None), **{model.name.replace("-", "_"): bare for model in rich.models})
    assert any(kind == "note" and badge in text and "not tuned" in text for kind, text in badge_texts(record))
    assert "not tuned" in lead(record)


def test_the_amount_of_training_is_that_of_the_runs(rich):
    assert "After 5.29 M target tokens" in lead(replace(rich, settings={"max_steps": 7}))
    shorter = tuple(replace(c, points=c.points[:3]) for c in rich.models[-1].curves)
    assert "After 1.32 M–5.29 M target tokens" in lead(with_models(rich, transformer={"curves": shorter}))


def test_few_runs_that_all_succeed_leave_failures_open(rich):
    names = ", ".join(model.name for model in rich.models)
    assert f"No training of {names} failed. From 3 runs, a failure rate of up to 63 %" in said(rich)
    bad = with_models(rich, transformer={"failed": (1,)})
    assert "transformer" not in next(text for text in said(bad).split(". ") if text.startswith("No training of"))
    reason = "Such a run diverged or learned nothing; it counts in the mean."
    assert f"Training failed: transformer 1/3. {reason}" in said(bad)
    assert ("warn", "training failed: transformer 1/3") in badge_texts(bad)
    assert "학습에 실패한 실행: transformer 1/3" in said(bad, "ko")


def test_the_primary_comparison_is_named_and_the_rest_is_exploratory(rich):
    primary = {"transformer", "rnn-attention"}
    pairs = tuple(replace(pair, primary={pair.first, pair.second} == primary) for pair in rich.pairs)
    named = replace(rich, pairs=pairs)
    for line in pair_table(named, "exact_match").rows:
        ending = "(primary)" if {line.cells[0], line.cells[1]} == primary else "(exploratory)"
        assert texts(line.cells[-1]).endswith(ending)
    assert "tested alone. The other 5 pairs of the metric are exploratory" in texts(statistics_section(named))


def test_a_budget_where_all_runs_lie_apart_is_not_called_chance(rich):
    def at(budget, high):
        models = {"transformer": Estimate(0.8, runs=high), "rnn-attention": Estimate(0.5, runs=(0.4, 0.5, 0.6))}
        return AtBudget(budget, models, 10, 10, difference=BudgetDifference(budget, 0.3, -0.1, 0.7))

    points = (at(0.5, (0.7, 0.8, 0.9)), at(1.0, (0.5, 0.9, 1.0)))
    budgets = Budgets("steps", points, ("transformer", "rnn-attention"), Crossing("none seen"))
    sentences = said(replace(rich, budgets=budgets))
    part = "After 240,000 dates, the Transformer gets 80.00 % right, the RNN with attention 50.00 %; every run"
    assert part in sentences
    sure = (replace(points[0], difference=BudgetDifference(0.5, -0.3, -0.4, -0.2)), points[1])
    other = said(replace(rich, budgets=replace(budgets, cells=sure)))
    assert "gets 50.00 % right, the Transformer 80.00 % (difference 30 [20, 40] points, 3 runs each)." in other


def test_a_gate_that_failed_stops_the_verdict(rich):
    gate = Gate("causal", False, "logits move by 2.31", model="transformer", value=2.31, limit=0.0)
    record = replace(rich, gates=(*rich.gates, gate))
    assert verdict(record).stopped
    assert lead(record) == "Not comparable: transformer did not pass the gate “causal”: logits move by 2.31."
    [obstacle] = obstacles(record)
    assert obstacle.say("ko").endswith("점검 “인과 마스크” 항목을 통과하지 못했습니다: 측정값 2.31, 기준 0.")
    assert "which allow no comparison: transformer 99.96" in said(record)
    assert {standing(record, model).say("en") for model in ranked(record)[1:]} == {"not comparable"}
    assert ("bad", "29 of 30 checks passed") in badge_texts(record)
    seen = replace(rich.gates[-1], passed=False, reason="500 of 5,000 test inputs are known")
    overlapping = replace(rich, gates=(*rich.gates[:-1], seen))
    assert lead(overlapping).startswith("Not comparable: The gate “overlap” did not pass: 500 of 5,000")


def test_a_model_that_the_verdict_is_not_about_is_set_aside(rich):
    gate = Gate("repetition", False, "all outputs are the same", model="rnn-plain")
    record = replace(rich, gates=(*rich.gates, gate))
    answer = verdict(record)
    assert (answer.stopped, answer.lead) == (False, verdict(rich).lead)
    assert answer.aside[0].say("en").startswith("Left out of the comparison: rnn-plain did not pass the gate")
    assert standing(record, record.models[0]).say("en") == "not comparable"
    words = {(line.cells[0], line.cells[1]): texts(line.cells[-1]) for line in pair_table(record, "exact_match").rows}
    assert all((word == "not comparable") == ("rnn-plain" in pair) for pair, word in words.items())
    many = replace(record, subject=NO_SUBJECT)
    assert not verdict(many).stopped
    alone = tuple(replace(gate, model=model.name) for model in rich.models[1:])
    assert verdict(replace(many, gates=alone)).stopped


def test_a_model_below_published_results_stays_in_the_verdict(rich):
    [name] = {gate.name for gate in rich.gates if gate.name.startswith("published")}
    below = Gate(name, False, "exact_match 0.9, at least 0.95 expected (an RNN)", model="transformer", note=True)
    record = replace(rich, gates=(*rich.gates, below, replace(below, seed=1)))
    assert (obstacles(record), set_aside(record), verdict(record).lead) == ((), (), verdict(rich).lead)
    assert said(record).count("are higher than those of the Transformer: exact_match 0.9") == 1
    assert badges(record)[0].kind == "ok"
    endless = replace(below, name="endings", reason="0 of 40 outputs end")  # no published result
    assert said(replace(rich, gates=(*rich.gates, endless))) == said(rich)
    low = replace(below, name="variety", model="rnn-plain")
    little = replace(rich, gates=(*rich.gates, low))
    assert "At 34.2 %, the RNN with one vector at the start has learned little." in said(little)
    assert (verdict(little).aside, badges(little)[0].kind) == ((), "ok")


def test_badges_tell_how_far_the_verdict_can_be_believed(rich):
    assert badge_texts(rich) == [
        ("ok", "all 29 checks passed"), ("ok", "parameters without embeddings: equal within 0.73 %"),
        ("ok", "3 runs each"), ("note", "lr tuned once for each model: luck of the tuning is in no interval"),
        ("note", "no plan"),
    ]  # fmt: skip
    quick = replace(rich, settings={"quick": True})
    assert ("warn", "quick run: less training, fewer test items") in badge_texts(quick)
    matching = replace(rich.matching, budget="none")
    apart = replace(with_models(rich, transformer={"parameters_non_embedding": 327_552}), matching=matching)
    assert not verdict(apart).stopped
    assert ("warn", "parameters without embeddings: up to 99 % apart") in badge_texts(apart)


def test_what_each_head_is_worth_stands_in_a_table_and_a_picture(rich):
    assert heads_section(rich) == ()
    heads = (HeadScore("a", 0, 0.6, -0.2, 0.2), HeadScore("b", 0, 0.8, 0.0, 1.0), HeadScore("b", 1, 0.2, -0.6, 0.01))
    scores = HeadScores("exact_match", "share", "", 200, 0.8, "zero", heads)
    first, *others = rich.models
    _, table, picture = heads_section(replace(rich, models=(replace(first, heads=scores), *others)))
    assert isinstance(table, Table)
    assert [texts(cell).partition("  ")[0] for cell in table.rows[0].cells] == [
        first.name, "80.00\u00a0%", "3", "1", "b, head 1", "20.00\u00a0%"
    ]  # fmt: skip
    assert isinstance(picture, HeatMap)
    assert (picture.rows, picture.columns) == (("a", "b"), ("0", "1"))
    assert picture.values == ((pytest.approx(0.25), 0.0), (0.0, pytest.approx(0.75)))
    assert isinstance(picture.caption, Message)
    assert "헤드" in picture.caption.say("ko")
    alone = replace(scores, heads=heads[:1])  # nothing to compare in a picture
    assert len(heads_section(replace(rich, models=(replace(first, heads=alone), *others)))) == 2


def test_the_head_of_each_step_is_named(rich):
    model = rich.models[-1]
    assert model.alignment
    writes, reads = ((head.layer, head.head or 0) for head in model.alignment.heads[:2])

    def chosen(**places):
        other = replace(rich, models=(replace(model, alignment=replace(model.alignment, **places)),))
        table = next(block for block in alignment_section(other) if getattr(block, "name", "") == "alignment")
        return [texts(line.cells[1]) for line in table.rows]

    writing, next_step = (f"layer {layer}, head {head}" for layer, head in (writes, reads))
    both = [f"best when writing: {writing}", f"best at the next step: {next_step}"]
    assert chosen(best=writes, best_shifted=reads)[:2] == both
    assert chosen(best=writes, best_shifted=writes)[0] == f"best at both: layer {writes[0]}, head {writes[1]}"


def test_sizes_of_every_model_stand_in_one_table_and_a_setting_at_the_edge_of_the_space_is_said(rich):
    (table,) = [block for block in fairness_section(rich) if getattr(block, "name", "") == "matching"]
    assert len(table.rows) == len(rich.models) + 1
    last = [texts(cell) for cell in table.rows[-1].cells]
    seconds = [model.timing.train_seconds.mean for model in rich.models if model.timing.train_seconds]
    assert (last[0], last[4], last[-1]) == ("largest ÷ smallest", "1.00", f"{max(seconds) / min(seconds):.2f}")
    for best, is_edge in ((0.064, True), (0.008, False)):
        trials = tuple(TuningTrial({"lr": rate}, 0, 0.9, 1.0, rate == best) for rate in (0.002, 0.008, 0.064))
        shown = texts(fairness_section(with_models(only(rich, "rnn-plain"), rnn_plain={"trials": trials})))
        assert ("Most tunings chose the end of what was tried (rnn-plain: lr)" in shown) == is_edge


def test_a_difference_has_the_unit_of_its_metric_and_a_plain_number_its_name(rich):
    number = replace(rich, headline=replace(rich.headline, metric="perplexity", kind="number"))
    assert difference_unit(number).say("en") == "in perplexity"
    assert difference_unit(number).say("ko") == f"({headline_name(number).say('ko')})"
    assert difference_unit(rich).say("en") == "points"
    plain = replace(rich, pairs=tuple(replace(pair, metric="edits") for pair in rich.pairs))
    assert texts(pair_table(plain, "edits").columns[2].head) == "difference [interval]"


def test_a_korean_report_says_in_korean_what_the_built_in_models_are(rich):
    for name, preset in PRESETS.items():
        assert catalogue(SOURCE)[name_key("preset", name)] == preset.summary
    known = with_models(rich, transformer={"summary": PRESETS["transformer"].summary, "preset": "transformer"})
    assert "트랜스포머 인코더와 디코더" in texts(fairness_section(known), "ko")
    own = with_models(rich, transformer={"summary": "my own Transformer", "preset": "transformer"})
    assert "my own Transformer" in texts(fairness_section(own), "ko")
