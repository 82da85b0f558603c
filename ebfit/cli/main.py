"""The command line: finds the command, and turns errors into sentences and exit statuses.

Every command is a module of this package with a function of its name. Only the one that is called is imported,
and that module imports what is heavy inside its function, so that ``ebfit --help`` stays instant.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from ebfit.errors import EbfitError
from ebfit.text import printable

COMMANDS = {
    "inspect": "Show what is read of logs: batch sizes, dropped rows, stable phases, losses.",
    "sweep": "Train small models at many batch sizes, for `ebfit fit` to read.",
    "fit": "Fit B_min and B_opt to loss curves, or to a table of steps to a target.",
    "compare": "Compare laws by how well they predict a batch size that was left out.",
    "schedule": "Make a batch-size plan of a fit, and write it as your trainer reads it.",
    "design": "Choose the runs to train next: the most knowledge of B_opt per token.",
    "diff": "Compare two fits: have B_min or B_opt moved out of the intervals?",
    "simulate": "Write the logs of a sweep whose B_min and B_opt are known.",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ebfit and exit: 0 done, 1 the data cannot answer, 2 bad usage or input, 130 interrupted."""
    _open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    try:
        _app(given)(args=given, prog_name="ebfit")
    except EbfitError as error:
        if debug:
            raise
        _say(str(error))
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if debug:
            raise
        _say(f"{error.filename or 'the output'}: {error.strerror}. Nothing more could be read or written.")
        sys.exit(2)
    except Exception as error:
        if debug:
            raise
        _say(
            f"an internal error ({type(error).__name__}: {str(error)[:200]}). This is a fault of ebfit; "
            "run it with --debug for the traceback, and report that."
        )
        sys.exit(2)
    finally:
        _flush_quietly()


def _app(arguments: Sequence[str]) -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Choose the batch size of a pre-training run: B_min and B_opt from the loss curves of small WSD runs.",
    )
    app.callback()(_global_options)
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, summary in COMMANDS.items():
        app.command(name, short_help=summary)(_command(name) if name == called else _not_called)
    return app


def _command(name: str) -> Callable[..., Any]:
    command: Callable[..., Any] = getattr(import_module(f"ebfit.cli.{name}"), name)
    return command


def _not_called() -> None:
    """Stand in the list of commands for one whose module was not imported."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from ebfit import __version__

        typer.echo(f"ebfit {__version__}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Take the options that stand before a command; `main` has acted on ``--debug`` already."""


def _open_streams() -> None:
    """See to it that there is something to write to, and that no character stops us from writing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _say(message: str) -> None:
    print(f"ebfit: {printable(message)}", file=sys.stderr)


def _flush_quietly() -> None:
    """Let a reader of our output, such as ``head``, close it early without a complaint from Python."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
