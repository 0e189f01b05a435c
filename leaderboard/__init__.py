"""The leaderboard, a static site built from submissions."""

from decabench.leaderboard.entries import LeaderboardError, Refusal
from decabench.leaderboard.example_pages import Policy, write_example_pages
from decabench.leaderboard.pages import write_comparison_page
from decabench.leaderboard.reviewing import (
    Problem,
    PullRequest,
    Review,
    ReviewedScore,
    SendingLimits,
    outcome_path,
    queue_fault,
    read_request,
    review_submissions,
    settle,
    take_queue,
)
from decabench.leaderboard.site import BoardOptions, Site, build_leaderboard, write_leaderboard

__all__ = [
    "BoardOptions",
    "LeaderboardError",
    "Policy",
    "Problem",
    "PullRequest",
    "Refusal",
    "Review",
    "ReviewedScore",
    "SendingLimits",
    "Site",
    "build_leaderboard",
    "outcome_path",
    "queue_fault",
    "read_request",
    "review_submissions",
    "settle",
    "take_queue",
    "write_comparison_page",
    "write_example_pages",
    "write_leaderboard",
]
