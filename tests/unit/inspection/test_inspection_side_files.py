"""Tokenizer, chat template, configs and processors: every difference that matters is named, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import CONFIG, TEMPLATE, llama, tokenizer, write
from inspecting import Inspect, named
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers

from evaluators.turn import Behaviour, Expectation, Turn
from pipeline.inspection import Finding, Severity
from pipeline.inspection.templates import render
from pipeline.inspection.tokens import LONG_TOKENS, load, long_text
from pipeline.settings import PROJECT_ROOT

Candidate = Callable[..., Path]
ASK = {"role": "user", "content": "Where is order ORD-7? Größe 42, ¿dónde?"}
TURNS = (
    Turn(
        "t1#1",
        "t1",
        "s",
        (),
        (ASK,),
        (),
        Expectation(Behaviour.ANSWER),
        {"role": "assistant", "content": "It is here."},
    ),
)


def edit(folder: Path, name: str, **changes: Any) -> Path:
    """Set keys of a JSON file; None removes one."""
    path = folder / name
    value = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in value.items() if v is not None}))
    return folder


def severities(findings: tuple[Finding, ...]) -> list[tuple[str, Severity]]:
    return [(found.check, found.severity) for found in findings]


# --- tokenizer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_missing_files(inspect: Inspect, candidate: Candidate, name: str) -> None:
    folder = candidate()
    (folder / name).unlink()
    assert ("tokenizer-missing", Severity.FATAL) in severities(inspect(folder))


def test_truncation_and_padding_left_by_a_calibration(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    cutting = load(folder)
    assert cutting is not None
    cutting.enable_truncation(2048)
    cutting.save(str(folder / "tokenizer.json"))
    found = inspect(folder)
    assert severities(found) == [("tokenizer-truncates", Severity.FATAL)]
    assert found[0].figures["max_length"] == 2048
    padding = load(folder)
    assert padding is not None
    padding.enable_padding(length=512)
    padding.save(str(folder / "tokenizer.json"))
    assert named(inspect(folder)) == {"tokenizer-truncates"}


def test_the_long_text_is_longer_than_any_calibration() -> None:
    made = tokenizer()
    assert len(made.encode(long_text(made, ["a short text"])).ids) > LONG_TOKENS


def changed_normalizer(made: Tokenizer) -> None:
    made.normalizer = normalizers.NFKC()


def changed_splitting(made: Tokenizer) -> None:
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)


def changed_digits(made: Tokenizer) -> None:
    digits = pre_tokenizers.Digits(individual_digits=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=True)])


@pytest.mark.parametrize("change", [changed_normalizer, changed_splitting, changed_digits])
def test_the_same_text_with_other_ids(
    inspect: Inspect, candidate: Candidate, change: Callable[[Tokenizer], None]
) -> None:
    folder = candidate()
    made = tokenizer()
    change(made)
    made.save(str(folder / "tokenizer.json"))
    found = inspect(folder)
    assert severities(found) == [("tokenizer-ids", Severity.PARITY)]


def test_other_merges_and_other_added_tokens(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    tokenizer(merges=20).save(str(folder / "tokenizer.json"))
    assert {"tokenizer-vocabulary", "tokenizer-ids"} <= named(inspect(folder))
    made = tokenizer()
    made.add_special_tokens([AddedToken("<|tool|>", special=True)])
    made.save(str(folder / "tokenizer.json"))
    found = inspect(folder)
    assert "tokenizer-vocabulary" in named(found) and "<|tool|>" in next(f for f in found if "vocab" in f.check).text


def test_a_file_that_differs_in_its_spelling_only(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    text = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(text, indent=3))
    assert inspect(folder) == ()


def test_more_tokens_than_rows(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    made = tokenizer()
    made.add_tokens([f"<extra_{n}>" for n in range(50)])
    made.save(str(folder / "tokenizer.json"))
    assert ("tokenizer-vocabulary", Severity.FATAL) in severities(inspect(folder))


def test_tokenizers_that_cannot_be_compared(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"sentencepiece")
    assert "tokenizer-ids" in named(inspect(folder))


@pytest.mark.parametrize(
    "changes",
    [
        {"eos_token": "<|none|>"},
        {"bos_token": None},
        {"pad_token": "<|end|>"},
        {"additional_special_tokens": ["<|tool|>"]},
    ],
)
def test_special_tokens(inspect: Inspect, candidate: Candidate, changes: dict[str, Any]) -> None:
    found = inspect(edit(candidate(), "tokenizer_config.json", **changes))
    assert severities(found) == [("tokenizer-special", Severity.PARITY)]


def test_special_tokens_written_in_another_way_or_place(inspect: Inspect, candidate: Candidate) -> None:
    folder = edit(
        candidate(), "tokenizer_config.json", eos_token={"content": "<|end|>", "lstrip": False}, bos_token=None
    )
    (folder / "special_tokens_map.json").write_text(json.dumps({"bos_token": "<|start|>"}))
    assert inspect(folder) == ()


def test_handling_of_special_tokens(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    beside = edit(write(tmp_path / "b", llama(), CONFIG), "tokenizer_config.json", add_bos_token=True)
    assert inspect(candidate(), beside) == ()  # left out: the tokenizer's own default
    found = inspect(edit(candidate(), "tokenizer_config.json", add_bos_token=False), beside)
    assert named(found) == {"tokenizer-special"}


def test_the_maximum_length(inspect: Inspect, candidate: Candidate) -> None:
    found = inspect(edit(candidate(), "tokenizer_config.json", model_max_length=2048))
    assert severities(found) == [("tokenizer-length", Severity.PARITY)]
    assert found[0].figures == {"candidate": 2048, "baseline": 16384}


# --- template ----------------------------------------------------------------------------------


def test_a_template_that_was_not_saved(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    (folder / "chat_template.jinja").unlink()
    assert severities(inspect(folder, turns=TURNS)) == [("template-missing", Severity.FATAL)]
    found = inspect(folder, turns=TURNS, template_override=TEMPLATE)
    assert severities(found) == [("template-missing", Severity.WARNING)]


def test_a_template_that_moved_into_the_tokenizers_config(inspect: Inspect, candidate: Candidate) -> None:
    folder = edit(candidate(), "tokenizer_config.json", chat_template=TEMPLATE)
    (folder / "chat_template.jinja").unlink()
    assert inspect(folder, turns=TURNS) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<|end|>\n{% endfor", "\n{% endfor"),
        ("assistant\n{% endif", "assistant{% endif"),
        ("{{ message.role }}", "{{ message.role | upper }}"),
        ("{{ message.content }}", "{{ message.content | trim }} "),
    ],
)
def test_templates_that_render_differently(inspect: Inspect, candidate: Candidate, old: str, new: str) -> None:
    folder = candidate()
    assert old in TEMPLATE
    (folder / "chat_template.jinja").write_text(TEMPLATE.replace(old, new))
    found = inspect(folder, turns=TURNS)
    assert severities(found) == [("template-differs", Severity.PARITY)]
    assert inspect(folder, turns=TURNS, template_override=TEMPLATE) == ()


def test_templates_that_differ_in_their_spelling_only(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    (folder / "chat_template.jinja").write_text("{# again #}" + TEMPLATE.replace("message.role", "message['role']"))
    assert inspect(folder, turns=TURNS) == ()
    assert named(inspect(folder)) == {"template-differs"}  # without turns there is no telling


def test_templates_that_fail(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    (folder / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
    found = inspect(folder, turns=TURNS)
    assert severities(found) == [("template-differs", Severity.PARITY)] and "roles must alternate" in found[0].text


def test_special_tokens_that_a_template_prints(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    beside = write(tmp_path / "b", llama(), CONFIG)
    folder = edit(candidate(), "tokenizer_config.json", bos_token="<|none|>")
    for side in (beside, folder):
        (side / "chat_template.jinja").write_text("{{ bos_token }}" + TEMPLATE)
    assert named(inspect(folder, beside, turns=TURNS)) == {"tokenizer-special", "template-differs"}


def test_templates_are_run_as_transformers_runs_them() -> None:
    template = """{%- for m in messages %}
  {%- if m.tool_calls %}{{ m.tool_calls[0].function.arguments.id }}|{{ m.tool_calls[0] | tojson }}{% continue %}
  {%- endif %}
{% generation %}{{ m.content }}{% endgeneration %}
{%- endfor %}{{ strftime_now('%d %b %Y') }}{{ tools | length }}"""
    call = {"type": "function", "function": {"name": "look_up", "arguments": '{"id": "ü"}'}}
    text = render(template, [ASK, {"role": "assistant", "content": None, "tool_calls": [call]}], [{"a": 1}, {"b": 2}])
    assert text.startswith("Where is order ORD-7? Größe 42, ¿dónde?")
    assert 'ü|{"type": "function", "function": {"name": "look_up", "arguments": {"id": "ü"}}}' in text
    assert text.endswith("2026-01-012")


def test_templates_cannot_reach_out() -> None:
    with pytest.raises(Exception, match=r"(?i)unsafe|undefined"):
        render("{{ ''.__class__.__mro__[1].__subclasses__() }}", [ASK])


def test_the_shipped_template_renders_the_shipped_tools() -> None:
    template = (PROJECT_ROOT / "examples" / "demo_model" / "chat_template.jinja").read_text(encoding="utf-8")
    tool = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object", "properties": {}}}}
    text = render(template, [{"role": "system", "content": "Be kind."}, ASK], [tool])
    assert "Be kind." in text and "refund" in text and text.rstrip().endswith("assistant")


# --- configs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_theta": 500000.0},
        {"rope_theta": None},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"max_position_embeddings": 2048},
        {"architectures": ["MistralForCausalLM"]},
        {"num_key_value_heads": None},
        {"hidden_act": "gelu", "num_attention_heads": 8},
    ],
)
def test_config_keys_that_matter(inspect: Inspect, candidate: Candidate, changes: dict[str, Any]) -> None:
    found = inspect(edit(candidate(), "config.json", **changes))
    assert severities(found) == [("config-differs", Severity.PARITY)]


@pytest.mark.parametrize(
    "changes",
    [
        {
            "transformers_version": "5.0",
            "dtype": None,
            "torch_dtype": "float16",
            "_name_or_path": "x",
            "use_cache": False,
        },
        {"attention_bias": False, "mlp_bias": False, "initializer_range": 0.02},
        {"rope_theta": None, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}},
        {"rope_scaling": None},
    ],
)
def test_config_keys_that_do_not(inspect: Inspect, candidate: Candidate, changes: dict[str, Any]) -> None:
    assert inspect(edit(candidate(), "config.json", **changes)) == ()


def test_nested_configs(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    text = {"hidden_size": 128, "rope_theta": 1e6, "eos_token_id": 2}
    beside = write(tmp_path / "b", llama(), {**CONFIG, "text_config": text})
    assert inspect(candidate(config={"text_config": text}), beside) == ()
    other = candidate(config={"text_config": {**text, "rope_theta": 1e4, "hidden_size": 64}})
    found = inspect(other, beside)
    assert named(found) == {"config-differs"} and found[0].figures["count"] == 2


def test_end_tokens(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    beside = edit(write(tmp_path / "b", llama(), CONFIG), "generation_config.json", eos_token_id=[2, 3])
    found = inspect(candidate(), beside)
    assert severities(found) == [("generation-eos", Severity.FATAL)] and "[3]" in found[0].text
    more = edit(candidate(), "generation_config.json", eos_token_id=[2, 3, 4])
    assert severities(inspect(more, beside)) == [("generation-differs", Severity.PARITY)]
    folder = candidate()
    (folder / "generation_config.json").unlink()
    assert {"generation-eos", "generation-differs"} == named(inspect(folder, beside))


def test_sampling_defaults(inspect: Inspect, candidate: Candidate) -> None:
    found = inspect(edit(candidate(), "generation_config.json", temperature=None, top_p=0.9))
    assert severities(found) == [("generation-differs", Severity.PARITY)]
    assert "temperature: 1.0 instead of 0.7" in found[0].text and "top_p: 0.9 instead of 1.0" in found[0].text
    same = {"do_sample": True, "transformers_version": "4.51.3", "top_p": 1.0, "repetition_penalty": 1.0}
    assert inspect(edit(candidate(), "generation_config.json", **same)) == ()


def test_processors(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    beside = write(tmp_path / "b", llama(), CONFIG)
    (beside / "preprocessor_config.json").write_text(json.dumps({"size": 224, "_processor_class": "a"}))
    folder = candidate()
    assert severities(inspect(folder, beside)) == [("processor-missing", Severity.FATAL)]
    (folder / "preprocessor_config.json").write_text(json.dumps({"size": 112}))
    assert severities(inspect(folder, beside)) == [("processor-missing", Severity.PARITY)]
    (folder / "preprocessor_config.json").write_text(json.dumps({"size": 224, "_processor_class": "b"}))
    assert inspect(folder, beside) == ()
