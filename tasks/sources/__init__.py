"""Sources of raw data: local folders, upstream sites, the Hugging Face hub and web mirrors."""
