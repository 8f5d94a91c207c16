// Execute an agent's job, which is made where there is none, and open the execution.
import { call } from "./rest.js";
import { texts } from "./texts.js";

const MOST_NAMES = 20;

// Create a record under the first of `name`, `name 2`, … that is free.
export async function createNamed(path, name, fields = {}) {
  for (let number = 1; ; number++) {
    try {
      return await call("POST", path, { name: number > 1 ? `${name} ${number}` : name, ...fields });
    } catch (error) {
      if (error.status !== 409 || number === MOST_NAMES) throw error;
    }
  }
}

export async function executeAgent(agent, known, options) {
  let ids = known;
  if (!ids) {
    const project = await createNamed("/projects", agent.name);
    const body = { name: texts.start.job, agentId: agent.id, parameters: options.parameters };
    const job = await call("POST", `/projects/id/${project.id}/jobs`, body);
    ids = { project: project.id, job: job.id };
  }
  const path = `projects/id/${ids.project}/jobs/${ids.job}`;
  const { executionId } = await call("POST", `/${path}/execute`, options);
  location.assign(`/console/projects/${ids.project}/jobs/${ids.job}/executions/${executionId}`);
}
