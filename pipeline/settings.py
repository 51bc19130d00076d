"""Settings: YAML files under ``configs/``, validated, with errors that name file, line and field."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

import evaluators
from pipeline.errors import RecipeError, SettingsError
from pipeline.fields import remedy_for
from pipeline.secrets import find_secret
from pipeline.yaml_nodes import compose, line_of, repeated, values

PROJECT_ROOT = Path(__file__).resolve().parent.parent
CONFIGS = PROJECT_ROOT / "configs"

_SECRET_FLAGS = ("--api-key", "--hf-token", "--ssl-keyfile-password")
"""Flags of the engine whose values are secrets. Each has an environment variable or is of no use here."""

Share = Annotated[float, Field(ge=0, le=1)]
Names = Annotated[tuple[str, ...], Field(strict=False)]  # YAML has lists only


def _no_secrets(flags: tuple[str, ...]) -> tuple[str, ...]:
    names = [flag.partition("=")[0].replace("_", "-") for flag in flags]  # the engine takes either
    if secret := [name for name in names if name in _SECRET_FLAGS] or list(filter(find_secret, flags)):
        raise ValueError(
            "flags are kept in records, logs and reports, which are no place for a secret"
            + (f": {secret[0]}" if secret[0] in _SECRET_FLAGS else "")
        )
    return flags


Flags = Annotated[Names, AfterValidator(_no_secrets)]
"""Flags of an engine, as they are recorded."""


class _Facts(BaseModel):
    """Base of all settings: frozen; unknown keys, values of another type (``margin: yes``) and NaN are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


# --- configs/gate.yaml -------------------------------------------------------------------------


class Sampling(_Facts):
    """Decoding parameters sent with every request, the same on both sides."""

    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(256, ge=1, description="most tokens generated per turn")
    seed: int = 0
    samples: int = Field(1, ge=1, le=100, description="replays of each side, with a seed of their own")

    @model_validator(mode="after")
    def _samples_differ(self) -> Sampling:
        if self.samples > 1 and self.temperature == 0:
            raise ValueError("samples above 1 need a temperature above 0: greedy decoding repeats itself")
        return self


class ReplaySettings(_Facts):
    """How turns are sent."""

    concurrency: int = Field(8, ge=1, le=1024, description="requests in flight")
    timeout_s: float = Field(300, gt=0, description="seconds before one request counts as failed")
    attempts: int = Field(2, ge=1, le=5, description="tries per turn when the server gives no answer")


class MetricPolicy(_Facts):
    """What is demanded of one metric, set before the run."""

    gating: bool = True
    margin: Share = Field(description="largest true loss we are willing to ship, as a share (0.03 = 3 pp)")
    floor: Share = Field(0.0, description="lowest pass rate at which the baseline is a yardstick")


class ResourcePolicy(_Facts):
    """What is demanded of one resource, as shares of the baseline's figure."""

    better: Share = Field(0.20, description="a gain of this much is worth shipping for")
    worse: Share = Field(0.05, description="largest loss that is borne for a gain elsewhere")


class BenefitPolicy(_Facts):
    """What a candidate must gain to be worth shipping. A resource that is null is not declared: it does not count."""

    weight_bytes: ResourcePolicy | None = ResourcePolicy()
    kv_tokens: ResourcePolicy | None = ResourcePolicy()
    throughput_at_slo: ResourcePolicy | None = ResourcePolicy()
    ttft_p95: ResourcePolicy | None = ResourcePolicy()
    itl_p95: ResourcePolicy | None = ResourcePolicy()

    @model_validator(mode="after")
    def _some_resource(self) -> BenefitPolicy:
        if not any(rule for _, rule in self):
            raise ValueError("no resource is declared: nothing could ever be worth shipping")
        return self


class NoisePolicy(_Facts):
    """How far the baseline may disagree with itself when it is replayed again."""

    repeats: int = Field(1, ge=1, le=9, description="further replays, in another order and at another concurrency")
    flip_rate_ceiling: Share = Field(0.05, description="a gating metric above it makes the run INVALID")


class PowerPolicy(_Facts):
    """What is assumed before anything is measured."""

    flip_rate: Share = Field(0.02, description="share of turns on which the candidate is assumed to differ")


class SamplePolicy(_Facts):
    """A fixed sample of the golden set, in whole scenarios: see :func:`pipeline.golden.select.select`."""

    turns: int = Field(ge=1, description="turns to reach")
    seed: int = Field(0, description="another seed draws other scenarios")
    at_least: dict[str, Annotated[int, Field(ge=1)]] = Field({}, description="turns of a slice beyond its share")
    longest: int | None = Field(None, ge=1, description="characters; scenarios of longer conversations are left out")


class DriftPolicy(_Facts):
    """How the candidate's next-token distributions are compared with the baseline's; this explains, or rejects."""

    turns: int = Field(ge=1, description="golden replies to read, a sample in whole scenarios")
    catastrophe: float = Field(1.0, gt=0, description="mean divergence, in nats, beyond which it is another model")


class GeneralPolicy(_Facts):
    """Which lm-eval tasks both sides are asked, and what is demanded of each."""

    suite: str = Field(description="a name in configs/lm_eval, or the path of a .yaml file")
    tasks: dict[str, MetricPolicy] = Field(min_length=1, description="by the names that the suite gives them")


class GateSettings(_Facts):
    """``configs/gate.yaml``: the decision policy, fixed before any candidate is measured."""

    alpha: float = Field(0.05, gt=0, lt=0.5, description="one-sided error rate of each limit")
    anomalous_gain: Share = Field(0.05, description="a proven gain beyond this is INVALID, not good news")
    benefit: BenefitPolicy = BenefitPolicy()
    noise: NoisePolicy = NoisePolicy()
    power: PowerPolicy = PowerPolicy()
    sample: SamplePolicy | None = Field(None, description="none: the whole golden set")
    looks: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(strict=False)] = Field(
        (), description="shares of the scenarios after which a hopeless candidate is rejected; none: only at the end"
    )
    drift: DriftPolicy | None = Field(None, description="none: next-token distributions are not compared")
    general: GeneralPolicy | None = Field(None, description="none: general ability is not measured")
    sampling: Sampling = Sampling()
    replay: ReplaySettings = ReplaySettings()
    metrics: dict[str, MetricPolicy] = Field(min_length=1)
    release: bool = Field(True, description="false: for a tour; the next step after an ACCEPT says so")

    @model_validator(mode="after")
    def _some_metric_gates(self) -> GateSettings:
        if not any(metric.gating for metric in self.metrics.values()):
            raise ValueError("no metric is gating: such a gate would accept anything")
        if any(later <= earlier for earlier, later in pairwise(self.looks)):
            raise ValueError("looks must increase")
        if self.looks and self.sampling.samples > 1:
            raise ValueError("looks need sampling.samples: 1: the first replay alone decides nothing")
        return self


# --- configs/serving/*.yaml --------------------------------------------------------------------


class ServingSettings(_Facts):
    """Engine flags, identical for baseline and candidate. Names follow ``vllm serve --help``."""

    extends: str | None = Field(None, description="a variant: what is not given here is that of this other file")
    max_model_len: int = Field(8192, ge=128, description="tokens, prompt and reply together")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        "bfloat16", description="of weights and activations that are not quantized; float32 on CPUs without AVX-512"
    )
    kv_cache_dtype: str = "auto"
    tool_call_parser: str = "hermes"
    chat_template: str | None = Field(None, description="a file; none: the checkpoint's own template")
    tensor_parallel_size: int = Field(1, ge=1)
    gpu_memory_utilization: float = Field(0.90, gt=0, le=1)
    max_num_seqs: int = Field(64, ge=1)
    enable_prefix_caching: bool = True
    enforce_eager: bool = False
    seed: int = 0
    cpu_kv_cache_gib: int = Field(2, ge=1, description="KV cache on a machine without GPU, GiB")
    startup_timeout_s: float = Field(900, gt=0)
    extra_args: Flags = Field((), description="further engine flags, passed as they are")


# --- configs/recipes/*.yaml --------------------------------------------------------------------


class Calibration(_Facts):
    """How much calibration text is read, see ``golden_sets/calibration/`` and ``--calibration``."""

    samples: int = Field(ge=1, description="conversations")
    max_tokens: int = Field(ge=16, description="tokens kept of each")
    tokens_per_input: int | None = Field(
        None, ge=1, description="fewer conversations do where the widest layer has seen this many tokens per input"
    )
    search_samples: int = Field(4, ge=1, description="AWQ: conversations on which each strength of scaling is tried")


class EightBit(_Facts):
    """The part of an INT4 model that is kept at 8 bits: modules by name, or the most sensitive decoder layers."""

    scheme: Literal["W8A8", "FP8_DYNAMIC"] = "W8A8"
    modules: Names = Field((), description="names or re: patterns of modules")
    layers: int | None = Field(None, ge=1, description="so many layers, chosen by measuring each of them at INT4 alone")

    @model_validator(mode="after")
    def _one_way(self) -> EightBit:
        if bool(self.modules) == (self.layers is not None):
            raise ValueError("either 'modules' or 'layers' is needed")
        return self


class Hardware(_Facts):
    """What can serve the format, and the first release of vLLM that can."""

    compute_capability: float = Field(description="NVIDIA: least compute capability")
    engine: str = Field(pattern=r"^\d+\.\d+\.\d+$", description="least version of vLLM")
    not_on_cpu: str = Field("", description="why a CPU cannot serve it; empty: it can")


class Recipe(_Facts):
    """How to quantize: one file in ``configs/recipes/``."""

    name: str = ""
    description: str
    deprecated: str = Field("", description="why not to begin with it, and which recipe replaces it")
    backend: Literal["llmcompressor", "autoawq"] = "llmcompressor"
    method: Literal["rtn", "gptq", "awq"]
    scheme: Literal["FP8", "FP8_DYNAMIC", "FP8_BLOCK", "W8A8", "W4A16", "W4A16_ASYM"]
    group_size: Literal[32, 64, 128, "auto"] | None = Field(
        None, description="weights per scale; auto: the largest that divides every input dimension"
    )
    eight_bit: EightBit | None = None
    kv_cache: Literal["FP8"] | None = Field(None, description="also quantize what attention keeps of past tokens")
    smoothquant: float | None = Field(None, ge=0, le=1, description="SmoothQuant migration strength, if used")
    dampening: float = Field(0.01, gt=0, le=1, description="GPTQ: share of the mean Hessian diagonal added to it")
    activation_order: bool = Field(True, description="GPTQ: columns with large inputs first; groups stay as they are")
    ignore: Names = ("lm_head",)
    calibration: Calibration | None = None
    hardware: Hardware | None = None

    @property
    def int4(self) -> bool:
        """Whether weights are INT4 in groups."""
        return self.scheme.startswith("W4A16")

    @model_validator(mode="after")
    def _parts_fit(self) -> Recipe:
        measured = self.eight_bit is not None and self.eight_bit.layers is not None
        reasons = {
            f"method {self.method!r}": self.method != "rtn",
            "smoothquant": self.smoothquant is not None,
            "static activation scales (scheme FP8)": self.scheme == "FP8",
            "kv_cache": self.kv_cache is not None,
            "eight_bit.layers": measured,
        }
        needing = [reason for reason, applies in reasons.items() if applies]
        if needing and self.calibration is None:
            raise ValueError(f"{needing[0]} needs a 'calibration' section")
        if self.calibration is not None and not needing:
            raise ValueError("nothing in this recipe reads calibration text")
        if self.int4 != (self.group_size is not None):
            raise ValueError("group_size belongs to W4A16 and W4A16_ASYM, which need it")
        if self.eight_bit is not None and not self.int4:
            raise ValueError("eight_bit belongs to a recipe for INT4")
        if self.method != "gptq" and (self.dampening, self.activation_order) != (0.01, True):  # else nothing is ignored
            raise ValueError("dampening and activation_order belong to method 'gptq'")
        if self.method == "awq" and not self.int4:
            raise ValueError("method 'awq' is for W4A16 and W4A16_ASYM")
        if self.backend == "autoawq" and (self.method, self.scheme) != ("awq", "W4A16_ASYM"):
            raise ValueError("backend 'autoawq' knows method 'awq' with scheme W4A16_ASYM only")
        if self.backend == "autoawq" and (self.eight_bit or self.kv_cache or self.smoothquant is not None):
            raise ValueError("backend 'autoawq' knows none of eight_bit, kv_cache and smoothquant")
        if self.backend == "autoawq" and self.ignore != ("lm_head",):
            raise ValueError("backend 'autoawq' leaves lm_head alone and nothing else: ignore is [lm_head]")
        return self


# --- configs/ladder*.yaml ----------------------------------------------------------------------


class LadderSettings(_Facts):
    """Which recipes a ladder tries, in which order, fixed before any of them is measured."""

    candidates: Names = Field(min_length=1, description="recipes, by name or path, the first to try first")
    confirm: str | None = Field(
        None, description="`half` of the golden set, or a second set, on which the chosen candidate must pass as well"
    )


# --- configs/lm_eval/*.yaml --------------------------------------------------------------------


class SuiteTask(_Facts):
    """One lm-eval task or group, and which figure of a single item says that it is passed: by reaching 1."""

    task: str = Field(description="its name in lm-eval")
    metric: str = Field(description="a figure of single items, from 0 to 1")
    filter: str = Field("none", description="which of the task's filters the figure is taken after")
    interface: Literal["chat", "completions"] = Field(description="generated answers, or likelihood of given ones")
    items: str | None = Field(None, description="file of the items in the suite's folder, where they are its own")


class SuiteSettings(_Facts):
    """A suite of lm-eval tasks. Those of a ``folder`` stand in its ``tasks/`` and need no network."""

    folder: str | None = Field(None, description="from the project's root; none: tasks that come with lm-eval")
    tasks: dict[Annotated[str, Field(pattern=r"^[a-z0-9_]+$")], SuiteTask] = Field(min_length=1)


# --- loading -----------------------------------------------------------------------------------

SettingsT = TypeVar("SettingsT", bound=BaseModel)

_MOST_BYTES = 250_000
_FAULTS_SHOWN = 20


def load_settings(path: Path, model: type[SettingsT]) -> SettingsT:
    """Read and validate one YAML settings file.

    :raises SettingsError: unreadable, not YAML, or invalid; every fault with its line and field.
    """
    return _load(path, model)[0]


def _load(path: Path, model: type[SettingsT]) -> tuple[SettingsT, yaml.Node | None]:
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        text = raw[:_MOST_BYTES].decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot read: {error}", "Check the path and the file's permissions.") from error
    if len(raw) > _MOST_BYTES:
        raise SettingsError(f"{path}: larger than {_MOST_BYTES:,} bytes", "This is no settings file: check the path.")
    try:
        node = compose(text)
        twice = list(repeated(node))
        data = values(node)
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: not valid YAML: {error}", "Mend the syntax at the place named.") from error
    if twice:
        lines = [f"{path}:{key.start_mark.line + 1}: {key.value}: given twice" for key in twice]
        raise SettingsError(_listed(lines), "Keep one of them.")
    try:
        return model.model_validate({} if data is None else data), node
    except ValidationError as error:
        faults: list[Fault] = [(fault["loc"], fault["msg"] + _number_hint(fault["input"])) for fault in error.errors()]
        raise _refusal(path, node, faults, remedy_for(model, error)) from error


Fault = tuple[tuple[int | str, ...], str]


def _refusal(path: Path, node: yaml.Node | None, faults: list[Fault], remedy: str) -> SettingsError:
    lines = []
    for location, text in faults[:_FAULTS_SHOWN]:  # to find a line is to read the document
        field = ".".join(map(str, location)) or "(whole file)"
        lines.append(f"{path}:{line_of(node, location)}: {field}: {text}")
    return SettingsError(_listed(lines, len(faults)), remedy)


def _listed(lines: list[str], count: int = 0) -> str:
    more = max(count, len(lines)) - _FAULTS_SHOWN
    return "\n".join(lines[:_FAULTS_SHOWN] + ([f"... and {more} more"] if more > 0 else []))


def _number_hint(given: object) -> str:
    """For 1e-3, which YAML 1.1 reads as text: a float has a point and a signed exponent there."""
    found = isinstance(given, str) and re.fullmatch(r"([-+]?\d+)(\.\d*)?[eE]([-+]?)(\d+)", given)
    if not found:
        return ""
    whole, point, sign, exponent = found.groups()
    return f" (YAML reads {given} as text: write {whole}{point or '.0'}e{sign or '+'}{exponent})"


def load_gate(path: Path | None = None) -> GateSettings:
    """Load the decision policy (default ``configs/gate.yaml``).

    :raises SettingsError: invalid, or its metrics are not exactly those that the evaluators measure.
    """
    path = path or CONFIGS / "gate.yaml"
    policy, node = _load(path, GateSettings)
    known = evaluators.METRICS
    faults: list[Fault] = [(("metrics", name), "no such metric") for name in policy.metrics if name not in known]
    missing = "not named (`gating: false` only watches it)"
    faults += [(("metrics", name), missing) for name in known if name not in policy.metrics]
    if faults:
        raise _refusal(path, node, faults, f"Known metrics: {', '.join(known)}.")
    return policy


def named_file(kind: str, name: str) -> Path:
    """Resolve ``name`` to ``configs/<kind>/<name>.yaml``, or to itself when it is a YAML path.

    :raises SettingsError: no such file; the known names are listed.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    known = {path.stem: path for path in sorted((CONFIGS / kind).glob("*.yaml"))}
    if name not in known:
        raise SettingsError(
            f"unknown name {name!r}: no such file in configs/{kind}",
            f"Known: {', '.join(known)}; or give the path of a .yaml file.",
        )
    return known[name]


def load_serving(name: str = "default") -> ServingSettings:
    """Load serving flags by name (``configs/serving/<name>.yaml``) or path, a variant on top of what it extends.

    :raises SettingsError: unknown or invalid, or a variant that extends itself.
    """
    chain: list[ServingSettings] = []
    paths: list[Path] = []
    following: str | None = name
    while following is not None:
        path = named_file("serving", following)
        if path in paths:
            raise SettingsError(f"{path}: extends itself by way of {paths[-1]}", "Let it extend another file.")
        paths.append(path)
        chain.append(load_settings(path, ServingSettings))
        following = chain[-1].extends
    given = [settings.model_dump(exclude_unset=True, exclude={"extends"}) for settings in reversed(chain)]
    return ServingSettings.model_validate({key: value for settings in given for key, value in settings.items()})


def load_recipe(name: str) -> Recipe:
    """Load a recipe by name (``configs/recipes/<name>.yaml``) or path.

    :raises RecipeError: unknown or invalid.
    """
    try:
        path = named_file("recipes", name)
        recipe = load_settings(path, Recipe)
    except SettingsError as error:
        raise RecipeError(error.message, error.remedy) from error
    return recipe.model_copy(update={"name": path.stem})
