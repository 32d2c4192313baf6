"""The words of the first screen: question, verdict, obstacles and badges, English and Korean side by side."""

from __future__ import annotations

VERDICT: dict[str, tuple[str, str]] = {
    # the question
    "question.dates.pair.same": (
        "Does a Transformer convert dates better than an RNN with attention of the same size?",
        "크기가 같다면 Transformer가 어텐션 RNN보다 날짜를 더 잘 변환할까요?",
    ),
    "question.dates.pair": (
        "Does a Transformer convert dates better than an RNN with attention?",
        "Transformer가 어텐션 RNN보다 날짜를 더 잘 변환할까요?",
    ),
    "question.dates.pair.any": (
        "Does {name0} convert dates better than {name1}?",
        "날짜 변환에서 {name0} 모델이 {name1} 모델보다 나을까요?",
    ),
    "question.dates.many": (
        "Which of these {count} models converts dates best?",
        "{count}개 모델 가운데 무엇이 날짜를 가장 잘 변환할까요?",
    ),
    "question.dates.one": ("How well does {name0} convert dates?", "{name0} 모델은 날짜를 얼마나 잘 변환할까요?"),
    "question.translation.pair.same": (
        "Does a Transformer translate better than an RNN with attention of the same size?",
        "크기가 같다면 Transformer가 어텐션 RNN보다 더 잘 번역할까요?",
    ),
    "question.translation.pair": (
        "Does a Transformer translate better than an RNN with attention?",
        "Transformer가 어텐션 RNN보다 더 잘 번역할까요?",
    ),
    "question.translation.pair.any": (
        "Does {name0} translate better than {name1}?",
        "번역에서 {name0} 모델이 {name1} 모델보다 나을까요?",
    ),
    "question.translation.many": (
        "Which of these {count} models translates best?",
        "{count}개 모델 가운데 무엇이 가장 잘 번역할까요?",
    ),
    "question.translation.one": ("How well does {name0} translate?", "{name0} 모델은 얼마나 잘 번역할까요?"),
    "question.pair.same": (
        "Does a Transformer do better at “{task}” than an RNN with attention of the same size?",
        "크기가 같다면 “{task}” 과제에서 Transformer가 어텐션 RNN보다 나을까요?",
    ),
    "question.pair": (
        "Does a Transformer do better at “{task}” than an RNN with attention?",
        "“{task}” 과제에서 Transformer가 어텐션 RNN보다 나을까요?",
    ),
    "question.pair.any": (
        "Does {name0} do better at “{task}” than {name1}?",
        "“{task}” 과제에서 {name0} 모델이 {name1} 모델보다 나을까요?",
    ),
    "question.many": (
        "Which of these {count} models does best at “{task}”?",
        "{count}개 모델 가운데 무엇이 “{task}” 과제를 가장 잘할까요?",
    ),
    "question.one": ("How well does {name0} do at “{task}”?", "{name0} 모델은 “{task}” 과제를 얼마나 잘할까요?"),
    # the verdict
    "items.dates": ("{count} unseen dates", "처음 보는 날짜 {count}개"),
    "items.translation": ("{count} unseen texts", "처음 보는 글 {count}개"),
    "items": ("{count} unseen test items", "처음 보는 시험 항목 {count}개"),
    "verdict.same": (
        "No difference seen: {first} {a} and {second} {b}, {metric} on {items}.",
        "차이가 보이지 않습니다. {items}의 {metric}: {first} {a}, {second} {b}.",
    ),
    "verdict.few": (
        "Too few seeds to tell: {first} {a} and {second} {b}, {metric} on {items}.",
        "시드가 너무 적어 판단할 수 없습니다. {items}의 {metric}: {first} {a}, {second} {b}.",
    ),
    "verdict.better": (
        "Yes, {first} is better: {a} against {b} for {second}, {metric} on {items}.",
        "네, {first} 쪽이 낫습니다. {items}의 {metric}: {first} {a}, {second} {b}.",
    ),
    "verdict.better.one": (
        "In this one run, yes: {first} {a}, {second} {b}, {metric} on {items}.",
        "이번 한 번의 학습에서는 그렇습니다. {items}의 {metric}: {first} {a}, {second} {b}.",
    ),
    "verdict.better.these": (
        "With these seeds, yes: {first} {a}, {second} {b}, {metric} on {items}.",
        "이 시드들로는 그렇습니다. {items}의 {metric}: {first} {a}, {second} {b}.",
    ),
    "verdict.worse": (
        "No, {second} is better: {b} against {a} for {first}, {metric} on {items}.",
        "아니요, {second} 쪽이 낫습니다. {items}의 {metric}: {second} {b}, {first} {a}.",
    ),
    "verdict.worse.one": (
        "In this one run, no: {second} {b}, {first} {a}, {metric} on {items}.",
        "이번 한 번의 학습에서는 아닙니다. {items}의 {metric}: {second} {b}, {first} {a}.",
    ),
    "verdict.worse.these": (
        "With these seeds, no: {second} {b}, {first} {a}, {metric} on {items}.",
        "이 시드들로는 아닙니다. {items}의 {metric}: {second} {b}, {first} {a}.",
    ),
    "verdict.unknown": (
        "Too little to tell, for an interval or a test is missing: {first} {a} and {second} {b}, {metric} on {items}.",
        "구간이나 검정이 없어 판단할 수 없습니다. {items}의 {metric}: {first} {a}, {second} {b}.",
    ),
    "verdict.missing": (
        "Nothing can be said: {metric} on {items} was not measured for {names}.",
        "판단할 수 없습니다. {items}의 {metric} 값을 재지 않은 모델: {names}.",
    ),
    "verdict.alone": (
        "{scores}, {metric} on {items}; there is nothing to compare it with.",
        "{items}의 {metric}: {scores}. 비교할 다른 모델은 없습니다.",
    ),
    "verdict.field.best": (
        "{best} is best in {metric} on {items}; the next is {next}.",
        "{best} 모델이 가장 낫고, 다음은 {next}입니다({items}의 {metric}).",
    ),
    "verdict.field.best.one": (
        "In this one run {best} is best in {metric} on {items}; the next is {next}.",
        "이번 한 번의 학습에서는 {best} 모델이 가장 낫고, 다음은 {next}입니다({items}의 {metric}).",
    ),
    "verdict.field.best.these": (
        "With these seeds {best} is best in {metric} on {items}; the next is {next}.",
        "이 시드들로는 {best} 모델이 가장 낫고, 다음은 {next}입니다({items}의 {metric}).",
    ),
    "verdict.field.same": (
        "No difference seen at the top: {scores}, {metric} on {items}.",
        "상위 모델 사이에 차이가 보이지 않습니다. {items}의 {metric}: {scores}.",
    ),
    "verdict.field.few": (
        "Too few seeds to tell which is best: {scores}, {metric} on {items}.",
        "시드가 너무 적어 무엇이 가장 나은지 판단할 수 없습니다. {items}의 {metric}: {scores}.",
    ),
    "verdict.field.unknown": (
        "Too little to tell, for intervals or tests are missing: {scores}, {metric} on {items}.",
        "구간이나 검정이 없어 판단할 수 없습니다. {items}의 {metric}: {scores}.",
    ),
    "verdict.test": (
        "{first} less {second}: {difference} {unit}, p {p} after Holm's correction for {pairs} pairs.",
        "{first} − {second}: {difference} {unit}, p {p}(모델 쌍 {pairs}개에 대한 홀름 보정).",
    ),
    "verdict.test.alone": (
        "{first} less {second}: {difference} {unit}, p {p}.",
        "{first} − {second}: {difference} {unit}, p {p}.",
    ),
    "difference.share": ("percentage points", "퍼센트포인트"),
    "difference.points": ("points", "점"),
    "verdict.stopped": ("Not comparable: {reason}", "비교할 수 없습니다. {reason}"),
    "verdict.aside": ("Set aside, not comparable: {reason}", "비교할 수 없어 제외합니다. {reason}"),
    "verdict.stopped.more": ("{count} more reasons stand below.", "이유 {count}가지가 아래에 더 있습니다."),
    "verdict.stopped.figures": (
        "The bare figures, on which no comparison can rest: {scores}, {metric} on {items}.",
        "참고용 수치이며 비교의 근거가 될 수 없습니다. {items}의 {metric}: {scores}.",
    ),
    "obstacle.gate": (
        "{model} did not pass the sanity gate “{gate}”: {reason}.",
        "{model} 모델이 점검 “{gate}” 항목을 통과하지 못했습니다: {reason}.",
    ),
    "obstacle.gate.all": (
        "the sanity gate “{gate}” was not passed: {reason}.",
        "점검 “{gate}” 항목을 통과하지 못했습니다: {reason}.",
    ),
    "obstacle.apart": (
        "the models were to have equal {budget}, but lie {percent} % apart (limit {limit} %).",
        "{budget}: 같아야 하지만 {percent} % 차이가 납니다(한도 {limit} %).",
    ),
    "verdict.time": (
        "Training took {a} s for {first} and {b} s for {second}, {ratio} times as long on this machine "
        "(range over seeds in brackets).",
        "이 컴퓨터에서 학습 시간은 {first} {a}초, {second} {b}초로 {ratio}배입니다(괄호는 시드별 범위).",
    ),
    "verdict.time.one": (
        "Training took {a} s for {first} and {b} s for {second}, {ratio} times as long on this machine (one run each).",
        "이 컴퓨터에서 학습 시간은 {first} {a}초, {second} {b}초로 {ratio}배입니다(각 한 번 측정).",
    ),
    "verdict.baseline.worse": (
        "Without attention the RNN does worse than {other}: {scores}.",
        "어텐션이 없는 RNN은 {other} 모델보다 성적이 낮습니다: {scores}.",
    ),
    "verdict.baseline.same": (
        "No difference seen between {other} and the RNN without attention: {scores}.",
        "{other} 모델과 어텐션이 없는 RNN 사이에 차이가 보이지 않습니다: {scores}.",
    ),
    "verdict.baseline.better": (
        "Without attention the RNN does better than {other}: {scores}.",
        "어텐션이 없는 RNN이 {other} 모델보다 성적이 높습니다: {scores}.",
    ),
    "verdict.baseline.few": (
        "Too few seeds to tell {other} from the RNN without attention: {scores}.",
        "시드가 너무 적어 {other} 모델과 어텐션이 없는 RNN을 견주어 판단할 수 없습니다: {scores}.",
    ),
    "verdict.baseline.unknown": (
        "The RNN without attention, which cannot be judged beside {other}: {scores}.",
        "어텐션이 없는 RNN은 {other} 모델과 견주어 판단할 수 없습니다: {scores}.",
    ),
    "verdict.baseline.mixed": ("RNNs without attention: {scores}.", "어텐션이 없는 RNN: {scores}."),
    "verdict.seed": (
        "One seed ({seed}): the intervals are about the choice of test items. "
        "Nothing is said about the spread over seeds.",
        "시드는 하나({seed})입니다. 구간은 시험 항목의 선택에 따른 불확실성만 나타내며, "
        "시드에 따른 차이는 알 수 없습니다.",
    ),
    "verdict.seeds": ("{count} seeds for each model.", "모델마다 시드 {count}개로 학습했습니다."),
    "verdict.seeds.items": (
        "{count} seeds for each model; the intervals are about the choice of test items, "
        "not about the spread over seeds.",
        "모델마다 시드 {count}개로 학습했습니다. 구간은 시험 항목의 선택에 따른 불확실성만 나타내며, "
        "시드에 따른 차이는 들어 있지 않습니다.",
    ),
    "verdict.seeds.both": (
        "{count} seeds for each model; the intervals are about both the seeds and the choice of test items.",
        "모델마다 시드 {count}개로 학습했습니다. 구간은 시드와 시험 항목의 선택에 따른 불확실성을 함께 나타냅니다.",
    ),
    # badges
    "budget.none": ("parameters outside embeddings", "임베딩 제외 매개변수 수"),
    "budget.parameters": ("parameters outside embeddings", "임베딩 제외 매개변수 수"),
    "budget.flops": ("training FLOPs a token", "토큰당 학습 FLOP 수"),
    "budget.seconds": ("time of a training step", "학습 스텝 시간"),
    "badge.gates": ("{passed} of {asked} sanity gates passed", "점검 {asked}개 중 {passed}개 통과"),
    "badge.gates.none": ("no sanity gates asked", "점검하지 않음"),
    "badge.matched": ("{budget} matched within {percent} %", "{budget} 차이 {percent} % 이내"),
    "badge.unmatched": ("{budget} differ by up to {percent} %", "{budget} 차이 최대 {percent} %"),
    "badge.unmatched.asked": (
        "{budget} differ by up to {percent} %, as asked for",
        "{budget} 차이 최대 {percent} %, 요청에 따라 허용",
    ),
    "badge.seed": ("one seed", "시드 1개"),
    "badge.seeds": ("{count} seeds", "시드 {count}개"),
    "badge.untuned": ("settings given, not tuned", "설정은 주어진 값, 탐색하지 않음"),
    "badge.tuned": ("tuned equally: {count} trials for each model", "동일 조건 설정 탐색: 모델마다 {count}회"),
    "badge.tuned.unequal": (
        "tuned unequally: {low} to {high} trials a model",
        "불균등 설정 탐색: 모델에 따라 {low}~{high}회",
    ),
    "badge.quick": ("quick run: less training, fewer test items", "빠른 실행: 학습과 시험 항목을 줄임"),
}
