#!/bin/sh
# Installs Chromium for the browser tests if apt-get can, or else says that these tests will be skipped. Never fails.
for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
  if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ -n "${DECABENCH_BROWSER:-}" ]; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Chromium for the browser tests ..."
  if { apt-get install --yes --no-install-recommends chromium || { apt-get update && apt-get install --yes --no-install-recommends chromium; }; } >/dev/null 2>&1; then
    exit 0
  fi
  echo "Chromium could not be installed."
fi
echo "Neither Chromium nor Chrome was found, so the browser tests will be skipped. Install one of them, or set DECABENCH_BROWSER."
