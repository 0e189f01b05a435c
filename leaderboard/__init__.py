"""The leaderboard: results files in, a static site out."""

from decabench.leaderboard.examples import Policy
from decabench.leaderboard.pages import write_comparison_page
from decabench.leaderboard.ranking import TaskColumn, board
from decabench.leaderboard.read import LeaderboardError, read_submissions
from decabench.leaderboard.site import build, serving

__all__ = [
    "LeaderboardError",
    "Policy",
    "TaskColumn",
    "board",
    "build",
    "read_submissions",
    "serving",
    "write_comparison_page",
]
