"""Settings: every shipped file is sound, and every fault names file, line and field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import evaluators
from pipeline.errors import InputError, RecipeError, SettingsError
from pipeline.settings import (
    CONFIGS,
    GateSettings,
    Recipe,
    ResourcePolicy,
    ServingSettings,
    load_gate,
    load_recipe,
    load_serving,
    load_settings,
    named_file,
)

GATE = """\
alpha: 0.05
replay:
  concurrency: 8
metrics:
  policy_adherence: {gating: true, margin: 0.03, floor: 0.7}
  tool_call_valid:
    gating: false
    margin: 0.03
"""
SOME = "calibration: {samples: 8, max_tokens: 64}"
AUTOAWQ = f"backend: autoawq\nmethod: awq\nscheme: W4A16_ASYM\n{SOME}"
RECIPE = """\
description: as tried
method: rtn
scheme: W4A16
group_size: 64
"""


def faults_of(text: str, tmp_path: Path, model: type[GateSettings | ServingSettings | Recipe] = GateSettings) -> str:
    """The message of the error that ``text`` is refused with, without the directory."""
    path = tmp_path / "some.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(path, model)
    assert caught.value.remedy
    return caught.value.message.replace(f"{tmp_path}/", "")


def test_every_shipped_file_loads() -> None:
    recipes = sorted(path.stem for path in (CONFIGS / "recipes").iterdir())
    servings = sorted(path.stem for path in (CONFIGS / "serving").iterdir())
    assert {"fp8-dynamic", "int8-w8a8", "int4-gptq", "int4-rtn"} <= set(recipes)
    loaded = [load_recipe(name) for name in recipes]
    assert [recipe.name for recipe in loaded] == recipes
    assert all(recipe.hardware for recipe in loaded)
    samples = {recipe.name: recipe.calibration for recipe in loaded if recipe.calibration}
    assert samples and all(wanted.samples >= 256 and wanted.max_tokens >= 1024 for wanted in samples.values())
    replaced = {recipe.name: recipe.deprecated for recipe in loaded if recipe.deprecated}
    assert {name for name, why in replaced.items() if not set(recipes) & set(re.findall(r"[\w+-]+", why))} == set()
    assert list(replaced) == ["int4-autoawq"]
    assert all(load_serving(name).max_model_len >= 128 for name in servings)
    assert "default" in servings
    policies = sorted(CONFIGS.glob("gate*.yaml"))
    assert {"gate.yaml", "gate-demo.yaml"} <= {path.name for path in policies}
    assert all(set(load_gate(path).metrics) == set(evaluators.METRICS) for path in policies)


def test_the_shipped_policy_is_the_one_that_is_documented() -> None:
    gate = load_gate()
    assert (gate.alpha, gate.anomalous_gain, gate.benefit.weight_bytes) == (
        0.05,
        0.05,
        ResourcePolicy(better=0.20, worse=0.05),
    )
    assert gate.metrics["policy_adherence"].model_dump() == {"gating": True, "margin": 0.03, "floor": 0.70}
    assert [name for name, metric in gate.metrics.items() if not metric.gating] == ["tool_call_valid"]
    assert gate.sampling.temperature == 0  # greedy: both sides must differ by their weights alone


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("alpha: 0.05", "alpha: 0.7", "some.yaml:1: alpha: Input should be less than 0.5"),
        ("alpha: 0.05", "alpha: .nan", "some.yaml:1: alpha: Input should be a finite number"),
        ("alpha: 0.05", "alhpa: 0.05", "some.yaml:1: alhpa: Extra inputs are not permitted"),
        ("concurrency: 8", "concurrency: 0", "some.yaml:3: replay.concurrency: Input should be greater"),
        ("concurrency: 8", "concurrency: eight", "some.yaml:3: replay.concurrency: Input should be a valid integer"),
        ("concurrency: 8", "threads: 8", "some.yaml:3: replay.threads: Extra inputs are not permitted"),
        ("concurrency: 8", "timeout_s: .inf", "some.yaml:3: replay.timeout_s: Input should be a finite number"),
        ("    margin: 0.03", "    margin: .nan", "some.yaml:8: metrics.tool_call_valid.margin: Input should be a fini"),
        ("    margin: 0.03", "    margin: -.inf", "some.yaml:8: metrics.tool_call_valid.margin: Input should be a fin"),
        ("    margin: 0.03", "    margin: 3", "some.yaml:8: metrics.tool_call_valid.margin: Input should be less"),
        # YAML reads `yes` as true, and true counts as 1 in Python: such a margin would accept anything.
        ("    margin: 0.03", "    margin: yes", "some.yaml:8: metrics.tool_call_valid.margin: Input should be a vali"),
        ("    margin: 0.03", "    margin: '0.03'", "some.yaml:8: metrics.tool_call_valid.margin: Input should be a v"),
        ("    margin: 0.03", "    floor: 0.1", "some.yaml:6: metrics.tool_call_valid.margin: Field required"),
        ("    gating: false", "    gating: 'no'", "some.yaml:7: metrics.tool_call_valid.gating: Input should be a val"),
        (
            "    gating: false",
            "    gating: 0",
            "some.yaml:7: metrics.tool_call_valid.gating: Input should be a valid b",
        ),
        ("    margin: 0.03", "    margin: 0.03\n    margin: 0.3", "some.yaml:9: margin: given twice"),
        ("alpha: 0.05", "metrics: {}", "some.yaml:4: metrics: given twice"),
        ("alpha: 0.05", "alpha: [0.05", "some.yaml: not valid YAML"),
        ("alpha: 0.05", "alpha: 2026-13-40", "some.yaml: not valid YAML: month must be in 1..12"),
        ("alpha: 0.05", "alpha: !!python/name:os.system", "some.yaml: not valid YAML: could not determine a constru"),
        ("alpha: 0.05", "noise: &again [*again]", "some.yaml: not valid YAML: an alias stands within"),
        ("alpha: 0.05", "? [a, b]\n: 1", "some.yaml: not valid YAML: while constructing a mapping"),
        ("alpha: 0.05", "? &x [a, b]\n: 1\n? *x\n: 2", "some.yaml: not valid YAML: while constructing a mapping"),
        ("alpha: 0.05", "alpha: !!int ''", "some.yaml: not valid YAML: string index out of range"),
        ("alpha: 0.05", "alpha: 1e-3", "some.yaml:1: alpha: Input should be a valid number (YAML reads 1e-3 as text: "),
        ("alpha: 0.05", "alpha: " + "[" * 150 + "]" * 150, "some.yaml: not valid YAML: nested too deeply"),
        ("alpha: 0.05", "alpha: " + "[" * 5000 + "]" * 5000, "some.yaml: not valid YAML: nested too deeply"),
        ("gating: true", "gating: false", "some.yaml:1: (whole file): Value error, no metric is gating"),
    ],
)
def test_a_fault_in_the_policy_names_file_line_and_field(old: str, new: str, expected: str, tmp_path: Path) -> None:
    assert GATE.count(old) == 1
    found = faults_of(GATE.replace(old, new), tmp_path)
    assert found.startswith(expected)


def test_the_text_that_is_broken_above_is_sound(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(GATE, encoding="utf-8")
    assert load_settings(tmp_path / "gate.yaml", GateSettings).metrics["tool_call_valid"].floor == 0


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    broken = GATE.replace("0.05", "5").replace("concurrency: 8", "concurrency: -1")
    assert [line.split(":")[1] for line in faults_of(broken, tmp_path).splitlines()] == ["1", "3"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "some.yaml:1: metrics: Field required"),
        ("# only a comment\n", "some.yaml:1: metrics: Field required"),
        ("metrics: {}\n", "some.yaml:1: metrics: Dictionary should have at least 1 item"),
        ("metrics:\n", "some.yaml:1: metrics: Input should be a valid dictionary"),
        ("- alpha\n", "some.yaml:1: (whole file): Input should be a valid dictionary"),
        ("just text\n", "some.yaml:1: (whole file): Input should be a valid dictionary"),
        ("a: 1\n---\nb: 2\n", "some.yaml: not valid YAML: expected a single document"),
        ("alpha: \x00\n", "some.yaml: not valid YAML"),
        ("\tmetrics: 1\n", "some.yaml: not valid YAML"),
    ],
)
def test_a_file_that_is_no_policy_is_refused(text: str, expected: str, tmp_path: Path) -> None:
    assert faults_of(text, tmp_path).startswith(expected)


@pytest.mark.parametrize("form", ["[{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}]", "{{<<: [{0}, {0}, {0}, {0}, {0}, {0}]}}"])
def test_a_few_lines_that_stand_for_millions_of_values_are_refused(form: str, tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {form.format(f'*a{n - 1}')}" for n in range(1, 10))]
    assert faults_of("\n".join(lines), tmp_path).startswith("some.yaml: not valid YAML: more than 100,000 values")


def test_a_file_too_large_for_settings_is_refused_unread(tmp_path: Path) -> None:
    assert faults_of(GATE + "#" * 250_000, tmp_path) == "some.yaml: larger than 250,000 bytes"


def test_a_number_that_yaml_reads_as_text_is_told_with_what_to_write(tmp_path: Path) -> None:
    for given, meant in (("1e-3", "1.0e-3"), ("1e-320", "1.0e-320"), ("2.5e3", "2.5e+3"), ("5E-2", "5.0e-2")):
        assert faults_of(GATE.replace("0.05", given), tmp_path).endswith(f"as text: write {meant})")


def test_of_many_faults_the_first_are_told(tmp_path: Path) -> None:
    lines = faults_of(GATE + "".join(f"unknown{n}: 1\n" for n in range(30)), tmp_path).splitlines()
    assert (lines[19][:22], lines[20:]) == ("some.yaml:28: unknown1", ["... and 10 more"])
    twice = faults_of("".join(f"some{n}: 1\nsome{n}: 2\n" for n in range(30)), tmp_path).splitlines()
    assert (twice[19], twice[20:]) == ("some.yaml:40: some19: given twice", ["... and 10 more"])


def test_a_key_that_stands_twice_is_told_once_however_often_it_is_an_alias(tmp_path: Path) -> None:
    text = "a: &a {x: 1, x: 2}\nb: [*a, *a]\n"
    assert faults_of(text, tmp_path) == "some.yaml:1: x: given twice"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"description: caf\xe9\n")
    for path in (tmp_path, tmp_path / "absent.yaml", latin):
        with pytest.raises(SettingsError, match="cannot read") as caught:
            load_gate(path)
        assert str(path) in caught.value.message


def test_metrics_that_nothing_measures_or_nobody_judges_are_refused_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    shipped = (CONFIGS / "gate.yaml").read_text(encoding="utf-8")
    path.write_text(shipped.replace("  tool_call_valid:", "  tool_call_vaild:"), encoding="utf-8")
    line = 1 + [text.split(":")[0].strip() for text in shipped.splitlines()].index("tool_call_valid")
    parent = 1 + shipped.splitlines().index("metrics:")
    with pytest.raises(SettingsError) as caught:
        load_gate(path)
    assert caught.value.message.splitlines() == [
        f"{path}:{line}: metrics.tool_call_vaild: no such metric",
        f"{path}:{parent}: metrics.tool_call_valid: not named (`gating: false` only watches it)",
    ]
    assert "tool_call_valid" in caught.value.remedy


def test_the_remedy_lists_the_known_fields(tmp_path: Path) -> None:
    path = tmp_path / "serving.yaml"
    path.write_text("max_model_length: 4096\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"serving\.yaml:1: max_model_length") as caught:
        load_serving(str(path))
    assert "max_model_len, dtype" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dtype: float64\n", "some.yaml:1: dtype: Input should be 'auto', 'bfloat16', 'float16' or 'float32'"),
        ("gpu_memory_utilization: 1.5\n", "some.yaml:1: gpu_memory_utilization: Input should be less than or equal"),
        ("extra_args: --swap-space\n", "some.yaml:1: extra_args: Input should be a valid tuple"),
        ("seed: 0\nextra_args:\n  - --swap-space\n  - 4\n", "some.yaml:4: extra_args.1: Input should be a valid str"),
    ],
)
def test_serving_flags_are_typed(text: str, expected: str, tmp_path: Path) -> None:
    assert faults_of(text, tmp_path, ServingSettings).startswith(expected)


def test_lists_become_tuples(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("extra_args: [--swap-space, '4']\n", encoding="utf-8")
    assert load_serving(str(path)).extra_args == ("--swap-space", "4")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("group_size: 64\n", "", "(whole file): Value error, group_size belongs to W4A16 and W4A16_ASYM, which need"),
        ("scheme: W4A16", "scheme: W8A8", "(whole file): Value error, group_size belongs to W4A16"),
        ("method: rtn", "method: gptq", "(whole file): Value error, method 'gptq' needs a 'calibration' section"),
        ("method: rtn", "method: rtn\nsmoothquant: 0.5", "(whole file): Value error, smoothquant needs a 'calibr"),
        ("method: rtn", "method: rtn\nkv_cache: FP8", "(whole file): Value error, kv_cache needs a 'calibration'"),
        ("method: rtn", "method: awl", "method: Input should be 'rtn', 'gptq' or 'awq'"),
        ("W4A16\ngroup_size: 64", "FP8", "(whole file): Value error, static activation scales (scheme FP8) needs a"),
        ("method: rtn", f"method: rtn\n{SOME}", "(whole file): Value error, nothing in this recipe reads calibration"),
        ("method: rtn", "method: rtn\neight_bit: {}", "eight_bit: Value error, either 'modules' or 'layers' is needed"),
        ("method: rtn", "method: rtn\neight_bit: {layers: 1, modules: [a]}", "eight_bit: Value error, either"),
        ("method: rtn", "method: rtn\neight_bit: {layers: 1}", "(whole file): Value error, eight_bit.layers needs a"),
        ("W4A16\ngroup_size: 64", "W8A8\neight_bit: {modules: [a]}", "(whole file): Value error, eight_bit belongs"),
        ("W4A16\ngroup_size: 64", f"W8A8\n{SOME}", "(whole file): Value error, nothing in this recipe reads"),
        ("method: rtn", f"method: gptq\n{SOME}\nbackend: autoawq", "(whole file): Value error, backend 'autoawq' kno"),
        ("method: rtn\nscheme: W4A16", f"{AUTOAWQ}\nkv_cache: FP8", "(whole file): Value error, backend 'autoawq' kn"),
        ("method: rtn\nscheme: W4A16", f"{AUTOAWQ}\nignore: [a]", "(whole file): Value error, backend 'autoawq' leav"),
        ("method: rtn", "method: rtn\nhardware: {compute_capability: 8.9, engine: new}", "hardware.engine: String"),
        ("method: rtn\nscheme: W4A16", f"{AUTOAWQ}\nsmoothquant: 0.5", "(whole file): Value error, backend 'autoawq' "),
        ("method: rtn", "method: rtn\ndampening: 0.1", "(whole file): Value error, dampening and activation_order b"),
        ("method: rtn", f"method: awq\n{SOME}\nactivation_order: false", "(whole file): Value error, dampening and "),
        ("group_size: 64", "group_size: big", "group_size: Input should be 32, 64, 128 or 'auto'"),
        # MARLIN_SUPPORTED_GROUP_SIZES in vLLM's quantization/utils/marlin_utils.py: -1, 32, 64, 128.
        ("group_size: 64", "group_size: 16", "group_size: Input should be 32, 64, 128 or 'auto'"),
        ("group_size: 64", "group_size: 96", "group_size: Input should be 32, 64, 128 or 'auto'"),
        ("group_size: 64", "group_size: 1", "group_size: Input should be 32, 64, 128 or 'auto'"),
        ("group_size: 64", "group_size: 64\ncalibration: {samples: 0, max_tokens: 8}", "calibration.samples: Input"),
        ("group_size: 64", "group_size: 64\nignore: lm_head", "ignore: Input should be a valid tuple"),
        ("group_size: 64", "group_size: 64\ndampening: 1.0e+300", "dampening: Input should be less than or equal to 1"),
        ("group_size: 64", "group_size: 64\ndampening: .nan", "dampening: Input should be a finite number"),
    ],
)
def test_a_recipe_whose_parts_do_not_fit_is_refused(old: str, new: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert old in RECIPE
    path.write_text(RECIPE.replace(old, new), encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(path))
    assert caught.value.message.partition(": ")[2].startswith(expected)
    assert caught.value.message.startswith(f"{path}:")


def test_a_recipe_file_of_the_user_goes_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    recipe = load_recipe(str(path))
    assert (recipe.name, recipe.group_size, recipe.ignore) == ("mine", 64, ("lm_head",))


@pytest.mark.parametrize("name", ["int5", "", "../gate", "x" * 5000, "fp8-dynamic/"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(RecipeError, match="no such file in configs/recipes") as caught:
        load_recipe(name)
    assert re.search(r"fp8-dynamic, .*int4-gptq, .*int4-rtn, .*int8-w8a8", caught.value.remedy)
    with pytest.raises(SettingsError, match="no such file in configs/serving") as other:
        load_serving(name)
    assert "Known: default" in other.value.remedy


def test_names_and_paths() -> None:
    assert named_file("recipes", "int4-rtn") == CONFIGS / "recipes" / "int4-rtn.yaml"
    assert named_file("recipes", "some/where.yaml") == Path("some/where.yaml")
    assert issubclass(RecipeError, InputError)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_gate().alpha = 0.1  # type: ignore[misc]


def test_a_merged_mapping_may_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(
        "metrics:\n  policy_adherence: &usual {gating: true, margin: 0.03, floor: 0.7}\n"
        "  tool_call_valid:\n    <<: *usual\n    margin: 0.05\n",
        encoding="utf-8",
    )
    merged = load_settings(path, GateSettings).metrics["tool_call_valid"]
    assert (merged.gating, merged.margin, merged.floor) == (True, 0.05, 0.7)
