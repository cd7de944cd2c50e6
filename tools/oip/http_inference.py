# SPDX-License-Identifier: Apache-2.0
"""Checks of inference over HTTP: each form of request has the same results, bit by bit."""
import gzip
import http.client
import json
import zlib

import numpy

from oip.checks import Skip, check, expect
from oip.model import Tensor
from oip.service import HEADER_LENGTH, Reply, read_reply

BINARY = 'binary_tensor_data'
NARROW = {'FP16', 'BF16'}


def chunks(body, size):
    """The body in chunks of at most some bytes, each with its length."""
    for start in range(0, len(body), size):
        piece = body[start:start + size]
        yield f'{len(piece):x}\r\n'.encode() + piece + b'\r\n'
    yield b'0\r\n\r\n'


def whole_request(service):
    """The lines of a head, and a body, of a request with inputs and outputs in the best form of the service."""
    if service.has_binary:
        head, data = service.binary_request()
        return [f'{HEADER_LENGTH}: {len(head)}'], head + data
    return [], json.dumps(service.json_request()).encode()


@check('HTTP inference')
def json_tensors(service):
    """JSON inputs and outputs"""
    service.expect_finite()
    service.expect_expected(service.post(service.json_request()).results(), 'by hand')
    if NARROW.isdisjoint(tensor.datatype for tensor in service.model.tensors):
        result = service.client.infer(service.model.name, service.client_inputs(binary=False),
                                      outputs=service.client_outputs(binary=False))
        service.expect_expected(service.results_of(result), 'by the client')


@check('HTTP inference')
def nested_json(service):
    """JSON inputs as nested lists"""
    service.expect_finite()
    request = service.json_request()
    for entry, tensor in zip(request['inputs'], service.model.tensors):
        numbers = tensor.values.astype(numpy.float32) if tensor.datatype == 'BF16' else tensor.values
        entry['data'] = numbers.tolist() if numbers.ndim else [numbers.item()]
    service.expect_expected(service.post(request).results(), 'nested lists')


@check('HTTP inference', BINARY)
def binary_tensors(service):
    """Binary inputs and outputs"""
    result = service.client.infer(service.model.name, service.client_inputs(), outputs=service.client_outputs())
    service.expect_expected(service.results_of(result), 'binary data')


@check('HTTP inference', BINARY)
def mixed_tensors(service):
    """Binary inputs with JSON outputs, JSON inputs with binary outputs, and each second input binary"""
    service.expect_finite()
    result = service.client.infer(service.model.name, service.client_inputs(),
                                  outputs=service.client_outputs(binary=False))
    service.expect_expected(service.results_of(result), 'binary inputs')
    outputs = [{'name': name, 'parameters': {'binary_data': True}} for name in service.model.output_names]
    service.expect_expected(service.post(service.json_request(outputs=outputs)).results(), 'JSON inputs')

    request, data = service.json_request(outputs=outputs[:1]), b''
    outputs += [{'name': name, 'parameters': {'binary_data': False}} for name in service.model.output_names[1:]]
    for entry, tensor in list(zip(request['inputs'], service.model.tensors))[::2]:
        del entry['data']
        entry['parameters'] = {'binary_data_size': tensor.values.nbytes}
        data += tensor.values.tobytes()
    head = json.dumps({**request, 'outputs': outputs[:len(service.model.output_names)]}).encode()
    reply = service.post(head + data, headers={HEADER_LENGTH: str(len(head))})
    service.expect_expected(reply.results(), 'each second input binary')


@check('HTTP inference', BINARY)
def binary_output_parameter(service):
    """The parameter binary_data_output makes all outputs binary"""
    reply = service.post(service.json_request(parameters={'binary_data_output': True}))
    expect(reply.headers.get(HEADER_LENGTH), 'the outputs are not binary')
    service.expect_expected(reply.results(), 'binary_data_output')


@check('HTTP inference')
def chosen_outputs(service):
    """Each output by itself"""
    for name in service.model.output_names:
        result = service.client.infer(service.model.name, service.client_inputs(binary=service.has_binary),
                                      outputs=service.client_outputs([name], service.has_binary))
        names = [entry['name'] for entry in result.get_response()['outputs']]
        expect(names == [name], f'the outputs are {names} instead of {name}')
        service.expect_expected({**service.expected, name: result.as_numpy(name)}, name)


@check('HTTP inference')
def ids(service):
    """The id of a request comes back, and no other one"""
    for number, text in enumerate(('a', 'id-2', 'with "quotes" \\ and é')):
        request = service.json_request(id=text)
        reply = service.post(request if number else json.dumps(request, ensure_ascii=False).encode())
        expect(reply.status == 200, f'the id {text!r} is answered with {reply.status}')
        expect(reply.json().get('id') == text, f'the id is {reply.json().get("id")!r} instead of {text!r}')
    found = service.post(service.json_request()).json().get('id', '')
    expect(found == '', f'a request without an id has {found!r}')


@check('HTTP inference')
def versions(service):
    """A request for the version of the model"""
    service.expect_expected(service.infer(model_version=service.model.version), 'with the version')


@check('HTTP inference')
def compressed_requests(service):
    """Requests that are compressed with gzip and deflate"""
    for algorithm in 'gzip', 'deflate':
        service.expect_expected(service.infer(request_compression_algorithm=algorithm), algorithm)


@check('HTTP inference')
def compressed_answers(service):
    """Requests whose answer may be compressed with gzip or deflate"""
    for algorithm in 'gzip', 'deflate':
        service.expect_expected(service.infer(response_compression_algorithm=algorithm), algorithm)


@check('HTTP inference')
def chunked_bodies(service):
    """Bodies in chunks, plain and compressed, in pieces of 1 byte and more"""
    lines, body = whole_request(service)
    lines = [*lines, 'Transfer-Encoding: chunked']
    service.expect_expected(service.exchange(service.head(*lines), *chunks(body, 100)).results(), '100 bytes')
    service.expect_expected(service.exchange(service.head(*lines) + b''.join(chunks(body, 7))).results(), '7 bytes')
    start = b''.join(chunks(body[:20], 1))[:-len(b'0\r\n\r\n')]
    service.expect_expected(service.exchange(service.head(*lines), start, *chunks(body[20:], 1000)).results(), '1 byte')
    for coding, compress in ('gzip', gzip.compress), ('deflate', zlib.compress):
        head = service.head(*lines, f'Content-Encoding: {coding}')
        service.expect_expected(service.exchange(head, *chunks(compress(body), 64)).results(), coding)


@check('HTTP inference')
def slow_requests(service):
    """A request that arrives in several pieces"""
    lines, body = whole_request(service)
    text = service.head(*lines, f'Content-Length: {len(body)}') + body
    ends = sorted(service.random.integers(1, len(text), 7))
    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)])]
    service.expect_expected(service.exchange(*pieces).results(), 'pieces')


@check('HTTP inference')
def awaited_bodies(service):
    """A client that waits for 100 Continue before it sends the body"""
    lines, body = whole_request(service)
    with service.socket() as plain:
        plain.sendall(service.head(*lines, f'Content-Length: {len(body)}', 'Expect: 100-continue'))
        answer = b''
        while b'\r\n\r\n' not in answer:
            piece = plain.recv(1)
            expect(piece, f'the connection was closed after {answer!r}')
            answer += piece
        expect(answer.startswith(b'HTTP/1.1 100'), f'the first answer is {answer[:40]!r}')
        plain.sendall(body)
        service.expect_expected(read_reply(plain).results(), '100-continue')


@check('HTTP inference')
def kept_connections(service):
    """Several requests over one connection"""
    connection = service.connection()
    connection.connect()
    plain = connection.sock
    for _ in range(3):
        connection.request('POST', f'{service.path}/infer', json.dumps(service.json_request()), service.headers)
        reply = Reply(connection.getresponse())
        expect(reply.status == 200, f'answered with {reply.status}')
        expect(connection.sock is plain, 'the connection was closed')
        connection.request('GET', service.path, headers=service.headers)
        expect(Reply(connection.getresponse()).json() == service.model.metadata, 'the metadata are other ones')
    connection.close()


@check('HTTP inference')
def pipelined_requests(service):
    """Two requests that are sent before the first answer"""
    with service.socket() as plain:
        plain.sendall(service.head(method='GET', path='/v2')
                      + service.head('Connection: close', method='GET', path=service.path))
        answer = b''
        while piece := plain.recv(65536):
            answer += piece
    first, second = (answer.find(name) for name in (b'"extensions"', b'"inputs"'))
    expect(answer.count(b'HTTP/1.1 200') == 2 and 0 <= first < second, f'the answers are {answer[:300]!r}')


@check('HTTP inference')
def closed_connections(service):
    """The connection ends after an answer to Connection: close"""
    lines, body = whole_request(service)
    with service.socket() as plain:
        plain.sendall(service.head(*lines, f'Content-Length: {len(body)}', 'Connection: close') + body)
        response = http.client.HTTPResponse(plain)
        response.begin()
        service.expect_expected(Reply(response).results(), 'Connection: close')
        expect(plain.recv(1) == b'', 'more bytes after the answer')


@check('HTTP inference')
def batches(service):
    """A batch of several rows has the results of its rows one by one"""
    if not service.model.has_batch:
        raise Skip('an input or output has no batch axis')
    rows = [service.model.others() for _ in range(3)]
    batch = [Tensor(first.name, first.datatype, numpy.concatenate([row[index].values for row in rows]))
             for index, first in enumerate(service.model.tensors)]
    results = [service.infer(row) for row in rows]
    together = {name: numpy.concatenate([result[name] for result in results]) for name in results[0]}
    service.expect_close(together, service.infer(batch), 'the batch')


@check('HTTP inference')
def concurrent_requests(service):
    """Several requests at the same time with async_infer"""
    requests = [service.model.others() for _ in range(8)]
    running = [service.client.async_infer(service.model.name, service.client_inputs(tensors, service.has_binary),
                                          request_id=str(number),
                                          outputs=service.client_outputs(binary=service.has_binary))
               for number, tensors in enumerate(requests)]
    for number, (tensors, request) in enumerate(zip(requests, running)):
        result = request.get_result()
        expect(result.get_response().get('id') == str(number), f'request {number} has the answer of another one')
        service.expect_close(service.infer(tensors), service.results_of(result), f'request {number}')
