"""Sources of raw data: a folder, upstream, the Hugging Face hub or a web mirror.

Files are verified, resumed and streamed.
"""
