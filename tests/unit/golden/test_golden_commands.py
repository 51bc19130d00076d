"""The sub-commands, as a user runs them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from pipeline.errors import InputError, UsageError
from pipeline.golden import load
from pipeline.golden.commands import golden_app


def run(*arguments):
    return CliRunner().invoke(golden_app, [str(a) for a in arguments], catch_exceptions=True, env={"COLUMNS": "200"})


def test_check_of_a_sound_set_counts_it(shop):
    result = run("check", shop.write(shop.transcript()))
    assert result.exit_code == 0
    assert "shop: 1 transcripts, 1 scenarios, 2 turns; 0 errors, 0 warnings" in result.output
    assert "tool_calls" in result.output


def test_check_exits_2_on_errors_and_names_them(shop):
    result = run("check", shop.write(shop.expecting({"behaviour": "answer"})))
    assert result.exit_code == 2
    assert "shop.jsonl:1: broken-vase: messages[1].expect: checks nothing" in result.output
    assert "1 errors, 0 warnings" in result.output


def test_warnings_alone_pass(shop, tmp_path):
    data = shop.transcript()
    stock = "thank you very much for telling us about this, we are really sorry that it went wrong, 20.00 EUR it is"
    data["messages"][3]["content"] = stock
    training = tmp_path / "train.jsonl"
    training.write_text(json.dumps({"text": stock}) + "\n")
    result = run("check", shop.write(data), "--against", training)
    assert "warning: " in result.output
    assert result.exit_code == 0


def test_stats_and_show(shop):
    root = shop.write(shop.transcript())
    assert "policy_adherence" in run("stats", root).output
    assert "Shall I pay back 20.00 EUR?" in run("show", "broken-vase", root).output


def test_manifest_is_written_and_compared(shop):
    root = shop.write(shop.transcript())
    assert "has no MANIFEST.json" in run("manifest", root).output
    assert run("manifest", root, "--write").exit_code == 0
    assert "is as its MANIFEST.json says" in run("manifest", root).output
    shop.write(shop.transcript(licence="MIT"))
    result = run("manifest", root)
    assert result.exit_code == 2
    assert "transcripts/shop.jsonl has changed" in result.output


@pytest.fixture
def log(tmp_path):
    call = {"id": "c", "type": "function", "function": {"name": "get_order", "arguments": '{"order_id": "OM-482913"}'}}
    tool = {"type": "function", "function": {"name": "get_order", "parameters": {"type": "object"}}}
    good = [
        {"role": "user", "content": "OM-482913?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"messages": good, "tools": [tool]}) + '\n{"messages": []}\n')
    return path


def test_import_writes_a_set_that_loads_and_lists_what_it_dropped(log, tmp_path):
    output = tmp_path / "mine" / "transcripts" / "log.jsonl"
    result = run("import", log, "--from", "openai", "--to", output, "--slice", "logged", "--redact")
    assert result.exit_code == 0
    assert "imported 1, dropped 1" in result.output
    assert "OM-482913" not in output.read_text()
    golden = load(tmp_path / "mine")
    assert golden.turns[0].slices == ("logged", "tool_calls")
    dropped = output.with_suffix(".dropped.txt").read_text()
    assert dropped.startswith(f"{log.as_posix()}:2: log-2: no reply that the record itself decides")


def test_import_does_not_overwrite_unasked(log, tmp_path):
    output = tmp_path / "x.jsonl"
    output.write_text("mine")
    result = run("import", log, "--from", "openai", "--to", output)
    assert isinstance(result.exception, InputError)
    assert output.read_text() == "mine"
    assert run("import", log, "--from", "openai", "--to", output, "--force").exit_code == 0
    assert output.read_text() != "mine"


def test_import_from_an_unknown_format(log, tmp_path):
    result = run("import", log, "--from", "csv", "--to", tmp_path / "x.jsonl")
    assert isinstance(result.exception, InputError)
    assert result.exception.remedy == "Known: openai, real-cases, bfcl, tau2."


def test_import_with_options_that_cannot_be_used(log, tmp_path):
    latin, deep = tmp_path / "latin.txt", tmp_path / "deep.json"
    latin.write_bytes(b"caf\xe9")
    deep.write_text("[" * 100_000)
    to = ("--from", "openai", "--to", tmp_path / "x.jsonl")
    refused = run("import", log, *to, "--system", latin).exception
    assert isinstance(refused, UsageError)
    assert f"--system {latin}: cannot be read as UTF-8" in refused.message
    refused = run("import", log, *to, "--tools", deep).exception
    assert isinstance(refused, InputError)
    assert f"{deep}: cannot be read as JSON" in refused.message
    for below in ("x.jsonl", "deeper/x.jsonl"):
        refused = run("import", log, "--from", "openai", "--to", latin / below).exception
        assert isinstance(refused, UsageError)
        assert f"--to {latin / below}: " in refused.message
        assert "is no directory" in refused.message


@pytest.mark.parametrize("manifest", [False, True])
def test_check_of_a_transcript_file_that_is_a_loop_of_links(shop, manifest):
    root = shop.write(shop.transcript())
    if manifest:
        run("manifest", root, "--write")
    shop.file.unlink()
    shop.file.symlink_to(shop.file)
    result = run("check", root)
    assert result.exit_code == 2
    assert "transcripts/shop.jsonl:0: -: -: cannot read: Too many levels of symbolic links" in result.output


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("policies/shop.md", "---\nid: 2020-99-99\n---\nText", "policies/shop.md:1: shop: -: front matter is not"),
        ("policies/shop.md", f"---\nid: {'[' * 5000}\n---\nText", "front matter is not valid YAML: nested too deeply"),
        ("tools/shop.json", "[" * 100_000, "tools/shop.json:0: shop: -: JSON is nested too deeply"),
    ],
)
def test_check_of_policies_and_tools_that_cannot_be_read(shop, name, text, told):
    root = shop.write(shop.transcript())
    (root / name).write_text(text)
    result = run("check", root)
    assert result.exit_code == 2
    assert told in result.output


def test_check_of_a_tool_whose_parameters_are_nested_too_deeply(shop):
    parameters = {}
    for _ in range(200):
        parameters = {"type": "object", "properties": {"a": parameters}}
    shop.write_tools([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"} | parameters}}])
    result = run("check", shop.write(shop.transcript()))
    assert result.exit_code == 2
    assert "parameters of 'f' are not a valid JSON Schema: nested too deeply" in result.output
