from .analysis import attention_map as attention_map
from .analysis import find_example as find_example
from .analysis import pointing as pointing
from .analysis import write_attention as write_attention
from .analysis import write_pointing as write_pointing
from .checkpoints import latest as latest
from .config import TrainConfig as TrainConfig
from .config import read_config as read_config
from .config import with_settings as with_settings
from .exporter import UNFINISHED as UNFINISHED
from .exporter import export as export
from .loop import Run as Run
from .loop import train as train

__all__ = [
    "UNFINISHED",
    "Run",
    "TrainConfig",
    "attention_map",
    "export",
    "find_example",
    "latest",
    "pointing",
    "read_config",
    "train",
    "with_settings",
    "write_attention",
    "write_pointing",
]
