"""Which runs to train next: those that shrink the interval of B_opt, or B_min, most per token."""

from ebfit.designing.choose import Goal
from ebfit.designing.document import design
from ebfit.designing.expect import expected
from ebfit.designing.plan import Knowledge, Plan, options, plan
from ebfit.designing.rehearse import joined

__all__ = ["Goal", "Knowledge", "Plan", "design", "expected", "joined", "options", "plan"]
