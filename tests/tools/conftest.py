from tests.tasks.conftest import shared  # noqa: F401
