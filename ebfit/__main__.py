"""``python -m ebfit`` is the command ``ebfit``."""

from ebfit.cli.main import main

if __name__ == "__main__":
    main()
