"""`python -m sash.explore` serves the explorer without the packages of the command line."""

from sash.explore.server import Server


def main() -> None:
    """Serve until Ctrl-C."""
    with Server() as server:
        print(f"sash explorer at {server.url} (Ctrl-C stops it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
