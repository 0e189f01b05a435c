"""What `tools/reproduce.py` is made of: plans, scores and contrasts, curves, boards, and the page."""
