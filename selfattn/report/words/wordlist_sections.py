"""The words of the sections after the first screen that give reasons and costs, English and Korean side by side."""

from __future__ import annotations

SECTIONS: dict[str, tuple[str, str]] = {
    # statistics
    "head.statistics": ("Statistics", "통계"),
    "statistics.metric": ("All pairs: {metric}", "모든 모델 쌍: {metric}"),
    "pairs.first": ("model", "모델"),
    "pairs.second": ("beside", "비교 대상"),
    "pairs.difference.share": ("difference, percentage points [interval]", "차이, 퍼센트포인트 [구간]"),
    "pairs.difference.points": ("difference, points [interval]", "차이, 점 [구간]"),
    "pairs.p": ("p", "p"),
    "pairs.holm": ("p, Holm", "p, 홀름 보정"),
    "pairs.word": ("the first is", "판정"),
    "word.better": ("better", "더 나음"),
    "word.worse": ("worse", "더 못함"),
    "word.same": ("no difference seen", "차이 안 보임"),
    "word.few": ("too few seeds to tell", "시드가 적어 판단 불가"),
    "statistics.method": (
        "Every pair is tested on both sides; p is corrected for all {count} pairs of the metric (Holm). {intervals}",
        "모든 쌍을 양측 검정하고, p는 이 지표의 모든 쌍 {count}개에 대해 홀름 방법으로 보정합니다. {intervals}",
    ),
    "statistics.method.alone": (
        "The pair is tested on both sides. {intervals}",
        "두 모델을 양측 검정합니다. {intervals}",
    ),
    "statistics.none": (
        "The record holds no tests of pairs: two models are said to differ where their intervals do not touch, which "
        "is stricter than a test of the difference. {intervals}",
        "기록에 모델 쌍의 검정이 없습니다. 두 구간이 겹치지 않으면 차이가 있다고 하며, 이는 차이를 직접 "
        "검정하는 것보다 엄격합니다. {intervals}",
    ),
    "statistics.signature": ("Metric signature:", "지표 서명:"),
    "statistics.link": ("What intervals and words mean", "구간과 판정의 뜻"),
    "statistics.mean.interval": (
        "An interval covers the true value in 95 of 100 such comparisons. That two intervals overlap does not mean "
        "that there is no difference: look at the interval of the difference.",
        "이런 비교를 100번 하면 95번은 구간이 참값을 포함합니다. 두 구간이 겹친다고 차이가 없다는 뜻은 아니므로 "
        "차이의 구간을 보아야 합니다.",
    ),
    "statistics.mean.few": (
        "Too few seeds to tell: fewer than three seeds, or runs that lie wholly apart without the test being passed.",
        "시드가 적어 판단 불가: 시드가 세 개 미만이거나, 결과가 완전히 갈리지만 검정은 통과하지 못한 경우입니다.",
    ),
    "statistics.mean.better": (
        "Better or worse: the corrected p is below 0.05 and the interval of the difference leaves out 0.",
        "더 나음·더 못함: 보정한 p가 0.05보다 작고 차이의 구간이 0을 포함하지 않습니다.",
    ),
    "statistics.mean.same": (
        "No difference seen: anything else. It is no proof of equality; the interval says what may have been missed.",
        "차이 안 보임: 그 밖의 모든 경우입니다. 같다는 증거는 아니며, 놓쳤을 수 있는 차이는 구간에 나타납니다.",
    ),
    # gates
    "head.gates": ("Sanity gates", "기본 점검"),
    "gates.text": (
        "What must be true before a verdict means anything. One that does not pass makes the models not comparable.",
        "판정이 의미를 가지려면 먼저 성립해야 하는 조건입니다. 하나라도 통과하지 못하면 비교할 수 없습니다.",
    ),
    "gates.none": (
        "–, not measured: the record holds no sanity gates.",
        "–, 측정 안 함: 기록에 기본 점검 결과가 없습니다.",
    ),
    "gates.gate": ("gate", "점검 항목"),
    "gates.whose": ("model", "모델"),
    "gates.all": ("all", "전체"),
    "gates.seed": ("{model}, seed {seed}", "{model}, 시드 {seed}"),
    "gates.found": ("result", "결과"),
    "gates.passed": ("✓ passed", "✓ 통과"),
    "gates.failed": ("✗ not passed", "✗ 통과 못 함"),
    "gates.value": ("value", "값"),
    "gates.limit": ("limit", "한도"),
    "gates.reason": ("finding", "확인 내용"),
    "gate": ("{name}", "{name}"),
    "gate.causal": ("causal", "인과 마스크"),
    "gate.padding": ("padding", "패딩 불변"),
    "gate.batch": ("batch", "배치 불변"),
    "gate.forward = step": ("forward = step", "일괄 계산 = 단계별 계산"),
    "gate.overfitting": ("overfitting", "소량 과적합"),
    "gate.endings": ("endings", "출력 종료"),
    "gate.repetition": ("repetition", "반복"),
    "gate.variety": ("variety", "출력 다양성"),
    "gate.published floor": ("published floor", "발표된 수치의 하한"),
    "gate.same data": ("same data", "같은 데이터"),
    "gate.matched budgets": ("matched budgets", "예산 일치"),
    "gate.overlap": ("overlap", "학습·시험 데이터 겹침"),
    # fairness
    "head.fairness": ("Fairness", "공정성"),
    "fairness.matching": ("Size", "크기"),
    "fairness.statement": ("Matching: {statement}.", "크기 맞춤: {statement}."),
    "fairness.target": ("Matching: {statement}; budget {target}.", "크기 맞춤: {statement}, 예산 {target}."),
    "settings.shared": ("The same for all", "공통 설정"),
    "settings.differ": ("Every setting that differs", "모델마다 다른 모든 설정"),
    "settings.text": (
        "“–” means that the model has no such setting.",
        "“–”는 그 모델에 없는 설정이라는 뜻입니다.",
    ),
    "col.setting": ("setting", "설정"),
    "fairness.models": ("Models", "모델"),
    "tuning.head": ("Tuning", "설정 탐색"),
    "tuning.none": (
        "Settings were given, not tuned: another choice for either model might change the result.",
        "설정은 주어진 값이며 탐색하지 않았습니다. 다른 설정에서는 결과가 달라질 수 있습니다.",
    ),
    "tuning.text": (
        "All trials were judged on validation items only. Searched space: {space}.",
        "모든 시도는 검증 항목으로만 평가했습니다. 탐색 공간: {space}.",
    ),
    "tuning.trials": ("trials", "시도 수"),
    "tuning.seconds": ("seconds", "초"),
    "tuning.valid": ("validation", "검증 결과"),
    "tuning.chosen": ("chosen", "선택한 설정"),
    "tuning.recipe": ("the recipe as it is", "기본 설정 그대로"),
    "tuning.is_chosen": ("{value} (chosen)", "{value} (선택)"),
    "tuning.all": ("All trials of {model}", "{model} 모델의 모든 시도"),
    # cost
    "head.cost": ("Cost", "비용"),
    "cost.time": ("Time", "시간"),
    "cost.size": ("Operations, memory, disk", "연산량, 메모리, 디스크"),
    "cost.train_seconds": ("training, s", "학습, 초"),
    "cost.tokens_per_second": ("training, tokens/s", "학습, 토큰/초"),
    "cost.predict_ms": ("one input alone, ms", "입력 하나, ms"),
    "cost.predict_batch_ms": ("in a batch, ms an input", "배치, 입력당 ms"),
    "cost.training_flops": ("training, FLOP", "학습, FLOP"),
    "cost.training_flops_per_token": ("training, FLOP/token", "학습, FLOP/토큰"),
    "cost.decoding_flops_per_token": ("decoding, FLOP/token", "디코딩, FLOP/토큰"),
    "cost.peak_share": ("of the machine's peak", "최대 성능 대비"),
    "cost.training_bytes": ("memory of a training step", "학습 스텝 메모리"),
    "cost.weights_bytes": ("weights on disk", "디스크의 가중치"),
    "cost.run_bytes": ("whole run on disk", "디스크의 실행 전체"),
    "cost.note": (
        "Means over seeds, range in brackets; one input alone is the median. Times hold for the machine named below.",
        "시드 평균이며 괄호는 범위입니다. 입력 하나의 시간은 중앙값입니다. "
        "모든 시간은 아래에 적은 컴퓨터에서 쟀습니다.",
    ),
    "cost.size.note": (
        "A multiplication and an addition count as two operations. The peak is what the machine reached in large "
        "matrix products. Memory is the largest of one step, beyond weights and optimiser state.",
        "곱셈과 덧셈을 각각 하나의 연산으로 셉니다. 최대 성능은 이 컴퓨터에서 큰 행렬곱으로 잰 값입니다. "
        "메모리는 가중치와 최적화 상태를 뺀 한 스텝의 최댓값입니다.",
    ),
    "cost.decoding": ("Decoding", "디코딩"),
    "cost.decoding.note": (
        "Milliseconds until the first token + milliseconds for each further one, for the whole batch.",
        "첫 토큰까지의 ms + 이후 토큰마다의 ms(배치 전체)입니다.",
    ),
    "decoding.method": ("method", "방법"),
    "decoding.batch": ("batch", "배치"),
    "decoding.length": ("tokens", "토큰 수"),
    # alignment
    "head.alignment": ("Alignment against gold", "정답 정렬과의 비교"),
    "alignment.text": (
        "Where attention looks while a token is written, held against where the token comes from. The best head was "
        "chosen on validation items; figures are of test items and the first seed.",
        "토큰을 쓸 때 어텐션이 보는 곳을 그 토큰의 실제 출처와 견줍니다. 최선의 헤드는 검증 항목으로 골랐고, "
        "수치는 시험 항목과 첫 시드의 것입니다.",
    ),
    "alignment.note": (
        "Gold share: attention on the right source tokens, higher is better. AER: alignment error rate, lower is "
        "better. Next step: the same one step later, when the token is read. Entropy in nats, in brackets as a share "
        "of the largest possible. Diagonal: each target token linked to the source token at the same place of its "
        "sentence; attention that is not better says no more than word order alone would.",
        "정답 비중: 올바른 입력 토큰에 둔 어텐션으로 높을수록 좋습니다. AER: 정렬 오류율로 낮을수록 좋습니다. "
        "다음 단계: 토큰을 읽는 한 단계 뒤의 값입니다. 엔트로피는 내트 단위이고 괄호는 최댓값 대비 비율입니다. "
        "대각선: 각 출력 토큰을 문장에서 같은 위치의 입력 토큰에 이은 것으로, 이보다 낫지 않은 어텐션은 어순만 "
        "아는 것보다 나을 것이 없습니다.",
    ),
    "alignment.which": ("heads", "헤드"),
    "alignment.head": ("head", "헤드"),
    "alignment.only": ("the only head", "하나뿐인 헤드"),
    "alignment.best": ("best: layer {layer}, head {head}", "최선: {layer}층 헤드 {head}"),
    "alignment.mean": ("mean of layer {layer}", "{layer}층 평균"),
    "alignment.diagonal": ("diagonal, no model", "대각선(모델 없음)"),
    "alignment.one": ("layer {layer}, head {head}", "{layer}층 헤드 {head}"),
    "alignment.gold_share": ("gold share", "정답 비중"),
    "alignment.aer": ("AER", "AER"),
    "alignment.shifted_gold_share": ("gold share, next step", "정답 비중, 다음 단계"),
    "alignment.shifted_aer": ("AER, next step", "AER, 다음 단계"),
    "alignment.entropy": ("entropy", "엔트로피"),
    "alignment.eos_share": ("on the end of sentence", "문장 끝 비중"),
    "alignment.all": ("All heads of {model}", "{model} 모델의 모든 헤드"),
}
