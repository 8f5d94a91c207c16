"""Proven selectors over REST: listed, pinned, edited and deleted by their organization alone."""

from __future__ import annotations

from tests.api.world import store_record
from tests.support.api import Api

PATH = "/selectors"


def test_selectors_are_stored_listed_changed_and_deleted(acme: Api) -> None:
    id_ = store_record(acme, "stored.test")
    assert [each["id"] for each in acme.get(PATH, host="stored.test")] == [id_]
    read = acme.get(f"{PATH}/{id_}")
    assert (read["prompt"], read["fields"][0]["candidates"][0]["stability"]) == ("Extract: price", 100)
    shown = {name: read["fields"][0][name] for name in ("selector", "score", "samples")}
    assert shown == {"selector": "#price", "score": 100, "samples": [{"url": "http://shop.test/1", "value": "£12"}]}
    assert acme.put(f"{PATH}/{id_}", {"fields": read["fields"]})["fields"] == read["fields"]
    assert acme.put(f"{PATH}/{id_}", {"pinned": True})["pinned"] is True
    fields = [{"name": "price", "candidates": [{"reading": {"selector": ".cost"}, "stability": 60}]}]
    edited = acme.put(f"{PATH}/{id_}", {"fields": fields})
    assert (edited["pinned"], edited["fields"][0]["candidates"][0]["reading"]["selector"]) == (True, ".cost")
    acme.call("DELETE", f"{PATH}/{id_}")
    assert acme.get(PATH, host="stored.test") == []
    assert acme.call("GET", f"{PATH}/{id_}").status_code == 404


def test_a_selector_is_checked(acme: Api) -> None:
    id_ = store_record(acme, "checked.test")
    for selector in ("li[", "p:matches((a+)+)"):
        fields = [{"name": "price", "candidates": [{"reading": {"selector": selector}, "stability": 60}]}]
        assert acme.call("PUT", f"{PATH}/{id_}", json={"fields": fields}).status_code == 400


def test_a_host_cannot_lead_out_of_the_folder(acme: Api) -> None:
    id_ = store_record(acme, "../../other")
    assert acme.get(f"{PATH}/{id_}")["host"] == "../../other"


def test_selectors_of_another_organization_are_unknown(acme: Api, rival: Api) -> None:
    id_ = store_record(rival, "theirs.test")
    assert acme.get(PATH, host="theirs.test") == []
    for method in ("GET", "DELETE"):
        assert acme.call(method, f"{PATH}/{id_}").status_code == 404
    assert rival.get(f"{PATH}/{id_}")["host"] == "theirs.test"
