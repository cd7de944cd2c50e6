# SPDX-License-Identifier: Apache-2.0
"""Checks of requests over HTTP that a service must refuse with 4xx and an error, and of its life after them."""
import gzip
import json

import numpy

from oip.checks import Skip, add_check, check, expect
from oip.service import HEADER_LENGTH, Reply

GROUP = 'HTTP errors'


def json_error(change):
    """Decorates a function that makes a JSON request wrong, or returns the bytes of a wrong one."""
    def function(service):
        request = service.json_request()
        body = change(service, request)
        service.post(request if body is None else body).expect_error()
        service.expect_alive()
    add_check(GROUP, change.__doc__, (), function)
    return change


def binary_error(change):
    """Decorates a function that changes the head of a binary request, and returns the data behind it."""
    def function(service):
        head, data = service.binary_request()
        request = json.loads(head)
        data = change(request, data)
        head = json.dumps(request).encode()
        service.post(head + data, headers={HEADER_LENGTH: str(len(head))}).expect_error()
        service.expect_alive()
    add_check(GROUP, change.__doc__, ('binary_tensor_data',), function)
    return change


def with_number(service, request, text):
    """The request as text, with a number as it is written in place of the first element."""
    for entry in request['inputs']:
        if entry['data']:
            entry['data'][0] = 'first element'
            return json.dumps(request).replace('"first element"', text).encode()
    raise Skip('the inputs are empty')


@json_error
def missing_input(service, request):
    """A missing input"""
    del request['inputs'][0]


@json_error
def unknown_input(service, request):
    """An input that the model does not have"""
    request['inputs'].append({**request['inputs'][0], 'name': 'oip-conformance'})


@json_error
def repeated_input(service, request):
    """Two inputs of one name"""
    request['inputs'].append(request['inputs'][0])


@json_error
def unknown_output(service, request):
    """An output that the model does not have"""
    request['outputs'] = [{'name': 'oip-conformance'}]


@json_error
def unnamed_input(service, request):
    """An input without a name"""
    del request['inputs'][0]['name']


@json_error
def other_datatype(service, request):
    """An input of another datatype than that of the model"""
    request['inputs'][0]['datatype'] = 'INT16' if request['inputs'][0]['datatype'] != 'INT16' else 'INT32'


@json_error
def unknown_datatype(service, request):
    """An input of a datatype that does not exist"""
    request['inputs'][0]['datatype'] = 'FP31'


@json_error
def other_rank(service, request):
    """An input with one axis more than that of the model"""
    request['inputs'][0]['shape'].append(1)


@json_error
def other_extent(service, request):
    """An input with another extent than the model states"""
    for entry, wanted in zip(request['inputs'], service.model.metadata['inputs']):
        for axis, extent in enumerate(wanted['shape']):
            if extent > 0:
                entry['shape'][axis] += 1
                entry['data'] = [0] * int(numpy.prod(entry['shape']))
                return
    raise Skip('all extents of the inputs are free')


@json_error
def negative_extent(service, request):
    """A negative extent"""
    request['inputs'][-1]['shape'] = [-1] * max(1, len(request['inputs'][-1]['shape']))


@json_error
def huge_shape(service, request):
    """A shape whose product has more than 64 bits"""
    request['inputs'][0]['shape'] = [2 ** 62] * max(2, len(request['inputs'][0]['shape']))


@json_error
def short_data(service, request):
    """Fewer elements than the shape says"""
    entry = max(request['inputs'], key=lambda entry: len(entry['data']))
    entry['data'].pop()


@json_error
def long_data(service, request):
    """More elements than the shape says"""
    request['inputs'][0]['data'].append(0)


@json_error
def no_data(service, request):
    """An input without data"""
    del request['inputs'][0]['data']


@json_error
def cut_json(service, request):
    """JSON that ends too early"""
    return json.dumps(request).encode()[:-2]


@json_error
def text_after_json(service, request):
    """Text after the JSON object"""
    return json.dumps(request).encode() + b' {}'


@json_error
def array_request(service, request):
    """JSON that is no object"""
    return json.dumps([request]).encode()


@json_error
def empty_body(service, request):
    """An empty body"""
    return b''


@json_error
def empty_object(service, request):
    """An object without inputs"""
    return b'{}'


@json_error
def deep_json(service, request):
    """100,000 open brackets"""
    return b'{"inputs": ' + b'[' * 100000


@json_error
def other_encoding(service, request):
    """Text that is not UTF-8"""
    return b'{"id": "\xff\xfe", ' + json.dumps(request).encode()[1:]


@json_error
def large_number(service, request):
    """1e400, which no datatype has"""
    return with_number(service, request, '1e400')


@json_error
def not_a_number(service, request):
    """NaN, which JSON does not have"""
    return with_number(service, request, 'NaN')


@json_error
def text_element(service, request):
    """A text in place of an element"""
    return with_number(service, request, '"1"')


@json_error
def null_element(service, request):
    """null in place of an element"""
    return with_number(service, request, 'null')


@json_error
def integer_overflow(service, request):
    """An integer that is too large for the datatype, such as 300 for UINT8"""
    for tensor, entry in zip(service.model.tensors, request['inputs']):
        if numpy.issubdtype(tensor.values.dtype, numpy.integer) and entry['data']:
            largest = int(numpy.iinfo(tensor.values.dtype).max)
            entry['data'][0] = 300 if tensor.datatype == 'UINT8' else largest + 1
            return
    raise Skip('the model has no integer input')


@json_error
def fraction_for_integer(service, request):
    """0.5 for an integer"""
    for tensor, entry in zip(service.model.tensors, request['inputs']):
        if numpy.issubdtype(tensor.values.dtype, numpy.integer) and entry['data']:
            entry['data'][0] = 0.5
            return
    raise Skip('the model has no integer input')


@binary_error
def large_binary_size(request, data):
    """A binary_data_size that is larger than the body"""
    request['inputs'][-1]['parameters']['binary_data_size'] += 1
    return data


@binary_error
def other_binary_size(request, data):
    """A binary_data_size that does not fit to the shape"""
    entry = request['inputs'][-1]
    entry['parameters']['binary_data_size'] += 1
    return data + b'\0'


@binary_error
def negative_binary_size(request, data):
    """A negative binary_data_size"""
    request['inputs'][0]['parameters']['binary_data_size'] = -1
    return data


@binary_error
def huge_binary_size(request, data):
    """A binary_data_size of 2^64"""
    request['inputs'][0]['parameters']['binary_data_size'] = 2 ** 64
    return data


@binary_error
def surplus_data(request, data):
    """Bytes after the last tensor"""
    return data + b'12345678'


@binary_error
def missing_data(request, data):
    """A body that ends before the last tensor does"""
    return data[:-1]


@binary_error
def two_forms(request, data):
    """An input that has both binary data and JSON elements"""
    request['inputs'][0]['data'] = [0] * int(numpy.prod(request['inputs'][0]['shape']))
    return data


@check(GROUP, 'binary_tensor_data')
def header_lengths(service):
    """A length of the JSON text that is no number, negative or larger than the body"""
    head, data = service.binary_request()
    for length in 'ten', '-1', '', str(len(head) - 1), str(len(head + data) + 1), str(2 ** 64 + len(head)):
        service.post(head + data, headers={HEADER_LENGTH: length}).expect_error(form=f'{HEADER_LENGTH}: {length}')
    service.expect_alive()


@check(GROUP)
def large_head(service):
    """A field of 1 MiB in the head"""
    head = service.head('X-Large: ' + 'x' * 2 ** 20, method='GET', path='/v2')
    expect(service.exchange(head).status in range(400, 500), 'it is accepted')
    service.expect_alive()


@check(GROUP)
def other_methods(service):
    """Methods that a path does not have"""
    for method, path in (('GET', f'{service.path}/infer'), ('DELETE', f'{service.path}/infer'), ('POST', '/v2'),
                         ('PUT', service.path), ('PATCH', '/v2/health/live')):
        service.request(method, path).expect_error(form=f'{method} {path}')
    service.expect_alive()


@check(GROUP)
def unknown_coding(service):
    """A Content-Encoding that does not exist"""
    service.post(service.json_request(), headers={'Content-Encoding': 'oip'}).expect_error()
    service.expect_alive()


@check(GROUP)
def broken_compression(service):
    """A body that is not compressed as it says, and one that ends too early"""
    body = json.dumps(service.json_request()).encode()
    for broken in body, gzip.compress(body)[:-9], gzip.compress(body) + b'more':
        service.post(broken, headers={'Content-Encoding': 'gzip'}).expect_error(form=f'{broken[:20]!r}')
    service.expect_alive()


@check(GROUP)
def ambiguous_lengths(service):
    """Heads with two lengths of the body, and broken ones"""
    body = json.dumps(service.json_request()).encode()
    for lines in ((f'Content-Length: {len(body)}', f'Content-Length: {len(body) + 1}'),
                  (f'Content-Length: {len(body)}', 'Transfer-Encoding: chunked'),
                  ('Content-Length: -1',), (f'Content-Length: +{len(body)}',), ('Content-Length: 0x10',),
                  ('Transfer-Encoding: chunked, oip',)):
        reply = service.exchange(service.head(*lines), body)
        expect(reply.status in range(400, 502), f'{lines} is answered with {reply.status}')
    service.expect_alive()


@check(GROUP)
def broken_chunks(service):
    """Chunks with a length that is no number, or larger than any body"""
    for chunk in b'xyz\r\n', b'-1\r\n', b'ffffffffffffffffff\r\n', b'3\r\nabcd\r\n':
        reply = service.exchange(service.head('Transfer-Encoding: chunked'), chunk)
        expect(reply.status in range(400, 500), f'{chunk!r} is answered with {reply.status}')
    service.expect_alive()


@check(GROUP)
def huge_body(service):
    """A body of 10^15 bytes, which is refused before it is there"""
    reply = service.exchange(service.head(f'Content-Length: {10 ** 15}'), b'{')
    expect(reply.status in range(400, 500), f'it is answered with {reply.status}')
    service.expect_alive()


@check(GROUP)
def errors_on_kept_connections(service):
    """The connection of a refused request serves the next one, or ends as the answer says"""
    connection = service.connection()
    for body in b'{}', b'{', json.dumps(service.json_request(outputs=[{'name': 'oip-conformance'}])).encode():
        connection.request('POST', f'{service.path}/infer', body, service.headers)
        response = connection.getresponse()
        Reply(response).expect_error()
        connection.request('POST', f'{service.path}/infer', json.dumps(service.json_request()), service.headers)
        expect(Reply(connection.getresponse()).status == 200, 'the next request fails')
    connection.close()
