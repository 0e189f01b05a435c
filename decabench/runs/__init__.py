"""Run a model over tasks: plan, ask, keep a journal, write the submission."""

from decabench.runs.ask import Tally
from decabench.runs.engine import BATCH, Engine, EngineOptions, LocalEngine
from decabench.runs.estimate import Estimate, estimate
from decabench.runs.plan import ALL_VARIANTS, Choice, Plan, Prompts, Run, plan, read_ids
from decabench.runs.progress import reporter
from decabench.runs.write import ENGINES, Report, make_engine, occupied_by, run_predictor

__all__ = [
    "ALL_VARIANTS",
    "BATCH",
    "ENGINES",
    "Choice",
    "Engine",
    "EngineOptions",
    "Estimate",
    "LocalEngine",
    "Plan",
    "Prompts",
    "Report",
    "Run",
    "Tally",
    "estimate",
    "make_engine",
    "occupied_by",
    "plan",
    "read_ids",
    "reporter",
    "run_predictor",
]
