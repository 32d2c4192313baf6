"""State the question and the verdict of a comparison; nothing is said that a number does not carry.

The words follow the tests of the record (`Record.pairs`), or how many examples each model needs until the target
(`Record.target`). A gate that did not pass, or models of unequal size that were to be equal, leave nothing to be said
but that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from selfattn.data.languages import NO_LANGUAGE
from selfattn.evaluation.design import Design, most_failing
from selfattn.evaluation.variances import POWER
from selfattn.report import ranking
from selfattn.report.blocks import Badge, Verdict
from selfattn.report.numbers import amount, gap_text, p_text, score_text, share_text
from selfattn.report.ranking import display_name, headline_name, in_task_words, pair_test, quality, ranked, task_pair
from selfattn.results.plan import parse_axis
from selfattn.results.quality import MIN_SEEDS, PairTest, RatioTest, Target, leaders
from selfattn.results.record import Model, Record
from selfattn.words.messages import SOURCE, Message, TextLike, has_text, message, name_key


@dataclass(frozen=True)
class PairVerdict:
    """Two models of a record.

    Attributes:
        record: of the comparison.
        first: model.
        second: model.
    """

    record: Record
    first: Model
    second: Model

    @cached_property
    def test(self) -> PairTest:
        """The test of the first model against the second."""
        return pair_test(self.record, self.first, self.second)

    @cached_property
    def runs(self) -> tuple[Sequence[float], Sequence[float]]:
        """The scores of the runs of each model."""
        return quality(self.record, self.first).runs, quality(self.record, self.second).runs

    @cached_property
    def design(self) -> Design:
        """What these runs and items could have found; needs two runs of both models."""
        repeated = self.record.interval.repeated if self.record.interval else 0
        return Design.of(self.test, *self.runs, self.record.test_items - repeated)

    def answer(self) -> Message:
        """Return the answer: scores under a condition, and their difference; the better model first."""
        record = self.record
        test = self.test
        order = (self.second, self.first) if test.word == "worse" else (self.first, self.second)
        values: dict[str, TextLike] = {"condition": ranking.condition(record)}
        values["scores"] = ranking.scores_of(record, *order)
        if test.identical:
            return message("verdict.identical outputs", **values)
        if test.word == "not told apart" and (test.seeds < MIN_SEEDS or test.separated):
            return message("verdict.few", chance=self._chance(), **values)
        values["gap"] = ranking.gap(record, test, len(self.first.seeds))
        return message(f"verdict.{test.word}", **values)

    def answer_of_one_file(self) -> Message:
        """Return what one file of outputs each can show, and what it cannot."""
        record = self.record
        test = self.test
        order = (self.first, self.second)
        if test.identical:
            return message("verdict.file.identical", scores=ranking.scores_of(record, *order))
        if (test.difference < 0) == (test.better == "higher"):
            order = (self.second, self.first)
        difference = gap_text(test, record.headline.kind)
        values: dict[str, TextLike] = {"scores": ranking.scores_of(record, *order), "p": p_text(test.p)}
        values["gap"] = message("gap.items", difference=difference, unit=ranking.difference_unit(record))
        key = "verdict.file.same" if ranking.standing_on_items(test) == "close" else "verdict.file.clear"
        return message(key, model=display_name(record, order[0]), **values)

    def _chance(self) -> Message:
        """Return why few runs leave it open, and about how many would settle it."""
        count = min(len(quality(self.record, model).runs) for model in (self.first, self.second))
        if count < 2:
            return message("chance.one", count=MIN_SEEDS)
        needed = None
        if min(map(len, self.runs)) >= 2 and self.design.smallest():  # else nothing varies, and more runs tell no more
            odds = self.test.odds
            difference = odds.difference if odds else self.test.difference
            needed = self.test.difference and self.design.seeds_needed(difference)
        values: dict[str, str | int] = {"count": count, "p": p_text(self.test.p_holm)}
        if not needed:
            return message("chance", **values)
        return message("chance.seeds", needed=max(int(needed), count + 1), **values)

    def disagreement(self) -> list[Message]:
        """Say which metrics rank the two models one way and which the other way; nothing where all agree."""
        record = self.record
        names = leaders(record.pairs, self.first.name, self.second.name)
        if len(set(names.values())) < 2:
            return []
        values: dict[str, TextLike] = {}
        for side, key, model in (("first", "a", self.first), ("second", "b", self.second)):
            metrics = [ranking.named(record, "metric", metric) for metric, name in names.items() if name == model.name]
            values |= {side: display_name(record, model), key: ranking.enumeration(metrics)}
        return [message("verdict.metrics", **values)]

    def margin(self) -> list[Message]:
        """Return where the difference lies beside the smallest that was stated to matter."""
        record = self.record
        if record.margin is None:
            return []
        word = self.test.beside(record.margin / (100 if record.headline.kind == "share" else 1))
        return [message(f"margin.{word}", margin=f"{record.margin:g}", unit=ranking.difference_unit(record))]

    def smallest_difference(self) -> list[Message]:
        """Return what this comparison could have found at the least; nothing where runs are too few to say."""
        if min(map(len, self.runs)) < MIN_SEEDS:
            return []
        smallest = self.design.in_score(self.design.smallest())
        seeds = self.design.seeds_needed(self.design.smallest() / 2)
        if not smallest > 0:
            return []
        kind = self.record.headline.kind
        values = {"smallest": amount(100 * smallest if kind == "share" else smallest), "power": share_text(POWER, 0)}
        key = "verdict.design" if seeds else "verdict.design.items"
        return [message(key, **values, unit=ranking.difference_unit(self.record), seeds=seeds or 0)]


_DIGITS = 3  # of a number of examples
_EDGE = 0.05  # of the range of a setting


def round_count(count: float) -> int:
    """Return a number of examples in three digits.

    Example:
        >>> round_count(15_733), round_count(5_280)
        (15700, 5280)
    """
    return round(float(f"{count:.{_DIGITS}g}"))


def examples_text(record: Record, count: float) -> Message:
    """Return a number of examples in the words of the task, such as "5,280 dates"."""
    return in_task_words(record, "pairs", count=f"{round_count(count):,}")


def times_text(test: RatioTest) -> str:
    """Return a ratio with its interval: "1.6 [1.4, 1.9]", "> 3.8 [> 3.2]".

    Example:
        >>> test = RatioTest("a", "b", 1.62, "", 0.01, 0.01, "worse", 1.38, 1.91)
        >>> times_text(test).replace("\\u00a0", " ")
        '1.6 [1.4, 1.9]'
    """
    sign = {"more": ">\u00a0", "fewer": "<\u00a0"}.get(test.bound, "")
    text = f"{sign}{amount(test.ratio)}"
    if test.low is not None and test.high is not None:
        return f"{text} [{amount(test.low)},\u00a0{amount(test.high)}]"
    if test.low is not None:
        return f"{text} [>\u00a0{amount(test.low)}]"
    return f"{text} [<\u00a0{amount(test.high)}]" if test.high is not None else text


def _named(record: Record, model: Model) -> Message | str:
    """Return a model as it is told from others of its kind, such as "the Transformer with the sinusoids of 2017"."""
    key = name_key("full name", model.name)
    return display_name(record, model) if model.is_changed or not has_text(key) else message(key)


def target_question(record: Record, target: Target) -> Message:
    """Return the question: of the task about its two models, or how many examples each model needs."""
    pair = task_pair(record)
    key = "question.target" if pair else "question.target.any"
    names = {f"name{k}": display_name(record, model) for k, model in enumerate(pair or ())}
    return in_task_words(record, key, percent=amount(100 * target.share), **names)


def target_lead(record: Record, target: Target) -> Message:
    """Return the answer in one sentence: what the best model needs, and the others in comparison."""
    best, *others = ranking.sound(record)
    median = target.models[best.name].median
    if median is None:
        cap = examples_text(record, target.cap)
        return message("target.nobody", cap=cap, percent=amount(100 * target.share))
    clauses = [_clause(record, target, model, best) for model in others]
    needs = in_task_words(
        record,
        "target.lead" if others else "target.alone",
        model=_named(record, best),
        count=examples_text(record, median),
        percent=amount(100 * target.share),
        others=join_and(clauses),
    )
    answer = _answer(record, target)
    return message("target.answered", answer=answer, needs=needs) if answer else needs


def _answer(record: Record, target: Target) -> Message | None:
    """Return the answer to the question about the task's pair; None where the question is another."""
    pair = task_pair(record)
    if pair is None:
        return None
    test = target.pair(pair[0].name, pair[1].name)
    return message("target.rough") if _is_rough(target) else message(f"target.{test.word}")


def _is_rough(target: Target) -> bool:
    """Say whether the runs are too few to tell any models apart."""
    return all(test.low is None and test.high is None for test in target.pairs)


def _clause(record: Record, target: Target, model: Model, best: Model) -> Message:
    test = target.pair(model.name, best.name)
    values: dict[str, TextLike] = {"model": _named(record, model), "ratio": times_text(test)}
    if test.word == "not told apart" and not _is_rough(target):
        return message("target.alike", **values)
    if test.bound == "more":
        return message("target.more", **values | {"ratio": times_text(replace(test, bound=""))})
    return message("target.times", **values)


def join_and(texts: Sequence[Message]) -> Message:
    """Join clauses with commas, the last with "and"."""
    commas = ", ".join(f"{{part{k}}}" for k in range(len(texts)))
    before, comma, last = commas.rpartition(", ")
    joined = f"{before} and {last}" if comma else last
    return Message("", {f"part{k}": text for k, text in enumerate(texts)}, {SOURCE: joined, "ko": commas})


def target_sentences(record: Record, target: Target) -> list[Message]:
    """Return what belongs to the answer: runs and intervals, runs that did not arrive, choices at an edge, the test."""
    count = min(len(arrivals.examples) for arrivals in target.models.values())
    sentences = [message("target.runs.few" if _is_rough(target) else "target.runs", count=count)]
    cap = examples_text(record, target.cap)
    for model in ranked(record):
        total = len(target.models[model.name].examples)
        if missing := total - target.models[model.name].arrived:
            values = {"model": _named(record, model), "cap": cap}
            sentences.append(message("target.missing", count=missing, total=total, **values))
    for model in record.models:
        if names := at_edge(record, model):
            sentences.append(message("target.edge", model=_named(record, model), settings=names))
    return sentences


def at_edge(record: Record, model: Model) -> str:
    """Name the settings of which most tunings chose a value at the same end of what was tried."""
    if record.tuning is None:
        return ""
    chosen = [trial.settings for trial in model.trials if trial.chosen and trial.budget is None]
    names = []
    for name, text in record.tuning.space.get(model.name, {}).items():
        axis = parse_axis(f"{name}={text}")
        values = [settings.get(name) for settings in chosen]
        places = [axis.place(float(value)) for value in values if isinstance(value, int | float)]
        width = 1 / len(axis.values) if axis.values else _EDGE
        ends = (sum(place < width for place in places), sum(place > 1 - width for place in places))
        if 2 * max(ends) > len(chosen):
            names.append(name)
    return ", ".join(names)


SAME_SIZE = 0.05  # parameters at most this far apart, bodies twice, may be called "the same size"
_REMARKS = {"variety": "verdict.variety", "published baseline": "verdict.below"}


def question(record: Record) -> Message:
    """Return the question that the comparison answers."""
    if record.target is not None:
        return target_question(record, record.target)
    pair = ranking.verdict_pair(record)
    if not record.trained:
        key = "question.outputs" if pair else "question.outputs.many"
        if len(record.models) == 1:
            key = "question.outputs.one"
    elif pair and ranking.task_pair(record) and not any(model.is_changed for model in pair):
        bodies = [model.parameters_body or 1 for model in pair]
        is_equal = ranking.parameter_spread(pair) <= SAME_SIZE and max(bodies) <= (1 + 2 * SAME_SIZE) * min(bodies)
        key = "question.pair.same" if is_equal else "question.pair"
    elif pair:
        key = "question.pair.any"
    else:
        key = "question.one" if len(record.models) == 1 else "question.many"
    names = {f"name{k}": display_name(record, model) for k, model in enumerate(pair or record.models[:1])}
    return ranking.in_task_words(record, key, task=record.task, count=len(record.models), **names)


def verdict(record: Record) -> Verdict:
    """Return the question, the answer in a few sentences, and how far it can be believed."""
    reasons = ranking.obstacles(record)
    pair = ranking.verdict_pair(record)
    remarks = [*ranking.failures(record), *ranking.departures(record.plan), *ranking.cut_off(record)]
    remarks += _weak_models(record)
    lone = [model.name for model in record.models if len(model.seeds) == 1]
    if lone and not ranking.is_single(record):
        remarks.append(message("verdict.file.some", names=", ".join(lone)))
    if reasons:
        lead = message("verdict.stopped", reason=reasons[0])
        bare = ranking.scores(record, ranking.ranked(record))
        more = message("verdict.stopped.scores", scores=bare, metric=headline_name(record))
        sentences = [*reasons[1:], more, *remarks]
    elif record.target is not None:
        lead = target_lead(record, record.target)
        sentences = [*target_sentences(record, record.target), *ranking.departures(record.plan)]
    elif pair:
        judged = PairVerdict(record, *pair)
        lead = judged.answer_of_one_file() if ranking.is_one_file(record) else judged.answer()
        sentences = [*_attention_sentence(record), *ranking.budget_outcomes(record)]
        sentences += [*judged.margin(), *judged.disagreement(), *remarks]
    else:
        lead = _field_sentence(record)
        sentences = remarks
    aside = tuple(message("verdict.aside", reason=reason) for reason in ranking.set_aside(record))
    asks = question(record)
    return Verdict(asks, lead, tuple(sentences), bool(reasons), aside, badges(record), origin(record))


def _weak_models(record: Record) -> list[Message]:
    """Name the models that learned little or stay below published results."""
    by_name = {model.name: model for model in record.models}
    sentences = []
    for gate in ranking.failed_gates(record, notes=True):
        key = _REMARKS.get(gate.name)  # of other gates the table tells
        if gate.model and key:
            model = by_name[gate.model]
            score = score_text(quality(record, model), record.headline.kind)
            sentences.append(message(key, model=display_name(record, model), score=score, reason=gate.reason))
    return sentences


def limits(record: Record) -> tuple[Message, ...]:
    """Return what else belongs to the answer, and what it leaves open; nothing where there is no answer."""
    if ranking.obstacles(record):
        return ()
    if record.target is not None:
        return tuple(_plan_sentence(record))
    pair = ranking.verdict_pair(record)
    design = PairVerdict(record, *pair).smallest_difference() if pair else []
    carried = [message("verdict.carried")] if record.carried else []
    return (_seed_sentence(record), *design, *_ceiling_sentence(record), *_plan_sentence(record), *carried)


def _field_sentence(record: Record) -> Message:
    """Return the answer about any number of models: the best, or those that the best cannot be told from."""
    best, *further = ranking.sound(record)
    base = {"metric": headline_name(record), "condition": ranking.condition(record)}
    leader = ranking.scores(record, [best])
    if not further:
        return message("verdict.alone", scores=leader, **base)
    tests = [pair_test(record, model, best) for model in further]
    if ranking.is_one_file(record) and not all(test.identical for test in tests):
        return _field_sentence_on_items(record, best, further)
    near = [model for model, test in zip(further, tests, strict=True) if test.word != "worse"]
    if not near:
        return message("verdict.field.best", best=leader, next=ranking.scores(record, further[:1]), **base)
    return message("verdict.field.not told apart", scores=ranking.scores(record, [best, *near]), **base)


def _field_sentence_on_items(record: Record, best: Model, further: Sequence[Model]) -> Message:
    """Return the answer about systems of one file each: the best, and those that the items do not tell from it."""
    near = [model for model in further if ranking.standing_on_items(pair_test(record, model, best)) != "behind"]
    values: dict[str, TextLike] = {"model": display_name(record, best), "metric": headline_name(record)}
    values["scores"] = ranking.scores(record, [best, *further])
    if not near:
        return message("verdict.file.field.best", **values)
    names = ranking.enumeration([display_name(record, model) for model in near])
    return message("verdict.file.field.close", names=names, **values)


def _attention_sentence(record: Record) -> list[Message]:
    """Return what attention is worth: the second of the pair beside the best model without attention."""
    pair = ranking.task_pair(record)
    without = [model for model in ranking.sound(record) if not model.attention]
    if not without or not pair or not pair[1].attention:
        return []
    test = pair_test(record, pair[1], without[0])
    kind = record.headline.kind
    values: dict[str, str | Message] = {"scores": ranking.scores_of(record, pair[1], without[0])}
    if test.word == "better":
        values |= {"difference": gap_text(test, kind), "unit": ranking.difference_unit(record)}
    return [message(f"attention.{test.word}", **values)]


def _plan_sentence(record: Record) -> list[Message]:
    plan = record.plan
    if plan is None or plan.seal is None:
        return []
    draw = record.settings.get("test_draw")
    values = {"created": plan.seal.created[:16].replace("T", "\u00a0"), "sha": plan.seal.sha256[:12]}
    runs = len({entry.run for entry in plan.entries})
    fresh = [message("plan.draw", draw=draw)] if isinstance(draw, int) else []
    return [message("plan", **values, count=len(plan.entries), runs=runs), *fresh]


def origin(record: Record) -> tuple[str, ...]:
    """Return where the record comes from: task, locales or languages that are known, day, commit."""
    locales = record.settings.get("locales")
    languages = [record.settings.get(f"{side}_language") for side in ("source", "target")]
    data = ", ".join(map(str, locales)) if isinstance(locales, list) else ""
    if all(languages):
        sides = ["" if language == NO_LANGUAGE else str(language) for language in languages]
        data = " → ".join(sides).strip() if any(sides) else ""
    commit = str(record.environment.get("commit") or "")[:7]
    return tuple(part for part in (record.task, data, record.created[:10], commit) if part)


def standing(record: Record, model: Model) -> Message:
    """Return how a model stands to the one with the best mean (or score, where it ran once), in two words."""
    best = best_of(record)
    if quality(record, model).mean == quality(record, best).mean:
        return message("standing.highest_run" if ranking.is_single(record, model) else "standing.highest")
    if not ranking.comparable(record, model, best):
        return message("standing.stopped")
    return standing_word(record, pair_test(record, model, best))


def standing_word(record: Record, test: PairTest) -> Message:
    """Return the word of a test, from its first model's side."""
    if test.identical:
        return message("standing.identical outputs")
    models = [model for model in record.models if model.name in (test.first, test.second)]
    if ranking.is_one_file(record):
        return message(f"standing.{ranking.standing_on_items(test)}")
    if ranking.is_single(record, *models):
        return message("standing.one" if ranking.is_single(record) else "standing.file")
    return message(f"standing.{test.word}")


def best_of(record: Record) -> Model:
    """Return the model with the best mean of those that may be compared, or of all where none may."""
    return (ranking.ranked(record) if ranking.obstacles(record) else ranking.sound(record))[0]


def _ceiling_sentence(record: Record) -> list[Message]:
    """State the upper bound on the failure rate of models none of whose trainings failed."""
    counts = {model.name: len(model.seeds) for model in record.models if len(model.seeds) > 1 and not model.failed}
    counts = counts if record.trained else {}
    if not counts:
        return []
    fewest = min(counts.values())
    percent = amount(100 * most_failing(fewest))
    return [message("verdict.ceiling", names=", ".join(counts), count=fewest, percent=percent)]


def _seed_sentence(record: Record) -> Message:
    """Return how many runs and test items there are, and what the intervals cover."""
    items = ranking.in_task_words(record, "items", count=f"{record.test_items:,}")
    if not record.trained:
        files = ", ".join(f"{model.name} {len(model.seeds)}" for model in record.models)
        over = message("over.items" if ranking.is_single(record) else "over.seeds")
        return message("verdict.files", files=files, items=f"{record.test_items:,}", over=over)
    if ranking.is_single(record):
        return message("verdict.seed", seed=", ".join(map(str, record.seeds)), items=items)
    key = "verdict.seeds.items" if record.interval and record.interval.over == "items" else "verdict.seeds"
    return message(key, count=len(record.models[0].seeds), items=items)


# the badges


def badges(record: Record) -> tuple[Badge, ...]:
    """Return the facts that decide how far the verdict can be believed."""
    fewest = min(len(model.seeds) for model in record.models)
    if not record.trained:
        most = max(len(model.seeds) for model in record.models)
        runs = message("badge.seeds", count=fewest) if most > 1 else message("badge.seed")
        if fewest < most:
            runs = message("badge.files.range", low=fewest, high=most)
        left_out = record.settings.get("left_out")
        dropped = [Badge("warn", message("badge.left_out", count=str(left_out)))] if left_out else []
        elsewhere = Badge("note", message("badge.elsewhere"))
        return Badge("ok" if fewest >= MIN_SEEDS else "warn", runs), *dropped, elsewhere
    gates = [gate.passed for gate in record.gates if not gate.note]
    passed = sum(gates)
    total = len(gates)
    facts = [Badge("ok", message("badge.gates.all", total=total))]
    if passed < total:
        facts = [Badge("bad", message("badge.gates", passed=passed, total=total))]
    if len(record.models) > 1:
        near = ranking.matched_within(record) <= record.matching.limit
        facts.append(Badge("ok" if near else "warn", ranking.matched_statement(record)))
    seeds = message("badge.seeds", count=fewest) if fewest > 1 else message("badge.seed")
    facts.append(Badge("ok" if fewest >= MIN_SEEDS else "note", seeds))
    if record.target is None and (counts := ranking.failed_counts(record)):
        facts.append(Badge("warn", message("badge.failed", counts=", ".join(counts))))
    facts.append(tuning_badge(record))
    facts += _changed_badges(record)
    facts += _plan_badges(record)
    if record.settings.get("quick"):
        facts.append(Badge("warn", message("badge.quick" if record.target is None else "badge.rough")))
    return tuple(facts)


def _changed_badges(record: Record) -> list[Badge]:
    """Return in what models are not as their presets: what all have in common, then what one of them has alone."""
    shared = set.intersection(*(set(model.changes.items()) for model in record.models))
    facts = []
    if shared:
        what = ", ".join(f"{name} {value}" for name, value in sorted(shared))
        facts.append(Badge("note", message("badge.changed.all", what=what)))
    for model in record.models:
        alone = [f"{name} {value}" for name, value in model.changes.items() if (name, value) not in shared]
        if alone:
            facts.append(Badge("warn", message("badge.changed", model=model.name, what=", ".join(alone))))
        if model.preset not in ("", model.name):
            facts.append(Badge("note", message("badge.preset", model=model.name, preset=model.preset)))
    return facts


def _plan_badges(record: Record) -> list[Badge]:
    """Return what is known of the plan: whether it was kept, and how many of its seeds were run."""
    plan = record.plan
    if plan is None:
        facts = [Badge("note", message("badge.noplan"))]
    elif plan.pilot:
        facts = [Badge("warn", message("badge.pilot"))]
    elif plan.departures:
        facts = [Badge("warn", message("badge.departed"))]
    else:
        facts = [Badge("note", message("badge.replay")) if plan.replays else Badge("ok", message("badge.planned"))]
    if plan and plan.seeds is not None and plan.planned_seeds and plan.seeds < plan.planned_seeds:
        facts.append(Badge("warn", message("badge.seeds.planned", count=plan.seeds, planned=plan.planned_seeds)))
    if plan and plan.machines:
        facts.append(Badge("warn", message("badge.machines", what="; ".join(plan.machines))))
    return facts


def tuning_badge(record: Record) -> Badge:
    """Return which settings of the models were tuned, and how often."""
    if record.tuning is None:
        return Badge("note", message(f"badge.{ranking.how_tuned(record)}"))
    if record.target is not None:
        names: TextLike = ", ".join(dict.fromkeys(chain.from_iterable(record.tuning.space.values())))
        if record.tuning.trials == 1:
            return Badge("note", message("badge.drawn", names=names))
        names = message("badge.lr") if names == "lr" else names
        key = "badge.tuned.target" if record.tuning.is_common else "badge.tuned.target.apart"
        return Badge("ok", message(key, names=names, count=record.tuning.trials))
    if not record.tuning.is_common:
        return Badge("warn", message("badge.spaces"))
    names = ", ".join(next(iter(record.tuning.space.values())))
    count = record.tuning.tunings
    key = "badge.tuned" if count > 1 else "badge.tuned.once"
    return Badge("ok" if count > 1 else "note", message(key, names=names, count=count))
