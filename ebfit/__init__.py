"""ebfit: B_min and B_opt of a pre-training run, from the loss curves of small WSD runs (arXiv 2601.05034)."""

from importlib.metadata import version

__version__ = version("ebfit")
