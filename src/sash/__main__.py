"""`python -m sash` is the command line."""

from sash.cli import main

if __name__ == "__main__":
    main()
