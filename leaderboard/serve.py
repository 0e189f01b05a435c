"""Shows a site on localhost, to nobody else."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from decabench.leaderboard.read import LeaderboardError

__all__ = ["serving"]


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


def serving(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server for the folder that listens on 127.0.0.1. Raises LeaderboardError where the port is taken."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
    except OSError as error:
        raise LeaderboardError(
            f"Port {port} cannot be used ({error.strerror}): choose another with --port."
        ) from error
