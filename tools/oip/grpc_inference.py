# SPDX-License-Identifier: Apache-2.0
"""Checks of inference over gRPC, whose results are those of HTTP."""
import queue

import numpy
from tritonclient.utils import triton_to_np_dtype

from oip.checks import Skip, check, expect
from oip.model import CONTENTS


def client_inputs(service, tensors=None):
    """Inputs for the client of gRPC."""
    import tritonclient.grpc
    return service.client_inputs(tensors, kind=tritonclient.grpc)


def results_of(response):
    """The outputs of a response, raw or as numbers."""
    results = {}
    for index, entry in enumerate(response.outputs):
        dtype = triton_to_np_dtype(entry.datatype)
        if response.raw_output_contents:
            values = numpy.frombuffer(response.raw_output_contents[index], dtype)
        else:
            values = numpy.array(getattr(entry.contents, CONTENTS[entry.datatype]), dtype)
        results[entry.name] = values.reshape(list(entry.shape))
    return results


@check('gRPC inference', 'grpc')
def requests(service):
    """infer, with and without the version"""
    for version in '', service.model.version:
        result = service.grpc.infer(service.model.name, client_inputs(service), version, client_timeout=service.timeout)
        service.expect_expected(service.results_of(result), 'infer')


@check('gRPC inference', 'grpc')
def answers(service):
    """The answer has the model, its version and the id"""
    answer = service.call(service.message(id='id-1'))
    for key, value in ('model_name', service.model.name), ('model_version', service.model.version), ('id', 'id-1'):
        expect(getattr(answer, key) == value, f'{key} is {getattr(answer, key)!r}')
    expect(service.call(service.message()).id == '', 'a request without an id has one')


@check('gRPC inference', 'grpc')
def raw_contents(service):
    """Raw inputs in messages"""
    service.expect_expected(results_of(service.call(service.message())), 'raw contents')


@check('gRPC inference', 'grpc')
def typed_contents(service):
    """Inputs as numbers in messages"""
    if {'FP16', 'BF16'} & {entry['datatype'] for entry in service.model.metadata['outputs']}:
        raise Skip('an output has no numbers in a message')
    service.expect_expected(results_of(service.call(service.message(raw=False))), 'typed contents')


@check('gRPC inference', 'grpc')
def chosen_outputs(service):
    """Each output by itself"""
    import tritonclient.grpc
    for name in service.model.output_names:
        result = service.grpc.infer(service.model.name, client_inputs(service),
                                    outputs=[tritonclient.grpc.InferRequestedOutput(name)])
        names = [entry.name for entry in result.get_response().outputs]
        expect(names == [name], f'the outputs are {names} instead of {name}')
        service.expect_expected({**service.expected, name: result.as_numpy(name)}, name)


@check('gRPC inference', 'grpc')
def compressed_messages(service):
    """A compressed message has the results, or is refused with UNIMPLEMENTED"""
    from tritonclient.utils import InferenceServerException
    for algorithm in 'gzip', 'deflate':
        try:
            result = service.grpc.infer(service.model.name, client_inputs(service), compression_algorithm=algorithm)
        except InferenceServerException as error:
            expect(error.status() == 'StatusCode.UNIMPLEMENTED', f'{algorithm}: {error}')
            continue
        service.expect_expected(service.results_of(result), algorithm)


@check('gRPC inference', 'grpc')
def concurrent_requests(service):
    """Several requests at the same time with async_infer"""
    done = queue.SimpleQueue()
    tensors = [service.model.others() for _ in range(8)]
    for number, request in enumerate(tensors):
        service.grpc.async_infer(service.model.name, client_inputs(service, request), request_id=str(number),
                                 callback=lambda result, error: done.put((result, error)))
    collect(service, tensors, done)


@check('gRPC inference', 'grpc')
def streams(service):
    """Several requests in a stream, whose ids tell their answers"""
    done = queue.SimpleQueue()
    tensors = [service.model.others() for _ in range(8)]
    service.grpc.start_stream(lambda result, error: done.put((result, error)), headers=dict(service.headers))
    try:
        for number, request in enumerate(tensors):
            service.grpc.async_stream_infer(service.model.name, client_inputs(service, request),
                                            request_id=str(number))
        collect(service, tensors, done)
    finally:
        service.grpc.stop_stream()


@check('gRPC inference', 'grpc')
def errors_in_streams(service):
    """An error in a stream is one message, and the stream goes on"""
    done = queue.SimpleQueue()
    service.grpc.start_stream(lambda result, error: done.put((result, error)), headers=dict(service.headers))
    try:
        for name in service.model.name, 'oip-conformance-no-such-model', service.model.name:
            service.grpc.async_stream_infer(name, client_inputs(service), request_id=name)
        answers = [done.get(timeout=service.timeout) for _ in range(3)]
    finally:
        service.grpc.stop_stream()
    errors = [error for _, error in answers if error]
    expect(len(errors) == 1, f'there are {len(errors)} errors instead of one: {errors}')
    for result, error in answers:
        if not error:
            service.expect_expected(service.results_of(result), 'a request of the stream')


def collect(service, tensors, done):
    """Compares the answers that arrive in a queue, in any order, with those of single requests."""
    found = {}
    for _ in tensors:
        result, error = done.get(timeout=service.timeout)
        expect(error is None, f'a request failed: {error}')
        found[result.get_response().id] = service.results_of(result)
    expect(set(found) == {str(number) for number in range(len(tensors))}, f'the ids are {sorted(found)}')
    for number, request in enumerate(tensors):
        service.expect_close(service.infer(request), found[str(number)], f'request {number}')
