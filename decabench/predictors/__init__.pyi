from .baselines import copy_context as copy_context
from .baselines import first_choice as first_choice
from .baselines import lead_3 as lead_3
from .baselines import majority as majority
from .baselines import oracle as oracle
from .baselines import random_answer as random_answer
from .options import ModelOptions as ModelOptions
from .protocol import Answer as Answer
from .protocol import Backend as Backend
from .protocol import Failure as Failure
from .protocol import Finish as Finish
from .protocol import Outcome as Outcome
from .protocol import Predictor as Predictor
from .protocol import PredictorFactory as PredictorFactory
from .protocol import Setting as Setting
from .protocol import StreamingPredictor as StreamingPredictor
from .schemes import PREDICTORS as PREDICTORS
from .schemes import SCHEMES as SCHEMES
from .schemes import make_backend as make_backend

__all__ = [
    "PREDICTORS",
    "SCHEMES",
    "Answer",
    "Backend",
    "Failure",
    "Finish",
    "ModelOptions",
    "Outcome",
    "Predictor",
    "PredictorFactory",
    "Setting",
    "StreamingPredictor",
    "copy_context",
    "first_choice",
    "lead_3",
    "majority",
    "make_backend",
    "oracle",
    "random_answer",
]
