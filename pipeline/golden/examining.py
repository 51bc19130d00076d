"""One pass over a golden set: every transcript is checked by itself and turned into turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evaluators.turn import Policy, Turn
from pipeline.golden.building import policy_of, tools_of, turns_of
from pipeline.golden.complaints import Complaint
from pipeline.golden.expect_checks import check_expectations
from pipeline.golden.history_checks import check_history, unknown_tool
from pipeline.golden.reading import Library, Record
from pipeline.golden.schemas import Toolbox, toolbox, transcript_faults


@dataclass(frozen=True, slots=True)
class Examined:
    """A transcript with what is wrong with it; ``turns`` is empty when anything is."""

    record: Record
    turns: tuple[Turn, ...]
    complaints: tuple[Complaint, ...]


class Examiner:
    """Checks transcripts against the schema, their references, and themselves."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._file_tools = {name: Toolbox(tools) for name, tools in library.tools.items()}
        self._rules_seen: set[tuple[str, tuple[str, ...]]] = set()

    def examine(self, record: Record) -> Examined:
        """All checks that need no other transcript."""
        complaints = tuple(self._complaints(record))
        return Examined(record, () if complaints else turns_of(record, self.library), complaints)

    def _complaints(self, record: Record) -> Iterator[Complaint]:
        broken = False
        for field, message in transcript_faults(record.data):
            broken = True
            yield record.complain(field, message)
        for complaint in () if broken else self._references(record):
            broken = True
            yield complaint
        if broken:
            return
        tools = self._toolbox(record.data)
        for index, message in tools.invalid:
            yield record.complain(f"tools[{index}].function", message)
        policy = policy_of(record.data, self.library)
        if policy is not None and tools.names:
            yield from self._rules(record, policy, tools)
        yield from check_history(record, tools)
        yield from check_expectations(record, tools)

    def _toolbox(self, data: Mapping[str, Any]) -> Toolbox:
        name = data.get("tools")
        return self._file_tools[name] if isinstance(name, str) else toolbox(tools_of(data, self.library))

    def _references(self, record: Record) -> Iterator[Complaint]:
        for field, known in (("policy", self.library.policies), ("tools", self.library.tools)):
            name = record.data.get(field)
            if isinstance(name, str) and name not in known:
                listed = ", ".join(sorted(known)) or "none"
                yield record.complain(field, f"no usable {field} file {name!r}; there are: {listed}")

    def _rules(self, record: Record, policy: Policy, tools: Toolbox) -> Iterator[Complaint]:
        """Tool names in the policy's rules, once per policy and list of tools."""
        if (policy.id, tools.names) in self._rules_seen:
            return
        self._rules_seen.add((policy.id, tools.names))
        for rule in policy.rules:
            named = rule.parameters
            for name in (*named.get("write_tools", ()), named.get("verify_tool"), named.get("tool")):
                if name is not None and name not in tools:
                    yield record.complain("policy", f"rule {rule.id} of {policy.id}: {unknown_tool(name, tools)}")
            tool, argument = named.get("tool"), named.get("argument")
            if (
                isinstance(tool, str)
                and tool in tools
                and argument is not None
                and argument not in tools.properties(tool)
            ):
                yield record.complain("policy", f"rule {rule.id} of {policy.id}: {tool} has no {argument!r}")
