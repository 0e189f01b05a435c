"""Run a model on tasks: plan the run, ask the questions, keep a journal, write the submission."""

from decabench.runs.ask import Engine, EngineOptions, LocalEngine, Progress, Tally
from decabench.runs.estimate import Estimate, estimate_run
from decabench.runs.plan import ALL_VARIANTS, Plan, PlannedTask, Prompts, Run, Selection, plan_run, read_ids
from decabench.runs.write import Report, make_engine, occupied_by, predict, run_plan

__all__ = [
    "ALL_VARIANTS",
    "Engine",
    "EngineOptions",
    "Estimate",
    "LocalEngine",
    "Plan",
    "PlannedTask",
    "Progress",
    "Prompts",
    "Report",
    "Run",
    "Selection",
    "Tally",
    "estimate_run",
    "make_engine",
    "occupied_by",
    "plan_run",
    "predict",
    "read_ids",
    "run_plan",
]
