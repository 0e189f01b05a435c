"""`openai:`: any server that speaks the OpenAI API."""
