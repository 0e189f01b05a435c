"""`decabench show`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from decabench.commands import _options
from decabench.commands._console import (
    changed_since,
    console,
    echo,
    format_score,
    is_set,
    print_json,
    shortened,
    submission_argument,
)
from decabench.options import option
from decabench.text import terminal_safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from decabench.commands._documents import BrowsedDocument
    from decabench.scoring import Browsed, Chosen, Inspected, ScoredExample, ScoringOptions

_Flag = Literal[
    "empty",
    "unparseable",
    "reasoning_only",
    "cut_in_reasoning",
    "tool_call",
    "refused",
    "cut",
    "context_cut",
    "not_in_context",
    "other_label",
    "label_form",
]
"""The flags of `ScoredExample.flags`, repeated here because importing scoring would slow down help."""
_MOST_WORDS = 400
"""The maximum length, in words, of texts in which differences are marked."""


@click.command()
@submission_argument
@_options.with_options
def show(
    submission: Path,
    task: str | None = option(
        None,
        "Show this task.",
        metavar="NAME",
        complete=_options.complete_task,
        unset="the only task with answers",
    ),
    split: _options.ScoredSplit = option("validation", "Split to show examples from."),
    wrong: bool = option(False, "Show only examples with answers that are wrong or partly right."),
    right: bool = option(False, "Show only examples with right answers."),
    flag: tuple[_Flag, ...] = option((), "Show only answers of this kind. Can be repeated."),
    id: tuple[str, ...] = option((), "Show only this example in full. Can be repeated.", metavar="ID"),
    search: str = option("", "Show only examples that contain this text.", metavar="TEXT"),
    against: Path | None = option(
        None,
        "Compare with another submission. Show only examples that one of the two got right and the other got wrong.",
        type=_options.EXISTING,
        metavar="OTHER",
    ),
    calibration: bool = option(
        False,
        "Instead of examples, show how often answers are right at each level of confidence. Requires answers from "
        "--protocol choices.",
    ),
    sort: Literal["data", "loss", "length"] = option(
        "data", "Sort order: data (as in the dataset), loss (worst first) or length (longest answer first)."
    ),
    limit: int = option(
        20, "Print at most this many examples; 0 prints all. A page always contains all examples.", at_least=0
    ),
    answers: _options.Answers = _options.ANSWERS,
    output: Path | None = option(
        None,
        "Write a page with all examples to this folder. Your filters are preselected.",
        type=_options.FOLDER,
    ),
    open: bool = option(False, "Open a page with all examples in the browser. Your filters are preselected."),
    hidden: bool = _options.HIDDEN,
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Show what a submission got right and wrong, example by example.

    Answers that were scored before are not scored again. Differences from the nearest reference are highlighted.
    """
    from decabench.scoring import Chosen, ScoringOptions, browse_examples, find_examples

    if wrong and right:
        raise click.UsageError(
            "--wrong and --right can't be combined. To see all examples, leave out both options."
        )
    if (open or output is not None) and (len(id) > 1 or len(flag) > 1):
        raise click.UsageError("A page accepts at most one --id and one --flag. Choose others on the page.")
    if hidden and open and output is None:
        raise click.UsageError(
            "A page with hidden labels can't be written to a temporary folder. Use --output to choose a folder that no "
            "one else can read."
        )
    options = ScoringOptions(split, None, home, include=include, answers=answers)
    name = task or _only_task(submission, options)
    shown = find_examples(submission, name, options, hidden)
    other = find_examples(against, name, options, hidden) if against else None
    for sentence in changed_since([name], split, home, include):
        echo(sentence, err=True)
    chosen = Chosen(right if wrong or right else None, flag, id, search, sort)
    if open or output is not None:
        if id:
            browse_examples(shown, Chosen(ids=id))  # raises an error for unknown ids
        _write_page(shown, other, output, open, _page_state(chosen, other is not None))
        return
    if calibration and shown.result.calibration is None:
        raise click.UsageError(
            f"The answers to {shown.head.task} have no probabilities. Predict again with --protocol choices."
        )
    found = browse_examples(shown, chosen, other)
    if is_set("json"):
        print_json(_document(shown, found, limit or len(found), other))
    elif calibration:
        _print_calibration(console(), shown)
    else:
        _print(console(), shown, found, limit or len(found), chosen, other)


def _document(
    shown: Inspected, found: Sequence[Browsed], limit: int, other: Inspected | None
) -> BrowsedDocument:
    from msgspec import structs

    from decabench.commands._documents import (
        AnswerFields,
        BrowsedDocument,
        CourseFields,
        OtherSubmission,
        ShownExample,
    )

    def answer(row: ScoredExample) -> AnswerFields:
        return AnswerFields.from_value(row, raw=row.raw or "", reasoning=row.reasoning or "")

    def example(each: Browsed) -> ShownExample:
        course = None
        if each.course:
            course = CourseFields.from_value(each.course, before=each.before, parted=each.parted)
        return ShownExample(
            id=each.row.id,
            question=each.question,
            context=each.context,
            references=each.row.references,
            **structs.asdict(answer(each.row)),
            course=course,
            wordings={str(number): answer(row) for number, row in sorted(each.wordings.items())} or None,
            against=answer(each.other) if each.other else None,
        )

    return BrowsedDocument.from_value(
        shown.head,
        submission=shown.submission,
        score=shown.score,
        examples=len(shown.rows),
        matching=len(found),
        predictor=shown.facts,
        flags=shown.flags,
        calibration=shown.result.calibration,
        shown=[example(each) for each in found[:limit]],
        against=OtherSubmission.from_value(other) if other else None,
    )


def _only_task(submission: Path, options: ScoringOptions) -> str:
    from decabench.submission import open_submission

    with open_submission(submission) as opened:
        names = sorted(task for task, split in opened.files if split == options.split)
        if len(names) == 1:
            return names[0]
        splits = sorted({split for _, split in opened.files})
    if not names:
        raise click.UsageError(
            f"The submission has no {options.split} answers, only {' and '.join(splits)} answers. "
            "Choose another split with --split."
        )
    raise click.UsageError(
        f"The submission has answers for several tasks ({', '.join(names)}). Choose a task with --task."
    )


# In the terminal


def _print_calibration(out: Console, shown: Inspected) -> None:
    found = shown.result.calibration
    if found is None:
        return
    out.print(_title(shown), style="bold")
    out.print(
        f"{found.n:,} answers: Brier score {found.brier:.3f}, log loss {found.log_loss:.3f}, calibration error "
        f"{100 * found.error:.1f}%"
    )
    out.print("confidence   right  answers")
    for each in found.bins:
        bar = "#" * round(40 * each.accuracy)
        out.print(
            f"{100 * each.confidence:8.1f}% {100 * each.accuracy:5.1f}% {each.n:8,}  {bar}", highlight=False
        )


def _fact(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return terminal_safe(shortened(f"{value:,}" if isinstance(value, int) else text, 100))


def _title(shown: Inspected) -> str:
    wrong = sum(row.right is False for row in shown.rows)
    score = f"{shown.head.headline} {format_score(shown.score, shown.digits)}"
    return (
        f"{shown.submission}, {shown.head.task}, {shown.head.split}: {score}, "
        f"{wrong:,} of {len(shown.rows):,} wrong"
    )


def _print(
    out: Console,
    shown: Inspected,
    found: Sequence[Browsed],
    limit: int,
    chosen: Chosen,
    other: Inspected | None,
) -> None:
    out.print(_title(shown), style="bold")
    if facts := shown.facts:
        out.print(", ".join(f"{name} {_fact(value)}" for name, value in facts.items()))
    if flags := shown.flags:
        out.print(", ".join(f"{name} {count:,}" for name, count in flags.most_common()))
    if other is not None:
        mine = sum(each.row.right is True for each in found)
        out.print(
            f"Compared with {other.submission} ({shown.head.headline} "
            f"{format_score(other.score, other.digits)}): {mine:,} right only in {shown.submission}, "
            f"{len(found) - mine:,} right only in {other.submission}"
        )
    for number, each in enumerate(found[:limit], 1):
        out.print()
        _print_example(out, shown, each, f"{number:,}/{len(found):,}", bool(chosen.ids))
    if not found:
        out.print("No examples match.")
    elif len(found) > limit and not is_set("quiet"):
        out.print(f"\n{limit:,} of {len(found):,} shown. Use --limit 0 to show all, or --open for a page.")


def _print_example(out: Console, shown: Inspected, each: Browsed, place: str, whole: bool) -> None:
    row = each.row
    style = {True: "bold green", False: "bold red", None: "bold"}[row.right]
    flags = f"  [{', '.join(row.flags)}]" if row.flags else ""
    out.print(f"{place}  {row.id}  {_verdict(row, shown)}{flags}", style=style)
    answer, nearest, gold = _differing(row.prediction or "", row.references)
    _print_line(out, "question", each.question)
    for at, context in enumerate(each.before):
        _print_line(out, "" if at else "before", context)
    _print_line(out, "context", _mark_answers(each.context, row.references, shown, whole))
    for at, reference in enumerate(dict.fromkeys(row.references)):
        text = gold if reference == nearest else shortened(reference, 2_000)
        _print_line(out, "" if at else "gold", text)
    _print_line(out, "answer", answer if row.prediction else "(empty)")
    if each.course is not None:
        state, _, wanted = _differing(each.course.predicted, [each.course.gold])
        _print_line(out, "gold state", wanted if each.course.gold else "(empty)")
        _print_line(out, "state", state if each.course.predicted else "(empty)")
        if each.parted:
            _print_line(out, "diverged", each.parted)
    if row.raw is not None:
        name = "extracted" if shown.head.answers == "raw" else "raw"
        _print_line(out, name, row.raw if whole else shortened(row.raw, 300))
    if row.reasoning is not None:
        _print_line(out, "reasoning", row.reasoning if whole else shortened(row.reasoning, 300))
    for number, wording in sorted(each.wordings.items()):
        text = f"{wording.prediction or '(empty)'}  ({_verdict(wording, shown)})"
        _print_line(out, f"wording {number}", text)
    if each.other is not None:
        theirs = _differing(each.other.prediction or "", row.references)[0]
        _print_line(out, "other", theirs if each.other.prediction else "(empty)")


_NAMES = 13
"""The width of the label column, in characters."""


def _print_line(out: Console, name: str, value: str | Text) -> None:
    from rich.text import Text

    text = Text(terminal_safe(value)) if isinstance(value, str) else value
    for at, line in enumerate(text.wrap(out, max(20, out.width - _NAMES))):
        line.rstrip()
        out.print(Text.assemble((f"  {'' if at else name}".ljust(_NAMES), "dim"), line))


def _verdict(row: ScoredExample, shown: Inspected) -> str:
    word = {True: "right", False: "wrong", None: "not scored individually"}[row.right]
    if row.right is False and row.score and shown.head.higher_is_better:
        word = "partly right"
    return word if row.score is None else f"{word}, {shown.head.headline} {row.score:.{shown.digits}f}"


def _mark_answers(context: str, references: Sequence[str], shown: Inspected, whole: bool) -> Text:
    from rich.text import Text

    size = 400
    marked = [text for text in references if text.strip()] if shown.task.extractive else []
    places = [re.search(_whole(text), context) for text in marked]
    found = min((place.start() for place in places if place), default=0)
    start = max(0, found - size // 2) if not whole and len(context) > size else 0
    part = context[start:] if whole else context[start : start + size]
    dots = ("…" if start else "", "…" if start + len(part) < len(context) else "")
    made = Text(terminal_safe(f"{dots[0]}{part}{dots[1]}"))
    for text in marked:
        made.highlight_regex(_whole(terminal_safe(text)), style="bold underline")
    return made


def _whole(text: str) -> str:
    """Return a pattern that matches a text only as whole words or numbers, so that 5 doesn't match in 1517."""
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\w)" if text[-1].isalnum() else ""
    return f"{before}{re.escape(text)}{after}"


def _key(word: str) -> str:
    return re.sub(r"\W+", "", word).casefold() or word


def _differing(answer: str, references: Sequence[str]) -> tuple[Text, str, Text]:
    from difflib import SequenceMatcher

    from rich.text import Text

    given = answer.split()
    best, matched = "", None
    for reference in dict.fromkeys(references):
        wanted = reference.split()
        if len(given) > _MOST_WORDS or len(wanted) > _MOST_WORDS:
            continue
        matcher = SequenceMatcher(None, [*map(_key, given)], [*map(_key, wanted)], autojunk=False)
        if matched is None or matcher.ratio() > matched.ratio():
            best, matched = reference, matcher
    if matched is None:
        return Text(terminal_safe(shortened(answer, 2_000))), "", Text()
    blocks = matched.get_matching_blocks()
    mine = {block.a + at for block in blocks for at in range(block.size)}
    theirs = {block.b + at for block in blocks for at in range(block.size)}
    return _colored(answer, mine, "bold red"), best, _colored(best, theirs, "bold green")


def _colored(text: str, shared: set[int], style: str) -> Text:
    from rich.text import Text

    made = Text()
    for at, part in enumerate(re.split(r"(\S+)", text)):  # spaces and words in turn
        made.append(terminal_safe(part), style if at % 2 and at // 2 not in shared else None)
    return made


# In the browser


def _page_state(chosen: Chosen, against: bool) -> str:
    """Return the URL fragment that sets the page's filters, as read by leaderboard/static/examples.js."""
    from urllib.parse import quote, urlencode

    kinds = {True: "right", False: "wrong", None: ""}
    if against and not chosen.ids:  # only examples on which the two differ, as in the terminal
        kinds = {True: "only", False: "other", None: "differ"}
    pairs = {
        "id": next(iter(chosen.ids), ""),
        "q": chosen.search,
        "kind": kinds[chosen.right],
        "flag": next(iter(chosen.flags), ""),
        "sort": "" if chosen.order == "data" else chosen.order,
    }
    given = {key: value for key, value in pairs.items() if value}
    return f"#{urlencode(given, quote_via=quote)}" if given else ""


def _write_page(
    shown: Inspected, other: Inspected | None, output: Path | None, opens: bool, state: str
) -> None:
    import webbrowser
    from tempfile import mkdtemp

    from decabench.leaderboard import write_example_pages

    index = write_example_pages(shown, output or Path(mkdtemp(prefix="decabench-"), "page"), other)
    page = index.resolve().as_uri() + state
    if is_set("json"):
        from decabench.commands._documents import PageDocument

        print_json(PageDocument(page=page))
    echo(f"Page: {page}", wrap=False)
    if opens:
        webbrowser.open(page)
