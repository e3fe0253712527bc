"""Execution of a run: shards of work, their results on disk, and the processes or machines that run them."""
