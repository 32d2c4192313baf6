"""Draw what each normalizer makes of one row of trained scores, in two languages: `python docs/images/normalizers.py`.

The scores are those of the Transformer on the demo page beside, while it writes one character of a date.
"""

import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "concepts"))

from draw import TEXT, trained  # noqa: E402

from selfattn.attention.normalizers import make_normalizer  # noqa: E402
from selfattn.models.inside import trace_model  # noqa: E402
from selfattn.report.pictures import attention_svg  # noqa: E402

OUTPUT = "2008-11-13"
LAYER = "decoder.layers.0.cross_attn"
HEAD = 0
STEP = 4
NAMES = ("softmax", "softmax1", "entmax15", "sparsemax", "sigmoid")
TITLES = {
    "": f"writing “{OUTPUT[STEP]}” of {OUTPUT}: weights of head {HEAD}, one row a normalizer (Σ: their sum)",
    ".ko": f"{OUTPUT}의 ‘{OUTPUT[STEP]}’을(를) 쓸 때 헤드 {HEAD}의 가중치, 행마다 정규화 하나(Σ: 합)",
}


def main() -> None:
    """Write both pictures, and print sums and numbers of weights above 0."""
    model, characters = trained()["transformer"]
    ids = {character: 4 + number for number, character in enumerate(characters)}
    source = torch.tensor([*(ids[character] for character in TEXT), 2])
    target_in = torch.tensor([1, *(ids[character] for character in OUTPUT)])
    trace = trace_model(model, source, target_in)
    scores = trace[f"{LAYER}.scores"][HEAD, STEP]
    rows = [make_normalizer(name)(scores[None])[0].detach() for name in NAMES]
    torch.testing.assert_close(rows[0], trace[f"{LAYER}.weights"][HEAD, STEP])
    labels = [f"{name}(Σ={row.sum():.2f})" for name, row in zip(NAMES, rows, strict=True)]
    for name, row in zip(labels, rows, strict=True):
        print(f"{name}, {(row > 0).sum()} of {len(row)} above 0, largest {row.max():.2f}")
    for end, title in TITLES.items():
        picture = attention_svg(rows, [*TEXT, "⏎"], labels, title=title)
        (HERE / f"normalizers{end}.svg").write_text(picture + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
