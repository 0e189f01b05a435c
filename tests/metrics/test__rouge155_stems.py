import pytest

from decabench.metrics._rouge155 import stem


@pytest.mark.parametrize(
    ("word", "expected"),
    [  # Porter 1980's own examples of the steps, unless noted
        ("caresses", "caress"), ("ponies", "poni"), ("ties", "ti"), ("caress", "caress"), ("cats", "cat"),
        ("feed", "feed"), ("agreed", "agre"), ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor"),
        ("sing", "sing"), ("conflated", "conflat"), ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"),
        ("falling", "fall"), ("hissing", "hiss"), ("fizzed", "fizz"), ("failing", "fail"), ("filing", "file"),
        ("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("conditional", "condit"),
        ("vietnamization", "vietnam"),
        ("triplicate", "triplic"), ("hopeful", "hope"), ("goodness", "good"), ("revival", "reviv"),
        ("adoption", "adopt"),
        ("replacement", "replac"), ("adjustment", "adjust"), ("dependent", "depend"), ("probate", "probat"),
        ("rate", "rate"), ("cease", "ceas"), ("controll", "control"), ("roll", "roll"), ("is", "is"),
        ("yellowed", "yellow"), ("possibly", "possibl"), ("archaeology", "archaeolog"), ("geology", "geologi"),  # logi
        ("decision", "decis"), ("element", "elem"), ("cement", "cement"),  # ROUGE's own step 4
    ],
)  # fmt: skip
def test_stem(word, expected):
    assert stem(word) == expected
