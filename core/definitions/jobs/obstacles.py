"""The reasons for which a job cannot be executed as it is."""

from __future__ import annotations

PYTHON_AGENT = "The agent of this job holds Python code, which cannot be executed yet. Give it a pipeline in YAML."
DISABLED_PROJECT = "This project is disabled. Enable it to execute its jobs."
DISABLED_JOB = "This job is disabled. Enable it to execute it."
NO_AGENT = "This job has no agent. Set its agentId to one that has a pipeline."
DISABLED_AGENT = "The agent of this job is disabled. Enable it to execute the job."
NO_PIPELINE = "The agent of this job has no pipeline. Write its pipelineYaml."
