"""The datasets: one file for each dataset or family, with all facts about its tasks."""
