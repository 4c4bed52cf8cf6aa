"""``noisebound review``: check labels in the browser."""

import webbrowser
from contextlib import nullcontext
from typing import Annotated

from cyclopts import Parameter, validators

from noisebound.cli.options import RunPath, TrainingSource
from noisebound.system.console import print_text


def review(
    run: RunPath,
    data: TrainingSource = None,
    *,
    port: Annotated[int | None, Parameter(validator=validators.Number(gte=1, lte=65535))] = None,
    open: bool = True,
    by: Annotated[str | None, Parameter(metavar="NAME")] = None,
    id: Annotated[str | None, Parameter(metavar="COLUMN")] = None,
) -> None:
    """Check a run's labels in the browser: first a random sample, then the suspects.

    The page is accessible from this machine only. Each decision is saved immediately.

    Parameters
    ----------
    port
        The port to listen on [default: a free port].
    open
        Open the page in the browser.
    by
        Your name, which is saved with each decision [default: the name of the user account].
    id
        The column that identifies the rows [default: the --id of `fit`].
    """
    from noisebound.pages.review.serve import ReviewServer, redirect_file
    from noisebound.pages.review.session import ReviewSession
    from noisebound.review.decisions import current_user
    from noisebound.runs import load_run

    trained = load_run(run)
    splits = trained.training_data(data).named_by(id)
    session = ReviewSession(trained, splits, by or current_user())
    server = ReviewServer(session, port)

    with redirect_file(server.address) if open else nullcontext() as file:

        def announce(address: str) -> None:
            print_text(f"the review page: {address}")
            print_text(f"decisions are kept in {trained.folder.decisions}")
            print_text("Ctrl-C ends the server")
            if file is not None:
                webbrowser.open(file.as_uri())

        server.run(announce)
