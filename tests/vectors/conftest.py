from tests.models.conftest import kit, one_thread  # noqa: F401
from tests.training.conftest import make_run  # noqa: F401
