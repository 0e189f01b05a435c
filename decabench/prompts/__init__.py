"""From a question to a prompt, and from the text of a language model to an answer."""

from decabench.prompts.answer_forms import EXTRACTION_VERSION, KINDS, AnswerForm, Extracted, Kind
from decabench.prompts.extraction import extract
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
from decabench.prompts.shots import Selection, Shot, choose_shots, select_shots
from decabench.prompts.templates import (
    BUILT_IN,
    TaskTemplate,
    TemplateError,
    TemplateSet,
    built_in_text,
    load_template,
)

__all__ = [
    "BUILT_IN",
    "EXTRACTION_VERSION",
    "KINDS",
    "PROMPT_VERSION",
    "AnswerForm",
    "Extracted",
    "Kind",
    "Message",
    "PromptTooLongError",
    "Prompting",
    "Role",
    "Selection",
    "Shot",
    "TaskTemplate",
    "TemplateError",
    "TemplateSet",
    "built_in_text",
    "choose_shots",
    "extract",
    "fit",
    "load_template",
    "make_prompting",
    "select_shots",
    "show",
]
