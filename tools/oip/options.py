# SPDX-License-Identifier: Apache-2.0
"""Checks of the options of a request, and of clients that hang up."""
import json
import socket
import struct

from tritonclient.utils import InferenceServerException

from oip.checks import Failure, Skip, check, expect

GROUP = 'options'
LATE = {'400', '408', '429', '503', '504', 'StatusCode.DEADLINE_EXCEEDED', 'StatusCode.UNAVAILABLE'}


def expect_late(service, function):
    """Fails the check unless a call returns the results, or an error that says that it is late."""
    try:
        results = function()
    except InferenceServerException as error:
        expect(error.status() in LATE, f'a deadline of 1 µs ends with {error.status()}: {error.message()}')
        return
    service.expect_expected(results, 'a deadline of 1 µs')


@check(GROUP)
def timeouts(service):
    """The parameter timeout: a long one changes nothing, a short one is met or answered as late"""
    service.expect_expected(service.infer(timeout=60_000_000), 'a timeout of 60 s')
    expect_late(service, lambda: service.infer(timeout=1))
    service.expect_alive()


@check(GROUP)
def wrong_timeouts(service):
    """A timeout that is negative or no number is refused"""
    for value in -1, 'soon', 2 ** 70, [1]:
        service.post(service.json_request(parameters={'timeout': value})).expect_error(form=f'timeout {value!r}')
    service.expect_alive()


@check(GROUP)
def priorities(service):
    """The parameter priority changes no results"""
    for priority in 0, 1, 2, 3:
        service.expect_expected(service.infer(priority=priority), f'priority {priority}')


@check(GROUP)
def wrong_priorities(service):
    """A priority that is negative or no number is refused"""
    for value in -1, 'high', [1]:
        service.post(service.json_request(parameters={'priority': value})).expect_error(form=f'priority {value!r}')
    service.expect_alive()


@check(GROUP)
def hang_ups(service):
    """Clients that hang up in the head, in the body, and before the answer"""
    body = json.dumps(service.json_request()).encode()
    text = service.head(f'Content-Length: {len(body)}') + body
    for part in 1, 20, len(text) - len(body), len(text) - 1, len(text):
        for linger in None, struct.pack('ii', 1, 0):  # The second one resets the connection.
            with service.socket() as plain:
                plain.sendall(text[:part])
                if linger:
                    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    service.expect_alive()


@check(GROUP)
def closed_sending_sides(service):
    """A client that closes its sending side in the body gets an error or the end of the connection"""
    with service.socket() as plain:
        plain.sendall(service.head('Content-Length: 1000') + b'{')
        plain.shutdown(socket.SHUT_WR)
        answer = plain.recv(1000)
    expect(answer == b'' or answer.startswith(b'HTTP/1.1 4'), f'the answer is {answer[:100]!r}')
    service.expect_alive()


@check(GROUP, 'token')
def tokens(service):
    """A service that needs the token refuses every request without it except health"""
    body = json.dumps(service.json_request()).encode()
    reply = service.without_token('POST', f'{service.path}/infer', body)
    if reply.status == 200:
        raise Skip('the service needs no token')
    reply.expect_error([401, 403])
    service.without_token('GET', service.path).expect_error([401, 403], 'the metadata')
    for path in '/v2/health/live', '/v2/health/ready':
        expect(service.without_token('GET', path).status == 200, f'GET {path} needs the token')
    if service.grpc:
        import grpc
        try:
            service.stub.ModelInfer(service.message(), timeout=service.timeout)
        except grpc.RpcError as error:
            expect(error.code().name in ('UNAUTHENTICATED', 'PERMISSION_DENIED'), f'gRPC answers {error.code().name}')
        else:
            raise Failure('gRPC answers without the token, and HTTP does not')
    service.expect_alive()


@check(GROUP, 'grpc')
def grpc_timeouts(service):
    """gRPC: the parameter timeout and the deadline of the call"""
    import tritonclient.grpc
    inputs = service.client_inputs(kind=tritonclient.grpc)

    def infer(**options):
        return service.results_of(service.grpc.infer(service.model.name, inputs, **options))
    service.expect_expected(infer(timeout=60_000_000, client_timeout=60), 'a timeout of 60 s')
    expect_late(service, lambda: infer(timeout=1))
    expect_late(service, lambda: infer(client_timeout=1e-6))
    service.expect_alive()


@check(GROUP, 'grpc')
def grpc_priorities(service):
    """gRPC: the parameter priority changes no results"""
    import tritonclient.grpc
    inputs = service.client_inputs(kind=tritonclient.grpc)
    for priority in 1, 2, 3:
        result = service.grpc.infer(service.model.name, inputs, priority=priority)
        service.expect_expected(service.results_of(result), f'priority {priority}')


@check(GROUP, 'grpc')
def grpc_hang_ups(service):
    """gRPC: clients that cancel a call or a stream"""
    metadata = list(service.headers.items())
    for _ in range(8):
        service.stub.ModelInfer.future(service.message(), metadata=metadata).cancel()
        stream = service.stub.ModelStreamInfer(iter([service.message(), service.message()]), metadata=metadata)
        next(stream)
        stream.cancel()
    service.expect_alive()
