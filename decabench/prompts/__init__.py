"""Prompts for language models: templates, worked examples, and cutting to a model's window."""

from decabench.prompts.files import BUILT_IN, TemplateError, built_in_text, load_template
from decabench.prompts.fitting import PromptTooLongError, fit
from decabench.prompts.prompting import PROMPT_VERSION, Message, Prompting, Role, make_prompting, show
from decabench.prompts.shots import Selection, Shot, choose_shots, select_shots
from decabench.prompts.template import TaskTemplate, TemplateSet

__all__ = [
    "BUILT_IN",
    "PROMPT_VERSION",
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
    "fit",
    "load_template",
    "make_prompting",
    "select_shots",
    "show",
]
