"""The store: a stage output exists only when it is complete, is made once, and is found again."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pytest

from pipeline import processes
from pipeline.errors import DiskSpaceError, Interrupted, RecordError, UsageError
from pipeline.settings import PROJECT_ROOT
from pipeline.store import STAGE_FILE, Store, home

INPUTS = {"checkpoint": "ab" * 32, "turns": 3}

MAKER = """\
import sys, time
from pathlib import Path
from pipeline.store import Store

def build(directory):
    (directory / "part").write_text("half")
    print("building", flush=True)
    sys.stdin.readline()  # until the test says so
    (directory / "whole").write_text("whole")

output = Store(Path(sys.argv[1])).make("quantize", {"n": 1}, build)
print("reused" if output.reused else "made", flush=True)
"""


class Maker:
    """A real process that makes one output of a store, in two steps."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAKER, str(root)],
            cwd=PROJECT_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> str:
        """Let it finish; what it says in the end."""
        said, _ = self.process.communicate("\n", timeout=60)
        return said.strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


def write(directory: Path) -> None:
    (directory / "result").write_text("42", encoding="utf-8")


def refuse(directory: Path) -> None:
    raise AssertionError("made again")


def left_over(store: Store, stage: str = "evaluate") -> list[str]:
    """What lies beside locks in a stage's directory."""
    return sorted(path.name for path in (store.root / "stages" / stage).iterdir() if path.suffix != ".lock")


# --- making and finding ------------------------------------------------------------------------


def test_made_once_then_reused(store: Store) -> None:
    made = store.make("evaluate", INPUTS, write)
    again = store.make("evaluate", dict(reversed(INPUTS.items())), refuse)
    assert (made.reused, again.reused) == (False, True)
    assert made.path == again.path == store.path_of("evaluate", INPUTS)
    assert made.seconds == again.seconds >= 0
    assert (again.path / "result").read_text(encoding="utf-8") == "42"
    assert left_over(store) == [made.key]


def test_the_record_of_an_output_holds_its_inputs(store: Store) -> None:
    record = json.loads((store.make("evaluate", INPUTS, write).path / STAGE_FILE).read_text(encoding="utf-8"))
    assert (record["stage"], record["inputs"]) == ("evaluate", INPUTS)


@pytest.mark.parametrize("other", [{**INPUTS, "turns": 4}, {"checkpoint": INPUTS["checkpoint"]}, {**INPUTS, "x": None}])
def test_other_inputs_are_another_output(other: dict[str, Any], store: Store) -> None:
    first, second = store.make("evaluate", INPUTS, write), store.make("evaluate", other, write)
    assert not second.reused
    assert first.path != second.path


def test_another_stage_is_another_output(store: Store) -> None:
    store.make("evaluate", INPUTS, write)
    assert not store.make("decide", INPUTS, write).reused


def test_find_does_not_make(store: Store) -> None:
    assert store.find("evaluate", INPUTS) is None
    made = store.make("evaluate", INPUTS, write)
    found = store.find("evaluate", INPUTS)
    assert found is not None
    assert (found.path, found.reused) == (made.path, True)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_input_without_a_json_form_is_refused(value: float, store: Store) -> None:
    for inputs in ({"margin": value}, {"deep": [{"margin": value}]}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            store.make("evaluate", inputs, refuse)
    assert not store.root.exists()


def test_home_is_in_the_project_unless_the_user_says_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUANT_GATE_HOME", raising=False)
    assert home() == PROJECT_ROOT / ".quant-gate"
    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path))
    assert Store().root == home() == tmp_path


# --- builds that fail --------------------------------------------------------------------------


class Broken(Exception):
    pass


def break_off(directory: Path) -> None:
    (directory / "part").write_text("half", encoding="utf-8")
    raise Broken


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt, SystemExit])
def test_a_failed_build_leaves_nothing(error: type[BaseException], store: Store) -> None:
    def build(directory: Path) -> None:
        (directory / "part").write_text("half", encoding="utf-8")
        raise error

    with pytest.raises(error):
        store.make("evaluate", INPUTS, build)
    assert left_over(store) == []
    assert store.find("evaluate", INPUTS) is None
    assert not store.make("evaluate", INPUTS, write).reused


def test_a_resumable_build_finds_its_work_again(store: Store) -> None:
    with pytest.raises(Broken):
        store.make("replay", INPUTS, break_off, resumable=True)
    assert store.find("replay", INPUTS) is None
    seen = []
    made = store.make("replay", INPUTS, lambda work: seen.extend(p.name for p in work.iterdir()), resumable=True)
    assert seen == ["part"]
    assert not made.reused
    assert sorted(path.name for path in made.path.iterdir()) == ["part", STAGE_FILE]


def test_an_unfinished_output_is_gone_on_with(store: Store) -> None:
    def unfinished(path: Path) -> bool:
        return (path / "result").read_text(encoding="utf-8") == "42"

    def finish(directory: Path) -> None:
        (directory / "result").write_text((directory / "result").read_text(encoding="utf-8") + "!", encoding="utf-8")

    made = store.make("evaluate", INPUTS, write, resumable=True, unfinished=unfinished)
    assert not made.reused  # not asked of what was just made
    with pytest.raises(RuntimeError):
        store.make("evaluate", INPUTS, _fail, resumable=True, unfinished=unfinished)
    assert left_over(store) == [f"{made.key}.work"]  # nothing lost, nothing taken for whole
    whole = store.make("evaluate", INPUTS, finish, resumable=True, unfinished=unfinished)
    assert (whole.reused, (whole.path / "result").read_text(encoding="utf-8")) == (False, "42!")
    assert store.make("evaluate", INPUTS, refuse, resumable=True, unfinished=unfinished).reused
    assert left_over(store) == [made.key]


def _fail(directory: Path) -> None:
    raise RuntimeError


def test_a_build_starts_from_nothing_whatever_lies_there(store: Store) -> None:
    work = store.path_of("evaluate", INPUTS).with_suffix(".work")
    work.mkdir(parents=True)
    (work / "stale").touch()
    made = store.make("evaluate", INPUTS, write)
    assert sorted(path.name for path in made.path.iterdir()) == ["result", STAGE_FILE]


@pytest.mark.parametrize(
    "damage", ["", "{", "null", "[]", "{}", '{"seconds": "soon"}', '{"seconds": null}', "\xff", None]
)
def test_a_damaged_output_is_named_and_never_used(damage: str | None, store: Store) -> None:
    made = store.make("evaluate", INPUTS, write)
    record = made.path / STAGE_FILE
    record.unlink()
    if damage is not None:
        record.write_bytes(damage.encode("latin-1"))
    for use in (lambda: store.make("evaluate", INPUTS, refuse), lambda: store.find("evaluate", INPUTS)):
        with pytest.raises(RecordError, match="damaged") as caught:
            use()
        assert str(made.path) in caught.value.message
        assert str(made.path) in caught.value.remedy
    shutil.rmtree(made.path)  # the remedy
    assert not store.make("evaluate", INPUTS, write).reused


# --- room --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_and_cleaned_up(number: int, store: Store) -> None:
    def build(directory: Path) -> None:
        (directory / "part").write_text("half", encoding="utf-8")
        raise OSError(number, os.strerror(number))

    with pytest.raises(DiskSpaceError, match="evaluate: no space left") as caught:
        store.make("evaluate", INPUTS, build)
    assert "QUANT_GATE_HOME" in caught.value.remedy
    assert left_over(store) == []


def test_a_full_disk_keeps_the_work_of_a_resumable_build(store: Store) -> None:
    def build(directory: Path) -> None:
        (directory / "part").write_text("half", encoding="utf-8")
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(DiskSpaceError):
        store.make("replay", INPUTS, build, resumable=True)
    assert store.find("replay", INPUTS) is None
    assert (store.path_of("replay", INPUTS).with_suffix(".work") / "part").exists()


def test_another_fault_of_the_system_stays_what_it_is(store: Store) -> None:
    def build(directory: Path) -> None:
        raise PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        store.make("evaluate", INPUTS, build)
    assert left_over(store) == []


def test_too_little_room_is_found_before_the_work(store: Store) -> None:
    with pytest.raises(DiskSpaceError, match=r"needs 1000000000\.0 GB in .*evaluate, [\d.]+ GB are free") as caught:
        store.make("evaluate", INPUTS, refuse, needs_bytes=10**18)
    assert "QUANT_GATE_HOME" in caught.value.remedy
    assert left_over(store) == []
    made = store.make("evaluate", INPUTS, write, needs_bytes=1)
    assert store.make("evaluate", INPUTS, refuse, needs_bytes=10**18).path == made.path  # what is there needs no room


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write stage outputs") as caught:
        Store(tmp_path / "file").make("evaluate", INPUTS, refuse)
    assert "QUANT_GATE_HOME" in caught.value.remedy


# --- several processes -------------------------------------------------------------------------


def test_two_processes_make_an_output_once(store: Store) -> None:
    first = Maker(store.root)
    assert first.line() == "building"
    second = Maker(store.root)
    with pytest.raises(subprocess.TimeoutExpired):
        second.process.wait(timeout=0.5)
    assert first.go_on() == "made"
    assert second.go_on() == "reused"
    assert len(left_over(store, "quantize")) == 1


def test_after_a_kill_in_the_middle_a_waiting_process_takes_over(store: Store) -> None:
    victim = Maker(store.root)
    assert victim.line() == "building"
    heir = Maker(store.root)
    victim.kill()
    assert store.find("quantize", {"n": 1}) is None
    assert heir.line() == "building"
    assert heir.go_on() == "made"
    assert len(left_over(store, "quantize")) == 1


def test_an_interruption_reaches_a_thread_that_waits_for_another_run(store: Store) -> None:
    """A thread asleep in the kernel would keep Ctrl-C from ending this run until the other one has."""
    held, release = threading.Event(), threading.Event()

    def hold(directory: Path) -> None:
        held.set()
        assert release.wait(60)

    holder = threading.Thread(target=lambda: store.make("evaluate", INPUTS, hold))
    holder.start()
    assert held.wait(60)
    with ThreadPoolExecutor() as pool:
        with pytest.raises(KeyboardInterrupt), processes.supervised(pool):
            waiter = pool.submit(store.make, "evaluate", INPUTS, refuse)
            raise KeyboardInterrupt
        ended = not release.is_set()  # it came back while the other one still worked
        release.set()
    holder.join(60)
    assert ended
    with pytest.raises(Interrupted):
        waiter.result()


def test_no_lock_is_left_open(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[IO[Any]] = []
    plain = Path.open

    def open_and_note(path: Path, *arguments: Any, **named: Any) -> IO[Any]:
        handle = plain(path, *arguments, **named)
        opened.append(handle)
        return handle

    monkeypatch.setattr(Path, "open", open_and_note)
    with pytest.raises(Broken):
        store.make("evaluate", INPUTS, break_off)
    assert opened
    assert all(handle.closed for handle in opened)


@pytest.mark.parametrize("harm", ["another's", "no list", "one more file", "deep"])
def test_an_output_that_is_not_that_of_its_inputs_is_not_used(store: Store, harm: str) -> None:
    made, other = store.make("evaluate", INPUTS, write), store.make("evaluate", {**INPUTS, "turns": 4}, write)
    if harm == "another's":
        shutil.copytree(other.path, made.path, dirs_exist_ok=True)
    elif harm == "no list":
        record = json.loads((made.path / STAGE_FILE).read_text(encoding="utf-8"))
        del record["files"]
        (made.path / STAGE_FILE).write_text(json.dumps(record), encoding="utf-8")
    elif harm == "deep":
        (made.path / STAGE_FILE).write_text("[" * 100_000, encoding="utf-8")
    else:
        (made.path / "more").write_text("", encoding="utf-8")
    with pytest.raises(RecordError, match="kept stage output"):
        store.make("evaluate", INPUTS, refuse)


def test_the_seconds_are_those_of_the_work(store: Store) -> None:
    made = store.make("evaluate", INPUTS, lambda directory: time.sleep(0.05))
    assert made.seconds >= 0.05  # never less than it slept; no upper bound, the machine may be busy


@pytest.mark.parametrize("harm", ["edited", "cut", "removed"])
def test_a_kept_output_that_was_altered_is_not_taken_for_whole(store: Store, harm: str) -> None:
    def build(directory: Path) -> None:
        (directory / "checkpoint").mkdir()
        (directory / "checkpoint" / "config.json").write_text("{1}")

    path = store.make("quantize", INPUTS, build).path
    assert store.make("quantize", INPUTS, build).reused
    file = path / "checkpoint" / "config.json"
    if harm == "removed":
        file.unlink()
    else:
        file.write_text({"edited": "{2}", "cut": "{"}[harm])
    with pytest.raises(RecordError, match=r"was altered: checkpoint/config\.json") as raised:
        store.make("quantize", INPUTS, build)
    assert str(path) in raised.value.remedy
