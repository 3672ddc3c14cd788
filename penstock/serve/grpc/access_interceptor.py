"""The interceptor before all methods: it finds the access token of a call, and checks its role and its tables.

Invariant: a call that its token does not allow is refused before its request is read. A token of some tables has no
calls about other tables, nor about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc

from penstock.serve.access.access_tokens import AccessToken, Permission, TokenBook
from penstock.serve.access.table_limits import must_be_allowed
from penstock.serve.grpc.call_rate import rate_refusal
from penstock.serve.grpc.error_status import CallRefused, abort
from penstock.serve.store.rate_limit import TokenRates
from penstock.views import App

__all__ = ["AccessInterceptor", "Denied", "certified_names", "token_of"]

_OPEN = "/grpc.health.v1.Health/"
Denied = Callable[[str, str, str], object]
"""Gets the method, the name of the token and the error of a call that was not allowed."""


class AccessInterceptor(grpc.ServerInterceptor):
    """The access check of one port. `permissions` are those of its methods; another method needs `rest`.

    `denied` hears of each call that a role does not allow. With `certified` clients have certificates. A call without a
    token is then checked by the names in it.
    """

    def __init__(
        self,
        app: App,
        tokens: TokenBook,
        permissions: Mapping[str, Permission],
        rest: Permission = Permission.READ,
        certified: bool = False,
        denied: Denied | None = None,
        rates: TokenRates | None = None,
    ) -> None:
        self._rates = rates or TokenRates(None)
        self._denied = denied
        self._certificates = certified
        self._app = app
        self._tokens = tokens
        self._permissions = dict(permissions)
        self._rest = rest

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Return the handler of a call, or one that refuses it."""
        details = handler_call_details
        handler = continuation(details)
        if handler is None or details.method.startswith(_OPEN):
            return handler
        token = _token_in(self._tokens, details.invocation_metadata)
        if token is None and self._certificates and _names_no_token(details):
            return _limited(handler, self._certified(self._permissions.get(details.method, self._rest)))
        needs = self._permissions.get(details.method, self._rest)
        try:
            if token is None:
                raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, "NO_ACCESS_TOKEN", _NO_TOKEN)
            must_be_allowed(token, needs)
            self._count(token)
        except (CallRefused, PermissionError) as error:
            if token is not None and self._denied is not None and isinstance(error, PermissionError):
                self._denied(details.method, token.name, str(error))
            return _refusing(handler, _refusal(error))
        limited = token.tables is not None and details.method in self._permissions
        return _limited(handler, self._check(token)) if limited else handler

    def _count(self, token: AccessToken) -> None:
        wait = self._rates.wait(token.name)
        if wait and self._rates.most is not None:
            raise rate_refusal(self._rates.most, "calls of one token", wait)

    def _certified(self, needs: Permission) -> Callable[[Any, grpc.ServicerContext], None]:
        """Return the check of calls without a token: by the names in the client's certificate."""

        def check(request: Any, context: grpc.ServicerContext) -> None:
            token = self._tokens.find_certificate(certified_names(context))
            if token is None:
                raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, "NO_ACCESS_TOKEN", _NO_TOKEN)
            try:
                must_be_allowed(token, needs)
            except PermissionError as error:
                raise _refusal(error) from None
            self._count(token)
            if token.tables is not None:
                self._check(token)(request, context)

        return check

    def _check(self, token: AccessToken) -> Callable[[Any, grpc.ServicerContext], None]:
        def check(request: Any, context: grpc.ServicerContext) -> None:
            try:
                for name in _names_of(request):
                    must_be_allowed(token, None, self._app, name)
            except PermissionError as error:
                raise _refusal(error) from None

        return check


_NO_TOKEN = "the access token is missing, unknown or expired; send the metadata `authorization: Bearer TOKEN`"


def token_of(tokens: TokenBook, context: grpc.ServicerContext) -> AccessToken | None:
    """Return the token of a call that the interceptor let pass."""
    token = _token_in(tokens, context.invocation_metadata())
    return token if token is not None else tokens.find_certificate(certified_names(context))


def _token_in(tokens: TokenBook, metadata: Any) -> AccessToken | None:
    """Return the token in the metadata of a call; None if there is none, or it is unknown."""
    for name, value in metadata or ():
        if name == "authorization":
            text = value if isinstance(value, str) else value.decode("latin-1")
            kind, _, secret = text.partition(" ")
            return tokens.find(secret.strip()) if kind.lower() == "bearer" else None
    return None


def certified_names(context: grpc.ServicerContext) -> list[str]:
    """Return the alternative names in the certificate of a client; none without TLS."""
    names: Any = context.auth_context().get("x509_subject_alternative_name", ())
    return [name.decode("latin-1") for name in names]


def _names_no_token(details: grpc.HandlerCallDetails) -> bool:
    return all(name != "authorization" for name, _ in details.invocation_metadata or ())


def _names_of(request: Any) -> list[str | None]:
    """Return the tables and views of a request; None stands for all of them."""
    for name in ("table", "of"):
        if hasattr(request, name):
            return [getattr(request, name)]
    return list(getattr(request, "views", ())) or [None]


def _refusal(error: Exception) -> CallRefused:
    if isinstance(error, CallRefused):
        return error
    return CallRefused(grpc.StatusCode.PERMISSION_DENIED, "NOT_ALLOWED", str(error))


def _refusing(handler: Any, refusal: CallRefused) -> Any:
    """Return a handler of the same form that ends each call with a refusal."""

    def refuse(_: Any, context: grpc.ServicerContext) -> Any:
        abort(context, refusal)

    return _form(handler)(refuse)


def _limited(handler: Any, check: Callable[[Any, grpc.ServicerContext], None]) -> Any:
    """Return a handler that checks each request."""
    inner = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

    def call(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            check(request, context)
        except CallRefused as refusal:
            abort(context, refusal)
        return inner(request, context)

    def checked(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            check(request, context)
            yield request

    def stream(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from inner(checked(requests, context), context)
        except CallRefused as refusal:
            abort(context, refusal)

    limited: Any = stream if handler.request_streaming else call
    limited.__dict__.update(inner.__dict__)  # the threads of its own
    return _form(handler)(limited)


def _form(handler: Any) -> Callable[[Any], Any]:
    """Return the function that makes a handler of the same form."""
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return lambda call: make(call, handler.request_deserializer, handler.response_serializer)
