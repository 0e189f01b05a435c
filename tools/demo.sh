#!/bin/sh
# A tour of decabench that takes about a minute: how good is a model, what does it get wrong, and where does it rank?
# This uses the bundled sample, and needs no GPU, downloads or network.
set -eu
out=.demo
rm -rf "$out/submissions" "$out/site"
printf '\n$ decabench run examples/run.toml\n'
DECABENCH_HOME=$out/home decabench run examples/run.toml --set output="$out/submissions/demo-model" --set board="$out/site"
printf '\nNext: the tutorial, docs/tutorial.md, does this with the real data.\n'
