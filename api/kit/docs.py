"""The OpenAPI page, with scripts and styles from the package fastapi_offline instead of a CDN."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse

FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}


def install(app: FastAPI, root: str) -> None:
    """Add the page at `root`/docs."""
    router = APIRouter(prefix=f"{root}/docs", include_in_schema=False)
    static = files("fastapi_offline") / "static"

    @router.get("")
    def show_page() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url=app.openapi_url or "",
            title=app.title,
            swagger_js_url=f"{root}/docs/swagger-ui-bundle.js",
            swagger_css_url=f"{root}/docs/swagger-ui.css",
            swagger_favicon_url=f"{root}/docs/favicon.png",
            swagger_ui_parameters={"persistAuthorization": True, "docExpansion": "none"},
        )

    def add_file(name: str, media_type: str) -> None:
        @router.get(f"/{name}")
        def send_file() -> FileResponse:
            return FileResponse(str(static / name), media_type=media_type)

    for name, media_type in FILES.items():
        add_file(name, media_type)
    app.include_router(router)
