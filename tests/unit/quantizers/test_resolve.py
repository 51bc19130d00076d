"""Resolving model names, without a network and without an engine."""

from __future__ import annotations

import shutil
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from tiny_llama import MakeCheckpoint

from pipeline.errors import InputError, ModelError, RecordError
from pipeline.progress import Silent
from pipeline.quantizers import embedded
from pipeline.quantizers.checkpoint import read_checkpoint
from pipeline.stages import resolve
from pipeline.store import Store


def no_registry(uri: str, folder: Path) -> Path:
    raise AssertionError("the registry was asked")


def test_local_directory(make_checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = make_checkpoint()
    found = resolve.run(Store(tmp_path / "store"), str(folder), Silent(), no_registry)
    assert found == read_checkpoint(folder, str(folder))


def test_template_of_the_serving_settings_counts(make_checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder, override = make_checkpoint(template=None), tmp_path / "t.jinja"
    override.write_text("theirs")
    found = resolve.run(Store(tmp_path / "store"), str(folder), Silent(), no_registry, override)
    assert found.template == "theirs"


@pytest.mark.parametrize("model", ["nonsense", "./absent/folder", "/no/such/place", "~no-such-user/x", "x" * 5000, ""])
def test_unknown_model_says_what_was_looked_for(tmp_path: Path, model: str) -> None:
    with pytest.raises(ModelError, match="demo, demo-raw") as raised:
        resolve.run(Store(tmp_path), model, Silent(), no_registry)
    assert isinstance(raised.value, InputError)
    assert raised.value.exit_code == 2
    assert len((raised.value.message + raised.value.remedy).splitlines()) <= 20


def test_hub_model_with_revision(
    make_checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = make_checkpoint("0123abcd")
    asked: list[tuple[str, str | None]] = []

    def download(name: str, *, revision: str | None, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        asked.append((name, revision))
        needed = {"config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json"}
        needed |= {"chat_template.jinja", "tokenizer.model", "generation_config.json"}
        wanted = huggingface_hub.utils.filter_repo_objects(
            [*needed, "pytorch_model.bin", "README.md", "onnx/config.json", "consolidated.safetensors"],
            allow_patterns=allow_patterns,
            ignore_patterns=ignore_patterns,
        )
        assert set(wanted) == needed
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    store = Store(tmp_path / "store")
    found = resolve.run(store, "owner/name@v1", Silent(), no_registry)
    assert (found.source, found.revision, found.path) == ("owner/name@v1", "0123abcd", snapshot)
    resolve.run(store, "owner/name", Silent(), no_registry)
    assert asked == [("owner/name", "v1"), ("owner/name", None)]


def test_unreachable_hub_is_a_model_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise LocalEntryNotFoundError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ModelError, match="no network"):
        resolve.run(Store(tmp_path), "owner/name", Silent(), no_registry)


def test_registry_model_is_kept_by_content(make_checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    registered, store = make_checkpoint(), Store(tmp_path / "store")

    def download(uri: str, folder: Path) -> Path:
        assert uri == "models:/m@champion"
        shutil.copytree(registered, folder / "artifacts" / "model")
        (folder / "MLmodel").write_text("")
        return folder

    first = resolve.run(store, "models:/m@champion", Silent(), download)
    second = resolve.run(store, "models:/m@champion", Silent(), download)
    assert first == second
    assert first.digest == read_checkpoint(registered, "x").digest
    assert first.source == "models:/m@champion"
    (registered / "tokenizer.json").write_text('{"v": 2}')  # the alias now means another model
    moved = resolve.run(store, "models:/m@champion", Silent(), download)
    assert moved.path != first.path
    assert read_checkpoint(first.path, "x").digest == first.digest
    assert len(list((tmp_path / "store" / "models").iterdir())) == 2


def test_a_kept_registry_model_that_was_altered_is_not_used(make_checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    def download(uri: str, folder: Path) -> Path:
        return Path(shutil.copytree(source, folder / "model"))

    source = make_checkpoint()
    store = Store(tmp_path / "store")
    first = resolve.run(store, "models:/m@champion", Silent(), download)
    config = first.path / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace("{", '{"edited": 1, ', 1), encoding="utf-8")
    with pytest.raises(RecordError, match="its files were altered"):
        resolve.run(store, "models:/m@champion", Silent(), download)


QUANTIZED = {"quantization_config": {"quant_method": "fp8"}}


def test_a_quantized_checkpoint_is_taken_where_either_will_do(
    make_checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, plain, store = make_checkpoint("made", config=QUANTIZED), make_checkpoint("plain"), Store(tmp_path / "store")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(made))

    def download(uri: str, folder: Path) -> Path:
        return Path(shutil.copytree(made, folder / "model"))

    for model in (str(made), "~/made", "owner/name", "models:/m/1"):
        with pytest.raises(ModelError, match="already quantized"):
            resolve.run(store, model, Silent(), download)
        assert resolve.run(store, model, Silent(), download, either=True).weight_bytes > 0
    assert resolve.run(store, str(plain), Silent(), download, either=True).path == plain


def test_registry_model_without_weights(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="0 directories"):
        resolve.run(Store(tmp_path), "models:/m/1", Silent(), lambda uri, folder: folder)
    assert list((tmp_path / "models").iterdir()) == []


def test_embedded_model_depends_on_template_adapter_and_environment(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("a")
    plain = embedded.inputs("demo", "env", tmp_path)
    assert embedded.inputs("demo-raw", "env", tmp_path) == plain
    assert embedded.inputs("demo", "other", tmp_path) != plain
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"1")
    tuned = embedded.inputs("demo", "env", tmp_path)
    assert tuned != plain
    assert embedded.inputs("demo-raw", "env", tmp_path) == plain
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"2")
    assert embedded.inputs("demo", "env", tmp_path) != tuned
    (tmp_path / "chat_template.jinja").write_text("b")
    assert embedded.inputs("demo-raw", "env", tmp_path) != plain


def test_where_an_embedded_model_will_be_is_known_until_it_is_there(
    make_checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is told where, before there is anything."""
    made = make_checkpoint()

    def build(name: str, output: Path, **_: object) -> None:
        shutil.copytree(made, output / "checkpoint")

    monkeypatch.setattr(resolve.embedded, "build", build)
    monkeypatch.setattr(resolve.environments, "provide", lambda name, progress: Path("/fake"))
    store = Store(tmp_path / "store")
    told = resolve.unmade(store, "demo")
    assert told is not None and not told.exists()
    assert resolve.run(store, "demo", Silent(), no_registry).path == told
    assert resolve.unmade(store, "demo") is None


@pytest.mark.parametrize("model", ["some/model", "models:/m@alias", ".", ""])
def test_nothing_is_said_of_where_any_other_model_will_be(model: str, tmp_path: Path) -> None:
    assert resolve.unmade(Store(tmp_path), model) is None
