"""One server that speaks the protocols of OpenAI, Together AI and Hugging Face, and misbehaves when it is told."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.servers import Handler, serve

KEY = "sk-abcdefgh-secret-of-the-tests"
REFUSAL = "The training file has too few examples."
WEIGHTS = b"weights of the model " * 1000
LARGE = 1024  # bytes from which the Hub wants a file by LFS
Fault = Literal["429", "500", "401", "garbage", "no-http", "silence", "lost-answer"]
Json = dict[str, Any]


@dataclass
class AiProviders:
    """The server's state: what it was sent, the jobs that it has, and the faults of the next requests."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    jobs: dict[str, Json] = field(default_factory=dict[str, Json])
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    faults: list[Fault] = field(default_factory=list[Fault])
    asked: list[str] = field(default_factory=list[str])
    stored: dict[str, bytes] = field(default_factory=dict[str, bytes])
    closing: threading.Event = field(default_factory=threading.Event)

    def get_endpoint(self, provider: str) -> str:
        return f"{self.url}/{provider}"

    @property
    def job(self) -> Json:
        """The only job."""
        [job] = self.jobs.values()
        return job

    def move(self, state: str) -> None:
        """Let the only job be `running`, `done`, `failed` or `cancelled`."""
        self.job["state"] = state


def get_settled(provider: str, state: str) -> str:
    """Return the provider's own name of a state."""
    names = {
        "openai": {"queued": "queued", "running": "running", "done": "succeeded", "failed": "failed"},
        "together": {"queued": "pending", "running": "running", "done": "completed", "failed": "error"},
        "huggingface": {"queued": "SCHEDULING", "running": "RUNNING", "done": "COMPLETED", "failed": "ERROR"},
    }
    cancelled = "CANCELED" if provider == "huggingface" else "cancelled"
    return names[provider].get(state, cancelled)


class AiHandler(Handler):
    state: AiProviders

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.read_body()
        url = urlsplit(self.path)
        self.state.asked.append(f"{self.command} {self.path}")
        fault = self.state.faults.pop(0) if self.state.faults else None
        if fault == "silence":
            self.state.closing.wait(30)
            return
        if fault == "garbage":
            self.respond(200, b"<html>try later</html>")
            return
        if fault == "no-http":
            self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            self.close_connection = True
            return
        if fault in ("429", "500"):
            self._send({"error": {"message": "Too busy."}}, int(fault))
            return
        if fault == "lost-answer":
            self._route(url.path, parse_qs(url.query), body, lambda *_: None)
            self.close_connection = True
            return
        if url.path.startswith("/store/"):
            assert "Authorization" not in self.headers
            self.state.stored[url.path] = body
            self.respond(200)
            return
        if fault == "401" or self.headers["Authorization"] != f"Bearer {KEY}":
            shown = self.headers["Authorization"] or ""
            self._send({"error": {"message": f"Incorrect API key provided: {shown}"}}, 401)
            return
        self._route(url.path, parse_qs(url.query), body, self._send)

    def _send(self, body: Any, status: int = 200, **headers: str) -> None:
        self.respond(status, json.dumps(body), "application/json", **headers)

    def _route(self, path: str, query: dict[str, list[str]], body: bytes, send: Callable[..., None]) -> None:
        _, provider, rest = path.split("/", 2)
        route = {"openai": self._speak_openai, "together": self._speak_together, "huggingface": self._speak_hub}
        route[provider](f"{self.command} /{rest}", query, body, send)

    def _speak_openai(self, call: str, query: dict[str, list[str]], body: bytes, send: Callable[..., None]) -> None:
        state = self.state
        if call == "GET /models":
            send({"object": "list", "data": [{"id": "gpt-4o-mini", "owned_by": "openai"}, {"id": "whisper-1"}]})
        elif call == "POST /files":
            file_id = f"file-{len(state.files) + 1}"
            state.files[file_id] = _read_form(body)["file"]
            send({"id": file_id, "object": "file", "purpose": "fine-tune"})
        elif call == "POST /fine_tuning/jobs":
            job = json.loads(body)
            if job["training_file"] not in state.files:
                send({"error": {"message": f"There is no file {job['training_file']}."}}, 400)
                return
            job_id = f"ftjob-{len(state.jobs) + 1}"
            state.jobs[job_id] = {**job, "state": "queued"}
            send(self._show_openai(job_id))
        elif call == "GET /fine_tuning/jobs":
            wanted = query.get("metadata[spindle_training]", [""])[0]
            found = [key for key, job in state.jobs.items() if job["metadata"]["spindle_training"] == wanted]
            send({"data": [self._show_openai(key) for key in found]})
        elif match := re.fullmatch(r"GET /fine_tuning/jobs/([\w-]+)/events", call):
            data = {"step": 3, "total_steps": 10, "train_loss": 0.5}
            newest = {"level": "info", "message": "Step 3/10", "data": data}
            send({"data": [newest, {"level": "info", "message": "Job started"}]})
        elif match := re.fullmatch(r"POST /fine_tuning/jobs/([\w-]+)/cancel", call):
            if state.jobs[match[1]]["state"] not in ("queued", "running"):
                send({"error": {"message": "Job has already completed."}}, 400)
                return
            state.jobs[match[1]]["state"] = "cancelled"
            send(self._show_openai(match[1]))
        elif (match := re.fullmatch(r"GET /fine_tuning/jobs/([\w-]+)", call)) and match[1] in state.jobs:
            send(self._show_openai(match[1]))
        else:
            send({"error": {"message": "no such path"}}, 404)

    def _show_openai(self, job_id: str) -> Json:
        job = self.state.jobs[job_id]
        done = job["state"] == "done"
        error = {"code": "invalid_training_file", "message": REFUSAL} if job["state"] == "failed" else None
        shown = {"id": job_id, "status": get_settled("openai", job["state"]), "metadata": job["metadata"]}
        return {
            **shown,
            "error": error,
            "fine_tuned_model": "ft:gpt-4o-mini:acme" if done else None,
            "trained_tokens": 2_000_000 if done else None,
        }

    def _speak_together(self, call: str, query: dict[str, list[str]], body: bytes, send: Callable[..., None]) -> None:
        state = self.state
        if call == "GET /models":
            send([{"id": "meta-llama/Llama-3-8B", "organization": "Meta", "type": "chat"}])
        elif call == "POST /files":
            assert _read_form(body)["purpose"] == b"fine-tune"
            file_id = f"file-{len(state.files) + 1}"
            state.files[file_id] = b""
            send({}, 302, Location=f"{state.url}/store/{file_id}", X_Together_File_Id=file_id)
        elif match := re.fullmatch(r"POST /files/([\w-]+)/preprocess", call):
            state.files[match[1]] = state.stored[f"/store/{match[1]}"]
            send({"id": match[1]})
        elif call == "POST /fine-tunes":
            job_id = f"ft-{len(state.jobs) + 1}"
            state.jobs[job_id] = {**json.loads(body), "state": "queued"}
            send(self._show_together(job_id))
        elif call == "GET /fine-tunes":
            send({"data": [self._show_together(job_id) for job_id in state.jobs]})
        elif call == "POST /fine-tunes/estimate-price":
            price = {"estimated_total_price": 1.25, "estimated_train_token_count": 1000}
            send({"estimation_available": True, **price})
        elif re.fullmatch(r"GET /fine-tunes/([\w-]+)/events", call):
            send({"data": [{"created_at": "2026-11-26T00:00:00Z", "message": "Training started"}]})
        elif match := re.fullmatch(r"POST /fine-tunes/([\w-]+)/cancel", call):
            if state.jobs[match[1]]["state"] not in ("queued", "running"):
                send({"error": {"message": "The job has ended."}}, 400)
                return
            state.jobs[match[1]]["state"] = "cancelled"
            send(self._show_together(match[1]))
        elif call == "GET /finetune/download":
            self.respond(200, WEIGHTS, "application/octet-stream")
        elif (match := re.fullmatch(r"GET /fine-tunes/([\w-]+)", call)) and match[1] in state.jobs:
            send(self._show_together(match[1]))
        else:
            send({"error": {"message": "no such path"}}, 404)

    def _show_together(self, job_id: str) -> Json:
        job = self.state.jobs[job_id]
        message = REFUSAL if job["state"] == "failed" else "Training"
        events = [{"message": message, "step": 3, "total_steps": 10}]
        price = {"total_price": 4_800_000_000, "token_count": 10_000_000} if job["state"] == "done" else {}
        status = get_settled("together", job["state"])
        return {"id": job_id, "status": status, "suffix": job["suffix"], "events": events, **price} | {
            "model_output_name": f"acme/{job['suffix']}"
        }

    def _speak_hub(self, call: str, query: dict[str, list[str]], body: bytes, send: Callable[..., None]) -> None:
        state = self.state
        if call == "GET /api/whoami-v2":
            send({"name": "acme", "type": "user"})
        elif call == "GET /api/models":
            send([{"id": "acme/own" if query.get("author") else "Qwen/Qwen3-0.6B"}])
        elif call == "POST /api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['type']}s/{wanted.get('organization', 'acme')}/{wanted['name']}"
            assert wanted["private"]
            send(
                {"error": "You already created this repo"} if name in state.repositories else {},
                200 if name not in state.repositories else 409,
            )
            state.repositories.setdefault(name, {})
        elif match := re.fullmatch(r"POST /api/(\w+s/(?:acme|team)/[\w.-]+)/preupload/main", call):
            files = json.loads(body)["files"]
            modes = [
                {"path": each["path"], "uploadMode": "lfs" if each["size"] >= LARGE else "regular"} for each in files
            ]
            send({"files": modes})
        elif match := re.fullmatch(r"POST /(?:datasets/)?(?:acme|team)/[\w.-]+\.git/info/lfs/objects/batch", call):
            [wanted] = json.loads(body)["objects"]
            upload = {"href": f"{state.url}/store/{wanted['oid']}", "header": {}}
            send({"objects": [{"oid": wanted["oid"], "size": wanted["size"], "actions": {"upload": upload}}]})
        elif match := re.fullmatch(r"POST /api/(\w+s/(?:acme|team)/[\w.-]+)/commit/main", call):
            self._commit(match[1], [json.loads(line) for line in body.splitlines()])
            send({"commitOid": "1"})
        elif call == "POST /api/jobs/acme":
            job = json.loads(body)
            assert job["secrets"] == {"HF_TOKEN": KEY}
            job_id = f"j{len(state.jobs) + 1}"
            state.jobs[job_id] = {**job, "state": "queued"}
            send(self._show_hub(job_id))
        elif call == "GET /api/jobs/acme":
            send([self._show_hub(job_id) for job_id in state.jobs])
        elif re.fullmatch(r"GET /api/jobs/acme/\w+/logs", call):
            events = "\n\n".join(f"data: {json.dumps({'data': line})}" for line in ("Job started", "loss 0.5"))
            self.respond(200, events, "text/event-stream")
        elif match := re.fullmatch(r"POST /api/jobs/acme/(\w+)/cancel", call):
            if state.jobs[match[1]]["state"] in ("queued", "running"):
                state.jobs[match[1]]["state"] = "cancelled"
            send(self._show_hub(match[1]))
        elif (match := re.fullmatch(r"GET /api/jobs/acme/(\w+)", call)) and match[1] in state.jobs:
            send(self._show_hub(match[1]))
        elif re.fullmatch(r"GET /api/models/acme/[\w.-]+/tree/main", call):
            files = {"config.json": 2, "model.safetensors": len(WEIGHTS)}
            send([{"type": "file", "path": name, "size": size} for name, size in files.items()])
        elif match := re.fullmatch(r"GET /acme/[\w.-]+/resolve/main/(.+)", call):
            if unquote(match[1]) == "config.json":
                self.respond(200, b"{}", "application/json")
            else:
                self.respond(302, Location=f"{state.url}/huggingface/acme/m/resolve/main/config.json")
        else:
            send({"error": "no such path"}, 404)

    def _show_hub(self, job_id: str) -> Json:
        job = self.state.jobs[job_id]
        status = {"stage": get_settled("huggingface", job["state"])}
        status |= {"message": REFUSAL} if job["state"] == "failed" else {"message": ""}
        return {"id": job_id, "status": status, "labels": job["labels"]}

    def _commit(self, repository: str, lines: list[Json]) -> None:
        assert lines[0]["key"] == "header"
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "lfsFile":
                content = self.state.stored[f"/store/{value['oid']}"]
                assert hashlib.sha256(content).hexdigest() == value["oid"]
            else:
                content = base64.b64decode(value["content"])
            self.state.repositories[repository][value["path"]] = content


def _read_form(body: bytes) -> dict[str, bytes]:
    """Return the parts of a multipart form by their names."""
    boundary = body.partition(b"\r\n")[0]
    parts: dict[str, bytes] = {}
    for part in body.split(boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        match = re.search(rb'name="(\w+)"', head)
        assert match
        parts[match[1].decode()] = content.removesuffix(b"\r\n")
    return parts


@contextmanager
def serve_ai_providers() -> Generator[AiProviders]:
    """Serve the three providers on a free port."""
    handler = type("BoundAiHandler", (AiHandler,), {})
    state = AiProviders()
    handler.state = state
    with serve(handler) as state.url:
        yield state
        state.closing.set()
