// Requests to the REST API in the session: its cookie counts only with a header that other sites cannot send.
import { fill, texts } from "./texts.js";
const HEADER = { "X-Spindle-Console": "1" };

export class Refusal extends Error {
  constructor(message, status = 0, details = []) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

export function send(path, options = {}) {
  const { api, cloud } = document.body.dataset;
  const address = [api, cloud].some((each) => path.startsWith(`${each}/`)) ? path : api + path;
  return fetch(address, { ...options, headers: { ...HEADER, ...options.headers } });
}

export async function call(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const response = await send(path, options);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const sentence = response.status === 401 ? "" : answer.error ?? fill(texts.rest.status, { status: response.status });
    throw new Refusal(sentence, response.status, answer.details ?? []);
  }
  const etag = response.headers.get("ETag");
  return etag ? { ...answer, etag } : answer;
}

export function notify(error) {
  const notice = document.getElementById("notice");
  if (error instanceof Refusal && error.message === "") {
    const link = document.createElement("a");
    link.href = "/console";
    link.target = "_blank";
    link.textContent = texts.rest.sign_in;
    notice.replaceChildren(texts.rest.session_has_ended, " ", link, texts.rest.then_repeat);
  } else {
    notice.textContent = error instanceof Refusal ? error.message : texts.rest.no_answer;
  }
}
