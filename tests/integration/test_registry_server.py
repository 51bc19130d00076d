"""The model registry of sign-off over HTTP, with a database and artifacts behind the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_tracking_server import tracking_server

from pipeline.errors import SignoffError, StageError
from pipeline.tracking import download_model_uri
from pipeline.tracking.registry import CHAMPION, ROLLBACK, Registry

NAME = "shop-quantized"


def test_versions_aliases_signatures_and_history_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, signature = tmp_path / "checkpoint", tmp_path / "signoff.dsse.json"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}")
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    signature.write_text("signed")
    (tmp_path / "server").mkdir()
    with tracking_server(tmp_path / "server") as (uri, server):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        registry = Registry()
        versions = [
            registry.add_version(
                NAME,
                None,
                experiment="quant-gate/shop",
                run_name=f"run {number}",
                checkpoint=checkpoint,
                signatures=[signature],
                reports=[],
                tags={"verdict": "ACCEPT", "signoff": "signed off by Ada"},
                model="shop",
                signed="Signed off by Ada.",
                describe="**ACCEPT**, see {}".format,
            )
            for number in (1, 2)
        ]
        assert versions == ["1", "2"]
        assert registry.aliased(NAME, CHAMPION) is None and registry.aliased("unknown", CHAMPION) is None
        move = registry.begin(NAME, CHAMPION, "1", "Ada", "first")
        registry.point(NAME, {CHAMPION: "1"})
        registry.end(NAME, move)
        registry.begin(NAME, CHAMPION, "2", "Ada", "second")
        registry.point(NAME, {CHAMPION: "2", ROLLBACK: "1"})
        assert (registry.aliased(NAME, CHAMPION), registry.aliased(NAME, ROLLBACK)) == ("2", "1")
        assert [(move["why"], move["before"], move["ended"]) for move in registry.history(NAME)] == [
            ("first", None, True),
            ("second", "1", False),
        ]
        with registry.signature(NAME, "2", signature.name) as path:
            assert path.read_text() == "signed"
        with pytest.raises(SignoffError, match="was not signed off"), registry.signature(NAME, "2", "none.json"):
            pass
        fetched = download_model_uri(f"models:/{NAME}@{CHAMPION}", tmp_path / "fetched")
        assert (fetched / "model.safetensors").read_bytes() == b"weights"
        server.terminate()
        server.wait(60)
        with pytest.raises(StageError, match=uri):
            registry.aliased(NAME, CHAMPION)
