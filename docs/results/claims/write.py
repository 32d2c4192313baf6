"""Make the documents of the claims suite from its record: `python docs/results/claims/write.py [DIR]`; nothing is run.

DIR is the directory of `selfattn claims run --all --out DIR`, or several; without it the record beside this file
is taken. With fresh seeds: `selfattn claims run --all --out DIR`, then `write.py DIR`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import fill

from selfattn.claims.page import document_of, write_pages
from selfattn.claims.run import join_records, read_record
from selfattn.registry import CLAIMS
from selfattn.report.text import markdown_of
from selfattn.results.claims import ClaimsRecord

HERE = Path(__file__).parent
DOCS = HERE.parents[1]
LINKS = {
    "en": '\n<a href="results/claims/claims.html">The same with its plots, as one HTML file</a> · '
    "[한국어](ko/claims.md) · [the record](results/claims/claims.json)\n",
    "ko": '\n<a href="../results/claims/claims.html#ko">그림이 있는 HTML 한 파일</a> · [English](../claims.md) · '
    "[기록](../results/claims/claims.json)\n",
}
NOT_RUN = {
    "en": "Not run yet with today's code, and so without a verdict here: {names}.",
    "ko": "오늘의 코드로는 아직 실행하지 않아 여기에 판정이 없는 주장: {names}.",
}
LAST_ROUND = 3000  # seeds from here on are those of the last round, with frozen code
OLDER = {
    "en": "Not run again in the last round of fresh seeds, so that the verdict rests on earlier runs: {names}.",
    "ko": "마지막으로 새 시드를 쓴 실행에는 들지 않아 판정이 이전 실행에 따르는 주장: {names}.",
}
UNKEPT = {
    "en": "The code of some runs cannot be looked up: the blocks with seeds 2000 to 2104 (eleven claims, 2026-11-26) "
    "were run with commits that are not in this repository, which has them from commit 90ea7faf17e4 on; a commit with "
    "-dirty had changes beside it. The figures themselves are judged again from the record.",
    "ko": "일부 실행의 코드는 확인할 수 없습니다. 시드 2000–2104의 실행(주장 11개, 2026-11-26)은 "
    "이 저장소에 없는 커밋으로 했고, 결과는 커밋 90ea7faf17e4부터 저장소에 있습니다. "
    "-dirty가 붙은 커밋에는 커밋하지 않은 변경이 더 있었습니다. 판정은 기록의 수치에서 다시 계산합니다.",
}
PAGES = {"en": DOCS / "claims.md", "ko": DOCS / "ko" / "claims.md"}


def pages(record: ClaimsRecord) -> dict[Path, str]:
    """Return the Markdown pages, with links to the others below the title, and claims that lack a run."""
    texts = {}
    missing = ", ".join(name for name in CLAIMS if name not in {result.name for result in record.claims})
    seeds = {result.name: max(trial.seed for trial in result.trials) for result in record.claims}
    older = ", ".join(name for name, last in seeds.items() if last < LAST_ROUND)
    for lang, path in PAGES.items():
        title, newline, rest = markdown_of(document_of(record), lang).partition("\n")
        notes = ""
        for text, names in ((NOT_RUN[lang], missing), (OLDER[lang], older)):
            notes += "\n" + fill(text.format(names=names), 120) + "\n" if names else ""
        notes += "\n" + fill(UNKEPT[lang], 120) + "\n"
        texts[path] = title + newline + LINKS[lang] + notes + rest
    return texts


if __name__ == "__main__":
    record = join_records([read_record(Path(path)) for path in sys.argv[1:] or [HERE]])
    write_pages(record, HERE).with_suffix(".md").unlink()
    for path, text in pages(record).items():
        path.write_text(text, encoding="utf-8")
        print(path)
