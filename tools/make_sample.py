"""Build the bundled sample (tasks/sample/), a small mirror in upstream's formats, from a full mirror.

    python tools/make_sample.py MIRROR

Real rows are copied unchanged, evenly spaced over each split. Two tasks have stand-ins (see tools/standin/README.md).
The same mirror always produces the same bytes.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "tasks" / "sample"
STANDIN = ROOT / "tools" / "standin"
TRAIN, HELD_OUT = 64, 32

XML = '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<refset>\n{documents}</refset>\n</mteval>\n'
# Each paragraph becomes a document, because the scores of a sample with a single document would have no
# spread.
DOCUMENT = '<doc docid="udhr-{number}">\n<seg id="1"> {text} </seg>\n</doc>\n'

Item = TypeVar("Item")


def pick_spaced(items: Sequence[Item], number: int) -> list[Item]:
    """Pick `number` evenly spaced items."""
    number = min(number, len(items))
    return [items[index * len(items) // number] for index in range(number)]


def pick_whole(items: Sequence[Item], rows: int, size: Callable[[Item], int]) -> list[Item]:
    """Pick evenly spaced items (dialogues, sentences) whose sizes add up to `rows` rows or slightly more."""
    choices = (pick_spaced(items, number) for number in range(1, rows + 1))
    return min(
        (chosen for chosen in choices if sum(map(size, chosen)) >= rows), key=lambda it: sum(map(size, it))
    )


def make_tar(members: dict[str, bytes]) -> bytes:
    """Pack members into a tar file without timestamps or owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def write(name: str, content: bytes) -> None:
    """Write a file to the sample."""
    path = SAMPLE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def make_json_lines(rows: Iterable[Any]) -> bytes:
    """Return the rows as JSON Lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def read_member(archive: Path, name: str) -> bytes:
    """Read a member of a tar archive."""
    with tarfile.open(archive) as tar:
        file = tar.extractfile(name)
        assert file is not None, name
        return file.read()


def squad(mirror: Path) -> None:
    for name, rows in (("train-v1.1.json", TRAIN), ("dev-v1.1.json", HELD_OUT)):
        articles = json.loads((mirror / name).read_text(encoding="utf-8"))["data"]
        chosen = []
        for article in pick_spaced(articles, rows // 4):
            short = sorted(article["paragraphs"], key=lambda paragraph: len(paragraph["context"]))
            paragraph = next(p for p in short if len(p["qas"]) >= 4 and len(p["context"]) > 300)
            paragraph = {**paragraph, "qas": paragraph["qas"][:4]}
            chosen.append({"title": article["title"], "paragraphs": [paragraph]})
        write(f"squad/{name}", json.dumps({"data": chosen, "version": "1.1"}, ensure_ascii=False).encode())


def iwslt(mirror: Path) -> None:
    pairs = [
        json.loads(line) for line in (STANDIN / "udhr.en-de.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    held_out = len(pairs) // 4
    groups = {"validation": pairs[1::4][:held_out], "test": pairs[3::4][:held_out]}
    used = [pair for group in groups.values() for pair in group]
    train = [pair for pair in pairs if pair not in used]
    members = {}
    for side in ("en", "de"):
        text = "".join(f"<url>udhr-{number}</url>\n {pair[side]} \n" for number, pair in enumerate(train))
        members[f"en-de/train.tags.en-de.{side}"] = text.encode()
        for year, split in (("tst2013", "validation"), ("tst2014", "test")):
            numbered = enumerate(escape(pair[side]) for pair in groups[split])
            documents = "".join(DOCUMENT.format(number=number, text=text) for number, text in numbered)
            members[f"en-de/IWSLT16.TED.{year}.en-de.{side}.xml"] = XML.format(documents=documents).encode()
    write("iwslt.en.de/en-de.tgz", gzip.compress(make_tar(members), mtime=0))


def cnn_dailymail(mirror: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        json.loads(line) for line in (STANDIN / "highlights.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for split in ("train", "validation", "test"):
        columns = {
            key: [row[key] for row in rows if row["split"] == split]
            for key in ("article", "highlights", "id")
        }
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer, compression="zstd", compression_level=19)
        write(f"cnn_dailymail/3.0.0/{split}-00000-of-00001.parquet", buffer.getvalue())


def multinli(mirror: Path) -> None:
    numbers = {"train": TRAIN, "dev_matched": HELD_OUT // 2, "dev_mismatched": HELD_OUT // 2}
    buffer = io.BytesIO()
    with zipfile.ZipFile(mirror / "multinli_1.0.zip") as source, zipfile.ZipFile(buffer, "w") as target:
        for part, number in numbers.items():
            name = f"multinli_1.0/multinli_1.0_{part}.jsonl"
            rows = [json.loads(line) for line in source.read(name).decode().splitlines()]
            rows = [row for row in rows if row["gold_label"] != "-"]
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(info, make_json_lines(pick_spaced(rows, number)))
    write("multinli.in.out/multinli_1.0.zip", buffer.getvalue())


def sst(mirror: Path) -> None:
    for part, number in (("train", TRAIN), ("dev", HELD_OUT), ("test", HELD_OUT)):
        name = f"{part}_binary_sent.csv"
        with (mirror / name).open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        buffer = io.StringIO(newline="")
        csv.writer(buffer, lineterminator="\n").writerows([header, *pick_spaced(rows, number)])
        write(f"sst/{name}", buffer.getvalue().encode())


def srl(mirror: Path) -> None:
    for part, number in (("train", TRAIN), ("dev", HELD_OUT), ("test", HELD_OUT)):
        name = f"wiki1.{part}.qa"
        blocks = (mirror / name).read_text(encoding="utf-8").strip("\n").split("\n\n")
        chosen = pick_whole(blocks, number, lambda block: block.count("\t?\t"))
        write(f"srl/{name}", "".join(f"{block}\n\n" for block in chosen).encode())


def zre(mirror: Path) -> None:
    members = {}
    for part, number in (("train", TRAIN), ("dev", HELD_OUT), ("test", HELD_OUT)):
        name = f"relation_splits/{part}.0"
        rows = read_member(mirror / "relation_splits.tar.bz2", name).decode().splitlines()
        answerable = [row for row in rows if row.count("\t") > 3]
        unanswerable = [row for row in rows if row.count("\t") == 3]
        both = zip(pick_spaced(answerable, number // 2), pick_spaced(unanswerable, number // 2), strict=True)
        members[name] = "".join(f"{row}\n" for pair in both for row in pair).encode()
    write("zre/relation_splits.tar.bz2", bz2.compress(make_tar(members)))


def woz(mirror: Path) -> None:
    language = mirror.name.removeprefix("woz.")
    for part, number in (("train", TRAIN), ("validate", HELD_OUT), ("test", HELD_OUT)):
        name = f"woz_{part}_{language}.json"
        dialogues = json.loads((mirror / name).read_text(encoding="utf-8"))
        chosen = pick_whole(dialogues, number, lambda dialogue: len(dialogue["dialogue"]))
        for dialogue in chosen:
            for turn in dialogue["dialogue"]:
                del turn["asr"]  # speech recognition hypotheses, which no task uses
        write(f"woz.{language}/{name}", json.dumps(chosen).encode())


def wikisql(mirror: Path) -> None:
    members = {}
    for part, number in (("train", TRAIN), ("dev", HELD_OUT), ("test", HELD_OUT)):
        texts = (
            read_member(mirror / "data.tar.bz2", f"data/{part}{end}").decode()
            for end in (".jsonl", ".tables.jsonl")
        )
        questions, tables = ([json.loads(line) for line in text.splitlines()] for text in texts)
        chosen = pick_spaced(questions, number)
        needed = {row["table_id"] for row in chosen}
        members[f"data/{part}.jsonl"] = make_json_lines(chosen)
        members[f"data/{part}.tables.jsonl"] = make_json_lines(
            table for table in tables if table["id"] in needed
        )
    write("wikisql/data.tar.bz2", bz2.compress(make_tar(members)))


def schema(mirror: Path) -> None:
    write("schema/schema.txt", (mirror / "schema.txt").read_bytes())


def squad2(mirror: Path) -> None:
    # The mirror has no training file, so training examples come from other articles of the dev file.
    articles = json.loads((mirror / "dev-v2.0.json").read_text(encoding="utf-8"))["data"]
    parts = {"dev-v2.0.json": articles[::2], "train-v2.0.json": articles[1::2]}
    for name, number in (("train-v2.0.json", TRAIN), ("dev-v2.0.json", HELD_OUT)):
        chosen = [_both_kinds(article) for article in pick_spaced(parts[name], number // 4)]
        write(f"squad2/{name}", json.dumps({"data": chosen, "version": "v2.0"}, ensure_ascii=False).encode())


def _both_kinds(article: Any) -> Any:
    """Pick a short paragraph with two answerable and two unanswerable questions."""
    for paragraph in sorted(article["paragraphs"], key=lambda paragraph: len(paragraph["context"])):
        kinds = [[qa for qa in paragraph["qas"] if qa["is_impossible"] == kind][:2] for kind in (False, True)]
        if min(map(len, kinds)) == 2:
            return {"title": article["title"], "paragraphs": [{**paragraph, "qas": [*kinds[0], *kinds[1]]}]}
    raise ValueError(f"No paragraph of {article['title']} has questions of both kinds.")


def snli(mirror: Path) -> None:
    # The mirror has no training file, so training examples come from other captions of the dev file.
    kept = ("captionID", "gold_label", "pairID", "sentence1", "sentence2")
    by_caption: dict[str, dict[str, list[Any]]] = {"dev": {}, "test": {}}
    for part, captions in by_caption.items():
        for line in (mirror / f"snli_1.0_{part}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            captions.setdefault(row["captionID"], []).append({key: row[key] for key in kept})
    dev, test = (list(captions.values()) for captions in by_caption.values())
    parts = {"train": (dev[1::2], TRAIN), "dev": (dev[::2], HELD_OUT), "test": (test, HELD_OUT)}
    for part, (groups, number) in parts.items():
        rows = [row for group in pick_whole(groups, number, len) for row in group]
        write(f"snli/snli_1.0_{part}.jsonl", make_json_lines(rows))


def sentences(mirror: Path) -> None:
    for name in ("amazon_cells_labelled.txt", "yelp_labelled.txt", "imdb_labelled.txt"):
        write_lines(f"sentences/{name}", mirror / name, HELD_OUT)


def subj(mirror: Path) -> None:
    # The readers of subj and mr divide their files into tenths.
    for name in ("subj.objective", "subj.subjective"):
        write_lines(f"subj/{name}", mirror / name, TRAIN + HELD_OUT)


def mr(mirror: Path) -> None:
    for name in ("rt-polarity.pos", "rt-polarity.neg"):
        write_lines(f"mr/{name}", mirror / name, TRAIN + HELD_OUT)


def write_lines(name: str, source: Path, number: int) -> None:
    """Write evenly spaced lines of a text file to the sample, unchanged."""
    lines = source.read_bytes().split(b"\n")[:-1]
    write(name, b"".join(line + b"\n" for line in pick_spaced(lines, number)))


def ud(mirror: Path) -> None:
    for part, number in (("train", TRAIN), ("dev", HELD_OUT), ("test", HELD_OUT)):
        name = f"en_ewt-ud-{part}.conllu"
        text = (mirror / name).read_text(encoding="utf-8")
        documents = [f"# newdoc id = {document}" for document in text.split("# newdoc id = ")[1:]]
        # Short documents, so that there are enough to resample.
        short = [document for document in documents if document.count("\n\n") <= 4 and len(document) < 9_000]
        chosen = pick_whole(short, number, lambda document: document.count("\n\n"))
        write(f"ud_ewt/{name}", "".join(chosen).encode())


def sick(mirror: Path) -> None:
    for part, number in (("train", TRAIN), ("trial", HELD_OUT), ("test_annotated", HELD_OUT)):
        name = f"SICK_{part}.txt"
        header, *rows = (mirror / name).read_bytes().splitlines(keepends=True)
        write(f"sick/{name}", b"".join([header, *pick_spaced(rows, number)]))


BUILDERS: dict[str, Callable[[Path], None]] = {
    "squad": squad,
    "iwslt.en.de": iwslt,
    "cnn_dailymail": cnn_dailymail,
    "multinli.in.out": multinli,
    "sst": sst,
    "srl": srl,
    "zre": zre,
    "woz.en": woz,
    "wikisql": wikisql,
    "schema": schema,
    "subj": subj,
    "mr": mr,
    "snli": snli,
    "sentences": sentences,
    "squad2": squad2,
    "woz.de": woz,
    "ud_ewt": ud,
    "sick": sick,
}


def main(mirror: Path) -> None:
    for folder, build in BUILDERS.items():
        build(mirror / folder)
    size = sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file())
    print(f"{size:,} bytes in {SAMPLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
