"""Which options of a comparison mean something together: what would be ignored or guessed is refused at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import UsageError
from pipeline.serving.endpoint import base_url

if TYPE_CHECKING:
    from pipeline.comparing.comparing import CompareRequest
    from pipeline.comparing.declared import Declarations


def demand_sense(request: CompareRequest) -> None:
    """Refuse options that contradict each other, that nothing would read, or that leave a side to be guessed.

    :raises UsageError: names them.
    """
    urls = {"baseline": request.baseline_url, "candidate": request.candidate_url}
    for url in urls.values():
        if url is not None:
            base_url(url)
    beside = {
        "baseline": [("--baseline", request.baseline)],
        "candidate": [("--candidate", request.candidate), ("--candidate-serving", request.candidate_serving)],
    }
    for side, options in beside.items():
        given = [option for option, value in options if value is not None]
        if urls[side] is not None and given:
            raise UsageError(
                f"--{side}-url and {given[0]} both say what the {side} is",
                f"Leave {given[0]} out to compare the endpoint, or --{side}-url to compare a checkpoint.",
            )
    if request.baseline_url is not None and request.candidate_url is None and request.candidate is None:
        raise UsageError(
            "--baseline-url is given, but no candidate", "Give --candidate-url, or a checkpoint with --candidate."
        )
    if request.candidate_url is not None and request.baseline_url is None and request.baseline is None:
        raise UsageError(
            "--candidate-url is given, but no baseline",
            "Give --baseline-url, or a checkpoint with --baseline (--baseline demo for the embedded model).",
        )
    served = request.baseline_url is None or (request.candidate_url is None and request.candidate_serving is None)
    if request.serving != type(request)().serving and not served:
        raise UsageError("--serving is given, but no side is served by it", "Leave it out.")
    if request.declared is not None and not any(urls.values()):
        raise UsageError(
            "--declared is given, but no side is an endpoint: of checkpoints everything is measured", "Leave it out."
        )
    if request.load and any(urls.values()):
        raise UsageError(
            "load is put only on servers that the gate starts itself, not on endpoints",
            "Leave --load out, or give checkpoints.",
        )
    if request.slo is not None and not request.load:
        raise UsageError("--slo is given, but no load is to be put on the sides", "Add --load, or leave --slo out.")


def demand_read(request: CompareRequest, declared: Declarations) -> None:
    """Refuse what is declared of a side that is a checkpoint.

    :raises UsageError: names the side.
    """
    for side, url, said in (
        ("baseline", request.baseline_url, declared.baseline),
        ("candidate", request.candidate_url, declared.candidate),
    ):
        if url is None and said.told():
            raise UsageError(
                f"{request.declared}: {side} is declared, but a checkpoint, of which everything is measured",
                f"Take the section out, or give the endpoint with --{side}-url.",
            )
