"""A checkpoint: a directory of safetensors, config, tokenizer and chat template, known by its digest."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from pipeline.digests import digest_of, file_digest
from pipeline.errors import ModelError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SIDE_PATTERNS = (
    "config.json",
    "generation_config.json",
    "tokenizer*.json",
    "tokenizer*.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "*.tiktoken",
    "chat_template.jinja",
    "chat_template.json",
)
"""The files beside the weights that change what a model answers; anything else in the directory does not."""
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
_FULL_PRECISION = {"BF16", "F16", "F32"}
_CACHED_FROM_BYTES = 1 << 24
_TEMPLATE_REMEDY = (
    "Add chat_template.jinja to the checkpoint, or name a template file as `chat_template:` in configs/serving/*.yaml."
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Facts about a checkpoint.

    ``source`` is the model as the user gave it, ``revision`` what that meant at the time (a commit, a
    package version), ``digest`` covers all files that change what the model answers, ``weight_bytes``
    is the size of the weight files. ``template`` is the chat template in force: the checkpoint's own
    or the one that overrides it.
    """

    path: Path
    source: str
    revision: str | None
    digest: str
    weight_bytes: int
    architecture: str
    template: str = field(repr=False)

    @property
    def template_digest(self) -> str:
        """SHA-256 (hex) of the chat template in force."""
        return digest_of(self.template)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as its file's header describes it; ``dtype`` as safetensors spells it (``BF16``, ``I8``)."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class DigestCache:
    """Remembers digests of large files, so that an unchanged checkpoint is read once.

    A file counts as unchanged while path, size, inode and both change times (to the nanosecond) stay.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def digest(self, file: Path) -> str:
        """SHA-256 (hex) of the file's bytes."""
        facts = file.stat()
        if facts.st_size < _CACHED_FROM_BYTES:
            return file_digest(file)
        key = f"{file.resolve()}|{facts.st_size}|{facts.st_ino}|{facts.st_mtime_ns}|{facts.st_ctime_ns}"
        known = self._read()
        if key not in known:
            known = {**self._read(), key: file_digest(file)}
            self._write(known)
        return known[key]

    def _write(self, known: dict[str, str]) -> None:
        """Keep the digests; where they cannot be kept, the next run makes them again."""
        draft = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(known, indent=0), encoding="utf-8")
            draft.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def _read(self) -> dict[str, str]:
        """The kept digests; a lost or damaged file only costs the time to make it again."""
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(self._path.read_text(encoding="utf-8"))
            if isinstance(known, dict):
                return {k: v for k, v in known.items() if isinstance(v, str)}
        return {}


def side_files(path: Path) -> list[Path]:
    """The files of :data:`SIDE_PATTERNS` that the directory has, in name order."""
    return sorted({file for pattern in SIDE_PATTERNS for file in path.glob(pattern) if file.is_file()})


def weight_files(path: Path) -> list[Path]:
    """The weight files: what the index names, or the single file.

    :raises ModelError: none, or not all of them.
    """
    index = path / INDEX
    if index.is_file():
        named = _json(index).get("weight_map")
        if not isinstance(named, dict) or not named:
            raise ModelError(f"{index}: no weight_map in it", "Fetch the checkpoint again.")
        names = sorted(set(map(str, named.values())))
        if odd := [name for name in names if Path(name).name != name]:
            raise ModelError(f"{index}: weight file {odd[0]!r} lies outside the checkpoint", "Fetch it again.")
        if absent := [name for name in names if not (path / name).is_file()]:
            raise ModelError(
                f"checkpoint {path} is incomplete: {len(absent)} of {len(names)} weight files are missing, "
                f"first {absent[0]}",
                "Finish the download or copy, then run again.",
            )
        return [path / name for name in names]
    if (path / WEIGHTS).is_file():
        return [path / WEIGHTS]
    if (path / "adapter_config.json").is_file():
        raise ModelError(
            f"{path} is a LoRA adapter, not a checkpoint", "Merge it into its base model (peft: merge_and_unload)."
        )
    pickled = sorted({*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")})
    if pickled:
        raise ModelError(
            f"checkpoint {path} holds pickled weights only ({pickled[0].name}); they can run code when loaded",
            "Convert them: load the model with transformers in a place you trust and "
            "save_pretrained(..., safe_serialization=True).",
        )
    raise ModelError(
        f"checkpoint {path} has no weights: neither {WEIGHTS} nor {INDEX}",
        "Give the directory that holds the safetensors files.",
    )


def tensors(path: Path) -> Iterator[Tensor]:
    """Every tensor of the checkpoint, from the headers of its weight files alone.

    :raises ModelError: a weight file is missing, cut short or damaged.
    """
    for file in weight_files(path):
        try:
            with safe_open(file, framework="numpy") as handle:
                for name in handle.keys():  # noqa: SIM118 - a safetensors handle is not a mapping
                    part = handle.get_slice(name)
                    yield Tensor(name, part.get_dtype(), tuple(part.get_shape()))
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{file}: unreadable weights: {error}", "Fetch or copy the checkpoint again.") from error


def own_template(path: Path) -> str | None:
    """The checkpoint's own chat template, or None.

    Of several named templates (``tokenizer_config.json`` may hold a list) the one for tools counts,
    else the default one, as in vLLM.
    """
    jinja = path / "chat_template.jinja"
    if jinja.is_file():
        try:
            return jinja.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{jinja}: unreadable: {error}", "Fetch or copy the checkpoint again.") from error
    for name in ("chat_template.json", "tokenizer_config.json"):
        if not (path / name).is_file():
            continue
        found = _json(path / name).get("chat_template")
        if isinstance(found, list):
            named = {str(entry.get("name")): entry.get("template") for entry in found if isinstance(entry, dict)}
            found = named.get("tool_use") or named.get("default")
        if isinstance(found, str):
            return found
    return None


def read_template(path: Path) -> str:
    """Read a chat template file that the serving settings name.

    :raises ModelError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"chat template {path}: cannot read: {error}", "Correct `chat_template:` in configs/serving/*.yaml."
        ) from error


def read_checkpoint(
    path: Path,
    source: str,
    revision: str | None = None,
    *,
    cache: DigestCache | None = None,
    template_override: str | None = None,
    quantized: bool = False,
) -> Checkpoint:
    """Read and check a checkpoint.

    :param template_override: text of a chat template that is used instead of the checkpoint's own.
    :param quantized: False for a baseline, which must be in full precision; True for a candidate.
    :raises ModelError: it cannot be gated; says why and what to do.
    """
    config_file = path / "config.json"
    if not config_file.is_file():
        weight_files(path)  # names an adapter or pickled weights, if that is what this is
        raise ModelError(f"checkpoint {path} has no config.json", "Give the directory that holds config.json.")
    config = _json(config_file)
    architectures = config.get("architectures")
    architecture = str(architectures[0]) if isinstance(architectures, list) and architectures else "unknown"
    if not architecture.endswith("ForCausalLM"):
        raise ModelError(
            f"{config_file}: architecture {architecture!r} is not a text-only causal language model",
            "The gate measures chat models whose architecture ends in ForCausalLM.",
        )
    _check_precision(path, config, quantized)
    if not any((path / name).is_file() for name in _TOKENIZERS) and not list(path.glob("*.tiktoken")):
        raise ModelError(
            f"checkpoint {path} has no tokenizer (looked for {', '.join(_TOKENIZERS)})",
            "Copy the tokenizer files of the model into it.",
        )
    template = _template(path, template_override)
    weights = weight_files(path)
    cache_or_plain = cache.digest if cache else file_digest
    index = [path / INDEX] if (path / INDEX).is_file() else []
    named = {file.name: cache_or_plain(file) for file in [*side_files(path), *index, *weights]}
    return Checkpoint(
        path=path,
        source=source,
        revision=revision,
        digest=digest_of(sorted(named.items())),
        weight_bytes=sum(file.stat().st_size for file in weights),
        architecture=architecture,
        template=template,
    )


def _template(path: Path, override: str | None) -> str:
    if override is not None:
        return override
    own = own_template(path)
    if not own or not own.strip():
        raise ModelError(f"checkpoint {path} has no chat template", _TEMPLATE_REMEDY)
    return own


def is_quantized(path: Path) -> bool:
    """Whether the checkpoint's config declares a quantization."""
    config = path / "config.json"
    return config.is_file() and _json(config).get("quantization_config") is not None


def _check_precision(path: Path, config: dict[str, Any], quantized: bool) -> None:
    """A baseline must not be quantized, by its config or by the types of its tensors."""
    declared = config.get("quantization_config")
    if quantized:
        if not isinstance(declared, dict):
            raise ModelError(f"{path / 'config.json'}: no quantization_config in a candidate", "Quantize again.")
        return
    remedy = "Give the full-precision (BF16 or FP16) checkpoint that the quantized one was made from."
    if declared is not None:
        method = declared.get("quant_method", "unknown") if isinstance(declared, dict) else "unknown"
        raise ModelError(f"checkpoint {path} is already quantized ({method}): it cannot be the baseline", remedy)
    packed = [tensor for tensor in tensors(path) if len(tensor.shape) > 1 and tensor.dtype not in _FULL_PRECISION]
    if packed:
        raise ModelError(
            f"checkpoint {path} is not in full precision: {packed[0].name} is {packed[0].dtype}",
            remedy,
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: unreadable: {error}", "Fetch or copy the checkpoint again.") from error
    if not isinstance(data, dict):
        raise ModelError(f"{path}: not a JSON object", "Fetch or copy the checkpoint again.")
    return data
