"""Hugging Face transformers models for `hf:` predictors."""
