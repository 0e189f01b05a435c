from .ask import Engine as Engine
from .ask import EngineOptions as EngineOptions
from .ask import LocalEngine as LocalEngine
from .ask import Progress as Progress
from .ask import Tally as Tally
from .estimate import Estimate as Estimate
from .estimate import estimate_run as estimate_run
from .experiment import RUN_TOML as RUN_TOML
from .experiment import BaselineError as BaselineError
from .experiment import Experiment as Experiment
from .experiment import Forecast as Forecast
from .experiment import Outcome as Outcome
from .experiment import find_setting as find_setting
from .experiment import forecast as forecast
from .experiment import read_experiment as read_experiment
from .experiment import run as run
from .experiment import run_experiment as run_experiment
from .plan import ALL_VARIANTS as ALL_VARIANTS
from .plan import Plan as Plan
from .plan import PlannedTask as PlannedTask
from .plan import Prompts as Prompts
from .plan import Run as Run
from .plan import Selection as Selection
from .plan import plan_run as plan_run
from .plan import read_ids as read_ids
from .write import Report as Report
from .write import make_engine as make_engine
from .write import occupied_by as occupied_by
from .write import predict as predict
from .write import run_plan as run_plan

__all__ = [
    "ALL_VARIANTS",
    "RUN_TOML",
    "BaselineError",
    "Engine",
    "EngineOptions",
    "Estimate",
    "Experiment",
    "Forecast",
    "LocalEngine",
    "Outcome",
    "Plan",
    "PlannedTask",
    "Progress",
    "Prompts",
    "Report",
    "Run",
    "Selection",
    "Tally",
    "estimate_run",
    "find_setting",
    "forecast",
    "make_engine",
    "occupied_by",
    "plan_run",
    "predict",
    "read_experiment",
    "read_ids",
    "run",
    "run_experiment",
    "run_plan",
]
