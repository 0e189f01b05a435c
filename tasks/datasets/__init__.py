"""The datasets: one file for each dataset or family, with everything that is known of its tasks."""
