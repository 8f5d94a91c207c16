"""The reasons for which a job cannot be executed as it is."""

from __future__ import annotations

PYTHON_AGENT = "The Python code of this job's agent gives no pipeline. Execute the job to see why."
DISABLED_PROJECT = "This project is disabled. Enable it to execute its jobs."
DISABLED_JOB = "This job is disabled. Enable it to execute it."
NO_AGENT = "This job has no agent. Set its agentId to one that has a pipeline."
DISABLED_AGENT = "The agent of this job is disabled. Enable it to execute the job."
NO_PIPELINE = "The agent of this job has no pipeline. Write its pipelineYaml."
