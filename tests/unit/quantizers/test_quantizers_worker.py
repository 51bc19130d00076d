"""Running workers: their reports, their failures, and that none outlives its work."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import DiskSpaceError, GoldenSetError, QuantizeError
from pipeline.processes import supervised
from pipeline.quantizers import worker
from pipeline.quantizers.worker import run_worker


class Heard:
    """A Progress that remembers."""

    def __init__(self, on_say: Callable[[str], None] | None = None) -> None:
        self.said: list[str] = []
        self.steps: list[tuple[int, int]] = []
        self._on_say = on_say

    def say(self, stage: str, text: str) -> None:
        self.said.append(text)
        if self._on_say:
            self._on_say(text)

    def advance(self, stage: str, done: int, total: int) -> None:
        self.steps.append((done, total))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Runs a body of Python as a worker script, with the real ``worker_io`` beside it."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "worker_io.py").write_text((worker.SCRIPTS / "worker_io.py").read_text())
    monkeypatch.setattr(worker, "SCRIPTS", scripts)

    def running(body: str, heard: Heard | None = None) -> object:
        script = scripts / "script.py"
        script.write_text("import worker_io, os, sys, signal, time\njob = worker_io.start()\n" + body)
        folder = tmp_path / "key.work"
        folder.mkdir(exist_ok=True)
        python = Path(sys.executable)
        return run_worker("script.py", {"a": 1}, python=python, folder=folder, stage="s", progress=heard or Heard())

    return running


def gone(pid: int) -> bool:
    """Whether the process has ended, waiting a little for the kernel."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_reports_pass_and_prints_do_not_disturb_them(run: Callable[..., object], tmp_path: Path) -> None:
    heard = Heard()
    result = run(
        "print('a library prints')\nworker_io.say('hello')\nworker_io.advance(1, 2)\nworker_io.finish({'b': job['a']})",
        heard,
    )
    assert result == {"b": 1}
    assert (heard.said, heard.steps) == (["hello"], [(1, 2)])
    assert "a library prints" in (tmp_path / "key.work" / "worker.log").read_text()


def test_failure_shows_the_end_of_the_log_and_keeps_all_of_it(run: Callable[..., object], tmp_path: Path) -> None:
    with pytest.raises(QuantizeError, match="bad weights") as raised:
        run("raise ValueError('bad weights')")
    kept = tmp_path / "key.failed.log"
    assert "exit status 1" in raised.value.message
    assert str(kept) in raised.value.message
    assert "ValueError" in kept.read_text()


def test_no_result_is_a_failure(run: Callable[..., object]) -> None:
    with pytest.raises(QuantizeError, match="exit status 0"):
        run("")


def test_what_the_worker_refuses_is_the_users_to_mend(run: Callable[..., object]) -> None:
    with pytest.raises(GoldenSetError, match="the same text") as raised:
        run("worker_io.refuse('the same text', 'Raise it.')")
    assert raised.value.remedy == "Raise it."


def test_killed_by_the_kernel_says_memory(run: Callable[..., object]) -> None:
    with pytest.raises(QuantizeError, match="ran out of memory"):
        run("os.kill(os.getpid(), signal.SIGKILL)")


def test_no_disk_space_is_its_own_error(run: Callable[..., object]) -> None:
    with pytest.raises(DiskSpaceError):
        run("import errno\nraise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))")


CHILD = (
    "import subprocess\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "worker_io.say(f'{os.getpid()} {child.pid}')\n"
)


def test_interrupt_ends_worker_and_its_children(run: Callable[..., object]) -> None:
    pids: list[int] = []

    def interrupt(text: str) -> None:
        pids.extend(map(int, text.split()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(CHILD + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)", Heard(interrupt))
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_children_left_by_a_finished_worker_are_ended(run: Callable[..., object]) -> None:
    heard = Heard()
    run(CHILD + "worker_io.finish({})", heard)
    assert all(gone(int(pid)) for pid in heard.said[0].split())


def test_an_interruption_reaches_a_worker_of_another_thread(run: Callable[..., object]) -> None:
    started = threading.Event()
    errors: list[BaseException] = []

    def target() -> None:
        try:
            run("worker_io.say('up')\ntime.sleep(600)", Heard(lambda _: started.set()))
        except QuantizeError as error:
            errors.append(error)

    thread = threading.Thread(target=target)
    with pytest.raises(KeyboardInterrupt), supervised():
        thread.start()
        assert started.wait(60)
        raise KeyboardInterrupt
    thread.join(60)
    assert not thread.is_alive()
    assert len(errors) == 1


CONTROL = """
import sys
from pathlib import Path
from pipeline.progress import Silent
from pipeline.quantizers import worker
worker.SCRIPTS = Path(sys.argv[1])
worker.run_worker(
    "script.py", {}, python=Path(sys.executable), folder=Path(sys.argv[2]), stage="s", progress=Silent()
)
"""


def test_worker_dies_with_the_control_process(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    (tmp_path / "worker_io.py").write_text((worker.SCRIPTS / "worker_io.py").read_text())
    (tmp_path / "script.py").write_text(
        "import os, time, worker_io\n"
        "worker_io.start()\n"
        f"open({str(note)!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(600)\n"
    )
    control = subprocess.Popen([sys.executable, "-c", CONTROL, str(tmp_path), str(tmp_path)])
    try:
        for _ in range(1200):
            if note.exists() and note.read_text().endswith("\n"):
                break
            time.sleep(0.05)
    finally:
        control.kill()  # it cannot notice, so it cannot clean up
        control.wait()
    assert gone(int(note.read_text()))
