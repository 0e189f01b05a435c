"""The English CoNLL shared tasks: chunks (2000), named entities (2003), and OntoNotes in CoNLL-2012 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

from decabench.tasks.datasets.columns import POS_QUESTION, POS_VARIANTS, held_out, joined
from decabench.tasks.example import Example
from decabench.tasks.outputs import Tags, Text
from decabench.tasks.readers import Record, column_blocks, github_raw, listed_files
from decabench.tasks.task import Files, Reader, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, PromptTemplate, fixed, matched, word_by_word

# The shared tasks of CoNLL-2000 (chunks, and parts of speech) and CoNLL-2003 (named entities), English.

_CHUNK_QUESTION = "What are the chunk tags?"
_ENTITIES_QUESTION = "What are the named-entity tags?"

_ENTITIES_VARIANTS = (
    fixed("each-word", _ENTITIES_QUESTION, "What is the named-entity tag of each word?"),
    fixed("tag", _ENTITIES_QUESTION, "Tag the named entities."),
    fixed("which", _ENTITIES_QUESTION, "Which words are named entities, and of which kind?"),
)
_BY_TYPE = r"Which entities are (?P<plural>.+)\?"
_BY_TYPE_VARIANTS = (
    matched("list", _BY_TYPE, "List the entities that are {plural}."),
    matched("mentioned", _BY_TYPE, "Which entities that are {plural} are mentioned?"),
    matched("found", _BY_TYPE, "Find the entities that are {plural}."),
)
_ENTITIES_PROMPT = PromptTemplate(
    instruction=(
        "You are given a sentence. Answer with the entities of the kind that is asked for, as they stand in the "
        "sentence and in their order, on one line with commas between them, or with None if there are none."
    ),
    input="{context}\n\n{question}",
    answer="Answer:",
    stop=("\n\n",),
    form=AnswerForm("span", ("None",), unquote=True),
)
"""The prompt of tasks that ask for entities of one type."""


# CoNLL-2000: word, part of speech, chunk

_ZIP = "conll2000.zip"
_PARTS = {"train": "train.txt", "validation": "train.txt", "test": "test.txt"}


def _read_2000(task: str, files: Files, split: str) -> Iterator[Example]:
    blocks = column_blocks(files.path(_PARTS[split]), 3, " ")
    for index, block in enumerate(held_out(blocks, split)):
        id, words, tags = f"{task}.{split}.{index}", joined(block, 0), joined(block, 1)
        if task == "conll2000":
            yield Example(id, _CHUNK_QUESTION, words, (joined(block, 2),), (id,), {"pos": tags})
        else:
            yield Example(id, POS_QUESTION, words, (tags,), (id,))


def _sources_2000(task: str) -> tuple[Source, ...]:
    text = listed_files(
        "",
        """
        train      82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea 2_842_164 train.txt
        validation 82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea 2_842_164 train.txt
        test       73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628 639_396   test.txt
        """,
    )
    archive = RemoteFile(
        _ZIP,
        (
            github_raw(
                "nltk/nltk_data", "5db857e6f7df11eabb5e5665836db9ec8df07e28", f"packages/corpora/{_ZIP}"
            ),
        ),
        "01e65164f268366e7caa0db92332a1955d081908c87016e2c7640c3c5279b7cd",
        756_607,
    )
    return (
        Source("upstream text", text, partial(_read_2000, task)),
        Source(
            "nltk zip",
            dict.fromkeys(_PARTS, (archive,)),
            partial(_read_2000, task),
            members=("conll2000/train.txt", "conll2000/test.txt"),
        ),
    )


_CHUNKS = ("ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP")
_PENN_TAGS = (
    *"CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH".split(),
    *"VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB # $ '' `` ( ) , . :".split(),
)
_SHARED_2000 = {
    # The published training file has 8,936 sentences; its last tenth is held out.
    "counts": {"train": 8_043, "validation": 893, "test": 2_012},
    "licence": "Not stated (Wall Street Journal text from the Penn Treebank); for research",
    "citation": "Tjong Kim Sang et al. 2000, Introduction to the CoNLL-2000 Shared Task: Chunking",
    "homepage": "https://www.clips.uantwerpen.be/conll2000/chunking/",
    "unit_names": ("sentence",),
    "withhold_texts": True,
    "shared_folder": "conll2000",
    "secondary": (),
}
_SPLIT_2000 = (
    "Validation is the last tenth of the published training file (893 of 8,936 sentences), because "
    "no validation file is published."
)

CONLL2000 = Task(
    name="conll2000",
    title="Chunking",
    dataset="CoNLL-2000",
    output=Tags("IOB2", ("O", *(f"{begin}-{kind}" for kind in _CHUNKS for begin in "BI")), max_tokens=1_024),
    sources=_sources_2000("conll2000"),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Divide it into base phrases and tag each word: B- and the "
        "kind of the phrase for the first word of one, I- and the kind for its other words, O for words outside. The "
        f"kinds are {', '.join(_CHUNKS)}.",
        "its tag, such as B-NP",
    ),
    variants=(
        fixed("each-word", _CHUNK_QUESTION, "What is the chunk tag of each word?"),
        fixed("phrases", _CHUNK_QUESTION, "Which base phrases does the sentence consist of?"),
        fixed("tag", _CHUNK_QUESTION, "Tag each word with its chunk."),
    ),
    notes=f"{_SPLIT_2000} Tags are IOB2, as published.",
    **_SHARED_2000,  # type: ignore[arg-type]
)

EN_POS = Task(
    name="en.pos",
    title="Part-of-speech tagging, English news",
    dataset="CoNLL-2000, parts of speech",
    output=Tags(names=_PENN_TAGS, max_tokens=1_024),
    sources=_sources_2000("en.pos"),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Tag each with its part of speech, in the tags of the Penn "
        "Treebank.",
        "its tag, such as NNP",
    ),
    variants=POS_VARIANTS,
    notes="The Penn Treebank tags in CoNLL-2000's files, which were assigned by a tagger and are not gold. "
    f"{_SPLIT_2000}",
    **_SHARED_2000,  # type: ignore[arg-type]
)


# CoNLL-2003: word, part of speech, chunk, named entity

_EXTENSIONS = {"train": "train", "validation": "testa", "test": "testb"}
_PLURALS = {"PER": "persons", "LOC": "locations", "ORG": "organizations", "MISC": "miscellaneous"}


_Sentence = tuple[str, str, str, str]
"""A sentence: (id, document, words, tags). Words and tags are separated by spaces."""


def _blocks_2003(files: Files, split: str) -> Iterator[tuple[str, str, list[Record]]]:
    """Yield (id, document, words) for each sentence. A -DOCSTART- line begins a document."""
    document = index = 0
    for block in column_blocks(files.path(f"eng.{_EXTENSIONS[split]}"), 4, " "):
        words = [record for record in block if record.value[0] != "-DOCSTART-"]
        document += len(block) - len(words)
        if words:
            yield f"conll2003.{split}.{index}", f"{split}-{document}", words
            index += 1


def _read_2003(files: Files, split: str) -> Iterator[Example]:
    for id, document, block in _blocks_2003(files, split):
        meta = {"pos": joined(block, 1), "chunks": joined(block, 2)}
        yield Example(id, _ENTITIES_QUESTION, joined(block, 0), (joined(block, 3),), (document,), meta)


def _entities(words: str, tags: str) -> list[tuple[str, str]]:
    """Return the type and the text of each entity, in order."""
    found: list[tuple[str, list[str]]] = []
    before = "O"
    for word, tag in zip(words.split(), tags.split(), strict=True):
        begin, _, kind = tag.partition("-")
        if begin == "O":
            before = "O"
            continue
        if begin == "B" or before != kind:
            found.append((kind, []))
        found[-1][1].append(word)
        before = kind
    return [(kind, " ".join(entity)) for kind, entity in found]


def _ask_for_entities(sentences: Iterable[_Sentence], plurals: Mapping[str, str]) -> Iterator[Example]:
    """Yield one question for each sentence and entity type, worded as in decaNLP.

    The answer lists the entities of the type in order, separated by commas, or is `None`.
    """
    for id, document, words, tags in sentences:
        entities = _entities(words, tags)
        for kind, plural in plurals.items():
            answer = ", ".join(entity for of, entity in entities if of == kind) or "None"
            yield Example(f"{id}.{kind}", f"Which entities are {plural}?", words, (answer,), (document, id))


def _read_2003_entities(files: Files, split: str) -> Iterator[Example]:
    blocks = _blocks_2003(files, split)
    sentences = ((id, document, joined(block, 0), joined(block, 3)) for id, document, block in blocks)
    return _ask_for_entities(sentences, _PLURALS)


def _sources_2003(read: Reader) -> tuple[Source, ...]:
    files = listed_files(
        "",
        """
        train      eac0822f501353f265383ddf1edb0dcd42a1b6eefd3e383d7074db98c38eb41c 3_281_528 eng.train
        validation aedc4ccbd1ae9795feaa0e86fe72d195b0258abed9d705b630d1c889276fac1e 827_012   eng.testa
        test       0632f32c090ef31c223135b7fee3187a7cf8e65c4015c7866bb7783428cdd9a6 748_096   eng.testb
        """,
    )
    return (Source("upstream text", files, read),)


_COUNTS_2003 = {"train": 14_041, "validation": 3_250, "test": 3_453}
_SHARED_2003 = {
    "dataset": "CoNLL-2003, English",
    "licence": "Reuters text, for research; may not be redistributed, so you need your own copy",
    "citation": "Tjong Kim Sang et al. 2003, Introduction to the CoNLL-2003 Shared Task: Named Entity Recognition",
    "homepage": "https://www.clips.uantwerpen.be/conll2003/ner/",
    "withhold_texts": True,
    "shared_folder": "conll2003",
}

CONLL2003 = Task(
    name="conll2003",
    title="Named-entity recognition",
    output=Tags("IOB1", ("O", *(f"{begin}-{kind}" for kind in _PLURALS for begin in "IB")), max_tokens=1_024),
    secondary=(),
    sources=_sources_2003(_read_2003),
    counts=_COUNTS_2003,
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Tag the words of named entities with I- and the kind of the "
        "entity: I-PER for persons, I-LOC for locations, I-ORG for organizations, I-MISC for others; with B- in place "
        "of I- for the first word of an entity that directly follows another of its kind; and all other words with O.",
        "its tag",
    ),
    variants=_ENTITIES_VARIANTS,
    unit_names=("document",),
    notes=(
        "Tags are IOB1, as published: B- is used only if an entity directly follows another of the same type. Lines "
        "with -DOCSTART- separate documents."
    ),
    **_SHARED_2003,  # type: ignore[arg-type]
)

CONLL2003_ENTITIES = Task(
    name="conll2003.entities",
    title="Named entities by type",
    output=Text(max_tokens=128),
    metric="nf1",
    secondary=("em",),
    gold_score="em",  # nF1 drops articles, so the entity `AN` (Alleanza Nazionale) becomes empty and gold scores 99.99
    sources=_sources_2003(_read_2003_entities),
    counts={split: len(_PLURALS) * count for split, count in _COUNTS_2003.items()},
    question_varies=True,
    unit_names=("document", "sentence"),
    prompt=_ENTITIES_PROMPT,
    variants=_BY_TYPE_VARIANTS,
    redistributable=False,  # the answers are words of the text
    notes=(
        "Each sentence has one question per entity type, worded like decaNLP's questions about OntoNotes. The answer "
        "is `None` if there is no such entity. nF1 drops the name of the party AN, because it looks like an article. "
        "This happens twice in the test set, so gold answers score 99.99 there."
    ),
    **_SHARED_2003,  # type: ignore[arg-type]
)


# OntoNotes 5, English named entities, read from your own files in CoNLL-2012 columns.

_ONTONOTES_PLURALS = {  # worded as in decaNLP
    "PERSON": "persons",
    "NORP": "political",
    "FAC": "facilities",
    "ORG": "organizations",
    "GPE": "geopolitical",
    "LOC": "locations",
    "PRODUCT": "products",
    "EVENT": "events",
    "WORK_OF_ART": "artworks",
    "LAW": "legal",
    "LANGUAGE": "languages",
    "DATE": "dates",
    "TIME": "times",
    "PERCENT": "percentages",
    "MONEY": "monetary",
    "QUANTITY": "quantitative",
    "ORDINAL": "ordinal",
    "CARDINAL": "cardinal",
}

_WORD, _ENTITY, _COLUMNS = 3, 10, 12


def _ontonotes_sentences(path: Path, split: str) -> Iterator[_Sentence]:
    """Yield the sentences of a file of concatenated CoNLL-2012 documents (`*_gold_conll`)."""
    document, index = "", 0
    for block in column_blocks(path, _COLUMNS, None, comment="#"):
        for is_comment, lines in groupby(block, key=lambda line: len(line.value) == 1):
            if is_comment:
                for (comment,) in (line.value for line in lines):
                    if comment.startswith("#begin document"):
                        document = comment.removeprefix("#begin document").strip()
            else:
                rows = list(lines)
                yield f"ontonotes.{split}.{index}", document, joined(rows, _WORD), _tags(rows)
                index += 1


def _tags(rows: list[Record]) -> str:
    """Return a sentence's entities as IOB2 tags.

    In the entity column, `(PERSON*` begins an entity and `*)` ends it.
    """
    tags, inside = [], ""
    for row in rows:
        cell: str = row.value[_ENTITY]
        begins = cell.startswith("(")
        if begins:
            inside = cell.strip("(*)")
            if inside not in _ONTONOTES_PLURALS:
                raise row.fault(f"column {_ENTITY + 1} must contain an entity type, not {cell[:40]!r}")
        tags.append(f"{'B' if begins else 'I'}-{inside}" if inside else "O")
        if cell.endswith(")"):
            inside = ""
    return " ".join(tags)


def _read_ontonotes(files: Files, split: str) -> Iterator[Example]:
    for id, document, words, tags in _ontonotes_sentences(files.path(_NAMES[split]), split):
        yield Example(id, _ENTITIES_QUESTION, words, (tags,), (document,))


def _read_ontonotes_entities(files: Files, split: str) -> Iterator[Example]:
    return _ask_for_entities(_ontonotes_sentences(files.path(_NAMES[split]), split), _ONTONOTES_PLURALS)


_NAMES = {
    "train": "train.english.v4_gold_conll",
    "validation": "development.english.v4_gold_conll",
    "test": "test.english.v4_gold_conll",
}


def _ontonotes_sources(read: Reader) -> tuple[Source, ...]:
    return (Source("conll columns", {split: (RemoteFile(name),) for split, name in _NAMES.items()}, read),)


_ONTONOTES_COUNTS = {"train": 75_187, "validation": 9_603, "test": 9_479}
_ONTONOTES_SHARED = {
    "dataset": "OntoNotes 5, English",
    "licence": "Linguistic Data Consortium (LDC2013T19); may not be redistributed, so you need your own copy",
    "citation": "Pradhan et al. 2013, Towards Robust Linguistic Analysis using OntoNotes",
    "homepage": "https://catalog.ldc.upenn.edu/LDC2013T19",
    "shared_folder": "ontonotes",
}
_ONTONOTES_FILES = (
    "Put your own files into the folder `ontonotes` of a mirror. Join the documents of each split, in CoNLL-2012 "
    "columns, into train.english.v4_gold_conll, development.english.v4_gold_conll and test.english.v4_gold_conll."
)

ONTONOTES = replace(
    CONLL2003,
    name="ontonotes",
    title="Named-entity recognition, OntoNotes",
    output=Tags(
        "IOB2", ("O", *(f"{begin}-{kind}" for kind in _ONTONOTES_PLURALS for begin in "BI")), max_tokens=1_536
    ),
    counts=_ONTONOTES_COUNTS,
    sources=_ontonotes_sources(_read_ontonotes),
    prompt=word_by_word(
        "You are given the numbered words of a sentence. Tag the first word of a named entity with B- and the kind of "
        "the entity, its other words with I- and the kind, and all other words with O. The kinds are "
        f"{', '.join(_ONTONOTES_PLURALS)}.",
        "its tag, such as B-PERSON",
    ),
    notes=f"Tags are IOB2, converted from the brackets in column 11. {_ONTONOTES_FILES}",
    **_ONTONOTES_SHARED,  # type: ignore[arg-type]
)

ONTONOTES_ENTITIES = replace(
    CONLL2003_ENTITIES,
    name="ontonotes.entities",
    title="Named entities by type, OntoNotes",
    output=Text(max_tokens=192),
    counts={split: len(_ONTONOTES_PLURALS) * count for split, count in _ONTONOTES_COUNTS.items()},
    sources=_ontonotes_sources(_read_ontonotes_entities),
    notes=(
        "Each sentence has one question per entity type, such as `Which entities are persons?`, as in decaNLP. The "
        "text is CoNLL-2012's tokens instead of decaNLP's cleaned text. The answer is `None` if there is no such "
        f"entity. {_ONTONOTES_FILES}"
    ),
    **_ONTONOTES_SHARED,  # type: ignore[arg-type]
)
