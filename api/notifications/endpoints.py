"""Notification rules: messages to people about a project's jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.concurrency import OUTBOUND
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing, ProjectId
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.notifications.schemas import RuleRecord
from api.webhooks.schemas import DeliveryRecord, build_delivery_record
from core.integrations.notifications import service as rules
from core.integrations.notifications.deliver import send_test
from core.integrations.notifications.models import RuleCreate, RuleUpdate

router = APIRouter(prefix="/notifications", tags=["notifications"], route_class=KeyRoute)
RuleName = Annotated[str, Path(alias="ruleName", description="Name of the rule, such as `on_call`.")]


@router.get("", summary="List the notification rules of a project", responses=answers(404))
def list_rules(project_id: ProjectId, caller: Reader, session: ReadSession) -> list[RuleRecord]:
    """Return the project's rules by name."""
    return [RuleRecord.model_validate(each) for each in rules.list_of_project(session, caller, project_id)]


@router.post(
    "",
    dependencies=[REPLAYED],
    summary="Have people told about a project's jobs",
    description="A rule has events or limits, and a target: a cloud credential of SLACK, TEAMS or DISCORD (`apiKey`: "
    "the address of an incoming webhook), NTFY (`endpoint`: the topic's address), SMTP (`endpoint`: "
    "smtp://host:port?from=ADDRESS; `accessKeyId` and `secretAccessKey`: its login) or WEBHOOK (`endpoint`). A message "
    "is repeated for a day until its target accepts it; what happens in the pause after one becomes one message.",
    responses={**TAGGED, **answers(404, 409)},
)
def create_rule(
    project_id: ProjectId, body: RuleCreate, caller: Writer, session: WriteSession, response: Response
) -> RuleRecord:
    created = rules.create(session, caller, project_id, body)
    return RuleRecord.model_validate(set_etag(response, created))


@router.get("/{ruleName}", summary="Read a notification rule", responses={**TAGGED, **answers(404)})
def read_rule(
    project_id: ProjectId, rule_name: RuleName, caller: Reader, session: ReadSession, response: Response
) -> RuleRecord:
    """Return a rule. `failingSince` is the time since which its target refuses messages."""
    return RuleRecord.model_validate(set_etag(response, rules.get(session, caller, project_id, rule_name)))


@router.put(
    "/{ruleName}",
    summary="Change a notification rule; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 412)},
)
def update_rule(
    project_id: ProjectId,
    rule_name: RuleName,
    body: RuleUpdate,
    caller: Writer,
    session: WriteSession,
    if_match: IfMatch,
    response: Response,
) -> RuleRecord:
    """Change the fields that the body has. The name stays."""
    updated = rules.update(session, caller, project_id, rule_name, body, if_match)
    return RuleRecord.model_validate(set_etag(response, updated))


@router.delete("/{ruleName}", summary="Delete a notification rule with its messages", responses=answers(404, 412))
def delete_rule(
    project_id: ProjectId, rule_name: RuleName, caller: Writer, session: WriteSession, if_match: IfMatch
) -> Nothing:
    """Delete a rule. Messages that were not sent yet are not sent."""
    rules.delete(session, caller, project_id, rule_name, if_match)
    return Nothing()


@router.post(
    "/{ruleName}/test",
    summary="Send a test message to the target of a rule once and return the result",
    responses=answers(404, 409),
)
def test_rule(project_id: ProjectId, rule_name: RuleName, caller: Writer, services: ServicesOf) -> DeliveryRecord:
    """Send a message without repetition, also by a disabled rule, and return it with the answer of the target."""
    with OUTBOUND.acquire(caller.organization_id):
        return build_delivery_record(
            send_test(services.settings, services.database, caller.organization_id, project_id, rule_name)
        )


@router.get("/{ruleName}/messages", summary="List the messages of a rule, newest first", responses=answers(404))
def list_messages(
    project_id: ProjectId, rule_name: RuleName, caller: Reader, session: ReadSession, page: PageOf
) -> list[DeliveryRecord]:
    """Return the messages of a rule with their notices and tries. They are kept for a week."""
    found = rules.list_messages(session, caller, project_id, rule_name, limit=page.limit, before=page.after)
    page.link([each.id for each in found])
    return [build_delivery_record(each) for each in found]
