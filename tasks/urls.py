"""Addresses of files in pinned repositories."""

from decabench.tasks.task import Hub, RemoteFile

__all__ = ["github_raw", "hub_file"]


def github_raw(repository: str, commit: str, path: str) -> str:
    """The bytes of a file at a commit of a GitHub repository."""
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def hub_file(hub: Hub, path: str) -> RemoteFile:
    """A file of a dataset on the Hugging Face hub, at the pinned commit."""
    return RemoteFile(
        path, (f"https://huggingface.co/datasets/{hub.repository}/resolve/{hub.revision}/{path}",)
    )
