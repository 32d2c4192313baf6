"""The words of the report: one entry a message, English and Korean side by side."""

from __future__ import annotations

from selfattn.report.words.wordlist_explorer import EXPLORER
from selfattn.report.words.wordlist_sections import SECTIONS
from selfattn.report.words.wordlist_verdict import VERDICT

WORDS: dict[str, tuple[str, str]] = {
    **EXPLORER,
    **VERDICT,
    **SECTIONS,
    # the table of the first screen
    "head.summary": ("Results", "결과"),
    "col.model": ("model", "모델"),
    "unit.share": ("%", "%"),
    "unit.points": ("points", "점"),
    "col.interval": ("{unit}, mean [interval]", "{unit}, 평균 [구간]"),
    "col.strip": ("{metric} with its interval, drawn", "{metric} 및 구간 그림"),
    "col.quality": ("{metric}, {unit}", "{metric}, {unit}"),
    "col.standing": ("vs highest", "최고 대비"),
    "col.parameters": ("parameters", "매개변수"),
    "col.non_embedding": ("without embeddings", "임베딩 제외"),
    "col.train": ("training", "학습"),
    "col.flops": ("training", "학습"),
    "col.predict": ("one input", "입력 하나"),
    "unit.s": ("s", "초"),
    "unit.flops": ("FLOP/token", "FLOP/토큰"),
    "short.train": ("training, s", "학습, 초"),
    "short.flops": ("FLOP/token", "FLOP/토큰"),
    "short.predict": ("one input, ms", "입력 하나, ms"),
    "standing.highest": ("highest mean", "평균 최고"),
    "standing.better": ("better", "더 높음"),
    "standing.worse": ("worse", "더 낮음"),
    "standing.same": ("no difference seen", "차이 안 보임"),
    "standing.few": ("too few seeds to tell", "시드 부족"),
    "standing.stopped": ("not comparable", "비교 불가"),
    "standing.unknown": ("no interval", "구간 없음"),
    "standing.unmeasured": ("not measured", "측정 안 함"),
    "note.interval": ("Intervals: {level} % {over}; {method}.", "구간: {level} %({over}), {method}."),
    "over.items": ("over test items", "시험 항목 기준"),
    "over.seeds": ("over seeds and test items", "시드와 시험 항목 기준"),
    "note.interval.none": (
        "Intervals as the record gives them; their level and method are not recorded.",
        "구간은 기록에 있는 그대로이며, 수준과 방법은 기록되지 않았습니다.",
    ),
    "note.nines": (
        "On the axis every equal step to the right means ten times fewer errors.",
        "가로축에서 같은 간격만큼 오른쪽으로 갈수록 오류가 10분의 1로 줄어듭니다.",
    ),
    "note.standing": (
        "“Worse” means that the intervals do not touch; “no difference seen” that they do.",
        "“더 낮음”은 두 구간이 겹치지 않는다는 뜻이고, “차이 안 보임”은 겹친다는 뜻입니다.",
    ),
    "note.standing.tests": (
        "“Worse” and “better” follow from a test of the difference, p after Holm's correction; see Statistics.",
        "“더 낮음”과 “더 높음”은 차이에 대한 검정 결과이며, p는 홀름 보정을 거친 값입니다. 통계 절을 보세요.",
    ),
    "gap.models": ("{names}", "{names}"),
    "gap.all": ("All models", "모든 모델"),
    "gap": ("{models}, {what}: – ({reason}).", "{models}, {what}: – ({reason})."),
    "reason.none": ("the record holds no figure", "기록에 값이 없음"),
    "reason.given": ("{text}", "{text}"),
    "what.training_flops_per_token": ("FLOPs a token", "토큰당 FLOP 수"),
    "what.train_seconds": ("training time", "학습 시간"),
    "what.tokens_per_second": ("training speed", "학습 속도"),
    "what.predict_ms": ("time for one input", "입력 하나의 예측 시간"),
    "what.predict_batch_ms": ("time for an input in a batch", "배치 예측 시간"),
    "what.curves": ("learning curve", "학습 곡선"),
    # learning
    "nav": ("Sections", "목차"),
    "head.learning": ("Learning", "학습 과정"),
    "learning.text": (
        "Measured on validation items during training: {metric}, on the axis of the table above. "
        "Lines are means over seeds.",
        "학습하는 동안 검증 항목에서 잰 {metric}입니다. 세로축은 위 표와 같고, 선은 시드 평균입니다.",
    ),
    "learning.band.t": (
        "Bands are 95 % intervals for the mean over seeds (Student's t).",
        "띠는 시드 평균의 95 % 구간(스튜던트 t)입니다.",
    ),
    "learning.band.range": (
        "Bands go from the lower to the higher of two seeds; two are too few for an interval.",
        "띠는 두 시드의 최솟값과 최댓값입니다. 시드 두 개로는 구간을 구할 수 없습니다.",
    ),
    "learning.band.both": (
        "Bands are 95 % intervals for the mean over seeds (Student's t), or, with two seeds, from the lower to the "
        "higher.",
        "띠는 시드 평균의 95 % 구간(스튜던트 t)이며, 시드가 두 개이면 최솟값과 최댓값입니다.",
    ),
    "learning.band.none": (
        "No bands are drawn for more than {count} models; the table below gives the range over seeds.",
        "모델이 {count}개를 넘으면 띠를 그리지 않습니다. 시드별 범위는 아래 표에 있습니다.",
    ),
    "learning.none": ("The record holds no learning curves.", "기록에 학습 곡선이 없습니다."),
    "learning.against": ("against", "가로축"),
    "learning.caption": ("{metric}, {scale}, against {unit}", "{metric}({scale})과 {unit}"),
    "against.step": ("steps", "스텝"),
    "against.tokens": ("tokens", "토큰"),
    "against.seconds": ("seconds", "초"),
    "against.flops": ("FLOPs", "FLOP"),
    "spent.step": ("optimiser steps", "최적화 스텝"),
    "spent.tokens": ("target tokens", "출력 토큰 수"),
    "spent.seconds": ("seconds of training on this machine", "이 컴퓨터에서의 학습 시간(초)"),
    "spent.flops": ("floating-point operations of training", "학습에 쓴 부동소수점 연산 수"),
    "reached.head": ("Budget needed", "도달에 든 비용"),
    "reached.level": (
        "What it took until validation first reached {level}.",
        "검증 결과가 처음 {level}에 도달할 때까지 든 비용입니다.",
    ),
    "reached.level.best": (
        "What it took until validation first reached {level}, that is 95 % of the best final result ({best}).",
        "검증 결과가 가장 좋은 최종 결과({best})의 95 %인 {level}에 처음 도달할 때까지 든 비용입니다.",
    ),
    "reached.epoch": ("epochs", "에폭"),
    "reached.step": ("steps", "스텝"),
    "reached.tokens": ("target tokens", "출력 토큰"),
    "reached.seconds": ("seconds", "초"),
    "reached.flops": ("FLOPs", "FLOP"),
    "reached.at": ("{text}", "{text}"),
    "reached.some": ("{text}, {count} of {total} seeds", "{text}, 시드 {total}개 중 {count}개"),
    "reached.not": ("not reached", "도달 못 함"),
    "reached.not.some": (
        "not reached ({count} of {total} seeds did)",
        "도달 못 함(시드 {total}개 중 {count}개만 도달)",
    ),
    "reached.unknown": ("–", "–"),
    "reached.note": (
        "Median over seeds, range in brackets; a seed that never got there counts as endless.",
        "시드의 중앙값이며 괄호는 범위입니다. 끝내 도달하지 못한 시드는 무한대로 셉니다.",
    ),
    # attention
    "head.attention": ("Attention", "어텐션"),
    "attention.text": (
        "Which source tokens each model looks at while it writes each target token.",
        "모델이 출력 토큰을 쓸 때마다 입력의 어느 토큰을 보는지 나타냅니다.",
    ),
    "attention.none": (
        "No maps for {names}: without attention there is nothing to show.",
        "{names}: 어텐션이 없어 보여 줄 어텐션 맵이 없습니다.",
    ),
    "attention.nothing": ("The record holds no attention maps.", "기록에 어텐션 맵이 없습니다."),
    "attention.note": (
        "The stronger the colour, the more weight; a row adds up to 1. ␣ is a space, ⏎ the end of the sequence. "
        "Outlines show the gold alignment, known by construction.",
        "색이 진할수록 가중치가 크고, 한 행의 합은 1입니다. ␣는 공백, ⏎는 끝을 뜻합니다. "
        "테두리는 데이터를 만들 때 알고 있는 정답 정렬입니다.",
    ),
    "attention.models": ("models shown", "표시할 모델"),
    "attention.still": (
        "One example, the best models, mean over the heads of the last layer. "
        "With JavaScript: all models, examples, layers and heads.",
        "예시 하나, 상위 모델, 마지막 층 헤드들의 평균입니다. "
        "JavaScript를 켜면 모든 모델과 예시, 층, 헤드를 볼 수 있습니다.",
    ),
    "attention.left_out": (
        "{shown} of {total} examples are in this file to keep it small; all are in results.json.",
        "파일 크기를 줄이려고 예시 {total}개 중 {shown}개만 담았습니다. 전체는 results.json에 있습니다.",
    ),
    # quality
    "head.buckets": ("Test items in parts", "시험 항목을 나누어 본 결과"),
    "buckets.text": (
        "The same test items, divided; few items give wide intervals. Models stand in the order of the first table.",
        "같은 시험 항목을 나누어 본 결과입니다. 항목이 적으면 구간이 넓습니다. 모델 순서는 첫 표와 같습니다.",
    ),
    "bucket": ("By {name}", "{name}"),
    "bucket.format": ("By format", "형식별"),
    "bucket.kind": ("By kind of phrase", "문구 종류별"),
    "bucket.length": ("By source length", "입력 길이별"),
    "bucket.field": ("By field", "필드별"),
    "bucket.years": ("By year", "연도별"),
    "bucket.unseen years": ("Years that training never showed", "학습에 없던 연도"),
    "bucket.unseen formats": ("Formats that training never showed", "학습에 없던 형식"),
    "bucket.few examples": ("Trained on few examples", "적은 예시로 학습한 결과"),
    "bucket.rare words": ("By the rarest word", "희귀 단어별"),
    "col.part": ("part", "구분"),
    "col.items": ("items", "항목 수"),
    "col.source": ("input", "입력"),
    "col.target": ("correct", "정답"),
    "head.further": ("Further measures", "그 밖의 지표"),
    "further.note": (
        "Mean over seeds, range in brackets; no interval was computed where none is shown.",
        "시드 평균이며 괄호는 범위입니다. 구간이 없는 값은 구간을 계산하지 않았습니다.",
    ),
    "metric": ("{name}", "{name}"),
    "metric.exact_match": ("exact match", "완전 일치율"),
    "metric.character_error_rate": ("character error rate", "글자 오류율"),
    "metric.word recall": ("word recall", "단어 재현율"),
    "metric.bleu": ("BLEU", "BLEU"),
    "metric.chrf": ("chrF", "chrF"),
    "metric.ter": ("TER", "TER"),
    "head.differences": ("Where models differ", "모델이 서로 다르게 답한 예"),
    "differences.text": (
        "{count} test items on which the models do not all agree. "
        "Wrong characters are marked, missing ones struck through.",
        "모델의 답이 서로 다른 시험 항목 {count}개입니다. 틀린 글자는 표시하고 빠진 글자는 취소선으로 적었습니다.",
    ),
    "differences.none": (
        "The record holds no item on which the models differ.",
        "기록에 모델의 답이 서로 다른 항목이 없습니다.",
    ),
    "differences.more": ("{count} more", "{count}개 더 보기"),
    "right": ("right:", "맞음:"),
    "wrong": ("wrong:", "틀림:"),
    "more": ("{count} more rows", "{count}행 더 보기"),
    "head.reproduce": ("Reproduce", "재현 방법"),
    "reproduce.command": ("command", "명령"),
    "reproduce.runs": ("Run directories", "실행 디렉터리"),
    "reproduce.note": (
        "results.json, beside this file, holds every figure of this page.",
        "이 페이지의 모든 수치는 같은 폴더의 results.json에 있습니다.",
    ),
    "reproduce.signature": ("metric signature", "지표 서명"),
    "reproduce.seeds": ("seeds", "시드"),
    "reproduce.time": ("training of all runs", "모든 실행의 학습 시간"),
    "reproduce.seconds": ("{seconds} s", "{seconds}초"),
    "reproduce.tuning": ("settings", "설정"),
    "footer": ("Made by selfattn {version}.", "selfattn {version} 으로 만들었습니다."),
    # switches
    "switch.language": ("language", "언어"),
    "switch.theme": ("colours", "화면 색"),
    "switch.light": ("light", "밝게"),
    "switch.dark": ("dark", "어둡게"),
    # the terminal and Markdown
    "terminal.parameters": ("params", "매개변수"),
    "terminal.train": ("train s", "학습 초"),
    "terminal.predict": ("one ms", "하나 ms"),
    "terminal.pairs": ("Pairs (difference, p after Holm's correction):", "모델 쌍(차이, 홀름 보정 p):"),
    "terminal.pair": (
        "· {first} − {second}: {difference}, p {p}, {word}",
        "· {first} − {second}: {difference}, p {p}, {word}",
    ),
    "terminal.pairs.more": ("· {count} more pairs in the report", "· 모델 쌍 {count}개는 보고서에 있음"),
    "report.at": ("Report: {path}", "보고서: {path}"),
    "markdown.full": (
        "Curves and attention maps are in report.html.",
        "학습 곡선과 어텐션 맵은 report.html에 있습니다.",
    ),
}
