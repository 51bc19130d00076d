"""Rules that every file of the project keeps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.settings import PROJECT_ROOT

MODULE_LINES = 450
TEST_LINES = 800

# Put together here, so that this file does not break its own rule.
PLACES = ["/" + name + "/" for name in ("work", "root", "home")] + ["/tmp/" + "lab"]
HOSTS = [
    ".".join(parts)
    for parts in (
        *(("pypi", "org"), ("pythonhosted", "org"), ("registry", "npmjs", "org"), ("deb", "debian", "org")),
        *(("download", "pytorch", "org"), ("archive", "ubuntu", "com")),
    )
]


def project_files() -> list[Path]:
    if shutil.which("git") is None or not (PROJECT_ROOT / ".git").exists():
        pytest.skip("needs the git checkout to know which files belong to the project")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    files = [PROJECT_ROOT / name for name in listing.stdout.split("\0") if name]
    assert len(files) > 100
    return [path for path in files if path.is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_no_file_names_a_place_of_one_machine_or_a_registry() -> None:
    path = "|".join(map(re.escape, PLACES))
    forbidden = re.compile(rf"(?<![\w.~}}>)*-])(?:{path})|{'|'.join(map(re.escape, HOSTS))}")
    assert forbidden.search("see " + PLACES[0] + "x") and forbidden.search("https://" + HOSTS[0])  # it can find them
    found = [
        f"{file.relative_to(PROJECT_ROOT)}:{number}: {line.strip()[:100]}"
        for file in project_files()
        for number, line in enumerate(text_of(file).splitlines(), 1)
        if forbidden.search(line)
    ]
    assert found == []


def test_modules_are_short() -> None:
    long = []
    for file in project_files():
        name = file.relative_to(PROJECT_ROOT)
        if name.parts[:3] == ("examples", "demo_model", "businesses"):
            continue  # pools of names, products and sentences: data, though written as code
        limit = TEST_LINES if name.parts[0] == "tests" else MODULE_LINES
        lines = len(text_of(file).splitlines())
        if file.suffix == ".py" and lines > limit:
            long.append(f"{name}: {lines} lines, {limit} allowed")
    assert long == []


def test_modules_say_what_they_are_for() -> None:
    packages = ("pipeline", "evaluators", "benchmarks")
    silent = [
        str(file.relative_to(PROJECT_ROOT))
        for file in project_files()
        if file.suffix == ".py" and file.relative_to(PROJECT_ROOT).parts[0] in packages
        if not re.match(r"(#.*\n)*\s*r?\"\"\"\S", text_of(file))
    ]
    assert silent == []


def test_make_explains_every_target() -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=PROJECT_ROOT,
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")},
        capture_output=True,
        text=True,
        check=True,
    )
    explained = {line.split()[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")}
    phony = re.search(r"^\.PHONY: (.+)$", (PROJECT_ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony is not None
    assert explained == set(phony[1].split())
