"""Bad input of every kind: one short line on standard error, exit code 2, no traceback, no file changed.

One table for all commands, in the order of what is wrong. TRAIN, COMPARE and TRANSLATE stand for the beginnings of
command lines, ``run`` for a Transformer, ``plain`` for a model without attention, ``lm`` for a language model.
"""

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from marian_model import write_pairs

from selfattn.comparison.options import CompareOptions
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError, option
from selfattn.registry import TASKS
from selfattn.runs.train import TrainOptions, train
from selfattn.settings import bounds_of
from selfattn.training.config import TrainingConfig

SHORT = {
    "TRAIN": "train dates --quick --out new", "COMPARE": "compare dates --quick --out new",
    "TRANSLATE": "train translation --quick --out new", "LM": "train lm --out new --data",
    "MIX": "train translation --target de --data large.tsv small.tsv --out new",
    "CONFIG": "train dates --out new --config", "LONG": "9x" * 2500,
}  # fmt: skip
MUTES = {f"mute{n}.py": answer for n, answer in enumerate(("1 / 0", "3", "raise_(self)"))}
FILES = {
    "empty.txt": "", "few.tsv": "a\tb\n" * 9,
    "pairs.tsv": "".join(f"one {n}\teins {n}\n" for n in range(120)), "full/letter.txt": "mine",
    "a.en": "a\nb\n", "a.de": "c\nd\n", "lines.tsv": "line 1\tline 2\n",
    # texts
    "wide.txt": "\u3000\n", "latin.txt": "a\naoût\n".encode("latin-1"), "few.txt": "a\nb\n" * 9,
    "good.txt": "\n".join("abcdefghijklm"),
    # prefixes and glossaries
    "two.txt": "19\n\n", "four.txt": "1\n1\n1\n1\n", "term.tsv": "May", "half.tsv": "May\t",
    "twice.tsv": "May\t5\nMay\t6\n", "none.tsv": "\n", "unknown.tsv": "May\t한\n", "latin.tsv": b"May\t5\nK\xe4se\t6\n",
    "term-good.tsv": "May\t5\n", "gold.tsv": "May 1\t05 01\t0-0\n",
    # options
    "both.toml": "epochs = 3\nmax-steps = 4", "last.toml": "average = 'last'", "size.toml": "batch-size = 8",
    "zero.toml": 'epochs = 0\nset = ["encoder.dim=8"]\nquick = true', "word.toml": "epoch = 3",
    "part.toml": "epochs = 1.5", "open.toml": "[{:", "a.yaml": "epochs: 1\n", "a.json": '{"epochs": 1}',
    "a.txt": "epochs = 3", "again.toml": "epochs = 1\nepochs = 2\n", "deep.toml": "epochs = " + "[" * 100_000,
    "huge.toml": f"epochs = {'9' * 300}\n", "date.toml": "epochs = 2001-01-01\n", "group.toml": "[epochs]\nx = 1\n",
    "null.toml": "epochs = \x00\n", "models.toml": 'models = ["x"]\nout = "new"',  # the name of a command
    "leaves.py": "import sys; sys.exit(3)\n",
} | {
    name: f"class Mute(Exception):\n    def __str__(self):\n        return {answer}\n\nraise Mute\n"
    for name, answer in MUTES.items()
}  # fmt: skip
NO_OPTIONS = "cannot be read as options"
MUTE = "does not import (Mute: has a text that cannot be printed)"
BPE_ALONE = "--vocab-size goes with --tokenizer bpe: give that as well"

TABLE = [
    # commands and flags
    ("trian", 'Unknown command "trian". Did you mean "train"?'),
    ("train dates", "--out: is missing, or has no value; see selfattn train dates --help"),
    ("train dates --out", "--out: is missing, or has no value"),
    ("TRAIN --epoch 3", "Unknown option: --epoch. Did you mean --epochs?"),
    ("COMPARE --models transformer rnn-plain", "--models takes a list with commas, as in transformer,"),
    ("verify RUN x", "x: belongs to no option; see selfattn verify --help"),
    ("predict", "RUN"),
    ("score run", "--data"),
    *((f"{command} --out=", "--out: expected a path, got an empty text") for command in (
        "train dates", "compare dates", "report run", "demo run", "export run --to onnx", "claims run order",
        "tokenizer train pairs.tsv",
    )),  # which is not the current directory
    *((f"train dates --out new {option} LONG", "") for option in (
        "--model", "--set", "--locales", "--device", "--epochs", "--data", "--unknown",
    )),
    *((f"--plugin mute{n}.py models", MUTE) for n in range(3)),
    ("models --plugin none.py", "none.py: no such file; name a Python file"),
    ("models --plugin no.such.module", "--plugin no.such.module: does not import"),
    ("models --plugin", "--plugin: expected a Python file, or a module by its dotted name"),
    ("models --plugin leaves.py", "leaves.py: does not import (SystemExit: 3)"),
    ("train roman --out new", "task 'roman' is not known; known: dates, translation, lm, recall."),
    ("train roman --out new", "(--plugin)"),
    # numbers and choices
    ("TRAIN --epochs many", "--epochs"),
    ("TRAIN --seed 1.5", "--seed: expected a whole number, got 1.5"),
    ("COMPARE --budgets 0", "--budgets 0: expected shares above 0 and up to 1, each once"),
    ("COMPARE --margin 100", "--margin: expected a number in (0, 100), got 100.0"),
    ("COMPARE --address tcp://here:1", "--address: of what"),
    ("COMPARE --backend dask", "--backend dask: give the --address"),
    ("compare lm --quick --out new --metric exact_match", "is measured by bits_per_character or perplexity"),
    *((f"COMPARE '--space=lr={rates}'", "--space") for rates in (
        "1e-3,inf", "1e-3,nan", "0,1e-3", "-1,1e-3", "1e-3", "1e-3,1e-3", ",", "", "a,b",
    )),
    # models and their settings
    ("TRAIN --model transfromer", "model 'transfromer' is not known; did you mean transformer"),
    ("COMPARE --models transformer,transformer", "--models transformer,transformer: expected different names"),
    (f"COMPARE --models {'x' * 300}=rnn-plain", "at most 100 letters"),
    ("TRAIN --set encoder.dim", "--set encoder.dim: expected name=value"),
    ("TRAIN --set encoder.width=3", "there is no setting"),
    ("TRAIN --set decoder.position=learned --set decoder.max_length=12",
     "transformer: cannot write 22 tokens, the most that an output may have with these data: an output"),
    ("COMPARE --set rnn-peeky:encoder.hidden_dim=3", "rnn-peeky: --set decoder.initial_state: 'copy' needs"),
    ("COMPARE --models transformer --set rnn-plain:encoder.dim=3", "'rnn-plain' is not a model"),
    ("train dates --out new --model rnn-plain --average last --epochs 8 --average-last 3",
     "--average-last 3: the training has 8 validations, of which at most a quarter are averaged; give 2"),
    # data
    ("TRAIN --locales en_XX", "en_XX"),
    ("TRAIN --withhold-years 1850", "'1850' is no year"),
    ("TRAIN --withhold-years 1900-2099", "no year from 1969 to 2068 is left"),
    ("TRAIN --withhold-years 1943 --data pairs.tsv", "--withhold-years has no effect beside --data"),
    ("TRAIN --data nowhere.txt", "nowhere.txt: no such file"),
    ("TRAIN --data few.tsv", "few.tsv: 9 pairs with 1 different source, too few for three parts"),
    ("TRANSLATE --data few.tsv", "(9 read; duplicate: 8 (first few.tsv:2); different sources: 1, targets: 1)"),
    ("TRANSLATE --held-out 9", "--held-out goes with --data or --hub: give that as well"),
    ("TRANSLATE --columns en,de", "--columns goes with --data or --hub"),
    ("TRANSLATE --valid few.tsv", "--valid goes with --data"),
    ("TRANSLATE --data few.tsv --hub x/y", "--hub has no effect beside --data: leave one of them out"),
    ("TRANSLATE --data pairs.tsv --target jp", "--target: unknown language 'jp'"),
    ("evaluate run --data pairs.tsv --columns en", "--columns en: expected two different ones"),
    ("evaluate run --data a.en a.de --columns en,de", "--columns is for files of pairs"),
    ("align run --gold a.en --columns en,de", "--columns goes with --data"),
    ("tokenizer train a.en --out new --columns en,de", "--columns is for files of pairs: give one"),
    ("MIX --weights 1", "--weights: 1 weight for 2 corpora (large.tsv; small.tsv); give one for each"),
    ("MIX --weights 1,0", "--weights: expected numbers in (0, 1,000,000], got 0"),
    ("MIX --temperature 0.5", "--temperature"),
    ("MIX --weights 1,2 --temperature 2", "--temperature has no effect beside --weights"),
    ("MIX --weights 1,2 --streaming", "--weights has no effect beside --streaming"),
    ("MIX --weights 1,2 --keep-duplicates", "--weights has no effect beside --keep-duplicates"),
    ("TRANSLATE --target de --data large.tsv --weights 1", "--weights goes with several corpora as --data"),
    ("compare translation --target de --data large.tsv small.tsv --temperature 5 --out new",
     "--temperature: is for `selfattn train`, not for comparisons"),
    ("LM wide.txt", "wide.txt: only spaces in it"),
    ("LM latin.txt", "latin.txt:2: not valid UTF-8"),
    ("LM few.txt", "few.txt: fewer than 10 different lines"),
    ("LM good.txt --vocab-size 9", BPE_ALONE),
    ("LM good.txt --tokenizer bpe --vocab-size 9999", "Vocabulary size too high (9999)"),
    ("compare lm --quick --out new --test good.txt", "give training texts with --data as well"),
    ("compare lm --quick --out new --valid good.txt", "--data"),
    ("compare lm --quick --out new --models transformer", "does not read in one direction only"),
    ("LM good.txt --model transformer", "--model transformer: does not read in one direction"),
    ("LM good.txt --model decoder-only-prefix", "does not read in one direction"),
    ("LM good.txt --target-exact-match 0.5", "a language model has no exact match"),
    # options that have no effect beside others
    ("train lm --out new --data few.txt --valid good.txt --validation-items 5",
     "--validation-items has no effect beside --valid"),
    ("TRAIN --embeddings few.txt --source-embeddings few.txt", "--source-embeddings has no effect"),
    ("TRAIN --allow-unknown", "--allow-unknown goes with --init-from"),
    ("COMPARE --epochs 1 --tuning-seed 3", "--tuning-seed goes with --tune"),
    ("tokenizer train good.txt --kind characters --vocab-size 9 --out new", "--vocab-size goes with --kind bpe"),
    *((f"{line} {settings}", message) for line in ("TRAIN", "COMPARE --items-per-epoch 800") for settings, message in (
        ("--ema-decay 0.9", "--ema-decay goes with --average ema"),
        ("--average last --ema-decay 0.9", "--ema-decay goes with --average ema"),
        ("--average-last 3", "--average-last goes with --average last"),
        ("--epochs 3 --max-steps 9", "--epochs has no effect beside --max-steps"),
        ("--warmup 0.2 --warmup-steps 9", "--warmup has no effect beside --warmup-steps"),
    )),
    ("MIX --tokenizer words --source-tokenizer bpe --target-tokenizer words", "--tokenizer has no effect"),
    ("MIX --source-tokenizer words --separate", "--separate has no effect beside a tokenizer for each side"),
    ("MIX --tokenizer words --vocab-size 300", "--vocab-size goes with --tokenizer bpe"),
    ("MIX --tokenizer words --sampling 0.1", "--sampling goes with --tokenizer bpe"),
    ("MIX --tokenizer full --separate", "--separate has no effect beside a directory as --tokenizer"),
    # a training that starts from a run
    ("train dates --out new --init-from plain --model transformer",
     "--model transformer: the model is that of --init-from (rnn-plain); leave it out"),
    ("train dates --out new --init-from plain --set decoder.hidden_dim=7",
     "--set decoder.hidden_dim=7: the model is that of --init-from"),
    ("MIX --init-from plain --tokenizer unigram", "--tokenizer unigram: the tokens are those of --init-from"),
    ("MIX --init-from plain --separate", "--separate true: the tokens are those of --init-from"),
    ("MIX --init-from plain --sampling 0.1", "--sampling: the tokens of --init-from have one segmentation"),
    ("evaluate run --json --lang ko", "--lang has no effect beside --json"),
    ("align run --data pairs.tsv --base 1", "--base goes with --gold"),
    # claims
    ("claims run", "name those to run, or give --all"),
    ("claims run scores --all", "name those to run, or give --all"),
    ("claims run score", "did you mean scores"),
    ("claims run 99", "claim '99' is not known"),
    ("claims run scores --jobs 0", "--jobs 0: expected a whole number of at least 1"),
    ("claims new a/b", "letters, digits, - and _"),
    ("claims new scores", "this claim or scores.py exists already"),
    ("claims page nothing --out new", "nothing"),
    # vocabularies
    ("tokenizer train pairs.tsv --vocab-size 9000 --out new", "Vocabulary size too high"),
    ("tokenizer train good.txt --separate --out new", "nothing says which texts are sources"),
    ("tokenizer train pairs.tsv --out full", "is not empty"),
    ("tokenizer inspect run", "no text to measure it on"),
    # where things go
    ("train dates --out run", "run: already holds a run, which is never overwritten"),
    ("train dates --out full", "full: holds other files"),
    ("train dates --out empty.txt", "empty.txt: is a file; choose another --out"),
    ("train dates --quick --out empty.txt/below", "empty.txt/below: cannot be written"),
    (f"train dates --out {'x' * 300}", "file name too long"),
    ("train dates --max-steps 1 --out circle", "circle: cannot be"),
    ("tokenizer train pairs.tsv --vocab-size 280 --out circle", "circle: cannot be"),
    ("tokenizer train pairs.tsv --out empty.txt/below", "empty.txt/below: cannot be written"),
    ("compare dates --out run", "run: holds something already"),
    ("attention run 'May 1' --save x.gif", "x.gif: attention is saved as SVG, PNG, HTML or JSON"),
    # files of options
    ("CONFIG zero.toml", "--epochs (zero.toml): expected a whole number from 1 to 1,000,000,000, got 0"),
    ("CONFIG zero.toml --epochs -1", "got -1"),  # the command line goes before
    ("CONFIG nowhere.toml", "no such file"),
    ("CONFIG word.toml", "epoch"),
    ("CONFIG part.toml", "epoch"),
    ("CONFIG date.toml", "epochs"),
    ("CONFIG huge.toml", ""),
    *((f"CONFIG {name}", "") for name in ("again.toml", "deep.toml", "group.toml", "null.toml")),
    *((f"CONFIG {name}", f"--config {name}: {NO_OPTIONS}") for name in ("open.toml", "a.yaml", "a.json", "a.txt")),
    ("compare dates --config models.toml", "model 'x' is not known"),
    *((f"{line}{more}", message) for more in ("", " --write-config b.toml") for line, message in (
        ("CONFIG both.toml", "--epochs (both.toml) has no effect beside --max-steps (both.toml): leave one"),
        ("CONFIG last.toml --ema-decay 0.9", "--ema-decay goes with --average (last.toml) ema: give that as well"),
        ("CONFIG size.toml --epochs 3 --max-steps 4", "--epochs has no effect beside --max-steps: leave one"),
    )),
    ("train dates --out new --write-config a.txt", "a.txt: expected a file that ends in .toml"),
    ("train dates --out new --write-config size.toml", "size.toml: is there already"),
    ("train --write-config b.toml", "--write-config: is for `train TASK` and `compare TASK`"),
    ("models --write-config b.toml", "is for `train TASK` and `compare TASK`"),
    ("train translation --config run", "was made by `selfattn train dates`, which has other options; name a run of "),
    ("train dates --config .", "config.json: no such file"),
    # decoding
    ("predict run --beam 2 --length-penalty 1e30", "a number in [-10, 10], got 1e+30"),
    ("predict run --n-best 2", "--n-best goes with a --beam of at least that size: give that as well"),
    ("predict run --length-penalty 1", "--length-penalty goes with a --beam of 2 or more"),
    ("predict run --sample --beam 2", "--beam has no effect beside --sample"),
    ("predict run --temperature 0.5", "--temperature goes with --sample"),
    ("predict run --prefixes two.txt", "line 3 of the input has no prefix"),
    ("predict run --prefixes four.txt", "has more lines"),
    ("predict run --prefixes four.txt --prefix 1", "--prefix has no effect beside --prefixes: leave one of them out"),
    ("predict run --prefix 한", "the model cannot write '한'"),
    ("predict run --prefix 2001-05 --max-length 7", "a prefix of 7 tokens, but outputs have at most 7"),
    ("predict lm --prefix a", "a language model continues its input"),
    ("predict run --beam 2 --glossary term.tsv", "term.tsv:1: expected a term, a tab, and required words; got 'May'"),
    ("predict run --beam 2 --glossary half.tsv", "half.tsv:1: expected a term, a tab"),
    ("predict run --beam 2 --glossary twice.tsv", "twice.tsv:2: 'May' has other words above"),
    ("predict run --beam 2 --glossary none.tsv", "no terms"),
    ("predict run --beam 2 --glossary unknown.tsv", "'May': the model cannot write '한'"),
    ("predict run --beam 2 --glossary latin.tsv", "latin.tsv:2: not valid UTF-8 (byte 0xe4); save the file as UTF-8"),
    ("predict run --glossary term-good.tsv", "needs a beam"),
    ("predict lm --beam 2 --glossary term-good.tsv", "not for a language model"),
    ("predict plain --align", "no attention to its source"),
    *((line, "is a language model; take a run that was trained on pairs") for line in (
        "predict lm --token-scores", "attention lm line", "score lm --data lines.tsv", "align lm --data lines.tsv",
    )),
    ("evaluate lm --data good.txt --beam 2", "decodes nothing"),
    # runs
    ("evaluate nowhere", "nowhere: no such run directory"),
    ("average nowhere", "nowhere: no such run directory"),
    ("average plain --out new", "keeps no weights of its validations; train with --keep, such as --keep 5"),
    ("evaluate 'no\nwhere'", "where: no such run directory"),  # still in one line
    ("attention plain 'May 1, 2001'", "rnn-plain has no attention to show"),
    ("attention run ''", "the text is empty"),
    ("attention run May --layer 9", "layer 9: the model has layers 0 to"),
    ("attention run May --layer 0 --head 4", "head 4: the layer has heads 0 to 3"),
    ("attention run May --save nowhere/x.svg", "cannot be written"),
    ("heads run --items -1", "--items -1: expected a whole number of at least 0"),
    ("heads run --items 1 --save a.png", "choose a name ending in .svg"),
    ("heads run --items 1 --save few.txt", "few.txt"),
    ("heads plain --items 1", "rnn-plain has no heads to leave out"),
    ("predict hf://nowhere", "expected hf://user/name"),
    ("push run no-user --no-test", "user/name"),
    ("align run --data pairs.tsv --layer 9", "layer must be from"),
    ("align run --data pairs.tsv --head 9", "head must be from 0 to 3, got 9"),
    ("align run --data pairs.tsv --shift 2", "--shift"),
    ("align run --data pairs.tsv --sentences pairs.tsv", "--sentences goes with --gold"),
    ("compare translation --out new --sentences few.tsv", "--sentences goes with --gold"),
    ("align run --gold pairs.tsv --words", "--words goes with --data"),
    ("align run --gold pairs.tsv --head 0", "--head goes with --data"),
    ("align plain --gold gold.tsv", "has no attention to its source; try a model that has"),
    ("align run --gold empty.txt", "empty"),
]  # fmt: skip


def states(folder):
    """When each file in a folder was written, and its size, by its path there; for a folder or a link None."""
    found = {}
    for entry in os.scandir(folder):
        found[entry.path] = None
        if entry.is_dir(follow_symlinks=False):
            found |= states(entry)
        elif not entry.is_symlink():
            found[entry.path] = entry.stat().st_mtime_ns, entry.stat().st_size
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory, runs):
    """A directory with three runs and files of every bad kind, and what is in it."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(runs["transformer"].path, folder / "run")
    shutil.copytree(runs["rnn-plain"].path, folder / "plain")
    shutil.copytree(Path(__file__).parents[1] / "fixtures/formats/run-lm", folder / "lm")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for number, name in enumerate(("large.tsv", "small.tsv"), 1):
        write_pairs(folder / name, number, 60)
    (folder / "circle").symlink_to("circle")
    return folder, states(folder)


@pytest.mark.parametrize(("line", "expected"), TABLE, ids=lambda text: text[:60])
def test_one_line_and_exit_code_2(cli, place, monkeypatch, line, expected):
    folder, before = place
    monkeypatch.chdir(folder)
    spoken = re.sub("|".join(SHORT), lambda found: SHORT[found[0]], line)
    done = cli(*shlex.split(spoken), stdin="May 1, 2001\n\n11/13/08\n")
    refusal = done.refusal()
    assert done.out == "" or "--prefixes" in line  # of which the lines before are answered
    assert refusal.startswith("error: ")
    assert expected.lower() in refusal.lower()
    assert len(refusal) < 1100
    assert not (folder / "new").exists()
    after = states(folder)
    for name in after.keys() - before.keys():  # for the next line of the table
        os.unlink(name)
    assert after == before


def test_half_a_character_in_a_path():
    with pytest.raises(SettingError, match="`out`: expected a path in UTF-8"):
        train("dates", out="new\ud800")


HUGE = "9" * 300
NUMBERS = {
    ("train", "dates"): [*bounds_of(TrainOptions), *bounds_of(TrainingConfig)],
    ("compare", "dates"): list(bounds_of(CompareOptions)),
    ("train", "translation"): list(bounds_of(TASKS["translation"].Options)),
    ("predict", "no-run"): list(bounds_of(DecodingOptions)),
}
CASES = [(command, name) for command, names in NUMBERS.items() for name in sorted(set(names))]


@pytest.mark.parametrize("command", NUMBERS, ids=" ".join)
def test_help_shows_every_bound(cli, command):
    shown = cli(*command, "--help-all").out
    assert shown.count("Range: ") >= len(set(NUMBERS[command]))


@pytest.mark.parametrize(("command", "name"), CASES, ids=str)
def test_a_number_of_300_digits_is_refused_by_name(cli, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    out = () if command[0] == "predict" else ("--out", "new")
    digits = HUGE if name != "length_penalty" else "1" + HUGE
    refusal = cli(*command, *out, option(name), "1" + digits).refusal()
    assert option(name) in refusal
    assert not list(tmp_path.iterdir())
