from tests.conftest import command, home, no_home_of_the_user, one_process_a_command, pytest_configure

__all__ = ["command", "home", "no_home_of_the_user", "one_process_a_command", "pytest_configure"]
