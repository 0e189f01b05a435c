"""The size of a batch: halves where it does not fit, and remembers that."""

from decabench.predictors.hf.backend import BatchSize


def run(size, prompts, fits=lambda rows: True, positions=100):
    """The sizes of the batches that were tried for so many prompts."""
    tried = []
    while prompts:
        rows = size.rows(positions, prompts)
        tried.append(rows)
        if fits(rows):
            prompts -= rows
        else:
            size.shrink(rows, positions)
    return tried


def test_it_halves_where_it_does_not_fit_and_stays_there():
    assert run(BatchSize(24), 96) == [24] * 4
    assert run(BatchSize(24), 24, fits=lambda rows: rows <= 6) == [24, 12, 6, 6, 6, 6]


def test_what_did_not_fit_is_remembered_by_the_number_of_tokens():
    size = BatchSize(16)
    size.shrink(16, 1000)
    assert size.rows(1000, 100) == 8  # 16 of them are known not to fit
    assert size.rows(500, 100) == 16  # half as long, it is not known
