"""Errors of the NATS client become LinkError kinds here and nowhere else.

Every class that the client defines is named, so that a new one is a decision: a test compares this
table with the installed library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from nats import errors
from nats.js import errors as js

from edge_agent.errors import LinkDown, LinkError, LinkTimeout, NoResponders, Refused

KINDS: Final[dict[type[BaseException], type[LinkError]]] = {
    errors.Error: LinkError,
    # there is no usable connection: wait for the next one
    errors.StaleConnectionError: LinkDown,
    errors.UnexpectedEOF: LinkDown,
    errors.OutboundBufferLimitError: LinkDown,
    errors.ConnectionClosedError: LinkDown,
    errors.ConnectionDrainingError: LinkDown,
    errors.ConnectionReconnectingError: LinkDown,
    errors.NoServersError: LinkDown,
    errors.ServerNotInPoolError: LinkDown,
    errors.SecureConnRequiredError: LinkDown,
    errors.SecureConnWantedError: LinkDown,
    errors.SecureConnFailedError: LinkDown,
    errors.AuthorizationError: LinkDown,
    errors.InvalidUserCredentialsError: LinkDown,
    errors.JsonParseError: LinkDown,
    errors.ProtocolError: LinkDown,
    errors.SlowConsumerError: LinkDown,
    # nothing came in time: unknown
    errors.TimeoutError: LinkTimeout,
    errors.FlushTimeoutError: LinkTimeout,
    errors.DrainTimeoutError: LinkTimeout,
    js.FetchTimeoutError: LinkTimeout,
    js.TooManyStalledMsgsError: LinkTimeout,
    # nobody listens
    errors.NoRespondersError: NoResponders,
    js.NoStreamResponseError: NoResponders,
    # this message will never be taken
    errors.MaxPayloadError: Refused,
    errors.BadSubjectError: Refused,
    errors.BadHeaderError: Refused,
    # the server is in trouble: later
    js.Error: LinkError,
    js.APIError: LinkError,
    js.ServiceUnavailableError: LinkError,
    js.ServerError: LinkError,
    js.NotFoundError: LinkError,
    js.BadRequestError: LinkError,
    # doors of the client that the device never uses
    errors.BadSubscriptionError: LinkError,
    errors.BadTimeoutError: LinkError,
    errors.InvalidCallbackTypeError: LinkError,
    errors.NotJSMessageError: LinkError,
    errors.MsgAlreadyAckdError: LinkError,
    js.ConsumerInvalidResetError: LinkError,
    js.ConsumerSequenceMismatchError: LinkError,
    js.BucketNotFoundError: LinkError,
    js.BadBucketError: LinkError,
    js.KeyValueError: LinkError,
    js.KeyDeletedError: LinkError,
    js.KeyNotFoundError: LinkError,
    js.KeyWrongLastSequenceError: LinkError,
    js.NoKeysError: LinkError,
    js.KeyHistoryTooLargeError: LinkError,
    js.KeyValueLimitMarkerTTLNotSupportedError: LinkError,
    js.InvalidKeyError: LinkError,
    js.InvalidBucketNameError: LinkError,
    js.InvalidObjectNameError: LinkError,
    js.BadObjectMetaError: LinkError,
    js.LinkIsABucketError: LinkError,
    js.DigestMismatchError: LinkError,
    js.ObjectNotFoundError: LinkError,
    js.ObjectDeletedError: LinkError,
    js.ObjectAlreadyExists: LinkError,
}
"""What each class of the client means to the device."""

TOO_LARGE_FOR_STREAM: Final = 10054
"""The one JetStream error that a message can never get over."""


def kind_of(error: BaseException) -> type[LinkError]:
    """The kind of an error: by its class, or the nearest of its bases that is named."""
    for base in type(error).__mro__:
        if base in KINDS:
            return KINDS[base]
    return LinkTimeout if isinstance(error, TimeoutError) else LinkDown


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises the LinkError for whatever the client or the socket raises inside."""
    try:
        yield
    except LinkError:
        raise
    except (errors.Error, OSError) as error:
        raise kind_of(error)(f"{doing}: {type(error).__name__}: {error}") from error


def check_stored(body: bytes, *, subject: str) -> None:
    """Returns when JetStream says that it stored a message; raises the LinkError for its refusal."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise LinkError(f"{subject}: the acknowledgement is no JSON object")
    refusal = answer.get("error")
    if not isinstance(refusal, dict):
        if "stream" not in answer:
            raise LinkError(f"{subject}: the acknowledgement names no stream")
        return
    kind = Refused if refusal.get("err_code") == TOO_LARGE_FOR_STREAM else LinkError
    raise kind(f"{subject}: {refusal.get('description')} (error {refusal.get('err_code')})")
