"""What is started while interrupts are held."""

import signal

import pytest

from decabench.workers import interrupts_held


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system has no signal masks")
def test_ctrl_c_waits_for_the_end() -> None:
    with pytest.raises(KeyboardInterrupt):
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            reached = True
        pytest.fail("the signal was lost")
    assert reached
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
