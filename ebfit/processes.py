"""Work in several processes, for what is done in Python and takes seconds."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ebfit.errors import BadInputError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_processes(
    work: Callable[[_Item], _Result], items: Sequence[_Item], *, if_killed: str
) -> list[_Result]:
    """Do the same with each of some items, on as many cores as there are; results are in their order.

    The processes of joblib do not begin with the script that asked for them, as those of `multiprocessing` do.

    Raises
    ------
    BadInputError
        With the sentence ``if_killed``, if a process is killed, as for lack of memory.
    """
    from joblib import Parallel, cpu_count, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    processes = Parallel(n_jobs=min(cpu_count(), len(items)), batch_size=1)
    try:
        return list(processes(delayed(work)(item) for item in items))
    except TerminatedWorkerError:
        raise BadInputError(if_killed) from None
