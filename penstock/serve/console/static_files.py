"""Scripts and styles of the console, read once, with an etag each."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from penstock.serve.console.page_rendering import HEADERS
from penstock.serve.http.responses import RequestRefused

__all__ = ["StaticFiles"]

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class StaticFiles:
    """The files of the folder `static`."""

    def __init__(self) -> None:
        folder = Path(__file__).with_name("static")
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in _KINDS}
        self._files = {name: (data, f'"{sha256(data).hexdigest()[:16]}"') for name, data in files.items()}

    async def get(self, request: Request) -> Response:
        """Return a file, or 304 if the browser has it."""
        name = request.path_params["name"]
        if name not in self._files:
            raise RequestRefused(404, "no file", f"there is no file {name}")
        data, tag = self._files[name]
        headers = HEADERS | {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=f"{_KINDS[Path(name).suffix]}; charset=utf-8")
