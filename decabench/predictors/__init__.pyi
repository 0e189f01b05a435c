from .baselines import OracleSetting as OracleSetting
from .baselines import copy_context as copy_context
from .baselines import first_choice as first_choice
from .baselines import lead_3 as lead_3
from .baselines import majority as majority
from .baselines import most_frequent_tag as most_frequent_tag
from .baselines import oracle as oracle
from .baselines import random_answer as random_answer
from .protocol import Answer as Answer
from .protocol import Backend as Backend
from .protocol import Failure as Failure
from .protocol import Finish as Finish
from .protocol import Header as Header
from .protocol import ModelOptions as ModelOptions
from .protocol import OptionInfo as OptionInfo
from .protocol import Outcome as Outcome
from .protocol import Predictor as Predictor
from .protocol import PredictorFactory as PredictorFactory
from .protocol import Setting as Setting
from .protocol import StreamingPredictor as StreamingPredictor
from .protocol import answer_from as answer_from
from .protocol import check_ranges as check_ranges
from .protocol import option as option
from .protocol import storable_outcome as storable_outcome
from .protocol import validate_outcome as validate_outcome
from .schemes import PREDICTORS as PREDICTORS
from .schemes import SCHEMES as SCHEMES
from .schemes import make_backend as make_backend
from .schemes import predictor_names as predictor_names

__all__ = [
    "PREDICTORS",
    "SCHEMES",
    "Answer",
    "Backend",
    "Failure",
    "Finish",
    "Header",
    "ModelOptions",
    "OptionInfo",
    "OracleSetting",
    "Outcome",
    "Predictor",
    "PredictorFactory",
    "Setting",
    "StreamingPredictor",
    "answer_from",
    "check_ranges",
    "copy_context",
    "first_choice",
    "lead_3",
    "majority",
    "make_backend",
    "most_frequent_tag",
    "option",
    "oracle",
    "predictor_names",
    "random_answer",
    "storable_outcome",
    "validate_outcome",
]
