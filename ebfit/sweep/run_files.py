"""The names of the files in the folder of a run."""

METRICS = "metrics.jsonl"
RUN_JSON = "run.json"
CHECKPOINT = ".checkpoint.pt"  # hidden, so that a search for logs passes it over
ERROR_FILE = "error.txt"
