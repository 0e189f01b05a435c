#!/bin/sh
# The whole way of a number, on the bundled sample: no data, no GPU, no network.
set -eu
out=.demo
rm -rf "$out/submissions" "$out/site"
mkdir -p "$out"

say() { printf '\n$ %s\n' "$*"; "$@"; }

say decabench prepare --sample --home "$out/home"
for predictor in majority copy-context; do
  say decabench predict --predictor "$predictor" --output "$out/submissions/$predictor" --home "$out/home"
  say decabench check --submission "$out/submissions/$predictor" --home "$out/home"
  say decabench evaluate --submission "$out/submissions/$predictor" --home "$out/home"
done
say decabench leaderboard --submissions "$out/submissions" --output "$out/site"
