"""A suite of lm-eval tasks as a policy uses it: what it depends on, how many items it has, and its leaks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.digests import tree_digest
from pipeline.errors import GoldenSetError, SettingsError
from pipeline.golden.complaints import SHOWN, Complaint, Severity
from pipeline.golden.contamination import SeenText
from pipeline.golden.reading import Record, read_jsonl
from pipeline.settings import (
    PROJECT_ROOT,
    GateSettings,
    Sampling,
    SuiteSettings,
    SuiteTask,
    load_settings,
    named_file,
)

PREFIX = "general."
"""Of the names of metrics, which are entries of a suite."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The entries of a suite that a policy names.

    :ivar folder: absolute path of the suite's own tasks and items; None for tasks that come with lm-eval.
    """

    name: str
    folder: Path | None
    tasks: dict[str, SuiteTask]

    @property
    def digest(self) -> str | None:
        """SHA-256 (hex) over the suite's own tasks and items; None for tasks that come with lm-eval."""
        if self.folder is None:
            return None
        files = [*self.folder.glob("*.jsonl"), *(path for path in self.folder.glob("tasks/*") if path.is_file())]
        return tree_digest(self.folder, files)

    def records(self) -> Iterator[Record]:
        """The suite's own items, each as a conversation of one message.

        :raises GoldenSetError: a file is missing, or a line is no item.
        """
        for entry, task in self.tasks.items():
            if self.folder is None or task.items is None:
                continue
            for record in read_jsonl(self.folder / task.items):
                question = None if isinstance(record, Complaint) else record.data.get("question")
                if not isinstance(record, Record) or not isinstance(question, str):
                    text = str(record) if isinstance(record, Complaint) else f"{record.file}:{record.line}: no question"
                    raise GoldenSetError(f"items of {entry}: {text}", "Mend the line named, then run again.")
                messages = [{"role": "user", "content": question}]
                yield Record(record.file, record.line, {"id": str(record.data.get("id", "")), "messages": messages})

    def counts(self) -> dict[str, int]:
        """Number of items by metric, for entries with items of their own."""
        found = {}
        for entry, task in self.tasks.items():
            if self.folder is not None and task.items is not None:
                lines = (self.folder / task.items).read_text(encoding="utf-8").splitlines()
                found[PREFIX + entry] = sum(bool(line.strip()) for line in lines)
        return found


def load_suite(name: str, entries: Collection[str] = ()) -> Suite:
    """Load a suite, or the ``entries`` of it that a policy demands something of.

    :raises SettingsError: unknown or invalid, an entry that it does not have, or a folder or file that is not there.
    """
    path = named_file("lm_eval", name)
    settings = load_settings(path, SuiteSettings)
    if unknown := [entry for entry in entries if entry not in settings.tasks]:
        raise SettingsError(
            f"general.tasks: {', '.join(unknown)}: not in the suite {path}", f"Known: {', '.join(settings.tasks)}."
        )
    folder = None if settings.folder is None else PROJECT_ROOT / settings.folder
    tasks = {entry: task for entry, task in settings.tasks.items() if not entries or entry in entries}
    wanted = [] if folder is None else [folder / name for name in ("tasks", *(t.items for t in tasks.values())) if name]
    if missing := [str(file) for file in wanted if not file.exists()]:
        raise SettingsError(f"{path}: not there: {', '.join(missing)}", "Correct folder or items of the suite.")
    return Suite(path.stem, folder, tasks)


def general_metrics(policy: GateSettings) -> GateSettings | None:
    """The policy for general ability alone: each task is a metric, asked once; None where it demands nothing of it."""
    if policy.general is None:
        return None
    metrics = {PREFIX + name: rule for name, rule in policy.general.tasks.items()}
    return policy.model_copy(update={"metrics": metrics, "looks": (), "sampling": Sampling(), "general": None})


def demand_unseen(suite: Suite, text: Iterable[tuple[str, Any]]) -> None:
    """Refuse a suite whose own items stand in calibration or training text.

    :param text: records of such text, each after the place where it stands.
    :raises GoldenSetError: names the items, and where they stand.
    """
    seen = SeenText()
    for place, data in text:
        seen.add(place, data)
    complaints: list[Complaint] = []
    for record in suite.records():
        complaints += (found for found in seen.check(record) if found.severity is Severity.ERROR)
    if complaints:
        rest = f"\n... and {len(complaints) - SHOWN} more" if len(complaints) > SHOWN else ""
        raise GoldenSetError(
            f"suite {suite.name}:\n" + "\n".join(map(str, complaints[:SHOWN])) + rest,
            "Take the items out, or the text that holds them.",
        )
