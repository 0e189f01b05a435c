"""The leaderboard: results files in, one static page out."""

from decabench.leaderboard.board import TaskColumn, board
from decabench.leaderboard.build import build
from decabench.leaderboard.read import LeaderboardError, read

__all__ = ["LeaderboardError", "TaskColumn", "board", "build", "read"]
