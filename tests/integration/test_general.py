"""The real lm-eval against a FAKE server that answers by a function: what is sent, and what becomes of answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import environments
from pipeline.errors import ReplayError
from pipeline.evidence.samples import GeneralSide, read_general
from pipeline.general.suite import Suite, load_suite
from pipeline.progress import Silent
from pipeline.settings import PROJECT_ROOT, GateSettings, MetricPolicy, ReplaySettings, SuiteTask
from pipeline.stages import general
from pipeline.store import Store

sys.path[:0] = [str(PROJECT_ROOT / "tests"), str(PROJECT_ROOT / "tests" / "unit")]
from fakes.answering_server import AnsweringServer  # noqa: E402
from gate_fakes import FakeMachine  # noqa: E402

SUMS = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {do_sample: false, temperature: 1, max_gen_toks: 24, until: []}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
metadata: {version: 3.0}
"""
CHOICE = """
task: choice
dataset_path: json
dataset_kwargs: {data_files: {test: choice.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
ANSWERS: dict[str, str | int | None] = {"1+1": "2", "1+2": "4", "1+3": None, "1+4": 400, "1+5": "", "1+6": "7"}
POLICY = GateSettings(
    metrics={"policy_adherence": MetricPolicy(margin=0.1)},
    replay=ReplaySettings(concurrency=3, attempts=2, timeout_s=20),
)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    folder = tmp_path_factory.mktemp("suite")
    (folder / "tasks").mkdir()
    (folder / "tasks" / "sums.yaml").write_text(SUMS)
    (folder / "tasks" / "choice.yaml").write_text(CHOICE)
    sums = [{"question": text, "answer": str(sum(map(int, text.split("+"))))} for text in ANSWERS]
    choice = [{"question": "Sky:", "choices": ["blue", "square"], "answer": 0}]
    for name, items in (("sums", sums), ("choice", choice)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    tasks = {
        "sums": SuiteTask(task="sums", metric="exact_match", interface="chat", items="sums.jsonl"),
        "choice": SuiteTask(task="choice", metric="acc", interface="completions", items="choice.jsonl"),
    }
    return Suite("made", folder, tasks)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer that takes each word for a token, unknown ones for 0, and puts nothing before a text."""
    folder = tmp_path_factory.mktemp("checkpoint")
    words = {"<unk>": 0, "Sky:": 1, "blue": 2, "square": 3}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}
    split = {"type": "WhitespaceSplit"}
    tokenizer = {"version": "1.0", "added_tokens": [], "pre_tokenizer": split, "model": model}
    rest = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, **rest}))
    return folder


LOOK_UP = """
import json, sys
from pathlib import Path
import lm_eval.tasks
from lm_eval.tasks._yaml_loader import load_yaml

files = {}  # all of lm-eval's, by the task or group that one defines; its own index parses thousands of them
for path in Path(lm_eval.tasks.__file__).parent.glob("**/*.yaml"):
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, name = line.partition(": ")
        if key in ("task", "group"):
            files[name.strip(" \\"'")] = path
found = {}
for name in sys.argv[1:]:
    config = load_yaml(files[name], resolve_func=False)
    if "group" in config:
        config = load_yaml(files[config["task"][0]], resolve_func=False)
    found[name] = {
        "type": config.get("output_type", "generate_until"),
        "metrics": [each["metric"] for each in config["metric_list"]],
        "filters": [each["name"] for each in config.get("filter_list", [{"name": "none"}])],
    }
print(json.dumps(found))
"""


def test_standard_tasks_are_lm_evals_own_as_the_suite_asks_for_them() -> None:
    tasks = load_suite("standard").tasks.values()
    command = [environments.provide("lm_eval", Silent()), "-c", LOOK_UP, *(task.task for task in tasks)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout)
    for task in tasks:
        theirs = found[task.task]
        assert theirs["type"] == {"chat": "generate_until", "completions": "multiple_choice"}[task.interface]
        assert task.metric in theirs["metrics"]
        assert task.filter in theirs["filters"]


def ask(root: Path, suite: Suite, checkpoint: Path, server: AnsweringServer) -> Path:
    store = Store(root)
    return general.run(
        store,
        suite,
        lambda: server,  # type: ignore[arg-type, return-value]
        checkpoint=checkpoint,
        checkpoint_digest="ba" * 32,
        plan=FakeMachine().plan(None, store),
        policy=POLICY,
        max_model_len=512,
        progress=Silent(),
        side="baseline",
    ).path


@pytest.fixture(scope="module")
def asked(
    suite: Suite, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GeneralSide, list[dict[str, Any]], Path]]:
    with AnsweringServer(ANSWERS.__getitem__, lambda ids: -1.0 if 2 in ids else -2.0) as server:
        path = ask(tmp_path_factory.mktemp("home"), suite, checkpoint, server)
        yield read_general(path, suite.tasks, "general."), server.requests, path


def test_answers_become_outcomes(asked: tuple[GeneralSide, list[dict[str, Any]], Path]) -> None:
    side, _, _ = asked
    found = {name: (sample.outcome.status.value, sample.outcome.label) for name, sample in side.samples.items()}
    assert found == {
        "sums#0": ("passed", "ok"),
        "sums#1": ("failed", "wrong"),
        "sums#2": ("unscorable", "no_reply"),
        "sums#3": ("unscorable", "no_reply"),
        "sums#4": ("failed", "empty"),
        "sums#5": ("passed", "ok"),
        "choice#0": ("passed", "ok"),
    }
    assert side.samples["sums#0"].prompt == ({"role": "user", "content": "1+1"},)
    assert side.samples["choice#0"].reply.content == "(0) -1.0000\n(1) -2.0000"


def test_requests_are_those_of_the_tasks(asked: tuple[GeneralSide, list[dict[str, Any]], Path]) -> None:
    _, requests, _ = asked
    chat = [request for request in requests if "messages" in request]
    assert sorted(request["messages"][-1]["content"] for request in chat) == sorted(
        ANSWERS
    )  # a refusal is not repeated
    assert {(request["model"], request["temperature"], request["max_tokens"]) for request in chat} == {
        ("gate", 0.0, 24)
    }
    assert sorted(request["prompt"] for request in requests if "prompt" in request) == [[[1, 2]], [[1, 3]]]


def test_versions_and_counts_are_kept(asked: tuple[GeneralSide, list[dict[str, Any]], Path]) -> None:
    side, _, path = asked
    facts = side.facts["sums"]
    assert (facts["lm_eval"], facts["versions"], facts["items"], facts["limit"]) == ("0.4.13", {"sums": 3.0}, 6, None)
    assert not list(path.glob("cache*")) + list(path.glob("datasets"))


def test_what_was_answered_is_not_asked_again(tmp_path: Path, suite: Suite, checkpoint: Path) -> None:
    """The first try breaks on one sum; the second asks for that alone, and for the tasks that had not begun."""
    with (
        AnsweringServer(lambda text: 500 if text == "1+6" else "2", lambda ids: -1.0) as server,
        pytest.raises(ReplayError, match="general baseline"),
    ):
        ask(tmp_path, suite, checkpoint, server)
    with AnsweringServer(lambda text: "7", lambda ids: -1.0) as server:
        side = read_general(ask(tmp_path, suite, checkpoint, server), suite.tasks, "general.")
        chat = [request["messages"][-1]["content"] for request in server.requests if "messages" in request]
    assert "1+6" in chat
    assert len(chat) < len(ANSWERS)
    assert side.samples["sums#5"].passed
