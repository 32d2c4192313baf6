#!/usr/bin/env bash
# What is left for a GPU, the most wanted first, in 25 minutes. Call it again to go on: what is finished is skipped, a
# comparison that was stopped is resumed.
#
#   benchmarks/gpu.sh DATA OUT                        # DATA: a folder with g2p/2021, scan and multi30k
#   DEVICE=cpu TINY=1 benchmarks/gpu.sh DATA OUT      # every step at a tiny size, as a try without a GPU
#
# MINUTES (25), JOBS (4: trainings at once), DEVICE (cuda), PYTHON (python3).
set -u
data=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
end=$((SECONDS + 60 * ${MINUTES:-25}))
tests=(tests/cli/test_devices.py tests/integrations tests/training)
groups=(training decoding attention)
languages=(kor jpn_hira arm_e bul fre geo hun vie_hanoi)
tuned=(--space lr=1e-3..4e-3:log --trials 3 --tunings 1 --seeds 5)
captions=(--epochs 5 --space lr=1e-3..8e-3:log --trials 4 --tunings 1 --seeds 12 --first-seed 60)
epochs=(--epochs 60)
scan=(--epochs 30)
if [ "${TINY:-}" ]; then
  tests=(tests/cli/test_devices.py)
  groups=(attention)
  languages=(kor)
  tuned=(--no-tune --seeds 1 --test-items 5)
  captions=(--no-tune --seeds 1 --max-steps 2 --test-items 5)
  epochs=(--max-steps 2)
  scan=(--max-steps 2)
fi

# step NAME COMMAND ...: runs a command once, in the time that is left; its output goes to OUT/NAME.log.
step() {
  local name=$1 left=$((end - SECONDS))
  shift
  if [ -e "$out/$name.done" ]; then echo "$name: finished before"; return; fi
  if [ "$left" -lt 10 ]; then echo "$name: no time left; call again"; return; fi
  echo "$name: $*" > "$out/$name.log"
  if timeout --signal=INT --kill-after=30 "$left" "$@" >> "$out/$name.log" 2>&1; then
    touch "$out/$name.done"
    echo "$name: finished after $SECONDS s"
  else
    echo "$name: not finished (exit $?); the end of $out/$name.log: $(tail -n 1 "$out/$name.log")"
  fi
}

compare() {  # NAME OPTION ...
  local name=$1
  shift
  step "$name" "$python" -m selfattn.cli compare translation --models transformer,luong-bidirectional --match body \
    --device "$device" --jobs "${JOBS:-4}" --out "$out/$name" --resume "$@"
}

step tests "$python" -m pytest -q -p no:cacheprovider "${tests[@]}"
step speed "$python" -m benchmarks --quick --only "${groups[@]}" --device "$device"
for language in "${languages[@]}"; do
  file=$data/g2p/2021/$language
  compare "pronunciation-$language" --source und --target und --source-tokenizer characters --target-tokenizer words \
    --metric word_error_rate --keep-overlap --keep-duplicates --max-ratio 0 --data "${file}_train.tsv" \
    --valid "${file}_dev.tsv" --test "${file}_test.tsv" "${tuned[@]}" "${epochs[@]}"
done
text=$data/multi30k
compare captions --source en --target de --data "$text/train.en.gz" "$text/train.de.gz" --valid "$text/val.en.gz" \
  "$text/val.de.gz" --test "$text/test_2016_flickr.en.gz" "$text/test_2016_flickr.de.gz" "${captions[@]}"
for split in simple length addprim_jump; do
  compare "scan-$split" --source und --target und --tokenizer words --separate --metric exact_match --keep-overlap \
    --max-ratio 0 --held-out 500 --data "$data/scan/tasks_train_$split.txt.gz" --test "$data/scan/tasks_test_$split.txt.gz" \
    "${tuned[@]}" "${scan[@]}"
done
