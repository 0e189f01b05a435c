"""The leaderboard: results files in, a static site out."""

from decabench.leaderboard.entries import LeaderboardError
from decabench.leaderboard.example_pages import write_example_pages
from decabench.leaderboard.excerpts import Policy
from decabench.leaderboard.pages import write_comparison_page
from decabench.leaderboard.site import BoardOptions, Site, build_leaderboard, open_server, write_leaderboard

__all__ = [
    "BoardOptions",
    "LeaderboardError",
    "Policy",
    "Site",
    "build_leaderboard",
    "open_server",
    "write_comparison_page",
    "write_example_pages",
    "write_leaderboard",
]
