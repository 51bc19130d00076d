"""Stage evidence: the bundle of one run, made while all that it rests on is at hand.

Output directory: ``evidence.tar.zst``; :mod:`pipeline.bundle.layout` says what is in it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

import evaluators
from pipeline import bundle
from pipeline.bundle.archive import pack
from pipeline.bundle.layout import (
    CHECKPOINTS,
    DECIDED,
    ENVIRONMENTS,
    EVIDENCE_FILE,
    FINDINGS,
    GOLDEN,
    POLICY,
    REPLAYS,
    REQUESTS,
    TURNS,
    write_json,
    write_manifest,
)
from pipeline.bundle.turns import write_turns
from pipeline.digests import digest_of, file_digest, tree_digest
from pipeline.environments import environments
from pipeline.errors import ModelError, RecordError
from pipeline.evidence.record import DECISION_FILE, FLIPS_FILE
from pipeline.evidence.secrecy import demand_no_secrets
from pipeline.gate import Gate, Side
from pipeline.golden import GoldenSet
from pipeline.golden.source import open_local
from pipeline.golden.streaming import is_remote
from pipeline.quantizers.checkpoint import INDEX, Checkpoint, DigestCache, side_files, weight_files
from pipeline.serving.replay import build_request, request_digest
from pipeline.settings import PROJECT_ROOT, GateSettings
from pipeline.stages import decide, serve_replay
from pipeline.stages.evaluate import OUTCOMES
from pipeline.store import STAGE_FILE, StageOutput

STAGE = "evidence"


def run(gate: Gate) -> StageOutput:
    """Make the bundle of a gate that has decided, or reuse it.

    :raises RecordError: something that the verdict rests on is not what it was, or would give a secret away.
    """
    sides: dict[Side, Checkpoint] = {"baseline": gate.baseline}
    if not gate.settled:
        sides["candidate"] = gate.candidate
    cache = DigestCache(gate.store.root / "digests.json")
    checkpoints = {side: checkpoint_files(checkpoint, cache) for side, checkpoint in sides.items()}
    inputs = {
        "decision": file_digest(gate.decision.path / DECISION_FILE),
        "run": facts(gate)["run"],
        "checkpoints": checkpoints,
        "source": tree_digest(PROJECT_ROOT, sorted(Path(bundle.__path__[0]).glob("*.py"))),
    }

    def build(directory: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="evidence-", dir=gate.store.root) as folder:
            root = Path(folder)
            _write(gate, root, checkpoints)
            seen = (TURNS, REQUESTS, DECISION_FILE, FLIPS_FILE)  # by the gate, and before the decision was kept
            files = sorted(path for path in root.rglob("*") if path.is_file() and path.name not in seen)
            demand_no_secrets(root, files)
            write_manifest(root, facts(gate))
            pack(root, directory / EVIDENCE_FILE)

    return gate.store.make(STAGE, inputs, build)


def facts(gate: Gate) -> dict[str, Any]:
    """What the manifest says beside digests: the run, and the code that made it."""
    return {
        "run": {
            "model": gate.request.model,
            "recipe": gate.recipe.name,
            "command": gate.request.command,
            "explore": gate.request.explore,
        },
        "made_by": {
            "version": _version(),
            "commit": _commit(),
            "decision_source": decide.source_digest(),
            "evaluators_source": evaluators.source_digest(),
        },
    }


def checkpoint_files(checkpoint: Checkpoint, cache: DigestCache) -> dict[str, dict[str, Any]]:
    """SHA-256 and size of each file that changes what a model answers, by name.

    :raises RecordError: they are not those that were measured.
    """
    path = checkpoint.path
    try:
        weights = weight_files(path)
        found = {
            file.name: {
                "sha256": cache.digest(file),
                "bytes": file.stat().st_size,
                "weights": file in weights,
            }
            for file in [*beside_weights(path), *weights]
        }
    except (OSError, ModelError) as error:
        raise RecordError(f"{path}: the checkpoint that was measured is gone: {error}", "Run again.") from error
    if checkpoint_digest(found) != checkpoint.digest:
        raise RecordError(f"{path}: the checkpoint was changed while it was measured", "Run again.")
    return found


def beside_weights(path: Path) -> list[Path]:
    """The files of a checkpoint beside its weights that change what it answers."""
    return [*side_files(path), *([path / INDEX] if (path / INDEX).is_file() else [])]


def checkpoint_digest(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The digest that :func:`pipeline.quantizers.checkpoint.read_checkpoint` gives a checkpoint of these files."""
    return digest_of(sorted((name, facts["sha256"]) for name, facts in files.items()))


def replay_name(side: str, number: int) -> str:
    """How the ``number``-th replay (from 0) of a side is called in a bundle and in the record's inputs."""
    return f"{side}_repeat_{number}" if number else side


def golden_manifest(golden: GoldenSet, policy: GateSettings) -> dict[str, Any]:
    """What is known of the golden set: its digest and, of a local one, the digests of its files that this is made of.

    ``files`` is null where the set lies elsewhere or its files have changed since it was read.
    """
    sample = None if policy.sample is None else policy.sample.model_dump(mode="json")
    files: dict[str, str] | None = None
    if not is_remote(str(golden.root)):
        source = open_local(Path(golden.root))
        files = {path.relative_to(source.home).as_posix(): file_digest(path) for path in source.files()}
        if golden.digest not in golden_digests(files, sample):
            files = None
    return {
        "name": golden.name,
        "digest": golden.digest,
        "transcripts": golden.transcript_count,
        "sample": sample,
        "files": files,
    }


def golden_digests(files: Mapping[str, str], sample: Mapping[str, Any] | None) -> set[str]:
    """The digests that a set of these files may have: that of the whole, and that of the sample where one is drawn."""
    whole = digest_of(sorted(files.items()))
    return {whole} if sample is None else {whole, digest_of([whole, sample])}


def _write(gate: Gate, root: Path, checkpoints: Mapping[Side, Any]) -> None:
    for name in (DECISION_FILE, FLIPS_FILE):
        shutil.copyfile(gate.decision.path / name, root / name)
    shutil.copyfile(gate.decision.path / STAGE_FILE, root / DECIDED)
    write_json(root / POLICY, gate.policy.model_dump(mode="json"))
    write_json(root / GOLDEN, golden_manifest(gate.golden, gate.policy))
    write_turns(root / TURNS, gate.golden.turns)
    write_json(root / FINDINGS, [] if gate.settled else [finding.as_json() for finding in gate.findings])
    (root / CHECKPOINTS).mkdir()
    for side, files in checkpoints.items():
        write_json(root / CHECKPOINTS / f"{side}.json", files)
    (root / ENVIRONMENTS).mkdir()
    quantizer = "autoawq" if gate.recipe.backend == "autoawq" else "quantize"
    for name in ("pipeline", "serve", quantizer):
        environment = environments()[name]
        for pins in filter(None, (environment.pins, environment.overrides)):
            shutil.copyfile(pins, root / ENVIRONMENTS / pins.name)
    if not gate.early:
        write_requests(root / REQUESTS, gate.golden, gate.policy)
        for side in get_args(Side):
            for number, pair in enumerate(zip(gate.replays(side), gate.outcomes(side), strict=True)):
                copy_replay(root / REPLAYS / replay_name(side, number), *pair)


def copy_replay(target: Path, replay: StageOutput, outcomes: StageOutput) -> None:
    """Put one replay and its outcomes in a bundle."""
    target.mkdir(parents=True)
    for name in (serve_replay.REPLIES, serve_replay.ENGINE, serve_replay.LOG, STAGE_FILE):
        shutil.copyfile(replay.path / name, target / name)
    shutil.copyfile(outcomes.path / OUTCOMES, target / OUTCOMES)


def write_requests(path: Path, golden: GoldenSet, policy: GateSettings) -> None:
    """Every request body, by turn and number of the sample."""
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        for turn in golden.turns:
            for number in range(policy.sampling.samples):
                body = build_request(turn, serve_replay.repeat_sampling(policy.sampling, number))
                line = {"turn_id": turn.id, "sample": number, "digest": request_digest(body), "body": body}
                handle.write(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n")


def _version() -> str:
    try:
        return version("quant-gate")
    except PackageNotFoundError:
        return "unknown"


@cache
def _commit() -> str | None:
    """The commit that the code was checked out at; ``+`` where files of it were changed since."""
    git = ["git", "-C", str(PROJECT_ROOT), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
