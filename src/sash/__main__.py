"""Run the command line as `python -m sash`."""

from sash.cli import main

if __name__ == "__main__":
    main()
