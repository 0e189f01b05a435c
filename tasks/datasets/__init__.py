"""The datasets, with one module for each dataset or family."""
