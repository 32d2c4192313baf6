"""Train a model of yoyodyne on words and their phones, and count the wrong words of the test.

    python benchmarks/yoyodyne_words.py MODEL --train T --valid V --test W --out R     # MODEL: lstm or transformer

Needs yoyodyne in the environment that runs it, and nothing else of this project. Files have a word, a tab and its
phones, divided at spaces, in each line. Letters are those of Unicode NFD, as `--source-tokenizer letters` has them.
The sizes are those of the small models on docs/results/replications.md. Prints one line in JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

PARTS = ("train", "valid", "test")
SMOOTHING = 0.1
DROPOUT = 0.3
MODELS = {
    "lstm": {
        "class_path": "yoyodyne.models.SoftAttentionLSTMModel",
        "embedding_size": 149,
        "decoder_hidden_size": 144,
        "decoder_layers": 1,
        "source_encoder": {"class_path": "yoyodyne.models.modules.LSTMEncoder", "hidden_size": 93, "layers": 1},
    },
    "transformer": {
        "class_path": "yoyodyne.models.TransformerModel",
        "embedding_size": 112,
        "decoder_hidden_size": 242,
        "decoder_layers": 2,
        "decoder_attention_heads": 4,
        "source_encoder": {
            "class_path": "yoyodyne.models.modules.TransformerEncoder",
            "hidden_size": 242,
            "layers": 2,
            "attention_heads": 4,
        },
    },
}


def main() -> None:
    """Train, choose the weights by the validation words, decode the test, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    for part in PARTS:
        parser.add_argument(f"--{part}", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--schedule", choices=("cosine", "constant"), default="cosine")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    for part in PARTS:
        write_letters(getattr(options, part), options.out / f"{part}.tsv")
    config = make_config(options)
    fit = options.out / "fit.yaml"
    fit.write_text(json.dumps(config))  # which is YAML as well
    before = time.monotonic()
    used = processor_seconds()
    output = run("fit", fit)
    seconds = {"training_wall": time.monotonic() - before, "training_processor": processor_seconds() - used}
    checkpoint = next((options.out / "model").rglob("*.ckpt"))
    references = [line.split("\t")[1] for line in lines_of(options.out / "test.tsv")]
    wrong = {}
    for beam in sorted({1, options.beam}):
        path = options.out / f"beam{beam}.yaml"
        path.write_text(json.dumps(prediction_config(config, options.out, beam)))
        run("predict", path, checkpoint)
        guesses = [line.split("\t")[0] for line in lines_of(options.out / f"beam{beam}.txt")]
        pairs = zip(guesses, references, strict=True)
        wrong[f"beam{beam}"] = sum(guess != reference for guess, reference in pairs) / len(references)
    parameters = next(line for line in output.splitlines() if line.startswith("Trainable parameters"))
    figures = {
        "model": options.model,
        "seed": options.seed,
        "lr": options.lr,
        "schedule": options.schedule,
        "parameters": int(parameters.rpartition(" ")[2].replace(",", "")),
        "word_error_rate": wrong,
        "checkpoint": checkpoint.name,
    }
    print(json.dumps(figures | {name: round(value, 1) for name, value in seconds.items()}))


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def write_letters(path: Path, out: Path) -> None:
    """Write the words of a file as letters."""
    rows = []
    for line in lines_of(path):
        word, phones = line.split("\t")
        rows.append(f"{unicodedata.normalize('NFD', word)}\t{phones}\n")
    out.write_text("".join(rows), encoding="utf-8")


def make_config(options: argparse.Namespace) -> dict[str, object]:
    """Return the settings of a training."""
    settings = dict(MODELS[options.model])
    encoder = dict(settings.pop("source_encoder"))  # type: ignore[call-overload]  # the only one that is a table
    encoder_class = encoder.pop("class_path")
    class_path = settings.pop("class_path")
    settings |= {
        "decoder_dropout": DROPOUT,
        "label_smoothing": SMOOTHING,
        "source_encoder": {
            "class_path": encoder_class,
            "init_args": encoder | {"dropout": DROPOUT, "embedding_size": settings["embedding_size"]},
        },
        "optimizer": {"class_path": "yoyodyne.optimizers.AdamW", "init_args": {"lr": options.lr, "beta2": 0.98}},
        "scheduler": {"class_path": "yoyodyne.schedulers.Dummy"},
    }
    if options.schedule == "cosine":
        cosine = {"class_path": "torch.optim.lr_scheduler.CosineAnnealingLR", "init_args": {"T_max": options.epochs}}
        settings["scheduler"] = cosine
    data = {"model_dir": str(options.out / "model"), "target_sep": " ", "batch_size": 64}
    data |= {"train": str(options.out / "train.tsv"), "val": str(options.out / "valid.tsv")}
    trainer = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": options.epochs,
        "gradient_clip_val": 1.0,
        "enable_progress_bar": False,
    }
    return {
        "seed_everything": options.seed,
        "model": {"class_path": class_path, "init_args": settings},
        "data": data,
        "trainer": trainer,
        "checkpoint": {
            "dirpath": str(options.out / "model"),
            "monitor": "val_accuracy",
            "mode": "max",
            "filename": "{epoch}-{val_accuracy:.4f}",
        },
    }


def prediction_config(config: dict[str, object], out: Path, beam: int) -> dict[str, object]:
    """Return the settings with which the test words are decoded."""
    model = json.loads(json.dumps(config["model"]))
    model["init_args"]["beam_width"] = beam
    data = {"model_dir": str(out / "model"), "target_sep": " ", "batch_size": 64, "predict": str(out / "test.tsv")}
    prediction = {"path": str(out / f"beam{beam}.txt")}
    kept = {name: config[name] for name in ("seed_everything", "trainer")}
    return kept | {"model": model, "data": data | {"target_col": 0}, "prediction": prediction}


def run(command: str, config: Path, checkpoint: Path | None = None) -> str:
    """Run yoyodyne, and return what it prints."""
    program = [sys.executable, "-c", "from yoyodyne.cli.main import main; main()", command, "--config", str(config)]
    if checkpoint:
        program += ["--ckpt_path", str(checkpoint)]
    ended = subprocess.run(program, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if ended.returncode:
        sys.exit(ended.stdout)
    return ended.stdout


def processor_seconds() -> float:
    """Return the processor time of all programs that were run."""
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
