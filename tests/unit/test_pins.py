"""The pins of this project's environments."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest

from pipeline import environments

PROJECT = Path(environments.__file__).parent.parent
PIN = re.compile(r"^[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==\S+( ; .+)?$")
LOCKS = sorted((PROJECT / "configs" / "envs").glob("*.txt"))


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_is_pinned_and_names_no_address(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert lines
    dropped = re.compile(r"^[a-z-]+; sys_platform == 'never'$")
    if path.name.startswith("overrides"):
        lines = [line for line in lines if not dropped.match(line)]  # how uv is told to leave a package out
    assert [line for line in lines if not PIN.match(line)] == []
    assert "://" not in path.read_text(encoding="utf-8")


OWN = {"quant-gate", "quant-gate-cpu-kernels"}


@pytest.mark.parametrize("name", ["pipeline", "serve", "quantize"])
def test_nothing_is_installed_that_no_pin_fixes(name: str) -> None:
    """One version on every machine, whether it comes from the index or from a cache.

    torch's CUDA build fixes libraries of its own, which the locks for both of its builds leave out.
    """
    environment = environments.environments()[name]
    if not environment.is_current():
        pytest.skip(f"environment {name} is not built; `make setup` does")
    folder = environment.directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    installed = list(importlib.metadata.distributions(path=[str(folder)]))
    assert len(installed) > 50
    fixed = {_name(line) for line in environment.pins.read_text(encoding="utf-8").splitlines()}
    for distribution in installed:
        fixed |= {_name(line) for line in distribution.requires or () if "==" in line.partition(";")[0]}
    assert {_name(each.name) for each in installed} - fixed - OWN == set()


def _name(requirement: str) -> str:
    return re.sub("[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower())


def test_the_pins_hold_everything_that_the_project_declares() -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = {_name(line) for line in [*declared["project"]["dependencies"], *declared["dependency-groups"]["dev"]]}
    pins = (PROJECT / "configs" / "envs" / "pipeline.txt").read_text(encoding="utf-8").splitlines()
    assert wanted - {_name(line) for line in pins} == set()


@pytest.mark.parametrize("name", ["serve-cpu", "serve-cuda", "quantize"])
def test_the_pins_hold_what_was_asked_for(name: str) -> None:
    envs = PROJECT / "configs" / "envs"
    asked = [line for line in (envs / f"{name}.in").read_text("utf-8").splitlines() if not line.startswith("#")]
    pins = (envs / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert {_name(line) for line in asked} <= {_name(line) for line in pins}
    exact = [line for line in asked if "==" in line]
    assert exact
    assert all(any(pin.split(" ;")[0] == line for pin in pins) for line in exact)


def test_environments_that_hold_a_part_of_this_project_can_build_it() -> None:
    """Parts are built with the environment's own setuptools; 77 is the least that their pyproject.toml asks for."""
    holding = [environment for environment in environments.environments().values() if environment.projects]
    assert {environment.name for environment in holding} == {"pipeline", "serve"}
    for environment in holding:
        (pin,) = re.findall(r"^setuptools==(\d+)", environment.pins.read_text(encoding="utf-8"), re.MULTILINE)
        assert int(pin) >= 77
