# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor serve`: results and stores in a browser."""

import contextlib
from pathlib import Path
from typing import Annotated

from torpor.cli.console import print_note
from torpor.cli.options import argument, option
from torpor.view import site


def serve(
    folder: Annotated[Path, argument("[DIR]", "Results, tables, stores and reports.")] = Path(),
    port: Annotated[int, option("N", "0: any that is free.", min=0, max=65535)] = 8321,
) -> None:
    """Show a folder's results and stores in a browser, live while a sweep, `ab` or `stat` runs.

    Shows results (--json, --parquet), reports, stores of sweeps, and the lines that `ab -o` and
    `stat --json` write. Only this machine can connect, and nothing is written. Ctrl-C ends it.
    """
    with site.server(folder, port) as server:
        print_note(f"http://localhost:{server.server_port}/ (Ctrl-C ends it)")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
