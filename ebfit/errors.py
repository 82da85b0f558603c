"""The two ways ebfit says no: the input is wrong, or the data cannot answer.

Every message is one or two plain sentences that name the file, the place in it and the way out;
the command line prints them as they are and exits with ``exit_status``.
"""


class EbfitError(Exception):
    """Base of all errors that are addressed to the user."""

    exit_status = 2


class BadInputError(EbfitError):
    """A file, an option or a value that cannot be used as given (exit status 2)."""

    exit_status = 2


class CannotAnswerError(EbfitError):
    """Sound input that does not hold the answer, such as too few batch sizes (exit status 1)."""

    exit_status = 1
