"""The ledger of a run: the calls of a model by host, each within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from pipelines.models.budget import Budget, Usage
from pipelines.models.client import ModelClient
from pipelines.models.options import ModelOptions

_ADVICE = "a larger {argument}PerHost allows it"


class HostLedger:
    """Gives each host a client whose calls count for its own budget too; safe to share between threads."""

    def __init__(self, client: ModelClient, options: ModelOptions) -> None:
        self.client = client
        self._limits = options.max_calls_per_host, options.max_tokens_per_host, options.max_cost_per_host
        self._hosts: dict[str, tuple[Budget, ModelClient]] = {}
        self._lock = Lock()

    def get_client(self, host: str) -> ModelClient:
        """Return the client for the pages of a host."""
        with self._lock:
            if host not in self._hosts:
                budget = Budget(f"the host {host}", *self._limits, advice=_ADVICE)
                self._hosts[host] = budget, self.client.add_budget(budget)
            return self._hosts[host][1]

    def list_usage(self) -> Mapping[str, Usage]:
        """Return the cost so far by host, of those that have had a call."""
        with self._lock:
            return {host: budget.spent for host, (budget, _) in self._hosts.items() if budget.spent.calls}
