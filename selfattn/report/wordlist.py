"""The words of the report: one entry a message, English and Korean side by side."""

from __future__ import annotations

from selfattn.report.wordlist_explorer import EXPLORER

WORDS: dict[str, tuple[str, str]] = {
    **EXPLORER,
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
    "items": ("{count} unseen test items", "처음 보는 시험 항목 {count}개"),
    "verdict.same": (
        "No difference seen: {first} {a} and {second} {b}, exact match on {items}.",
        "차이가 보이지 않습니다. {items}의 완전 일치율은 {first} {a}, {second} {b}입니다.",
    ),
    "verdict.better": (
        "Yes, {first} is better: {a} against {b} for {second}, exact match on {items}.",
        "네, {first} 쪽이 낫습니다. {items}의 완전 일치율은 {first} {a}, {second} {b}입니다.",
    ),
    "verdict.better.one": (
        "In this one run, yes: {first} {a}, {second} {b}, exact match on {items}.",
        "이번 한 번의 학습에서는 그렇습니다. {items}의 완전 일치율은 {first} {a}, {second} {b}입니다.",
    ),
    "verdict.better.these": (
        "With these seeds, yes: {first} {a}, {second} {b}, exact match on {items}.",
        "이 시드들로는 그렇습니다. {items}의 완전 일치율은 {first} {a}, {second} {b}입니다.",
    ),
    "verdict.worse": (
        "No, {second} is better: {b} against {a} for {first}, exact match on {items}.",
        "아니요, {second} 쪽이 낫습니다. {items}의 완전 일치율은 {second} {b}, {first} {a}입니다.",
    ),
    "verdict.worse.one": (
        "In this one run, no: {second} {b}, {first} {a}, exact match on {items}.",
        "이번 한 번의 학습에서는 아닙니다. {items}의 완전 일치율은 {second} {b}, {first} {a}입니다.",
    ),
    "verdict.worse.these": (
        "With these seeds, no: {second} {b}, {first} {a}, exact match on {items}.",
        "이 시드들로는 아닙니다. {items}의 완전 일치율은 {second} {b}, {first} {a}입니다.",
    ),
    "verdict.unknown": (
        "Too little to tell, for an interval is missing: {first} {a} and {second} {b}, exact match on {items}.",
        "구간이 없어 판단할 수 없습니다. {items}의 완전 일치율은 {first} {a}, {second} {b}입니다.",
    ),
    "verdict.missing": (
        "Nothing can be said: exact match was not measured for {names}.",
        "판단할 수 없습니다. 완전 일치율을 재지 않은 모델: {names}.",
    ),
    "verdict.alone": (
        "{scores} exact match on {items}; there is nothing to compare it with.",
        "{items}의 완전 일치율은 {scores}입니다. 비교할 다른 모델은 없습니다.",
    ),
    "verdict.field.best": (
        "{best} is best in exact match on {items}; the next is {next}.",
        "{items}의 완전 일치율은 {best} 모델이 가장 높고, 다음은 {next}입니다.",
    ),
    "verdict.field.best.one": (
        "In this one run {best} is best in exact match on {items}; the next is {next}.",
        "이번 한 번의 학습에서 {items}의 완전 일치율은 {best} 모델이 가장 높고, 다음은 {next}입니다.",
    ),
    "verdict.field.best.these": (
        "With these seeds {best} is best in exact match on {items}; the next is {next}.",
        "이 시드들로는 {items}의 완전 일치율은 {best} 모델이 가장 높고, 다음은 {next}입니다.",
    ),
    "verdict.field.same": (
        "No difference seen at the top: {scores}, exact match on {items}.",
        "상위 모델 사이에 차이가 보이지 않습니다. {items}의 완전 일치율은 {scores}입니다.",
    ),
    "verdict.field.unknown": (
        "Too little to tell, for intervals are missing: {best} and {others}, exact match on {items}.",
        "구간이 없어 판단할 수 없습니다. {items}의 완전 일치율은 {best}, {others}입니다.",
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
    "badge.matched": (
        "parameters outside embeddings matched within {percent} %",
        "임베딩 제외 매개변수 수 차이 {percent} % 이내",
    ),
    "badge.unmatched": (
        "parameters outside embeddings differ by up to {percent} %",
        "임베딩 제외 매개변수 수 차이 최대 {percent} %",
    ),
    "badge.seed": ("one seed", "시드 1개"),
    "badge.seeds": ("{count} seeds", "시드 {count}개"),
    "badge.untuned": ("settings given, not tuned", "설정은 주어진 값, 조정하지 않음"),
    "badge.quick": ("quick run: less training, fewer test items", "빠른 실행: 학습과 시험 항목을 줄임"),
    # the table of the first screen
    "head.summary": ("Results", "결과"),
    "col.model": ("model", "모델"),
    "col.exact": ("exact match, %", "완전 일치, %"),
    "col.interval": ("mean [interval]", "평균 [구간]"),
    "col.strip": ("exact match with its interval, drawn in percent", "완전 일치율과 구간 그림, 퍼센트"),
    "col.standing": ("vs highest", "최고 대비"),
    "col.parameters": ("parameters", "매개변수"),
    "col.non_embedding": ("without embeddings", "임베딩 제외"),
    "col.train": ("training", "학습"),
    "col.rate": ("speed", "속도"),
    "col.predict": ("one input", "입력 하나"),
    "unit.s": ("s", "초"),
    "unit.rate": ("tokens/s", "토큰/초"),
    "short.train": ("training, s", "학습, 초"),
    "short.rate": ("tokens/s", "토큰/초"),
    "short.predict": ("one input, ms", "입력 하나, ms"),
    "standing.highest": ("highest mean", "평균 최고"),
    "standing.better": ("better", "더 높음"),
    "standing.worse": ("worse", "더 낮음"),
    "standing.same": ("no difference seen", "차이 안 보임"),
    "standing.unknown": ("no interval", "구간 없음"),
    "standing.unmeasured": ("not measured", "측정 안 함"),
    "note.interval": ("Intervals: {level} %, {method} {over}.", "구간: {level} %, {method}({over})."),
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
    "gap": ("{model}, {what}: – ({reason}).", "{model}, {what}: – ({reason})."),
    "reason.none": ("the record holds no figure", "기록에 값이 없음"),
    "reason.given": ("{text}", "{text}"),
    "what.exact_match": ("exact match", "완전 일치율"),
    "what.train_seconds": ("training time", "학습 시간"),
    "what.tokens_per_second": ("training speed", "학습 속도"),
    "what.predict_ms": ("time for one input", "입력 하나의 예측 시간"),
    "what.predict_batch_ms": ("time for an input in a batch", "배치 예측 시간"),
    "what.curves": ("learning curve", "학습 곡선"),
    # learning
    "nav": ("Sections", "목차"),
    "head.learning": ("Learning", "학습 과정"),
    "learning.text": (
        "Exact match on validation items during training, on the same axis as the table above.",
        "학습하는 동안 검증 항목에서 잰 완전 일치율입니다. 세로축은 위 표와 같습니다.",
    ),
    "learning.runs": (
        "Thin lines are single seeds, thick lines their mean.",
        "가는 선은 시드 하나, 굵은 선은 평균입니다.",
    ),
    "learning.none": ("The record holds no learning curves.", "기록에 학습 곡선이 없습니다."),
    "learning.against": ("against", "가로축"),
    "learning.caption": ("Exact match, %, against {unit}", "완전 일치율(%)과 {unit}"),
    "against.epoch": ("epochs", "에폭"),
    "against.step": ("steps", "스텝"),
    "against.tokens": ("tokens", "토큰"),
    "against.seconds": ("seconds", "초"),
    "unit.epoch": ("epochs", "에폭"),
    "unit.step": ("optimiser steps", "최적화 스텝"),
    "unit.tokens": ("target tokens", "출력 토큰 수"),
    "unit.seconds": ("seconds of training on this machine", "이 컴퓨터에서의 학습 시간(초)"),
    "reached.head": ("First epoch at or above", "처음 도달한 에폭"),
    "reached.at": ("{epoch}", "{epoch}"),
    "reached.at.seconds": ("{epoch} ({seconds} s)", "{epoch} ({seconds}초)"),
    "reached.some": ("{epoch} ({count} of {total} seeds)", "{epoch} (시드 {total}개 중 {count}개)"),
    "reached.note": (
        "In brackets the seconds of training up to there; “–” was not reached. Several seeds give a range.",
        "괄호 안은 그때까지의 학습 시간입니다. “–”는 도달하지 못했다는 뜻이고, 시드가 여럿이면 범위로 적습니다.",
    ),
    # attention
    "head.attention": ("Attention", "어텐션"),
    "attention.text": (
        "Which source characters each model looks at while it writes each target character.",
        "모델이 출력 글자를 쓸 때마다 입력의 어느 글자를 보는지 나타냅니다.",
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
    "attention.still": (
        "One example, mean over the heads of the last layer. With JavaScript: all examples, layers and heads.",
        "예시 하나, 마지막 층 헤드들의 평균입니다. JavaScript를 켜면 모든 예시와 층, 헤드를 볼 수 있습니다.",
    ),
    "attention.left_out": (
        "{shown} of {total} examples are in this file to keep it small; all are in results.json.",
        "파일 크기를 줄이려고 예시 {total}개 중 {shown}개만 담았습니다. 전체는 results.json에 있습니다.",
    ),
    # quality
    "head.formats": ("By format", "형식별 결과"),
    "formats.text": (
        "The same test items by the way the date is written; few items give wide intervals.",
        "같은 시험 항목을 표기 형식별로 나눈 결과입니다. 항목이 적으면 구간이 넓습니다.",
    ),
    "formats.none": ("The record holds no figures by format.", "기록에 형식별 결과가 없습니다."),
    "col.format": ("format", "형식"),
    "col.items": ("items", "항목 수"),
    "col.source": ("input", "입력"),
    "col.target": ("correct", "정답"),
    "head.further": ("Further measures", "그 밖의 지표"),
    "further.note": (
        "Mean over seeds, range in brackets; no interval was computed where none is shown.",
        "시드 평균이며 괄호는 범위입니다. 구간이 없는 값은 구간을 계산하지 않았습니다.",
    ),
    "metric": ("{name}", "{name}"),
    "metric.character_error_rate": ("character error rate", "글자 오류율"),
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
    # cost, settings, reproduce
    "head.cost": ("Cost", "비용"),
    "cost.train_seconds": ("training, s", "학습, 초"),
    "cost.tokens_per_second": ("training, tokens/s", "학습, 토큰/초"),
    "cost.predict_ms": ("one input alone, ms", "입력 하나, ms"),
    "cost.predict_batch_ms": ("in a batch, ms an input", "배치, 입력당 ms"),
    "cost.note": (
        "Means over seeds, range in brackets; one input alone is the median. Times hold for the machine named below.",
        "시드 평균이며 괄호는 범위입니다. 입력 하나의 시간은 중앙값입니다. "
        "모든 시간은 아래에 적은 컴퓨터에서 쟀습니다.",
    ),
    "head.settings": ("Settings", "설정"),
    "settings.text": (
        "“–” means that the model has no such setting.",
        "“–”는 그 모델에 없는 설정이라는 뜻입니다.",
    ),
    "settings.shared": ("The same for all", "공통 설정"),
    "settings.differ": ("What differs", "모델마다 다른 설정"),
    "settings.own": ("alone has:", "이 모델에만 있는 설정:"),
    "col.setting": ("setting", "설정"),
    "head.reproduce": ("Reproduce", "재현 방법"),
    "reproduce.command": ("command", "명령"),
    "reproduce.runs": ("Run directories", "실행 디렉터리"),
    "reproduce.note": (
        "results.json, beside this file, holds every figure of this page.",
        "이 페이지의 모든 수치는 같은 폴더의 results.json에 있습니다.",
    ),
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
    "report.at": ("Report: {path}", "보고서: {path}"),
    "markdown.full": (
        "Curves and attention maps are in report.html.",
        "학습 곡선과 어텐션 맵은 report.html에 있습니다.",
    ),
}
