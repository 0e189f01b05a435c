#!/bin/sh
# The whole way of a number, on the bundled sample: no data, no GPU, no network.
set -eu
out=.demo
model=examples/demo-model
rm -rf "$out/submissions" "$out/site"
mkdir -p "$out"

say() { printf '\n$ %s\n' "$*"; "$@"; }

measure() { # NAME PREDICTOR
  submission="$out/submissions/$1"
  say decabench predict --predictor "$2" --output "$submission" --home "$out/home"
  say decabench check --submission "$submission" --home "$out/home"
  say decabench evaluate --submission "$submission" --home "$out/home"
}

say decabench prepare --sample --home "$out/home"
measure majority majority
measure copy-context copy-context
if python -c 'import torch, safetensors' 2>/dev/null; then
  measure demo-model "trained:$model"
else
  printf "\nTo see a trained model beside them: .venv/bin/pip install -c constraints.txt -e '.[train]' and make demo again.\n"
fi
say decabench leaderboard --submissions "$out/submissions" --output "$out/site" --home "$out/home"
