"""What executions used and cost: one, a job's, a project's, an organization's."""
