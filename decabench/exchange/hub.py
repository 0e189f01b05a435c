"""Publish scores in the `model-index` of a model card on the Hugging Face Hub."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from decabench.errors import DecabenchError, ModelError, require_package


def push_card(model_index: str, repository: str) -> str:
    """Add results to a model card on the Hub and return the URL of the commit.

    `model_index` is the YAML from `export_results`. Earlier values of the same results are replaced; other
    results and the card's text are kept. Raises DecabenchError if there is no token, and ModelError if the
    Hub rejects the change.
    """
    require_package("--push", "hf", "huggingface_hub")
    from huggingface_hub import HfApi, ModelCard, ModelCardData, errors, get_token
    from huggingface_hub.repocard_data import model_index_to_eval_results
    from yaml import safe_load

    if not get_token():
        raise DecabenchError(
            "--push requires a Hugging Face token with write access. Set HF_TOKEN, or run hf auth login."
        )
    name, results = model_index_to_eval_results(safe_load(model_index)["model-index"])
    api = HfApi()
    try:
        with TemporaryDirectory() as folder:
            try:
                path = api.hf_hub_download(repository, "README.md", local_dir=folder)
                card = ModelCard(Path(path).read_text(encoding="utf-8"), ignore_metadata_errors=False)
            except errors.EntryNotFoundError:
                data = ModelCardData(model_name=name, eval_results=results)
                card = ModelCard(f"---\n{data.to_yaml()}\n---\n\n# {name}\n")
        about: Any = card.data  # its declared type is the base class of all kinds of cards
        replaced = set(map(_subject, results))
        kept = [each for each in about.eval_results or () if _subject(each) not in replaced]
        about.eval_results = [*kept, *results]
        about.model_name = about.model_name or name
        made = api.upload_file(
            path_or_fileobj=str(card).encode(),
            path_in_repo="README.md",
            repo_id=repository,
            commit_message="Add decabench results",
        )
    except errors.RepositoryNotFoundError:
        raise ModelError(
            f"Can't write to the model {repository} on the Hugging Face Hub with this token. Create the model "
            "first, or check that the token has write access."
        ) from None
    except errors.HfHubHTTPError as error:  # its message may contain the token
        raise ModelError(
            f"The Hugging Face Hub did not accept the change to {repository} "
            f"(HTTP {getattr(error.response, 'status_code', 'error')})."
        ) from None
    except errors.HFValidationError:
        raise DecabenchError(
            f"{repository!r} is not a valid model name. Write the name as owner/name."
        ) from None
    except OSError as error:
        cause = os.strerror(error.errno) if error.errno else type(error).__name__
        raise ModelError(
            f"The Hugging Face Hub can't be reached ({cause}). Check the network connection, then run the "
            "command again."
        ) from None
    return str(made.commit_url)


def _subject(result: Any) -> tuple[object, ...]:
    """Return a result's identity on the card: its data, split and metric.

    Full and partial runs of the same metric have the same identity."""
    name = str(result.metric_name).partition(", ")[0].removesuffix(")")
    return result.dataset_type, result.dataset_name, result.dataset_split, result.metric_type, name
