"""Runs the tasks of a suite against a server with lm-eval, in lm-eval's own environment.

The job names the server, the tasks, and where their samples go. For each entry of the suite it writes
``samples-<entry>.jsonl``, one item a line, and then ``facts-<entry>.json``; an entry that has its facts is not asked
again, and neither is a request that lm-eval's cache holds an answer to. Started by ``pipeline/stages/general.py``.

Four things are done otherwise than by lm-eval's own API models. An answer that there is not (``content: null``, or a
request that the server refuses) is told apart from an empty one. An answer that cannot be read is an error. Every task
is asked at temperature 0, whatever it says itself. Token ids for likelihoods come from the checkpoint's
``tokenizer.json``, so that no transformers is needed.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

# worker_io is a script's module, not part of a package
sys.path.append(str(Path(__file__).resolve().parent.parent / "quantizers" / "workers"))
import worker_io

NO_ANSWER = "<no answer>"
"""Stands for an answer that there is not; lm-eval's own default is the empty text, which is an answer."""
LATER = frozenset({408, 425, 429})
"""Client errors that say "later", not "no"."""
PLACEHOLDER = "LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER"


def main() -> None:
    """Run every entry that has no facts yet."""
    job = worker_io.start()
    os.environ[PLACEHOLDER] = NO_ANSWER
    os.environ["HF_HUB_OFFLINE"] = "1" if job["offline"] else "0"
    if job["folder"]:
        os.environ["HF_DATASETS_CACHE"] = str(Path(job["output"]) / "datasets")
    from lm_eval.tasks import TaskManager

    output = Path(job["output"])
    if job["folder"]:
        os.chdir(job["folder"])  # the tasks name their data files from there
        tasks = TaskManager(include_path=str(Path(job["folder"]) / "tasks"), include_defaults=False)
    else:
        tasks = TaskManager()  # reads thousands of files, which takes a minute
    for entry, wanted in job["tasks"].items():
        if not (output / f"facts-{entry}.json").exists():
            worker_io.say(f"{entry} ({wanted['task']})")
            run(entry, wanted, job, tasks, output)
    worker_io.finish({})


def run(entry: str, wanted: dict[str, Any], job: dict[str, Any], tasks: Any, output: Path) -> None:
    """Ask for every item of one entry and write its samples and facts."""
    import lm_eval

    chat = wanted["interface"] == "chat"
    results = lm_eval.simple_evaluate(
        model=_model(job, chat=chat),
        tasks=[wanted["task"]],
        task_manager=tasks,
        use_cache=str(output / f"cache-{entry}"),
        limit=job["limit"],
        log_samples=True,
        bootstrap_iters=0,
        apply_chat_template=chat,
        fewshot_as_multiturn=chat,
    )
    lines = []
    for task, samples in sorted(results["samples"].items()):
        chosen = [sample for sample in samples if sample["filter"] == wanted["filter"]]
        if len(chosen) != results["n-samples"][task]["effective"]:
            filters = sorted({sample["filter"] for sample in samples})
            raise SystemExit(f"{task}: no filter {wanted['filter']!r}, or not every item; its filters: {filters}")
        lines += [_line(task, sample, wanted["metric"]) for sample in chosen]
    _write(output / f"samples-{entry}.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    facts = {
        **wanted,
        "lm_eval": results["lm_eval_version"],
        "versions": results["versions"],
        "shots": results["n-shot"],
        "limit": job["limit"],
        "items": len(lines),
        "results": {task: _plain(figures) for task, figures in results["results"].items()},
    }
    _write(output / f"facts-{entry}.json", json.dumps(facts, indent=1, sort_keys=True) + "\n")


def _model(job: dict[str, Any], *, chat: bool) -> Any:
    """lm-eval's model for a server, with the changes that the module's head names."""
    from aiohttp import ClientResponseError
    from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

    base = LocalChatCompletion if chat else LocalCompletionsAPI

    class Model(base):  # type: ignore[misc, valid-type]
        done = 0
        total = 0

        def generate_until(self, requests: Any, **options: Any) -> Any:
            self.done, self.total = 0, len(requests)
            return super().generate_until(requests, **options)

        def _loglikelihood_tokens(self, requests: Any, **options: Any) -> Any:
            self.done, self.total = 0, len(requests)
            return super()._loglikelihood_tokens(requests, **options)

        def _create_payload(self, *args: Any, gen_kwargs: Any = None, **options: Any) -> Any:
            # LongBench says `do_sample: false, temperature: 1`, of which lm-eval sends a server the temperature alone
            return super()._create_payload(*args, gen_kwargs={**(gen_kwargs or {}), "temperature": 0}, **options)

        async def amodel_call(self, *, messages: Any, generate: bool = True, **options: Any) -> Any:
            try:
                answers = await super().amodel_call(messages=messages, generate=generate, **options)
            except ClientResponseError as error:
                if not 400 <= error.status < 500 or error.status in LATER:
                    raise
                answers = [NO_ANSWER if generate else (math.nan, False)] * len(messages)
            self.done += len(messages)
            worker_io.advance(self.done, self.total)
            return answers

        def parse_generations(self, outputs: Any, **_: Any) -> list[str | None]:
            return [choice["message"]["content"] for choice in outputs["choices"]]

        def tok_encode(self, text: str, **_: Any) -> Any:
            # with the special tokens that the engine itself puts before a text
            return text if chat else self.tokenizer.encode(text).ids

    model = Model(
        base_url=f"{job['url']}/v1/{'chat/' if chat else ''}completions",
        model=job["model"],
        tokenizer_backend=None,
        num_concurrent=max(2, job["concurrency"]),  # one at a time is another code path, with other requests
        max_retries=job["attempts"],
        timeout=math.ceil(job["timeout_s"]),
        max_length=job["max_length"],
        seed=job["seed"],
    )
    if not chat:
        from tokenizers import Tokenizer

        model.tokenizer, model.tokenized_requests = Tokenizer.from_file(job["tokenizer"]), True
    return model


def _line(task: str, sample: dict[str, Any], metric: str) -> dict[str, Any]:
    """One item, as the control process reads it."""
    responses = [response for request in sample["resps"] for response in request]
    answered = all(_answered(response) for response in responses)
    if metric not in sample:
        raise SystemExit(f"{task}: no figure {metric!r} of single items; it has {sorted(sample['metrics'])}")
    value = float(sample[metric])
    if answered and not 0 <= value <= 1:
        raise SystemExit(f"{task}: {metric} is {value} at item {sample['doc_id']}: not a figure between 0 and 1")
    return {
        "id": f"{task}#{sample['doc_id']}",
        "doc_hash": sample["doc_hash"],
        "prompt_hash": sample["prompt_hash"],
        "target_hash": sample["target_hash"],
        "target": str(sample["target"]),
        "prompt": _prompt(sample["arguments"]),
        "responses": [response if isinstance(response, str) else list(map(_finite, response)) for response in responses]
        if answered
        else [],
        "answered": answered,
        "value": value if answered else None,
    }


def _answered(response: Any) -> bool:
    if isinstance(response, str):
        return response != NO_ANSWER
    return response is not None and math.isfinite(response[0])


def _finite(value: Any) -> Any:
    return bool(value) if isinstance(value, bool) else float(value)


def _prompt(arguments: list[Any]) -> list[dict[str, Any]]:
    """What was sent, as chat messages; of several requests (one for each answer) the text with all answers."""
    context = arguments[0][0]
    text = context if isinstance(context, str) else context[0]
    if not isinstance(context, str):
        return [dict(message) for message in json.loads(text)]
    return [{"role": "user", "content": text + "".join(f"\n({n}){arg[1]}" for n, arg in enumerate(arguments))}]


def _plain(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if isinstance(value, (int, float, str))}


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main()
