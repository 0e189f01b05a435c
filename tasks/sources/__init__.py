"""Where raw data comes from: upstream, the Hugging Face hub or a mirror; verified, resumable, streamed."""

from decabench.tasks.sources.fetch import Fetched, fetch
from decabench.tasks.sources.files import LocalFiles
from decabench.tasks.sources.network import Network
from decabench.tasks.sources.record import FileRecord, Status

__all__ = ["Fetched", "FileRecord", "LocalFiles", "Network", "Status", "fetch"]
