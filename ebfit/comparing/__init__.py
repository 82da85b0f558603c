"""Which law predicts best: from the points of a fit, or samples, to the document that `ebfit compare` writes."""

from ebfit.comparing.document import Choice, choose, compare, compare_samples

__all__ = ["Choice", "choose", "compare", "compare_samples"]
