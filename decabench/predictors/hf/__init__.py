"""`hf:`: models of Hugging Face transformers."""
