"""Training of the reference models, jointly on any tasks. Needs the extra `train`."""

__all__: list[str] = []
