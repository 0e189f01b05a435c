"""The leaderboard: results files in, a static site out."""

from decabench.leaderboard.board import TaskColumn, board
from decabench.leaderboard.build import build
from decabench.leaderboard.examples import Policy
from decabench.leaderboard.read import LeaderboardError, read

__all__ = ["LeaderboardError", "Policy", "TaskColumn", "board", "build", "read"]
