"""Where raw data comes from: a folder, upstream, the Hugging Face hub or a web mirror; verified, resumed, streamed."""
