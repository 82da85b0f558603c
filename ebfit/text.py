"""Text from files and file names, made fit for a terminal and for a JSON document."""


def printable(text: str) -> str:
    r"""Return text with control characters and what is no Unicode as escapes such as ``\x1b`` or ``\udcff``.

    A name in a log may hold anything; shown as it is, it could move the cursor or colour the terminal.
    """
    return "".join(
        char
        if char == " " or char.isprintable()
        else char.encode("unicode_escape", "backslashreplace").decode()
        for char in text
    )
