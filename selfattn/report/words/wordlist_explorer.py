"""The words of the attention explorer and the copy button, which the page's script asks for by these names."""

from __future__ import annotations

EXPLORER: dict[str, tuple[str, str]] = {
    "x.previous": ("previous example", "이전 예시"),
    "x.next": ("next example", "다음 예시"),
    "x.example": ("example", "예시"),
    "x.view": ("view", "보기"),
    "x.map": ("heatmap", "히트맵"),
    "x.lines": ("lines", "선"),
    "x.gold": ("gold alignment", "정답 정렬"),
    "x.kind": ("attention of", "어텐션 종류"),
    "x.kind.cross": ("target to source", "출력 → 입력"),
    "x.kind.encoder": ("source to source", "입력 → 입력"),
    "x.kind.decoder": ("target to target", "출력 → 출력"),
    "x.layer": ("layer", "층"),
    "x.head": ("head", "헤드"),
    "x.single": ("one layer, one head", "층 하나, 헤드 하나"),
    "x.mean": ("mean", "평균"),
    "x.right": ("right", "맞음"),
    "x.wrong": ("wrong", "틀림"),
    "x.map.label": (
        "Attention weights of {model}: rows write, columns are read",
        "{model}의 어텐션 가중치: 행은 쓰는 토큰, 열은 읽는 토큰",
    ),
    "x.lines.label": ("Attention of {model} as lines", "{model}의 어텐션을 선으로 나타낸 그림"),
    "x.reads": ("reads", "←"),
    "x.hint": (
        "Point at the map, touch it, or reach it with Tab and use the arrow keys.",
        "칸을 가리키거나 누르세요. Tab으로 이동해 화살표 키로도 볼 수 있습니다.",
    ),
    "x.hint.lines": (
        "Point at a token below to see what it reads. Weights under 0.03 are not drawn.",
        "아래 토큰을 가리키면 무엇을 읽는지 보입니다. 0.03보다 작은 가중치는 그리지 않습니다.",
    ),
    "x.nogold": (
        "No outlines: this prediction has another length than the correct answer.",
        "예측의 길이가 정답과 달라 테두리를 그리지 않았습니다.",
    ),
    "x.absent": ("no map of this example", "이 예시의 어텐션 맵 없음"),
    "x.field.year": ("year", "연"),
    "x.field.month": ("month", "월"),
    "x.field.day": ("day", "일"),
    "x.copy": ("copy", "복사"),
    "x.copied": ("copied", "복사함"),
}
