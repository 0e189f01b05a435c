"""Part-of-speech tagging of Hindi-English posts (ICON-2016), and of Hindi as an auxiliary task."""

from __future__ import annotations

from collections.abc import Iterator

from decabench.tasks.datasets.columns import POS_QUESTION, POS_VARIANTS, held_out, joined
from decabench.tasks.example import Example
from decabench.tasks.outputs import Tags
from decabench.tasks.readers import column_blocks, github_raw
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import word_by_word

_POSTS = {"facebook": "FB_HI_EN_CR.txt", "twitter": "TWT_HI_EN_CR.txt", "whatsapp": "WA_HI_EN_CR.txt"}


def _read_posts(files: Files, split: str) -> Iterator[Example]:
    for source, name in _POSTS.items():
        # Like GIRNet's code, leave out the last Facebook post, because no empty line follows it.
        posts = list(column_blocks(files.path(name), 3, "\t", closed=True))
        training = int(0.8 * len(posts))
        chosen = posts[training:] if split == "test" else held_out(posts[:training], split)
        for index, block in enumerate(chosen):
            id, meta = f"hien.pos.{split}.{source}.{index}", {"languages": joined(block, 1)}
            yield Example(id, POS_QUESTION, joined(block, 0), (joined(block, 2),), (source, id), meta)


_COMMIT = "15dc8f29ce5d4fb2ca26eaca3647d5788832ba4f"
_POST_FILES = tuple(
    RemoteFile(name, (github_raw("divamgupta/mtl_girnet", _COMMIT, f"data_prep/data_raw_postag/{name}"),))
    for name in _POSTS.values()
)
_POST_TAGS = (
    *("G_N", "G_V", "G_X", "G_PRP", "PSP", "G_J", "DT", "G_R", "G_PRT", "CC", "G_SYM"),
    *("@", "#", "$", "E", "U", "~", "null"),
)

HIEN_POS = Task(
    name="hien.pos",
    title="Part-of-speech tagging, Hindi-English",
    dataset="ICON-2016, Hindi-English posts",
    output=Tags(names=_POST_TAGS, max_tokens=2_048),
    # GIRNet's 2,102 training posts, with the last tenth of each file held out, and its 528 test posts.
    counts={"train": 1_893, "validation": 209, "test": 528},
    sources=(
        Source("upstream text", dict.fromkeys(("train", "validation", "test"), _POST_FILES), _read_posts),
    ),
    licence="Not stated (posts from Facebook, Twitter and WhatsApp); for research",
    citation="Jamatia et al. 2015, Part-of-Speech Tagging for Code-Mixed English-Hindi Chat Messages",
    homepage="https://github.com/divamgupta/mtl_girnet",
    languages=("hi", "en"),
    secondary=("tag_macro_f1",),
    notes=(
        "The split is that of GIRNet's code: the first 80 % of each file for training and the rest for testing. One "
        "Facebook post is left out, because no empty line follows it. Validation is the last tenth of each file's "
        "training posts. The outermost unit is the social network, so scores apply only to these three networks."
    ),
    unit_names=("network", "post"),
    prompt=word_by_word(
        "You are given the numbered words of a post that mixes Hindi and English. Tag each with its part of speech: "
        "G_N noun, G_V verb, G_PRP pronoun, G_J adjective, G_R adverb, PSP adposition, DT determiner, CC conjunction, "
        "G_PRT particle, $ number, G_SYM symbol, @ mention, # hashtag, U address of a page, E emoticon, ~ mark of a "
        "retweet, G_X anything else.",
        "its tag",
    ),
    variants=POS_VARIANTS,
    withhold_texts=True,  # personal posts without a license
    shared_folder="hien.pos",
)


_TREEBANK = {
    "train": "hi_hdtb_dev_set.csv",
    "validation": "hi_hdtb_dev_set.csv",
    "test": "hi_hdtb_test_set.csv",
}


def _read_hindi(files: Files, split: str) -> Iterator[Example]:
    blocks = list(column_blocks(files.path(_TREEBANK[split]), 2, "~"))
    del blocks[0][0]  # the names of the columns
    for index, block in enumerate(held_out(blocks, split)):
        id = f"hi.pos.{split}.{index}"
        yield Example(id, POS_QUESTION, joined(block, 0), (joined(block, 1),), (id,))


HI_POS = Task(
    name="hi.pos",
    title="Part-of-speech tagging, Hindi",
    dataset="Hindi Dependency Treebank, two of its three parts",
    output=Tags(max_tokens=2_048),
    counts={"train": 1_494, "validation": 165, "test": 1_684},
    sources=(
        Source(
            "treebank csv", {split: (RemoteFile(name),) for split, name in _TREEBANK.items()}, _read_hindi
        ),
    ),
    licence="CC BY-NC-SA 4.0",
    citation="Bhat et al. 2017, The Hindi/Urdu Treebank Project",
    homepage="https://ltrc.iiit.ac.in/treebank_H2014/",
    languages=("hi",),
    secondary=(),
    notes=(
        "Replaces the Hindi auxiliary task of GIRNet and MT-RMN (14,084 sentences from Sachdeva et al. 2014, 25 "
        "tags), which is not available. Train and validation are the first nine tenths and the last tenth of the "
        "treebank's development part, and test is its test part. The files are only available from mirrors."
    ),
    unit_names=("sentence",),
    prompt=word_by_word(
        "You are given the numbered words of a Hindi sentence. Tag each with its part of speech, in the tags of the "
        "Indian Languages treebanks, such as NN, NNP, PSP, VM, VAUX, JJ, PRP, CC, SYM.",
        "its tag",
    ),
    variants=POS_VARIANTS,
    shared_folder="hien.pos",
)
