"""One variable at a time: what counts as a change, and what may then differ in the engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import SettingsError, UsageError
from pipeline.serving import variables
from pipeline.settings import CONFIGS, ServingSettings, load_serving

DEFAULT = load_serving()


def side(
    digest: str = "a", serving: ServingSettings = DEFAULT, checkpoint: Path = Path("nowhere")
) -> dict[str, object]:
    return variables.of_checkpoint(digest, checkpoint, serving)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("kv-fp8", "kv_cache_dtype"),
        ("no-prefix-caching", "enable_prefix_caching"),
        ("no-chunked-prefill", "--no-enable-chunked-prefill"),
        ("ngram-speculation", "--speculative-config"),
        ("seqs-16", "max_num_seqs"),
    ],
)
def test_shipped_variants_change_one_thing(name: str, setting: str) -> None:
    changes = variables.changed(side(), side(serving=load_serving(name)))
    assert list(changes) == [setting]
    variables.demand_one(changes, combined=False)


def test_each_further_flag_is_a_variable_of_its_own() -> None:
    plain = load_serving("no-chunked-prefill")
    both = plain.model_copy(update={"extra_args": (*plain.extra_args, "--max-num-batched-tokens=512")})
    changes = variables.changed(side(), side(serving=both))
    assert changes == {
        "--no-enable-chunked-prefill": ("not set", "set"),
        "--max-num-batched-tokens": ("not set", "512"),
    }
    with pytest.raises(UsageError, match="2 variables at once: --max-num-batched-tokens: not set -> 512; --no-"):
        variables.demand_one(changes, combined=False)
    apart = both.model_copy(update={"extra_args": (*plain.extra_args, "--max-num-batched-tokens", "512")})
    assert variables.changed(side(serving=both), side(serving=apart)) == {}


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (["--a", "1", "-O", "0"], ["--a", "2", "-O", "3"], ["--a", "-O"]),
        (["-O0"], ["-O", "3"], ["-O"]),
        (["--x_y", "1"], ["--x-y=1"], []),
        (["--x_y", "1"], ["--x-y", "2"], ["--x-y"]),
        (["--group_a.key_b=1"], ["--group-a.key_b", "1"], []),
        (["--a", "-1"], ["--a", "-2"], ["--a"]),
        (["--a", "x_y"], ["--a", "x-y"], ["--a"]),
    ],
)
def test_a_flag_is_one_variable_however_it_is_written(before: list[str], after: list[str], names: list[str]) -> None:
    sides = (side(serving=DEFAULT.model_copy(update={"extra_args": tuple(words)})) for words in (before, after))
    assert list(variables.changed(*sides)) == names


def test_another_template_is_refused_at_once() -> None:
    """Its prompts are others on every turn, which ended INVALID when both sides had been served."""
    changes = variables.changed(side(), side(serving=DEFAULT.model_copy(update={"chat_template": "own.jinja"})))
    for combined in (False, True):
        with pytest.raises(UsageError, match=r"would read other prompts: chat_template: null -> own\.jinja"):
            variables.demand_one(changes, combined)


def test_declared_flags_are_variables_and_addresses_are_none() -> None:
    one = variables.declared_flags(["--port", "8000", "--max-num-seqs=8"])
    other = variables.declared_flags(["--max-num-seqs", "16", "--port", "8001", "--enforce-eager"])
    assert variables.changed(one, other) == {
        "--enforce-eager": ("not set", "set"),
        "--max-num-seqs": ("8", "16"),
    }
    assert variables.declared_flags([]) == {}
    assert variables.changed(one, {}) == {}  # unknown of one side
    assert "--max-num-seqs" not in variables.changed(one, side())  # of a checkpoint it is a setting by its name


def test_every_shipped_serving_file_is_tried() -> None:
    names = {path.stem for path in (CONFIGS / "serving").glob("*.yaml")}
    assert {"default", "kv-fp8", "no-prefix-caching", "no-chunked-prefill", "ngram-speculation", "seqs-16"} <= names


def test_weights_and_cache_at_once_are_refused() -> None:
    changes = variables.changed(side("a"), side("b", load_serving("kv-fp8")))
    with pytest.raises(UsageError, match=r"2 variables at once: weights: a -> b; kv_cache_dtype: auto -> fp8"):
        variables.demand_one(changes, combined=False)
    variables.demand_one(changes, combined=True)


def test_a_checkpoint_that_asks_for_another_cache_changes_it(tmp_path: Path) -> None:
    config = {"quantization_config": {"kv_cache_scheme": {"type": "float", "num_bits": 8}}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    changes = variables.changed(side("a"), side("b", checkpoint=tmp_path))
    assert sorted(changes) == ["kv_cache_dtype", "weights"]
    assert variables.told(changes)[1] == "kv_cache_dtype: auto -> float8 of the checkpoint"


def test_what_may_differ_follows_from_what_was_changed() -> None:
    def allowed(serving: str) -> frozenset[str]:
        return variables.may_differ(variables.changed(side(), side(serving=load_serving(serving))))

    assert allowed("kv-fp8") == {"flags", "kv_cache_dtype in effect"}
    assert allowed("default") == frozenset()
    assert allowed("no-chunked-prefill") == {"flags", "enable_chunked_prefill in effect"}
    assert allowed("ngram-speculation") == {"flags", "speculative_config in effect"}
    assert "speculative_config in effect" in variables.may_differ({"--speculative-config.method": (1, 2)})
    assert variables.may_differ({"weights": ("a", "b")}) == frozenset()
    assert "max_seq_len in effect" in variables.may_differ({"max_model_len": (1, 2)})


def test_a_variant_that_extends_itself(tmp_path: Path) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    one.write_text(f"extends: {other}\n", encoding="utf-8")
    other.write_text(f"extends: {one}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="extends itself"):
        load_serving(str(one))


def test_the_nearest_file_wins(tmp_path: Path) -> None:
    middle, last = tmp_path / "middle.yaml", tmp_path / "last.yaml"
    middle.write_text("extends: default\nmax_num_seqs: 8\nseed: 5\n", encoding="utf-8")
    last.write_text(f"extends: {middle}\nmax_num_seqs: 4\n", encoding="utf-8")
    loaded = load_serving(str(last))
    assert (loaded.max_num_seqs, loaded.seed, loaded.enforce_eager) == (4, 5, DEFAULT.enforce_eager)
