"""Checks of what is quantized: as the config declares, as the recipe intended, all experts, and alike where fused."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from pipeline.inspection.artifact import FUSED, Artifact, expert, listed, several
from pipeline.inspection.findings import Finding, Severity, finding
from pipeline.inspection.schemes import Scheme
from pipeline.inspection.tensors import Stored
from pipeline.quantizers.fit import ROUTER

QUANTIZE_AGAIN = "Quantize again, and check targets and ignored modules against the module names of this model."
_PROTECTED = {
    "router gates": ROUTER,
    "the output head": re.compile(r"(^|\.)(lm_head|embed_out)$"),
    "embeddings": re.compile(r"(^|\.)(embed_tokens|wte|wpe|embed_in|word_embeddings|embeddings?)(\.|$)"),
    "norms": re.compile(r"norm|(^|\.)ln_", re.IGNORECASE),
    "a vision or audio tower": re.compile(r"(^|\.)(visual|vision|vision_tower|vision_model|audio|audio_tower)(\.|$)"),
}
"""Modules that recipes for 8 and 4 bits usually leave alone: small, and sensitive."""


def declared_modules(artifact: Artifact) -> Iterator[Finding]:
    """Exactly the modules that the config targets are quantized."""
    if artifact.declared is None:
        return
    left, extra = [], []
    partial = {name for names in _partial_experts(artifact).values() for name in names}
    for module in artifact.linear:
        if module not in artifact.modules or module in partial:
            continue  # a tensor that is missing, or experts: they have checks of their own
        targeted, quantized = artifact.scheme_of(module) is not None, artifact.quantized(module)
        if targeted and not quantized and not ROUTER.search(module):
            left.append(module)
        if quantized and not targeted:
            extra.append(module)
    yield from several(
        "scheme-coverage",
        left,
        f"{len(left)} modules are targeted by quantization_config, but stored unquantized: "
        "the engine looks for tensors that are not there",
        f"{QUANTIZE_AGAIN} Or name them as ignored in quantization_config.",
    )
    yield from several(
        "scheme-coverage",
        extra,
        f"{len(extra)} modules are stored quantized, but quantization_config does not target them: "
        "the engine would read no weight for them",
        f"{QUANTIZE_AGAIN} Or correct quantization_config.",
    )
    if not any(artifact.quantized(module) for module in artifact.modules):
        yield finding(
            "scheme-coverage",
            "config.json",
            "quantization is declared, but no module is quantized",
            "Save the compressed model (save_compressed=True).",
        )


def intended_modules(artifact: Artifact) -> Iterator[Finding]:
    """Exactly the modules that the recipe was to quantize are quantized."""
    if artifact.intended is None:
        return
    stored = {module for module in artifact.modules if artifact.quantized(module)}
    for names, what in (
        (artifact.intended - stored, "that the recipe quantizes were left"),
        (stored - artifact.intended, "that the recipe ignores were quantized"),
    ):
        yield from several("recipe-coverage", sorted(names), f"{len(names)} modules {what}", QUANTIZE_AGAIN)


def intended_schemes(artifact: Artifact) -> Iterator[Finding]:
    """Modules are quantized in a scheme of the recipe."""
    if artifact.intended_schemes is None:
        return
    other: dict[tuple[str, Severity], list[str]] = defaultdict(list)
    weights = {replace(scheme, activations=None) for scheme in artifact.intended_schemes}
    for module in artifact.linear:
        scheme = artifact.scheme_of(module) if artifact.quantized(module) else None
        if scheme is not None and scheme not in artifact.intended_schemes:
            alike = replace(scheme, activations=None) in weights  # what remains is for the replays to judge
            other[_described(scheme), Severity.WARNING if alike else Severity.FATAL].append(module)
    wanted = " or ".join(sorted(map(_described, artifact.intended_schemes)))
    for (described, severity), modules in other.items():
        yield from several(
            "recipe-scheme",
            modules,
            f"{len(modules)} modules are declared otherwise than by the recipe: {described}, where it gives {wanted}",
            "Quantize again by this recipe, or name the one that the candidate was made by.",
            severity=severity,
        )


def _described(scheme: Scheme) -> str:
    zeros = "" if scheme.symmetric else " with zero points"
    return f"{scheme.name}{zeros}, activations {scheme.activations or 'as they are'}"


def intended_kv_cache(artifact: Artifact) -> Iterator[Finding]:
    """The config asks for the KV cache that the recipe was to make.

    The engine obeys the checkpoint, and what it logs of its settings may still say ``auto``.
    """
    if artifact.intended is None or artifact.declared is None:
        return
    scheme, wanted = artifact.declared.kv_cache, artifact.intended_kv_cache
    asked = None
    if scheme is not None:
        asked = f"{'FP' if scheme.get('type') == 'float' else 'INT'}{scheme.get('num_bits')}"
    if asked != wanted:
        yield finding(
            "recipe-kv-cache",
            "config.json",
            f"kv_cache_scheme asks for {asked or 'no quantization'}, the recipe for {wanted or 'none'}: "
            "the engine keeps the context as the config says",
            "Correct kv_cache_scheme, or take a recipe that quantizes the KV cache (configs/recipes).",
            severity=Severity.FATAL if wanted else None,  # what was to be judged is not there
        )


def experts(artifact: Artifact) -> Iterator[Finding]:
    """All experts of a layer are there, and either all quantized or none."""
    for (block, projection), modules in _partial_experts(artifact).items():
        yield finding(
            "experts-partial",
            f"{block}.*.{projection}",
            f"{len(modules)} experts were left unquantized while others are quantized: {listed(modules)}",
            "Calibrate all experts (moe_calibrate_all_experts) and target every one of them.",
            {"count": len(modules)},
        )
    gone = [module for module in artifact.linear if expert(module) and module not in artifact.modules]
    yield from several(
        "experts-partial",
        gone if any(expert(module) for module in artifact.modules) else [],
        f"{len(gone)} projections of experts are not stored at all",
        "Save the checkpoint again, with all experts.",
    )
    all_left = sorted({found[0] for module in artifact.linear if (found := expert(module))})
    quantized = {found[0] for module in artifact.modules if artifact.quantized(module) and (found := expert(module))}
    rest = any(artifact.quantized(module) for module in artifact.modules)
    intended = artifact.intended is None or any(expert(module) for module in artifact.intended)
    yield from several(
        "experts-partial",
        [block for block in all_left if block not in quantized] if rest and intended else [],
        "other layers are quantized, but no expert of these blocks is",
        "Target the experts: they hold most of the weights.",
        severity=None if artifact.intended else Severity.WARNING,
    )


def _partial_experts(artifact: Artifact) -> dict[tuple[str, str], list[str]]:
    """Unquantized experts by block and projection, where other experts of the same are quantized."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in artifact.linear:
        if (found := expert(module)) and module in artifact.modules:
            groups[found[0], found[2]].append(module)
    partial = {}
    for key, modules in groups.items():
        left = [module for module in modules if not artifact.quantized(module)]
        if left and len(left) < len(modules):
            partial[key] = left
    return partial


def protected(artifact: Artifact) -> Iterator[Finding]:
    """Modules that are best left in 16 bits were left."""
    quantized = [module for module in artifact.modules if artifact.quantized(module)]
    for what, names in _PROTECTED.items():
        found = [module for module in quantized if names.search(module)]
        if artifact.intended is not None:
            found = [module for module in found if module not in artifact.intended]
        yield from several(
            "protected-quantized",
            found,
            f"{what} are quantized",
            "Leave them in 16 bits unless you have measured that it does no harm: name them as ignored.",
        )


def fused(artifact: Artifact) -> Iterator[Finding]:
    """Layers that the engine joins are quantized in the same way."""
    blocks: dict[str, dict[str, str]] = defaultdict(dict)
    for module in artifact.linear:
        parent, _, name = module.rpartition(".")
        blocks[parent][name] = module
    differing = []
    for names in blocks.values():
        for family in FUSED:
            members = [names[name] for name in family if name in names and names[name] in artifact.modules]
            if len({_way(artifact, module) for module in members}) > 1:
                differing.append(members[0].rpartition(".")[0] + "." + "/".join(n.rpartition(".")[2] for n in members))
    yield from several(
        "scheme-fused",
        differing,
        f"{len(differing)} sets of layers that the engine joins to one are quantized differently",
        "Use one scheme for q, k and v, and one for gate and up; ignore all of a set or none.",
    )


def _way(artifact: Artifact, module: str) -> Scheme | str | None:
    return artifact.scheme_of(module) or "declared none" if artifact.quantized(module) else None


def dtypes(artifact: Artifact) -> Iterator[Finding]:
    """Weights are stored in the type that the scheme declares."""
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, parts in artifact.modules.items():
        scheme = artifact.scheme_of(module) if module in artifact.linear and artifact.quantized(module) else None
        if scheme is None:
            continue
        part, wanted = _stored_as(scheme)
        if part not in parts:
            wrong[f"no {part}", f"{part} of type {wanted}"].append(module)
        elif parts[part].dtype != wanted:
            wrong[parts[part].dtype, wanted].append(module)
    for (found, wanted), modules in wrong.items():
        yield from several(
            "scheme-dtype",
            modules,
            f"{len(modules)} weights have {found}, the declared scheme ({_name(artifact, modules[0])}) needs {wanted}",
            "Save the compressed model, and keep the quantization_config that the quantizer wrote.",
        )
    plain = [
        name
        for name, tensor in artifact.tensors.items()
        if name in artifact.baseline_tensors and _precision_lost(tensor, artifact)
    ]
    yield from several(
        "scheme-dtype",
        plain,
        f"{len(plain)} tensors that no scale belongs to are stored in 8 bits or fewer",
        "Save them in 16 bits, or save their scales.",
    )


def _stored_as(scheme: Scheme) -> tuple[str, str]:
    if scheme.layout in ("awq", "gptq"):
        return "qweight", "I32"
    if scheme.layout == "packed":
        return "weight_packed", "I32"
    return "weight", "F8_E4M3" if scheme.floating else "I8"


def _name(artifact: Artifact, module: str) -> str:
    scheme = artifact.scheme_of(module)
    return scheme.name if scheme else "none"


def _precision_lost(tensor: Stored, artifact: Artifact) -> bool:
    before = artifact.baseline_tensors[tensor.name].dtype
    module = tensor.name.rpartition(".")[0]
    wide = {"BF16", "F16", "F32", "F64"}
    return before in wide and tensor.dtype not in wide and not artifact.quantized(module)
