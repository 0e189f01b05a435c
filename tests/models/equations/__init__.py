"""Independent transcriptions of the papers' equations, which the networks are compared with."""
