"""The domain, on floors that import downwards, with one package per noun.

`exchange` > `lifecycle` > `data` > `definitions` > `infra` > `tables`; `infra` is what all share, `tables` the
database's schema.

How a noun is built, with projects as the example to copy:

- `core/tables`: the ORM class (`Project`).
- `core/definitions/projects/repository.py`: `ProjectRepository(session, organization_id)`, the only code that uses the
  session.
  It derives from `core.infra.repository.Repository`, so each query is limited to the caller's organization.
- `core/definitions/projects/service.py`: `ProjectService(database)`. A method is one transaction: it takes the caller's
  identity, opens `database.read()` or `.write()`, calls `projects.lock(row, if_match)` before a change that may carry
  `If-Match`, and returns rows or frozen dataclasses that need no session; `Versioned(value, etag)` where the noun
  has an ETag.
- `api/kit/services.py`: `Services`, the container of all services, which routes receive as `services: ServicesOf`.
- `api/projects/endpoints.py`: a route parses, makes one service call and returns a schema:
  `return project_record(set_etag(response, services.projects.update(caller, project_id, body.values(), if_match)))`.
"""
