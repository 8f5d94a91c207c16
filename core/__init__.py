"""The domain, on floors that import downwards, with one package per noun.

`integrations` > `lifecycle` > `data` > `definitions` > `infra` > `tables`; `infra` is what all share, `tables` the
database's schema.

How a noun is built, with categories as the example to copy:

- `core/tables`: the ORM class (`Category`).
- `core/definitions/categories/models.py`: `CategoryUpdate` and `CategoryCreate`, the fields that a request sets. They
  are the bodies of the REST operations too, and `to_columns()` gives their values to the row.
- `core/definitions/categories/repository.py`: `CategoryRepository(session, organization_id)`, the only code that uses
  the session. It derives from `core.infra.repository.Repository`, so each query is limited to the organization.
- `core/definitions/categories/service.py`: a function per operation. It takes the request's session, the caller's
  identity and the model, calls `categories.lock(row, if_match)` before a change that may carry `If-Match`, and returns
  rows or frozen dataclasses; `Versioned(value, etag)` where the noun has an ETag. It does not commit.
  One that parses a pipeline, calls another host or stores a file takes `database` instead, and opens its transaction
  when that is done (`core/definitions/agents/service.py`).
  A service that works with more than the database, such as a storage or an engine, is a class that is made once with
  these (`core/data/datasets/service.py`); its methods are operations like the functions.
- `api/categories/endpoints.py`: a route declares `session: ReadSession` or `WriteSession` (api/kit/sessions.py), makes
  one service call and returns a schema. Its transaction ends before the answer is sent.
"""
