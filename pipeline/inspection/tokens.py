"""Checks of the tokenizer: the same text has the same token ids on both sides, however long it is.

Files that are equal byte for byte are not run. Others are, with the library that the engine tokenizes with; where there
is no ``tokenizer.json`` to run, different files are a finding by themselves. What the engine itself makes of the golden
prompts is compared again when it serves them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from pipeline.inspection.artifact import Artifact, embedding, listed, read_json
from pipeline.inspection.findings import Finding, Severity, finding

COPY = "Copy the tokenizer's files from the baseline."
LONG_TOKENS = 8192
"""A text is made longer than this: truncation that a calibration left behind shows on nothing shorter."""
_MODELS = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "vocab.txt", "spiece.model", "tekken.json")
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token", "additional_special_tokens", "extra_special_tokens")
_HANDLING = ("add_bos_token", "add_eos_token", "add_prefix_space", "split_special_tokens", "fix_mistral_regex")
_UNBOUNDED = 10**9
"""Lengths from here on mean "no limit" (transformers writes 1e30)."""
PROBES = (
    "It's the 1st of May; we'd paid 1,234.56 € (VAT 19%) -- they've shipped it, haven't they?",
    "   spaces,\ttabs\n\n\nblank lines  and trailing ones   \n",
    'def f(x):\n    return {"id": "ORD-1042", "items": [1, 2.5e-3, null]}  # résumé naïve Straße',
    "Größe: 42; où est ma commande ? ¿Dónde está mi pedido? Доставка задерживается. Ελληνικά",
    "注文番号は12345です。我想退货。주문을 취소해 주세요. أين طلبي؟ मेरा ऑर्डर कहाँ है",
    "🙂👩‍💻🏳️‍🌈 e\u0301 \u00a0\u200b\ufeff camelCaseWords MIXEDcase iPhone15ProMax",
)
"""Numbers, whitespace, code, scripts and emoji: where pre-tokenizers and normalizers differ."""


def tokenizer_files(artifact: Artifact) -> Iterator[Finding]:
    """Vocabulary and settings are there, and nothing in them cuts or pads."""
    kept, had = ({n for n in _MODELS if (side / n).is_file()} for side in (artifact.candidate, artifact.baseline))
    if had and not kept:
        yield finding("tokenizer-missing", "tokenizer.json", f"none of the baseline's {listed(had)} is there", COPY)
    name = "tokenizer_config.json"
    if (artifact.baseline / name).is_file() and not (artifact.candidate / name).is_file():
        yield finding("tokenizer-missing", name, f"{name} is missing: special tokens and limits are lost", COPY)
    for kind in ("truncation", "padding"):
        mine, theirs = (
            read_json(side / "tokenizer.json").get(kind) for side in (artifact.candidate, artifact.baseline)
        )
        if mine is None or mine == theirs:
            continue
        length = _kept_length(mine)
        yield finding(
            "tokenizer-truncates",
            "tokenizer.json",
            f"{kind} is switched on{f', at {length} tokens' if length else ''}: left behind by the calibration",
            f'Set "{kind}": null in tokenizer.json, or copy the baseline\'s.',
            {"max_length": length},
        )


def _kept_length(setting: Any) -> int:
    """The length of a truncation or padding as ``tokenizer.json`` has it, 0 where it has none."""
    strategy = setting.get("strategy") if isinstance(setting, dict) else None
    for place, key in ((setting, "max_length"), (strategy, "Fixed")):
        if isinstance(place, dict) and isinstance(place.get(key), int):
            return int(place[key])
    return 0


def special_tokens(artifact: Artifact) -> Iterator[Finding]:
    """Special tokens, their handling and the maximum length are the baseline's."""
    before, after = _settings(artifact.baseline), _settings(artifact.candidate)
    if not after:
        return  # tokenizer_files() tells
    differing = [
        f"{key}: {after.get(key)!r} instead of {before.get(key)!r}"
        for key in _SPECIAL
        if before.get(key) != after.get(key)
    ]
    differing += [
        f"{key}: {after[key]!r} instead of {before[key]!r}"
        for key in _HANDLING
        if key in before and key in after and before[key] != after[key]
    ]
    if differing:
        ends = any(text.startswith("eos_token") for text in differing)
        yield finding(
            "tokenizer-special",
            "tokenizer_config.json",
            f"{'the end token and ' if ends and len(differing) > 1 else ''}{len(differing)} settings differ: "
            f"{listed(differing)}",
            COPY,
            {"count": len(differing)},
        )
    first, second = (_limit(side.get("model_max_length")) for side in (before, after))
    if first != second:
        yield finding(
            "tokenizer-length",
            "tokenizer_config.json",
            f"model_max_length is {second or 'unlimited'}, {first or 'unlimited'} in the baseline",
            COPY,
            {"candidate": second, "baseline": first},
        )


def _limit(value: Any) -> int:
    """A maximum length, 0 for none."""
    return int(value) if isinstance(value, int | float) and value < _UNBOUNDED else 0


def _settings(folder: Path) -> dict[str, Any]:
    """The tokenizer's settings, special tokens as text; ``special_tokens_map.json`` fills in what the config lacks."""
    found = {**read_json(folder / "special_tokens_map.json"), **read_json(folder / "tokenizer_config.json")}
    return {
        key: _text(value) if key in _SPECIAL else value for key, value in found.items() if value not in (None, [], {})
    }


def _text(value: Any) -> Any:
    if isinstance(value, dict) and "content" in value:
        return value["content"]
    if isinstance(value, dict):
        return {key: _text(inner) for key, inner in value.items()}
    return sorted(str(_text(inner)) for inner in value) if isinstance(value, list) else value


def same_tokenizer(artifact: Artifact) -> bool:
    """Whether every file that makes tokens is the baseline's byte for byte."""
    names = (*_MODELS, "added_tokens.json")
    pairs = [(artifact.baseline / name, artifact.candidate / name) for name in names]
    return all(a.is_file() == b.is_file() and (not a.is_file() or a.read_bytes() == b.read_bytes()) for a, b in pairs)


def token_ids(artifact: Artifact, texts: Sequence[str]) -> Iterator[Finding]:
    """Vocabularies are equal, and so are the ids of the probes, of ``texts`` and of a long text made of them.

    :param texts: what the golden set says, in all its languages.
    """
    yield from _vocabulary_fits(artifact)
    if same_tokenizer(artifact):
        return
    first, second = load(artifact.baseline), load(artifact.candidate)
    if first is None or second is None:
        if (artifact.candidate / "tokenizer.json").is_file() or any(
            (artifact.candidate / n).is_file() for n in _MODELS
        ):
            yield finding(
                "tokenizer-ids",
                "tokenizer.json",
                "the tokenizer's files differ from the baseline's, and without a readable tokenizer.json on both sides "
                "they cannot be compared",
                COPY,
            )
        return
    before, after = first.get_vocab(), second.get_vocab()
    changed = sorted(token for token in before.keys() | after.keys() if before.get(token) != after.get(token))
    if changed:
        yield finding(
            "tokenizer-vocabulary",
            "tokenizer.json",
            f"{len(changed)} tokens are missing, new or have another id: {listed(map(repr, changed))}",
            COPY,
            {"count": len(changed), "baseline": len(before), "candidate": len(after)},
        )
    corpus = [*PROBES, *dict.fromkeys(texts), *_special_texts(first)]
    corpus.append(long_text(first, corpus))
    differing = [text for text in corpus if first.encode(text).ids != second.encode(text).ids]
    if differing:
        shortest = min(differing, key=len)
        yield finding(
            "tokenizer-ids",
            "tokenizer.json",
            f"{len(differing)} of {len(corpus)} texts have other token ids, the shortest: {shortest[:60]!r}",
            COPY,
            {"texts": len(corpus), "differing": len(differing)},
        )


def load(folder: Path) -> Tokenizer | None:
    """The tokenizer of a checkpoint, made to return all ids of a text; None where there is no readable one."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception:  # noqa: BLE001 - the library raises bare exceptions
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _special_texts(tokenizer: Tokenizer) -> list[str]:
    """Every added token in a sentence."""
    tokens = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    return [f"before {token} after{token}" for token in tokens]


def long_text(tokenizer: Tokenizer, texts: Sequence[str]) -> str:
    """``texts`` repeated until they have more than :data:`LONG_TOKENS` tokens."""
    once = "\n".join(texts)
    tokens = max(1, len(tokenizer.encode(once).ids))
    return "\n".join([once] * (LONG_TOKENS // tokens + 1))


def _vocabulary_fits(artifact: Artifact) -> Iterator[Finding]:
    """Every token has a row in the embedding."""
    embed, tokenizer = embedding(artifact.tensors), load(artifact.candidate)
    if embed is None or tokenizer is None or f"{embed}.weight" not in artifact.tensors:
        return
    rows = artifact.tensors[f"{embed}.weight"].shape[0]
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if highest >= rows:
        yield finding(
            "tokenizer-vocabulary",
            "tokenizer.json",
            f"the tokenizer has ids up to {highest}, the embedding {rows} rows",
            COPY,
            {"highest": highest, "rows": rows},
            severity=Severity.FATAL,
        )
