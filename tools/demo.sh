#!/bin/sh
# What decabench is for, in a minute: how good is this model, what does it get wrong, how does it look beside others?
# On the bundled sample: no data, no GPU, no network.
set -eu
out=.demo
export DECABENCH_HOME=$out/home
rm -rf "$out/submissions" "$out/site"
mkdir -p "$out/submissions"

say() { printf '\n$ %s\n' "$*"; "$@"; }

quietly() { # Run a command that is a step to the next one; its output is shown if it fails.
  printf '\n$ %s\n' "$*"
  "$@" >"$out/log" 2>&1 || { code=$?; cat "$out/log" >&2; exit $code; }
}

if python -c 'import networkx, safetensors, torch' 2>/dev/null; then
  printf '1. How good is the model in examples/demo-model? It answers, is scored, and is\ncompared with a baseline.\n'
  say decabench run examples/demo.toml 2>"$out/log" || { code=$?; cat "$out/log" >&2; exit $code; }
  mv "$out/submissions/demo-model.baselines/majority" "$out/submissions/majority"
  quietly decabench evaluate "$out/submissions/majority"
else
  printf '1. How good is the model in examples/demo-model?\n\n'
  printf 'Left out: torch is not installed, so the model does not run here. Scored are the\n'
  printf 'answers that it gave before. To run it, install torch and repeat the demo:\n'
  printf "  .venv/bin/pip install -c constraints.txt -e '.[train]'\n"
  quietly decabench prepare --sample
  quietly cp -r examples/demo-model/answers "$out/submissions/demo-model"
  quietly decabench predict --predictor majority --output "$out/submissions/majority"
  quietly decabench evaluate "$out/submissions/majority"
  say decabench evaluate "$out/submissions/demo-model"
  say decabench compare --flips 0 "$out/submissions/majority" "$out/submissions/demo-model"
fi
printf '\n2. What did it get wrong? Three of its answers to questions on Wikipedia:\n'
say decabench show "$out/submissions/demo-model" --task squad --wrong --limit 3
printf '\n3. The same on a page that opens from the disk, with statistics, for any number of\nmodels:\n'
say decabench leaderboard --submissions "$out/submissions" --output "$out/site"
printf '\nNext: the tutorial, docs/tutorial.md, does this with the real data.\n'
