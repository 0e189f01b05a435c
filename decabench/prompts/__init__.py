"""Turn questions into prompts, and model output into answers."""

from decabench.prompts.extraction import (
    EXTRACTION_VERSION,
    Extracted,
    Protocol,
    extract,
    settle_form,
    silent_rule,
)
from decabench.prompts.formats import describe_answers, describe_format
from decabench.prompts.forms import GivenAnswers, label_flag, takes_label
from decabench.prompts.labels import is_other_label, options, possible_labels
from decabench.prompts.messages import (
    PROMPT_VERSION,
    Message,
    Prompting,
    PromptTooLongError,
    Role,
    fit,
    make_prompting,
    show,
)
from decabench.prompts.shots import Shot, select_shots
from decabench.prompts.tagged import is_in_context
from decabench.prompts.templates import BUILT_IN, TemplateError, TemplateSet, load_template
from decabench.prompts.turns import ReasoningTags, check_reasoning_tags, read_turn

__all__ = [
    "BUILT_IN",
    "EXTRACTION_VERSION",
    "PROMPT_VERSION",
    "Extracted",
    "GivenAnswers",
    "Message",
    "PromptTooLongError",
    "Prompting",
    "Protocol",
    "ReasoningTags",
    "Role",
    "Shot",
    "TemplateError",
    "TemplateSet",
    "check_reasoning_tags",
    "describe_answers",
    "describe_format",
    "extract",
    "fit",
    "is_in_context",
    "is_other_label",
    "label_flag",
    "load_template",
    "make_prompting",
    "options",
    "possible_labels",
    "read_turn",
    "select_shots",
    "settle_form",
    "show",
    "silent_rule",
    "takes_label",
]
