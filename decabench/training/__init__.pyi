from .bundle import Bundle as Bundle
from .bundle import WrittenBundle as WrittenBundle
from .bundle import compare_losses as compare_losses
from .bundle import require_free as require_free
from .bundle import write_bundle as write_bundle
from .config import TrainConfig as TrainConfig
from .config import from_mapping as from_mapping
from .config import in_steps as in_steps
from .config import read_config as read_config
from .config import with_settings as with_settings
from .loop import FinishedRun as FinishedRun
from .loop import TrainingInterrupted as TrainingInterrupted
from .loop import TrainingRun as TrainingRun
from .loop import plan_training as plan_training
from .loop import run_training as run_training
from .loop import train as train
from .resume import is_unstarted as is_unstarted
from .validator import show_score as show_score

__all__ = [
    "Bundle",
    "FinishedRun",
    "TrainConfig",
    "TrainingInterrupted",
    "TrainingRun",
    "WrittenBundle",
    "compare_losses",
    "from_mapping",
    "in_steps",
    "is_unstarted",
    "plan_training",
    "read_config",
    "require_free",
    "run_training",
    "show_score",
    "train",
    "with_settings",
    "write_bundle",
]
