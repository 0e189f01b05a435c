"""`hf:`: Hugging Face transformers models."""
