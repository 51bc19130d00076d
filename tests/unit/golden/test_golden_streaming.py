"""Sets that are tables or lie elsewhere give the same turns as the same set on disk."""

from __future__ import annotations

import json
import shutil

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import GoldenSetError
from pipeline.golden import load
from pipeline.golden.check import check
from pipeline.golden.streaming import is_remote


def write_parquet(path, transcripts, text_columns=("messages", "slices")) -> None:
    rows = [
        {k: json.dumps(v) if k in text_columns and not isinstance(v, str) else v for k, v in row.items()}
        for row in transcripts
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)


@pytest.fixture
def bucket(shop):
    """The set of ``shop`` on object storage."""
    system = fsspec.filesystem("memory")
    shop.write(shop.transcript(), shop.expecting({"behaviour": "refuse"}, id="b", scenario="b"))
    for path in shop.root.rglob("*.*"):
        system.pipe(f"/bucket/shop/{path.relative_to(shop.root).as_posix()}", path.read_bytes())
    yield "memory://bucket/shop"
    system.rm("/bucket", recursive=True)


def test_a_parquet_file_in_place_of_json_lines(shop):
    transcripts = [shop.transcript(), shop.expecting({"behaviour": "refuse"}, id="b", scenario="b")]
    expected = load(shop.write(*transcripts))
    shop.file.unlink()
    write_parquet(shop.root / "transcripts" / "shop.parquet", transcripts)
    found = load(shop.root)
    assert found.turns == expected.turns
    assert found.digest != expected.digest


def test_nulls_that_nested_columns_add_are_taken_out(shop):
    write_parquet(shop.root / "transcripts" / "shop.parquet", [shop.transcript()], text_columns=("slices",))
    assert [turn.id for turn in load(shop.root).turns] == ["broken-vase#1", "broken-vase#3"]


def test_a_row_that_is_not_json_is_named(shop):
    write_parquet(shop.root / "transcripts" / "shop.parquet", [{**shop.transcript(), "messages": "[1,"}])
    (complaint,) = check(shop.root, against=())
    assert (complaint.line, complaint.id, complaint.field) == (1, "broken-vase", "messages")


def test_a_set_on_object_storage(shop, bucket):
    here, there = load(shop.root), load(bucket)
    assert there.turns == here.turns
    assert there.name == "shop"
    assert check(bucket, against=()) == []


def test_faults_on_object_storage_name_file_and_line(shop, bucket):
    fsspec.filesystem("memory").pipe("/bucket/shop/transcripts/shop.jsonl", b'\n{"id": 1\n')
    (complaint,) = check(bucket, against=())
    assert complaint.file == "memory:///bucket/shop/transcripts/shop.jsonl"
    assert complaint.line == 2


def test_the_digest_covers_transcripts_and_policies(shop, bucket):
    system = fsspec.filesystem("memory")
    digests = {load(bucket).digest, load(bucket).digest}
    assert len(digests) == 1
    policy = "/bucket/shop/policies/shop.md"
    system.pipe(policy, system.cat(policy) + b"Be kind.\n")
    digests.add(load(bucket).digest)
    system.pipe("/bucket/shop/transcripts/shop.jsonl", json.dumps(shop.transcript()).encode())
    digests.add(load(bucket).digest)
    assert len(digests) == 3


def test_a_url_without_transcripts():
    with pytest.raises(GoldenSetError, match="no transcripts/ in it"):
        load("memory://nothing/here")


@pytest.mark.parametrize(
    ("location", "remote"),
    [("s3://bucket/set", True), ("owner/name", True), ("owner/name@v1", True), ("a/b/c.jsonl", False), (".", False)],
)
def test_what_counts_as_remote(location, remote, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_remote(location) is remote


def test_a_mistyped_name_in_a_directory_that_exists_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden_sets").mkdir()
    assert not is_remote("golden_sets/suport")


def test_a_path_that_exists_is_never_a_hub_id(tmp_path, monkeypatch, shop):
    monkeypatch.chdir(tmp_path)
    shop.write(shop.transcript())
    shutil.copytree(shop.root, tmp_path / "owner" / "name")
    assert len(load("owner/name").turns) == 2


def test_a_data_set_of_a_hub_is_streamed(shop, monkeypatch):
    import datasets

    asked = {}

    def load_dataset(*arguments, **options):
        asked.update(options, name=arguments[0])
        tools = json.loads((shop.root / "tools" / "shop.json").read_text())
        row = shop.transcript(policy=None, tools=json.dumps(tools), language=None)
        return iter([{**row, "language": None, "messages": json.dumps(row["messages"])}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    golden = load("owner/name@v2")
    assert (asked["name"], asked["revision"], asked["split"], asked["streaming"]) == ("owner/name", "v2", "train", True)
    assert golden.name == "name"
    assert len(golden.turns) == 2


def test_a_hub_that_does_not_answer(monkeypatch):
    import datasets

    def load_dataset(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(GoldenSetError, match="owner/name: cannot be read: ConnectionError: no route"):
        load("owner/name")
