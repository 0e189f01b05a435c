"""`openai:` predictors for any server with an OpenAI-compatible API."""
