"""Reference models: MQAN of the decathlon paper and its ablations. Needs the extra `models` (torch, safetensors)."""

__all__: list[str] = []
