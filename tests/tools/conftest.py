from tests.tasks.conftest import prepared, shared  # noqa: F401
