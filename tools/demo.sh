#!/bin/sh
# The whole way of a number, on the bundled sample: no data, no GPU, no network.
set -eu
out=.demo
model=examples/demo-model
rm -rf "$out/submissions" "$out/site"
mkdir -p "$out"

say() { printf '\n$ %s\n' "$*"; "$@"; }

predictors="majority copy-context"
if ! [ -d "$model" ]; then
  :
elif python -c 'import torch, safetensors' 2>/dev/null; then
  predictors="$predictors mqan:$model"
else
  echo "To see a trained model beside the baselines: .venv/bin/pip install '.[train]', and make demo again."
fi

say decabench prepare --sample --home "$out/home"
for predictor in $predictors; do
  submission="$out/submissions/$(basename "$predictor")"
  say decabench predict --predictor "$predictor" --output "$submission" --home "$out/home"
  say decabench check --submission "$submission" --home "$out/home"
  say decabench evaluate --submission "$submission" --home "$out/home"
done
say decabench leaderboard --submissions "$out/submissions" --output "$out/site"
