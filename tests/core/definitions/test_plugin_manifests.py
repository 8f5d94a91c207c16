"""The parts that manifests of uploaded plugins declare."""

from __future__ import annotations

from core.definitions.plugins.models import Manifest
from pipelines.language.plugin_scope import UploadedAction, UploadedMethod


def test_names_of_older_manifests_have_open_types() -> None:
    manifest = Manifest.model_validate({"methods": ["acme_degrees"], "actions": ["acmeWait"]})
    scope = manifest.declare_parts()
    assert scope.methods == {"acmedegrees": UploadedMethod("acme_degrees")}
    assert scope.actions == {"acmewait": UploadedAction("acmeWait")}
    assert manifest.list_names() == {("extractor method", "acmedegrees"), ("trace action", "acmewait")}
    assert Manifest.model_validate(manifest.model_dump(mode="json")) == manifest
