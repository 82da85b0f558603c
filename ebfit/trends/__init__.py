"""How batch sizes grow with tokens and with falling loss: power laws over the targets of a fit."""

from ebfit.trends.find import find_trends
from ebfit.trends.group import Group

__all__ = ["Group", "find_trends"]
