"""The order in which targets are shown everywhere."""

from ebfit.files import Fit, TargetRecord


def targets_in_order(fit: Fit) -> list[TargetRecord]:
    """Return targets group by group as the fit names them, and from high loss to low as training goes."""
    groups = list(dict.fromkeys(target.group for target in fit.targets))
    return sorted(fit.targets, key=lambda target: (groups.index(target.group), -target.loss))
