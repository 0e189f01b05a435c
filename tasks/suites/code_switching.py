"""Hindi-English code-switching: parts of speech of mixed posts, with a task in each language."""

from __future__ import annotations

from decabench.tasks.suite import PublishedRow, Suite

__all__ = ["CODESWITCH"]

_COLUMNS = ("", "DC-MTL", "IC-MTL", "rrn-RMN", "MT-RMN")
_TABLE = {
    "NS-MTL": (44.3, 51.5, 51.4, 53.5, 55.2),
    "Cross-stitch": (46.0, 48.5, 47.7, 52.1, 51.7),
    "Sluice": (58.7, 59.2, 59.5, 60.4, 61.5),
    "GIRNet": (62.8, 62.5, 63.1, 63.6, 64.5),
}
"""Accuracy by base model (rows) and extension (columns)."""

CODESWITCH = Suite(
    name="codeswitch",
    title="Hindi-English code-switching",
    tasks=("hien.pos", "en.pos", "hi.pos"),
    description=(
        "Parts of speech of posts that mix Hindi and English (hien.pos, the primary task), and of English and Hindi "
        "texts, from which models of several tasks learn too."
    ),
    source="Multi-Task Recurrent Modular Networks (Xu et al. 2021), Table 3, accuracy, test",
    published=tuple(
        PublishedRow(f"{base} + {added}" if added else base, "joint", {"hien.pos": score})
        for base, scores in _TABLE.items()
        for added, score in zip(_COLUMNS, scores, strict=True)
    ),
    notes=(
        "Each word's most frequent tag in the training posts scores above every row of the paper; a simple tagger does "
        "too. Keep in mind that the printed accuracies are low when you compare.",
        "The paper trains on all 2,102 training posts, and GIRNet's code chooses its epoch on the test posts; here the "
        "last tenth of the training posts is validation.",
        "The paper also prints F1 (62.6 for GIRNet + MT-RMN), apparently macro-averaged in some rows and weighted in "
        "others, and deviations over folds (2.1 for that row).",
    ),
)
