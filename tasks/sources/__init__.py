"""Where raw data comes from: upstream, the Hugging Face hub or a mirror; verified, resumable, streamed."""

from decabench.tasks.sources.download import Network
from decabench.tasks.sources.fetch import Fetched, fetch
from decabench.tasks.sources.integrity import FileRecord, Status, digests_of, record_of
from decabench.tasks.sources.local_files import LocalFiles, scratch_in

__all__ = [
    "Fetched",
    "FileRecord",
    "LocalFiles",
    "Network",
    "Status",
    "digests_of",
    "fetch",
    "record_of",
    "scratch_in",
]
