"""The options of a run for pages, of those of its pipeline and of the place where it runs."""

from __future__ import annotations

from dataclasses import replace

from pipelines.fetch.blocks import BlockSigns
from pipelines.fetch.fetcher import CrawlOptions
from pipelines.page_cache.options import CacheOptions
from pipelines.planning.model import Options, Robots

_DEFAULTS = CrawlOptions()


def make_fetch_options(
    options: Options, allow_networks: tuple[str, ...], defaults: CrawlOptions = _DEFAULTS
) -> CrawlOptions:
    """Return the options for fetching pages, with `defaults` where the pipeline sets nothing."""
    per_host = options.concurrency or defaults.per_host
    repeated, once = defaults.retry_statuses, defaults.retry_once
    if options.retry_statuses is not None:
        repeated, once = frozenset(options.retry_statuses), frozenset[int]()
    elif options.retries is not None:
        repeated, once = repeated | once, frozenset[int]()
    return replace(
        defaults,
        user_agent=options.user_agent or defaults.user_agent,
        concurrency=max(per_host, defaults.concurrency),
        per_host=per_host,
        delay=options.delay or defaults.delay,
        robots=defaults.robots and options.robots is Robots.OBEY,
        first_byte_timeout=max(options.timeout or 0, defaults.first_byte_timeout),
        total_timeout=options.timeout or defaults.total_timeout,
        allow_networks=allow_networks,
        session=options.shares_cookies or defaults.session,
        proxies=options.proxies or defaults.proxies,
        retries=defaults.retries if options.retries is None else options.retries,
        retry_statuses=repeated,
        retry_once=once,
        blocked_when=BlockSigns(signs.selector, signs.text) if (signs := options.blocked_when) else None,
        backoff=options.backoff or defaults.backoff,
    )


def make_cache_options(options: Options, cache: CacheOptions) -> CacheOptions:
    """Return the options for cached pages, with the lifetime that the pipeline sets."""
    return cache if options.cache is None else replace(cache, lifetime_seconds=options.cache)
