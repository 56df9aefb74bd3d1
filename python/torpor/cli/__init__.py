# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The command line: ``torpor``.

Data goes to stdout; progress, hints and errors go to stderr. Exit status:

- 0: done, nothing to report.
- 1: done, with a finding: a governor failed, a recording is damaged, a check found a breach.
- 2: not done: wrong usage, an unreadable file, an unknown name, no governor that ran.
"""

EXIT_FINDING = 1
EXIT_FAILURE = 2


def main() -> int:
    """Run the command line and return the exit status."""
    from torpor import TorporError
    from torpor.cli.app import app
    from torpor.cli.console import print_error

    try:
        app()
    except TorporError as error:
        print_error(str(error))
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        print_error(f"{where}{error.strerror or error}")
    # Every other way out of the app raises SystemExit with its status.
    return EXIT_FAILURE
