"""The first tables.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(36)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    _organizations()
    _api_keys()
    _categories()
    _projects()
    _agents()
    _jobs()
    _datasets()
    _tasks()
    _dataset_versions()
    _executions()
    _outbox()


def downgrade() -> None:
    op.drop_table("outbox")
    op.drop_table("executions")
    op.drop_table("dataset_versions")
    op.drop_table("tasks")
    op.drop_table("datasets")
    op.drop_table("jobs")
    op.drop_table("agents")
    op.drop_table("projects")
    op.drop_table("categories")
    op.drop_table("api_keys")
    op.drop_table("organizations")


def _organizations() -> None:
    op.create_table(
        "organizations",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_organizations"),
        sa.UniqueConstraint("name", name="uq_organizations_name"),
        sa.UniqueConstraint("slug", name="uq_organizations_slug"),
    )


def _api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("key_hash", sa.String(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("expires_at", TIME),
        sa.Column("revoked_at", TIME),
        sa.Column("last_used_at", TIME),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_api_keys_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("key_hash", name="uq_api_keys_key_hash"),
    )
    op.create_index("ix_api_keys_organization_id", "api_keys", ["organization_id"])


def _categories() -> None:
    op.create_table(
        "categories",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("icon", sa.String()),
        sa.Column("visibility", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_by_key_id", ID),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_categories_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_categories"),
        sa.UniqueConstraint("organization_id", "name", name="uq_categories_organization_id_name"),
    )
    op.create_index("ix_categories_organization_id", "categories", ["organization_id"])


def _projects() -> None:
    op.create_table(
        "projects",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("cron_schedule", sa.String()),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("active_executions", sa.Integer(), nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_projects_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("organization_id", "name", name="uq_projects_organization_id_name"),
        sa.UniqueConstraint("organization_id", "slug", name="uq_projects_organization_id_slug"),
    )
    op.create_index("ix_projects_organization_id", "projects", ["organization_id"])


def _agents() -> None:
    op.create_table(
        "agents",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("category_id", ID),
        sa.Column("description", sa.Text()),
        sa.Column("pipeline_yaml", sa.Text()),
        sa.Column("code", sa.Text()),
        sa.Column("code_type_id", sa.String()),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["category_id"], ["categories.id"], name="fk_agents_category_id", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_agents_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
    )
    op.create_index("ix_agents_category_id", "agents", ["category_id"])
    op.create_index("ix_agents_organization_id", "agents", ["organization_id"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("agent_id", ID),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("input_dataset_id", ID),
        sa.Column("output_dataset_id", ID),
        sa.Column("cloud_credential_id", ID),
        sa.Column("cloud_credential_ids", sa.JSON(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("scheduled_time", TIME),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("execution_count", sa.Integer(), nullable=False),
        sa.Column("latest_execution_id", ID),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_jobs_agent_id", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_jobs_organization_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_jobs_project_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("project_id", "slug", name="uq_jobs_project_id_slug"),
    )
    op.create_index("ix_jobs_agent_id", "jobs", ["agent_id"])
    op.create_index("ix_jobs_organization_id", "jobs", ["organization_id"])
    op.create_index("ix_jobs_project_id", "jobs", ["project_id"])


def _datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("project_id", ID),
        sa.Column("job_id", ID),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("schema_slug", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("logical_path", sa.Text()),
        sa.Column("format", sa.String(), nullable=False),
        sa.Column("current_version_id", ID),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_datasets_job_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_datasets_organization_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_datasets_project_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
        sa.UniqueConstraint(
            "organization_id", "schema_slug", "slug", name="uq_datasets_organization_id_schema_slug_slug"
        ),
    )
    op.create_index("ix_datasets_job_id", "datasets", ["job_id"])
    op.create_index("ix_datasets_organization_id", "datasets", ["organization_id"])
    op.create_index("ix_datasets_project_id", "datasets", ["project_id"])


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("bot_id", sa.String()),
        sa.Column("task_type", sa.String(), nullable=False),
        sa.Column("execution_mode", sa.String(), nullable=False),
        sa.Column("execution_id", ID),
        sa.Column("execution_log", sa.Text()),
        sa.Column("scheduled_time", TIME),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_tasks_job_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_tasks_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tasks_execution_id", "tasks", ["execution_id"])
    op.create_index("ix_tasks_job_id", "tasks", ["job_id"])
    op.create_index("ix_tasks_organization_id", "tasks", ["organization_id"])


def _dataset_versions() -> None:
    op.create_table(
        "dataset_versions",
        sa.Column("id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("execution_id", ID),
        sa.Column("logical_path", sa.Text()),
        sa.Column("paths", sa.JSON(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("row_count", sa.BigInteger()),
        sa.Column("size_bytes", sa.BigInteger()),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_dataset_versions_dataset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_dataset_versions"),
        sa.UniqueConstraint("dataset_id", "execution_id", name="uq_dataset_versions_dataset_id_execution_id"),
    )
    op.create_index("ix_dataset_versions_dataset_id", "dataset_versions", ["dataset_id"])
    op.create_index("ix_dataset_versions_execution_id", "dataset_versions", ["execution_id"])
    op.create_index("ix_dataset_versions_logical_path", "dataset_versions", ["logical_path"])


def _executions() -> None:
    op.create_table(
        "executions",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("job_name", sa.String(), nullable=False),
        sa.Column("task_id", sa.Integer()),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("agent_revision", sa.Integer(), nullable=False),
        sa.Column("pipeline_yaml", sa.Text(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("inputs", sa.JSON(), nullable=False),
        sa.Column("output_name", sa.Text()),
        sa.Column("output_mode", sa.String(), nullable=False),
        sa.Column("row_limit", sa.BigInteger()),
        sa.Column("run_id", sa.String()),
        sa.Column("claimed_at", TIME),
        sa.Column("heartbeat_at", TIME),
        sa.Column("started_at", TIME),
        sa.Column("completed_at", TIME),
        sa.Column("error_message", sa.Text()),
        sa.Column("spark_ui_url", sa.Text()),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("dataset_id", ID),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_executions_job_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_executions_organization_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_executions_project_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_executions_task_id", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name="pk_executions"),
    )
    op.create_index("ix_executions_job_newest", "executions", ["job_id", "id"])
    op.create_index("ix_executions_organization_id", "executions", ["organization_id"])
    op.create_index("ix_executions_project_id", "executions", ["project_id"])
    op.create_index("ix_executions_state", "executions", ["state"])
    op.create_index("ix_executions_task_id", "executions", ["task_id"])


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", ID, nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("dagster_run_id", sa.String()),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("available_at", TIME, nullable=False),
        sa.Column("processed_at", TIME),
        sa.ForeignKeyConstraint(["execution_id"], ["executions.id"], name="fk_outbox_execution_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index("ix_outbox_due", "outbox", ["processed_at", "available_at"])
    op.create_index("ix_outbox_execution_id", "outbox", ["execution_id"])
