"""The policies of `ebfit schedule`, one file each; a new one is a file and a name here."""

from typing import cast

from ebfit.schedule.policies import by_loss, minimum, optimal, overhead
from ebfit.schedule.policies.base import Bound, Curve, Policy, parse

POLICIES: dict[str, Policy] = {
    policy.name: cast(Policy, policy) for policy in (optimal, by_loss, minimum, overhead)
}

__all__ = ["POLICIES", "Bound", "Curve", "Policy", "parse"]
