# SPDX-License-Identifier: Apache-2.0
"""Checks of the extensions that the service advertises, and of errors for those that it does not have."""
import numpy
import tritonclient.http
from google.protobuf import json_format
from tritonclient.utils import InferenceServerException

from oip.checks import Failure, Skip, check, expect
from oip.service import expect_refusal

GROUP = 'extensions'
NOBODY = 'oip-conformance-no-such-model'
# Of requests that contradict themselves or the state of the service.
REFUSALS = ('400', '403', '404', '409', 'INVALID_ARGUMENT', 'PERMISSION_DENIED', 'NOT_FOUND', 'ALREADY_EXISTS')


def expect_listed(entries, name):
    """Fails the check unless the index has the model as ready."""
    expect(any(entry.get('name') == name and entry.get('state') == 'READY' for entry in entries),
           f'{name} is not READY in the index {entries}')


@check(GROUP, 'model_repository')
def index(service):
    """model_repository: the index has the model as ready"""
    expect_listed(service.client.get_model_repository_index(), service.model.name)
    reply = service.request('POST', '/v2/repository/index', b'{"ready": true}')
    expect(reply.status == 200, f'the index of ready models is answered with {reply.status}')
    expect_listed(reply.json(), service.model.name)
    expect(all(entry['state'] == 'READY' for entry in reply.json()), 'the index of ready models has others')


@check(GROUP, 'model_repository', 'admin')
def loading(service):
    """model_repository: unload and load the model"""
    name = service.model.name
    service.client.unload_model(name)
    try:
        expect(not service.client.is_model_ready(name), 'an unloaded model is ready')
        service.post(service.json_request()).expect_error([400, 404, 503], 'a request for an unloaded model')
    finally:
        service.client.load_model(name)
    expect(service.client.is_model_ready(name), 'a loaded model is not ready')
    service.client.load_model(name)  # A model that is served already.
    service.expect_alive()


@check(GROUP, 'model_repository', 'admin')
def unknown_loads(service):
    """model_repository: loading a model that does not exist is an error"""
    service.request('POST', f'/v2/repository/models/{NOBODY}/load', b'{}').expect_error(range(400, 502))
    service.request('POST', f'/v2/repository/models/../{service.model.name}/load', b'{}').expect_error()
    service.expect_alive()


@check(GROUP, 'grpc', 'grpc model_repository')
def grpc_index(service):
    """model_repository over gRPC: the index has the model as ready"""
    found = json_format.MessageToDict(service.grpc.get_model_repository_index()).get('models', [])
    expect_listed(found, service.model.name)
    if 'model_repository' in service.extensions:
        def order(entries):
            return sorted((entry['name'], entry.get('version', ''), entry.get('state', '')) for entry in entries)
        listed = service.client.get_model_repository_index()
        expect(order(found) == order(listed), f'it is {found}, and {listed} over HTTP')
    call = service.channel.unary_unary('/inference.GRPCInferenceService/RepositoryIndex')
    # RepositoryIndexRequest with ready.
    ready = call(b'\x10\x01', timeout=service.timeout, metadata=list(service.headers.items()))
    expect(b'READY' in ready and b'UNAVAILABLE' not in ready, f'the index of ready models is {ready}')


@check(GROUP, 'grpc', 'grpc model_repository', 'admin')
def grpc_loading(service):
    """model_repository over gRPC: unload and load the model"""
    name = service.model.name
    service.grpc.unload_model(name)
    try:
        expect(not service.grpc.is_model_ready(name), 'an unloaded model is ready')
    finally:
        service.grpc.load_model(name)
    expect(service.grpc.is_model_ready(name), 'a loaded model is not ready')
    expect_refusal(lambda: service.grpc.load_model(NOBODY), 'NOT_FOUND', 'INVALID_ARGUMENT', 'INTERNAL')
    service.expect_alive()


@check(GROUP, 'grpc', 'grpc model_repository', 'admin')
def grpc_broken_load(service):
    """model_repository over gRPC: a config that is none is an error, and the model stays"""
    expect_refusal(lambda: service.grpc.load_model(service.model.name, config='no config'), 'INVALID_ARGUMENT',
                   'UNIMPLEMENTED', 'UNAVAILABLE')
    service.expect_alive()


def expect_config(service, config):
    """Fails the check unless a config has the names and types of the metadata."""
    expect(config.get('name') == service.model.name, f'name is {config.get("name")!r}')
    for key, entries in ('input', service.model.metadata['inputs']), ('output', service.model.metadata['outputs']):
        found = {entry['name']: entry['data_type'] for entry in config.get(key, [])}
        expect(found == {entry['name']: f'TYPE_{entry["datatype"]}' for entry in entries}, f'{key} is {found}')


@check(GROUP, 'model_configuration')
def config(service):
    """model_configuration: the config has the inputs and outputs of the metadata"""
    found = service.client.get_model_config(service.model.name)
    expect(isinstance(found.get('max_batch_size'), int), f'max_batch_size is {found.get("max_batch_size")!r}')
    expect_config(service, found)
    expect_refusal(lambda: service.client.get_model_config(NOBODY), '404', '400')


@check(GROUP, 'grpc', 'grpc model_configuration')
def grpc_config(service):
    """model_configuration over gRPC: the config has the inputs and outputs of the metadata"""
    answer = service.grpc.get_model_config(service.model.name)
    found = json_format.MessageToDict(answer, preserving_proto_field_name=True)['config']
    expect_config(service, found)
    if 'model_configuration' in service.extensions:
        over_http = service.client.get_model_config(service.model.name)
        # A parser leaves out what has the default value, on either way.
        message = json_format.ParseDict(over_http, type(answer)().config, ignore_unknown_fields=True)
        expect(answer.config == message, f'it is {found}, and {over_http} over HTTP')
    expect_refusal(lambda: service.grpc.get_model_config(NOBODY), 'NOT_FOUND')


def counts(statistics, version):
    """The counts of successes, failures and inferences of a version."""
    for entry in statistics['model_stats']:
        if entry['version'] == version:
            calls = entry['inference_stats']
            return [int(number) for number in (calls['success'].get('count', 0), calls['fail'].get('count', 0),
                                               entry.get('inference_count', 0), entry.get('execution_count', 0))]
    raise Failure(f'the statistics have no version {version}')


def expect_counted(service, statistics):
    """Sends requests, and fails the check unless the statistics have them. No other client may send any."""
    version = service.model.version
    service.expect_alive()
    before = counts(statistics(), version)
    for _ in range(5):
        service.infer()
    success, fail, inferences, executions = numpy.subtract(counts(statistics(), version), before)
    expect(success == 5, f'5 requests count as {success} successes')
    expect(fail == 0, f'5 requests count as {fail} failures')
    expect(inferences >= 5, f'5 requests count as {inferences} inferences')
    expect(1 <= executions <= 5, f'5 requests count as {executions} executions')


@check(GROUP, 'statistics')
def statistics(service):
    """statistics: the counts increase by what was sent"""
    expect_counted(service, lambda: service.client.get_inference_statistics(service.model.name))
    names = {entry['name'] for entry in service.client.get_inference_statistics()['model_stats']}
    expect(service.model.name in names, f'the statistics of all models have {sorted(names)}')
    expect_refusal(lambda: service.client.get_inference_statistics(NOBODY), '404', '400')


@check(GROUP, 'grpc', 'grpc statistics')
def grpc_statistics(service):
    """statistics over gRPC: the counts increase by what was sent"""
    def current():
        answer = service.grpc.get_inference_statistics(service.model.name)
        return json_format.MessageToDict(answer, preserving_proto_field_name=True)
    expect_counted(service, current)
    expect_refusal(lambda: service.grpc.get_inference_statistics(NOBODY), 'NOT_FOUND')


def expect_sequences(service, step, error):
    """Runs sequences with a step of (id, start, end), alone and in turns, and wrong ones."""
    def marks(length):
        return [(number == 0, number == length - 1) for number in range(length)]
    first = int(service.random.integers(1, 2 ** 32))
    alone = [step(first, *mark) for mark in marks(3)]
    again = [step(first, *mark) for mark in marks(3)]
    turns = [[step(first + number, *mark) for number in range(2)] for mark in marks(3)]
    for number in range(3):
        service.expect_close(alone[number], again[number], f'request {number} of a second sequence of the same id')
        for other in range(2):
            service.expect_close(alone[number], turns[number][other], f'request {number} of sequences in turns')
    step(first, True, False)
    service.expect_close(alone[0], step(first, True, False), 'a start in a sequence')
    step(first, False, True)
    error(lambda: step(first, False, False))
    error(lambda: step(first + 9, False, False))
    service.expect_alive()


@check(GROUP, 'sequence', 'sequence model')
def sequences(service):
    """sequence: a state for each id, from its start to its end"""
    def step(number, start, end):
        return service.infer(model=service.sequence_model, sequence_id=number, sequence_start=start, sequence_end=end)

    def error(function):
        try:
            function()
        except InferenceServerException as refusal:
            expect(str(refusal.status()).startswith('4'), f'a request without a start ends with {refusal.status()}')
            return
        raise Failure('a request without a start succeeds')
    expect_sequences(service, step, error)


@check(GROUP, 'grpc', 'grpc sequence', 'sequence model')
def grpc_sequences(service):
    """sequence over gRPC: a state for each id, from its start to its end"""
    import tritonclient.grpc
    inputs = service.client_inputs(service.sequence_model.tensors, kind=tritonclient.grpc)

    def step(number, start, end):
        result = service.grpc.infer(service.sequence_model.name, inputs, sequence_id=number, sequence_start=start,
                                    sequence_end=end)
        return service.results_of(result, service.sequence_model)

    def error(function):
        expect_refusal(function, 'INVALID_ARGUMENT', 'NOT_FOUND', 'FAILED_PRECONDITION', 'ABORTED')
    expect_sequences(service, step, error)


def expect_region(service, kind, client):
    """Fails the check unless a client of tritonclient has its inputs and outputs in a region."""
    from tritonclient.utils import shared_memory as regions
    name, key = 'oip-conformance', service.options.shared_memory_key
    tensors = [*[(tensor.name, tensor.values) for tensor in service.model.tensors], *service.expected.items()]
    size = sum(values.nbytes for _, values in tensors) or 1
    region = regions.create_shared_memory_region(name, key, size, create_only=True)
    try:
        inputs, requested, places = [], [], []
        offset = 0
        for number, (tensor, values) in enumerate(tensors):
            if number < len(service.model.tensors):
                regions.set_shared_memory_region(region, [values], offset)
                datatype = service.model.tensors[number].datatype
                inputs.append(kind.InferInput(tensor, list(values.shape), datatype))
                inputs[-1].set_shared_memory(name, values.nbytes, offset)
            else:
                requested.append(kind.InferRequestedOutput(tensor))
                requested[-1].set_shared_memory(name, values.nbytes, offset)
                places.append((tensor, values, offset))
            offset += values.nbytes
        try:
            client.register_system_shared_memory(name, key, size)
        except InferenceServerException as refusal:
            if str(refusal.status()) in ('403', 'StatusCode.PERMISSION_DENIED'):
                raise Skip(f'this client may not register: {refusal.message()}') from None
            raise
        try:
            expect_refusal(lambda: client.register_system_shared_memory(name, key, size), *REFUSALS)
            status = client.get_system_shared_memory_status()
            names = list(status.regions) if kind is not tritonclient.http else [entry['name'] for entry in status]
            expect(name in names, f'the status is {status}')
            client.infer(service.model.name, inputs, outputs=requested)
            found = {tensor: numpy.array(regions.get_contents_as_numpy(
                region, values.dtype.type, list(values.shape), place)) for tensor, values, place in places}
            service.expect_expected(found, 'the region')
        finally:
            client.unregister_system_shared_memory(name)
        expect_refusal(lambda: client.infer(service.model.name, inputs, outputs=requested), *REFUSALS)
        expect_refusal(lambda: client.register_system_shared_memory(name, key, size + 1), *REFUSALS)
        expect_refusal(lambda: client.register_system_shared_memory(name, key, 1, 2**64 - 1), *REFUSALS)
        expect_refusal(lambda: client.register_system_shared_memory(name, '/..' + key, 1), *REFUSALS)
    finally:
        regions.destroy_shared_memory_region(region)
    service.expect_alive()


@check(GROUP, 'system_shared_memory')
def shared_memory(service):
    """system_shared_memory: inputs and outputs in a region"""
    expect_region(service, tritonclient.http, service.client)


@check(GROUP, 'grpc', 'grpc system_shared_memory')
def grpc_shared_memory(service):
    """system_shared_memory over gRPC: inputs and outputs in a region"""
    import tritonclient.grpc
    expect_region(service, tritonclient.grpc, service.grpc)


# The extension, requests over HTTP and methods of gRPC.
ABSENT = {
    'trace': [('GET', '/v2/trace/setting', 'TraceSetting'), ('POST', '/v2/trace/setting', 'TraceSetting')],
    'logging': [('GET', '/v2/logging', 'LogSettings'), ('POST', '/v2/logging', 'LogSettings')],
    'cuda_shared_memory': [('GET', '/v2/cudasharedmemory/status', 'CudaSharedMemoryStatus'),
                           ('POST', '/v2/cudasharedmemory/region/r/register', 'CudaSharedMemoryRegister')],
    'system_shared_memory': [('GET', '/v2/systemsharedmemory/status', 'SystemSharedMemoryStatus'),
                             ('POST', '/v2/systemsharedmemory/region/r/register', 'SystemSharedMemoryRegister')],
    'statistics': [('GET', '/v2/models/stats', 'ModelStatistics')],
    'model_repository': [('POST', '/v2/repository/index', 'RepositoryIndex')],
}


@check(GROUP)
def absent_extensions(service):
    """Requests for extensions that are not advertised are answered with an error, within 10 s"""
    for extension, requests in ABSENT.items():
        if extension not in service.extensions:
            for method, path, _ in requests:
                body = b'{}' if method == 'POST' else None
                reply = service.request(method, path, body, timeout=10)
                reply.expect_error([*range(400, 500), 501], f'{method} {path}')
    service.expect_alive()


@check(GROUP, 'grpc')
def grpc_absent_extensions(service):
    """Methods of gRPC for extensions that are not advertised are answered with an error, within 10 s"""
    import grpc
    for extension, requests in ABSENT.items():
        if extension not in service.grpc_extensions:
            for _, _, method in requests:
                call = service.channel.unary_unary(f'/inference.GRPCInferenceService/{method}')
                try:
                    call(b'', timeout=10, metadata=list(service.headers.items()))
                except grpc.RpcError as error:
                    expect(error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED),
                           f'{method} is answered with {error.code()}')
                else:
                    raise Failure(f'{method} succeeds')
    service.expect_alive()
