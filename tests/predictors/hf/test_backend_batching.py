"""The size of a batch: grows while that is faster, halves where it does not fit, remembers both."""

from decabench.predictors.hf.backend import BatchSize


def run(size, prompts, seconds, fits=lambda rows: True, positions=100):
    """The sizes of the batches that were tried for so many prompts."""
    tried = []
    while prompts:
        rows = size.rows(positions, prompts)
        tried.append(rows)
        if fits(rows):
            size.grow(rows, positions, seconds(rows))
            prompts -= rows
        else:
            size.shrink(rows, positions)
    return tried


def test_it_goes_back_where_twice_as_many_take_twice_as_long():
    tried = run(BatchSize(None, 64), 100, lambda rows: rows / 100)
    assert tried[:4] == [8, 16, 8, 8]


def test_it_halves_where_it_does_not_fit_and_stays_there():
    tried = run(BatchSize(None, 256), 200, lambda rows: 1.0, fits=lambda rows: rows < 20)
    assert tried[:6] == [8, 16, 32, 16, 16, 16] and max(tried[3:]) == 16


def test_a_size_that_was_asked_for_is_kept_but_where_it_does_not_fit():
    assert set(run(BatchSize(24, 8), 96, lambda rows: 0.001)) == {24}
    assert run(BatchSize(24, 8), 24, lambda rows: 1.0, fits=lambda rows: rows <= 6) == [24, 12, 6, 6, 6, 6]


def test_what_did_not_fit_is_remembered_for_the_next_task():
    size = BatchSize(16, 16)
    size.shrink(16, 1000)
    size.begin()
    assert size.rows(1000, 100) == 8  # 16 of them are known not to fit
    assert size.rows(500, 100) == 16  # half as long, it is not known
