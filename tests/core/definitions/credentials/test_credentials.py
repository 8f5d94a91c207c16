"""Cloud credentials: how they are sealed, which are chosen, and whom they reach."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import update

from core.definitions.credentials.models import CredentialCreate, CredentialUpdate
from core.definitions.credentials.repository import MASK, CredentialRepository
from core.errors import BadInput, Conflict, Forbidden, NotFound, SpindleError
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.settings import Settings
from core.lifecycle.executions.reports import cancel, fail
from core.lifecycle.executions.spec import build_spec, load_driver_secrets
from core.tables import CloudCredential, Execution
from driver.secrets import Secrets
from pipelines.errors import PipelineError
from pipelines.filesystem import find_access, list_bucket_access, name_bucket_variable
from pipelines.language.json_values import PREVIEW_LENGTH, to_json
from pipelines.pipeline import Pipeline
from pipelines.spark.jars import read_list
from tests.support.cases import each_case
from tests.support.shop import Shop

CANARY = "canary-4711-é\"'"
UNKNOWN = "01990000-0000-7000-8000-000000000000"
DATA = AssociatedData("acme", "credential", "api_key")
OWN_KEY = "a key of the caller's own"


def make(shop: Shop, *, callers_key: str | None = None, **values: Any) -> str:
    """A credential's id; an OpenAI one whose key is its owner's name, unless told otherwise."""
    values = {"provider": "openai", "api_key": "global" if values.get("everywhere") else "own", **values}
    return shop.add_credential(callers_key=callers_key, **values)


def stored(shop: Shop, credential_id: str) -> CloudCredential:
    with shop.database.read() as session:
        return session.get_one(CloudCredential, credential_id)


def injected(shop: Shop, execution: Execution) -> Mapping[str, str]:
    given = load_driver_secrets(shop.settings, shop.reload(execution))
    return {name: value for name, value in given.items() if not name.startswith("SPINDLE_")}


# sealing


@pytest.mark.parametrize("callers_key", [None, OWN_KEY])
def test_a_secret_opens_only_in_its_own_record(callers_key: str | None) -> None:
    keys = KeyRing(b"k" * 32, callers_key)
    sealed = keys.encrypt(CANARY, DATA)
    assert "canary" not in sealed
    assert keys.encrypt(CANARY, DATA) != sealed
    assert keys.decrypt(sealed, DATA) == CANARY
    elsewhere = [AssociatedData("acme", "other", "api_key"), AssociatedData("acme", "credential", "api_secret")]
    for data in elsewhere if callers_key else [*elsewhere, AssociatedData("rival", "credential", "api_key")]:
        with pytest.raises(Conflict, match="was altered"):
            keys.decrypt(sealed, data)


def test_a_flipped_bit_is_a_clear_error() -> None:
    keys = KeyRing(b"k" * 32)
    key_id, _, data = keys.encrypt(CANARY, DATA).partition(".")
    for position in range(0, len(data) - 4, 5):
        flipped = "B" if data[position] == "A" else "A"
        with pytest.raises(Conflict, match="'api_key' was altered"):
            keys.decrypt(f"{key_id}.{data[:position]}{flipped}{data[position + 1 :]}", DATA)


def test_a_wrong_key_is_a_clear_error() -> None:
    service, own = KeyRing(b"k" * 32), KeyRing(b"k" * 32, OWN_KEY)
    with pytest.raises(Conflict, match="another service key"):
        KeyRing(b"x" * 32).decrypt(service.encrypt(CANARY, DATA), DATA)
    with pytest.raises(BadInput, match="Send it in the header X-Encryption-Key"):
        service.decrypt(own.encrypt(CANARY, DATA), DATA)
    with pytest.raises(BadInput, match="X-Encryption-Key is not the key"):
        KeyRing(b"k" * 32, "another").decrypt(own.encrypt(CANARY, DATA), DATA)
    assert own.decrypt(service.encrypt(CANARY, DATA), DATA) == CANARY


# records


def test_a_masked_secret_keeps_its_value(shop: Shop) -> None:
    credential_id = make(shop, provider="aws", access_key_id="AKIA", secret_access_key="old")
    shop.change_credential(credential_id, access_key_id=MASK, secret_access_key="new", region="eu-west-1")
    values = injected(shop, shop.submit())
    assert (values["AWS_ACCESS_KEY_ID"], values["AWS_SECRET_ACCESS_KEY"]) == ("AKIA", "new")
    assert values["AWS_REGION"] == "eu-west-1"


@each_case("region", ["attacker.example/", "attacker.example#", "eu west", "a.b", "x" * 64, "\u00fc"])
def test_a_region_of_aws_is_no_way_to_another_host(shop: Shop, region: str) -> None:
    key_ring = shop.make_key_ring()
    with shop.database.write() as session:
        credentials = CredentialRepository(session, shop.organization_id)
        with pytest.raises(BadInput, match="region"):
            credentials.create(CredentialCreate(provider="aws", region=region), key_ring)
        stored = credentials.create(CredentialCreate(provider="aws", region="eu-central-1"), key_ring)
        with pytest.raises(BadInput, match="region"):
            credentials.update(stored.id, CredentialUpdate(region=region), key_ring)
        other = credentials.create(CredentialCreate(provider="azure", region=region), key_ring)
        with pytest.raises(BadInput, match="region"):
            credentials.update(other.id, CredentialUpdate(provider="AWS"), key_ring)
        changes = CredentialUpdate(region="us-gov-west-1")
        assert credentials.update(stored.id, changes, key_ring).region == "us-gov-west-1"


def test_a_secret_does_not_follow_to_another_endpoint(shop: Shop) -> None:
    credential_id = make(shop, provider="aws", access_key_id="AKIA", secret_access_key="old")

    move = partial(shop.change_credential, credential_id)
    masked = {"access_key_id": MASK, "secret_access_key": MASK}
    for secrets in ({}, masked, {"access_key_id": "AKIA"}, {**masked, "access_key_id": "AKIA"}):
        with pytest.raises(BadInput, match="endpoint"):
            move(endpoint="https://elsewhere.example", **secrets)
    assert stored(shop, credential_id).endpoint is None
    move(endpoint="https://elsewhere.example", api_key="own", access_key_id="AKIA", secret_access_key="new")
    move(endpoint="https://elsewhere.example", **masked)
    assert stored(shop, credential_id).endpoint == "https://elsewhere.example"


@pytest.mark.parametrize("spelling", ["google_search", "GoogleSearch", "GOOGLE SEARCH", "google-search"])
def test_a_provider_is_known_in_any_spelling(shop: Shop, spelling: str) -> None:
    credential_id = make(shop, provider=spelling, api_key="k", engine_id="e")
    assert stored(shop, credential_id).provider == "GOOGLE_SEARCH"
    with shop.database.read() as session:
        found = CredentialRepository(session, shop.organization_id).list(provider="googlesearch")
        assert [credential.id for credential in found] == [credential_id]
    assert injected(shop, shop.submit()) == {"GOOGLE_SEARCH_API_KEY": "k", "GOOGLE_SEARCH_ENGINE_ID": "e"}


def test_an_unknown_provider_is_stored_and_gives_nothing(shop: Shop) -> None:
    credential_id = make(shop, provider="My Own")
    assert stored(shop, credential_id).provider == "MY_OWN"
    assert injected(shop, shop.submit()) == {}


@pytest.mark.parametrize(
    ("provider", "names"),
    [
        ("BING_SEARCH", {"BING_SEARCH_API_KEY"}),
        ("STEEL_DEV", {"STEEL_DEV_API_KEY"}),
        ("TOGETHER_AI", {"TOGETHERAI_API_KEY"}),
        ("OPENAI", {"OPENAI_API_KEY"}),
        ("ANTHROPIC", {"ANTHROPIC_API_KEY"}),
        ("HUGGINGFACE", {"HF_TOKEN"}),
        ("GCP", {"GOOGLE_API_KEY"}),
        ("AZURE", {"AZURE_API_KEY"}),
    ],
)
def test_a_provider_gives_its_usual_names(shop: Shop, provider: str, names: set[str]) -> None:
    make(shop, provider=provider, api_key="k")
    assert injected(shop, shop.submit()) == dict.fromkeys(names, "k")


@pytest.mark.parametrize(
    ("provider", "place"), [("POSTGRESQL", "URL"), ("MYSQL", "URL"), ("KAFKA", "SERVERS"), ("MONGODB", "HOSTS")]
)
def test_a_provider_of_a_system_gives_its_address_and_a_login(shop: Shop, provider: str, place: str) -> None:
    make(shop, provider=provider, endpoint="there", access_key_id="u", secret_access_key="p")
    expected = {f"{provider}_{place}": "there", f"{provider}_USER": "u", f"{provider}_PASSWORD": "p"}
    assert injected(shop, shop.submit()) == expected


def test_only_a_super_admin_changes_global_ones(shop: Shop) -> None:
    credential_id = make(shop, everywhere=True)
    with shop.database.write() as session:
        ordinary = CredentialRepository(session, shop.organization_id)
        assert ordinary.get(credential_id).organization_id is None
        for act in (
            lambda: ordinary.create(CredentialCreate(provider="AWS", everywhere=True), shop.make_key_ring()),
            lambda: ordinary.update(credential_id, CredentialUpdate(enabled=False), shop.make_key_ring()),
            lambda: ordinary.delete(credential_id),
        ):
            with pytest.raises(Forbidden, match="super_admin"):
                act()


def test_another_organizations_are_unknown(shop: Shop, other_shop: Shop) -> None:
    theirs = make(other_shop)
    with shop.database.write() as session:
        credentials = CredentialRepository(session, shop.organization_id, super_admin=True)
        assert credentials.list() == []
        for act in (
            lambda: credentials.get(theirs),
            lambda: credentials.update(theirs, CredentialUpdate(name="mine"), shop.make_key_ring()),
            lambda: credentials.delete(theirs),
        ):
            with pytest.raises(NotFound, match=r"There is no cloud credential with this id\."):
                act()


# which are chosen

OWNED = (None, "enabled", "disabled")


@pytest.mark.parametrize(
    ("given", "own", "everywhere", "foreign"), list(product((False, True), OWNED, OWNED, (False, True)))
)
def test_selection(
    shop: Shop, other_shop: Shop, given: bool, own: str | None, everywhere: str | None, foreign: bool
) -> None:
    """Section 4.6: the given one, else the organization's, else a global one; never another organization's."""
    if foreign:
        make(other_shop, api_key="foreign")
    if everywhere:
        make(shop, everywhere=True, enabled=everywhere == "enabled")
    if own:
        make(shop, enabled=own == "enabled")
    ids = [make(shop, api_key="given")] if given else []
    expected = "given" if given else "own" if own == "enabled" else "global" if everywhere == "enabled" else None
    values = injected(shop, shop.submit(credential_ids=ids))
    assert values == ({} if expected is None else {"OPENAI_API_KEY": expected})


def test_each_provider_is_chosen_by_itself_and_the_oldest_of_several(shop: Shop) -> None:
    first = make(shop, api_key="first")
    make(shop, api_key="second")
    bing = make(shop, everywhere=True, provider="bing search")
    execution = shop.submit()
    assert injected(shop, execution) == {"OPENAI_API_KEY": "first", "BING_SEARCH_API_KEY": "global"}
    assert shop.reload(execution).credentials == {"OPENAI_API_KEY": first, "BING_SEARCH_API_KEY": bing}


@pytest.mark.parametrize("field", ["cloud_credential_id", "cloud_credential_ids"])
def test_a_jobs_own_choice_yields_to_that_of_the_call(shop: Shop, field: str) -> None:
    make(shop)
    of_job, of_call = make(shop, api_key="job's"), make(shop, api_key="call's")
    shop.change_job(**{field: [of_job] if field.endswith("s") else of_job})
    assert injected(shop, shop.submit()) == {"OPENAI_API_KEY": "job's"}
    assert injected(shop, shop.submit(credential_ids=[of_call])) == {"OPENAI_API_KEY": "call's"}


def test_an_unknown_or_disabled_id_starts_nothing(shop: Shop, other_shop: Shop) -> None:
    refusals = []
    for credential_id in (UNKNOWN, make(other_shop), "\0"):
        with pytest.raises(BadInput) as refused:
            shop.submit(credential_ids=[credential_id])
        refusals.append((refused.value.sentence, refused.value.details))
    assert len(set(refusals)) == 1
    with pytest.raises(Conflict, match="'OPENAI' is disabled"):
        shop.submit(credential_ids=[make(shop, enabled=False)])
    assert shop.active() == 0


# the caller's own key


def test_a_secret_of_the_callers_key_needs_it_only_at_submit(shop: Shop) -> None:
    sealed = make(shop, api_key=CANARY, callers_key=OWN_KEY)
    for callers_key, sentence in ((None, "Send it in the header X-Encryption-Key"), ("wrong", "is not the key")):
        with pytest.raises(BadInput, match=sentence):
            shop.submit(credential_ids=[sealed], key_ring=shop.make_key_ring(callers_key))
    execution = shop.submit(credential_ids=[sealed], key_ring=shop.make_key_ring(OWN_KEY))
    assert injected(shop, execution) == {"OPENAI_API_KEY": CANARY}


def test_unasked_it_is_passed_over_without_its_key(shop: Shop) -> None:
    make(shop, api_key="sealed by the caller", callers_key=OWN_KEY)
    make(shop, everywhere=True)
    assert injected(shop, shop.submit()) == {"OPENAI_API_KEY": "global"}
    with_key = shop.submit(key_ring=shop.make_key_ring(OWN_KEY))
    assert injected(shop, with_key) == {"OPENAI_API_KEY": "sealed by the caller"}


# the execution


def test_the_values_are_frozen_at_submit_and_erased_at_the_end(shop: Shop) -> None:
    credential_id, execution = make(shop), shop.submit()
    with shop.database.write() as session:
        CredentialRepository(session, shop.organization_id).delete(credential_id)
    assert injected(shop, execution) == {"OPENAI_API_KEY": "own"}
    cancel(shop.database, shop.organization_id, execution.id, "Stopped.")
    assert shop.reload(execution).sealed_environment is None
    assert injected(shop, execution) == {}


def test_an_altered_record_stops_the_submit(shop: Shop) -> None:
    credential_id = make(shop)
    altered = {"api_key": stored(shop, credential_id).secrets["api_key"][:-8] + "AAAAAAA="}
    with shop.database.write() as session:
        session.execute(update(CloudCredential).values(secrets=altered))
    with pytest.raises(SpindleError, match="was altered"):
        shop.submit()


PIPELINE = """\
fetch: {url: "http://127.0.0.1/?key=${OPENAI_API_KEY}&env=${OWN}"}
pipeline: [{stage: extract, args: [{selector: h1, method: text, as: title}]}]
"""


def test_a_pipeline_uses_a_variable_whose_value_only_the_driver_knows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shop, api_key=CANARY)
    shop.write_pipeline(PIPELINE)
    execution = shop.submit(parameters={"OWN": "${SPINDLE_EXECUTION_TOKEN}"})
    assert execution.parameters == {"OPENAI_API_KEY": "${OPENAI_API_KEY}", "OWN": "${SPINDLE_EXECUTION_TOKEN}"}
    spec = build_spec(shop.settings, shop.storage, execution)
    assert "canary" not in spec.to_json()
    for name, value in load_driver_secrets(shop.settings, execution).items():
        monkeypatch.setenv(name, value)
    secrets = Secrets(spec)
    revealed = secrets.reveal(spec.parameters)
    assert revealed == {"OPENAI_API_KEY": CANARY, "OWN": "${SPINDLE_EXECUTION_TOKEN}"}
    told = {"message": f"GET /?key={CANARY}", "rows": [{"quoted": "canary-4711-%C3%A9%22%27"}, 1, None]}
    assert secrets.mask(told) == {"message": f"GET /?key={MASK}", "rows": [{"quoted": MASK}, 1, None]}


def test_the_rest_of_a_secret_in_a_truncated_text_is_masked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    make(shop, api_key=CANARY)
    shop.write_pipeline(PIPELINE)
    execution = shop.submit(parameters={"OWN": "mine"})
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    secrets = Secrets(build_spec(shop.settings, shop.storage, execution))
    for spelled in (CANARY, quote(CANARY, safe="")):
        for size in range(4, len(spelled)):
            shown = to_json("?key=".rjust(PREVIEW_LENGTH - 1 - size, "x") + spelled + "x", PREVIEW_LENGTH)
            assert shown.endswith(f"={spelled[:size]}…")
            assert secrets.mask([shown]) == [shown.removesuffix(f"{spelled[:size]}…") + f"{MASK}…"]
    whole = "x" * (PREVIEW_LENGTH - 1 - len(CANARY)) + CANARY + "xx"
    assert secrets.mask(to_json(whole, PREVIEW_LENGTH)) == "x" * (PREVIEW_LENGTH - 1 - len(CANARY)) + f"{MASK}…"
    row = f"{{'a': '{CANARY[:9]}…', 'b': 'can…'}} can you… {CANARY[:9]}"
    assert secrets.mask(row) == f"{{'a': '{MASK}…', 'b': 'can…'}} can you… {CANARY[:9]}"


def test_a_value_of_the_call_overrides_the_credentials(shop: Shop) -> None:
    make(shop)
    shop.write_pipeline(PIPELINE.replace("${OWN}", ""))
    assert shop.submit(parameters={"OPENAI_API_KEY": "mine"}).parameters == {"OPENAI_API_KEY": "mine"}
    shop.write_pipeline(PIPELINE.replace("${OWN}", "${BING_SEARCH_API_KEY}"))
    with pytest.raises(BadInput, match="BING_SEARCH_API_KEY"):
        shop.submit()


def test_the_database_holds_no_secret_in_the_clear(shop: Shop, settings: Settings) -> None:
    if settings.database.url is not None:
        pytest.skip("reads SQLite's files")
    for callers_key in (None, OWN_KEY):
        secrets = dict.fromkeys(("api_key", "api_secret", "access_key_id", "secret_access_key"), "canary-4711-secret")
        make(shop, provider="AWS", callers_key=callers_key, **secrets)
    shop.submit(key_ring=shop.make_key_ring(OWN_KEY))
    held = b"".join(file.read_bytes() for file in settings.data.glob("spindle.db*"))
    assert b"AWS" in held
    for text in ("canary-4711-secret", OWN_KEY):
        assert text.encode() not in held


# credentials that a pipeline names for buckets

IN_BUCKETS = """
pipeline:
  - {stage: load_csv, args: [{path: "s3://theirs/in.csv", credential: warehouse}]}
  - {stage: save_csv, args: [{path: "s3a://theirs/saved", mode: append}]}
output: {path: "s3://lake/clean", credential: "${LAKE}"}
"""


@pytest.fixture
def has_s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Java's libraries for buckets, as in a Spark image."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for jar in read_list():
        (tmp_path / "spark" / "jars" / jar.name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))


def make_bucket_credential(shop: Shop, name: str, secret: str, **values: Any) -> str:
    keys = {"access_key_id": f"key-{name}", "secret_access_key": secret, "endpoint": "https://s3.example.org"}
    return make(shop, provider="aws", name=name, **(keys | values))


@pytest.mark.usefixtures("has_s3")
def test_a_bucket_is_reached_by_the_credential_that_the_pipeline_names(shop: Shop) -> None:
    make_bucket_credential(shop, "usual", "usual-secret")
    theirs = make_bucket_credential(shop, "warehouse", "theirs-secret")
    make_bucket_credential(shop, "lake", "lake-secret", everywhere=True)
    shop.write_pipeline(IN_BUCKETS)
    execution = shop.submit(parameters={"LAKE": "lake"})
    values = load_driver_secrets(shop.settings, execution)
    assert values["AWS_SECRET_ACCESS_KEY"] == "usual-secret"
    found = {each.bucket: each for each in list_bucket_access(values)}
    assert {bucket: each.secret_access_key for bucket, each in found.items()} == {
        "theirs": "theirs-secret",
        "lake": "lake-secret",
    }
    assert found["theirs"].endpoint == "https://s3.example.org"
    shop.change_credential(theirs, secret_access_key="newer-secret")
    fail(shop.database, execution.id, "It broke.")
    again = list_bucket_access(load_driver_secrets(shop.settings, shop.retry(execution)))
    assert {each.bucket: each.secret_access_key for each in again} == {"theirs": "newer-secret", "lake": "lake-secret"}


@pytest.mark.usefixtures("has_s3")
def test_secrets_of_named_credentials_are_masked_and_are_no_parameters(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_bucket_credential(shop, "warehouse", "theirs-secret")
    variable = name_bucket_variable("theirs")
    shop.write_pipeline(IN_BUCKETS.partition("output:")[0])
    execution = shop.submit()
    for name, value in load_driver_secrets(shop.settings, execution).items():
        monkeypatch.setenv(name, value)
    spec = build_spec(shop.settings, shop.storage, shop.reload(execution))
    assert "theirs-secret" not in Secrets(spec).mask("a log with theirs-secret")
    assert "theirs-secret" in Secrets(spec).variables[variable]
    assert find_access("theirs").access_key_id == "key-warehouse"
    shop.write_pipeline(
        f"pipeline: [{{stage: load_csv, args: ['s3://theirs/${{{variable}}}', {{credential: warehouse}}]}}]"
    )
    with pytest.raises(BadInput) as error:
        shop.submit()
    assert [each.code for each in error.value.details] == ["missing-parameter"]


@pytest.mark.usefixtures("has_s3")
def test_a_named_credential_that_cannot_be_used_is_an_error_with_its_line(shop: Shop) -> None:
    shop.write_pipeline(IN_BUCKETS.partition("output:")[0])
    make(shop, provider="openai", name="warehouse")
    with pytest.raises(BadInput, match="warehouse") as error:
        shop.submit()
    assert (error.value.details[0].code, error.value.details[0].path) == ("unknown-credential", "line 3: load_csv")
    make_bucket_credential(shop, "warehouse", "s", enabled=False)
    with pytest.raises(Conflict) as disabled:
        shop.submit()
    assert disabled.value.details[0].code == "credential-disabled"


@pytest.mark.parametrize(
    "more",
    [
        "{stage: load_csv, args: [{path: goods, credential: c}]}]",
        "{stage: save_csv, args: [{path: 's3a://b/y', credential: d}]}]",
        "{stage: unionByName, args: [{path: 's3://b/y', options: {credential: d}}]}]",
        "]\noutput: {path: 's3://b/y', credential: d}",
    ],
)
def test_a_run_has_one_credential_for_a_bucket(more: str) -> None:
    begun = "{stage: load_csv, args: [{path: 's3://b/x', credential: c}]}"
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(f"pipeline: [{begun}, {more}").plan_open()
    assert [each.code for each in error.value.problems] == ["conflicting-arguments"]
