from .errors import DecabenchError as DecabenchError
from .exchange import import_answers as import_answers
from .leaderboard import write_leaderboard as write_leaderboard
from .metrics import Metric as Metric
from .runs import predict as predict
from .runs import run as run
from .scoring import compare as compare
from .scoring import evaluate as evaluate
from .scoring import read_results as read_results
from .scoring import verify as verify
from .submission import write_submission as write_submission
from .tasks import Example as Example
from .tasks import Suite as Suite
from .tasks import Task as Task
from .tasks import load as load
from .tasks import prepare as prepare
from .training import train as train

__version__: str
