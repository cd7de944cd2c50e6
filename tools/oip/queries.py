# SPDX-License-Identifier: Apache-2.0
"""Checks of health and metadata over both protocols, and of unknown names."""
import json

from oip.checks import Skip, check, expect
from oip.model import CONTENTS
from oip.service import expect_refusal

NOBODY = 'oip-conformance-no-such-model'


def other_version(service):
    """A version that the model does not have."""
    return str(max(int(version) for version in service.model.metadata['versions']) + 1000)


@check('queries')
def health(service):
    """The server is live and ready, and the model is ready with and without a version."""
    expect(service.client.is_server_live(), 'the server is not live')
    expect(service.client.is_server_ready(), 'the server is not ready')
    expect(service.client.is_model_ready(service.model.name), 'the model is not ready')
    expect(service.client.is_model_ready(service.model.name, service.model.version), 'its version is not ready')


@check('queries')
def server_metadata(service):
    """The metadata of the server has its name, version and extensions."""
    metadata = service.request('GET', '/v2').json()
    for key in 'name', 'version':
        expect(isinstance(metadata.get(key), str) and metadata[key], f'{key} is {metadata.get(key)!r}')
    extensions = metadata.get('extensions')
    expect(isinstance(extensions, list) and all(isinstance(entry, str) for entry in extensions),
           f'extensions is {extensions!r}')


@check('queries')
def model_metadata(service):
    """The metadata of the model are complete, and the same with its version."""
    metadata = service.model.metadata
    expect(metadata['name'] == service.model.name, f'name is {metadata["name"]!r}')
    expect(all(isinstance(version, str) for version in metadata['versions']), 'a version is no text')
    expect(isinstance(metadata.get('platform'), str), f'platform is {metadata.get("platform")!r}')
    for entry in metadata['inputs'] + metadata['outputs']:
        expect(isinstance(entry['name'], str) and entry['datatype'] in {*CONTENTS, 'FP16', 'BF16', 'BYTES'},
               f'a tensor is {entry!r}')
        expect(all(isinstance(extent, int) and extent >= -1 for extent in entry['shape']), f'a tensor is {entry!r}')
    versioned = service.client.get_model_metadata(service.model.name, service.model.version)
    for key in 'name', 'inputs', 'outputs':
        expect(versioned[key] == metadata[key], f'{key} is {versioned[key]!r} with the version')


@check('queries')
def metadata_and_results(service):
    """The results have the names, types and shapes of the metadata."""
    request = service.json_request()
    if service.has_binary:
        request['parameters'] = {'binary_data_output': True}
    reply = service.post(request)
    results = reply.results()
    names = [entry['name'] for entry in service.model.metadata['outputs']]
    expect(sorted(results) == sorted(names), f'the results are {sorted(results)}')
    length = reply.headers.get('Inference-Header-Content-Length')
    answer = json.loads(reply.body[:int(length)] if length else reply.body)
    expect(answer['model_name'] == service.model.name, f'model_name is {answer["model_name"]!r}')
    expect(answer.get('model_version', '') in ('', service.model.version),
           f'model_version is {answer.get("model_version")!r}')
    for entry in answer['outputs']:
        wanted = service.model.metadata['outputs'][names.index(entry['name'])]
        expect(entry['datatype'] == wanted['datatype'], f'{entry["name"]} is {entry["datatype"]}')
        expect(len(entry['shape']) == len(wanted['shape'])
               and all(extent in (-1, found) for extent, found in zip(wanted['shape'], entry['shape'])),
               f'{entry["name"]} has the shape {entry["shape"]}, not {wanted["shape"]}')


@check('queries')
def unknown_names(service):
    """Unknown models, versions and paths are answered with 404."""
    name, version = service.model.name, other_version(service)
    for path in (f'/v2/models/{NOBODY}', f'/v2/models/{NOBODY}/ready', f'/v2/models/{name}/versions/{version}',
                 f'/v2/models/{name}/versions/{version}/ready', '/v2/oip-conformance', '/oip-conformance'):
        service.request('GET', path).expect_error([404], f'GET {path}')
    for path in f'/v2/models/{NOBODY}/infer', f'/v2/models/{name}/versions/{version}/infer':
        service.post(service.json_request(), path).expect_error([404], f'POST {path}')
    path = f'/v2/models/{name}/versions/newest'
    service.request('GET', path).expect_error([400, 404], f'GET {path}')


@check('queries', 'grpc')
def grpc_health(service):
    """gRPC: the server is live and ready, and the model is ready with and without a version."""
    expect(service.grpc.is_server_live(), 'the server is not live')
    expect(service.grpc.is_server_ready(), 'the server is not ready')
    expect(service.grpc.is_model_ready(service.model.name), 'the model is not ready')
    expect(service.grpc.is_model_ready(service.model.name, service.model.version), 'its version is not ready')
    expect(not service.grpc.is_model_ready(service.model.name, other_version(service)), 'an unknown version is ready')


@check('queries', 'grpc')
def grpc_metadata(service):
    """gRPC: the metadata of server and model are those of HTTP."""
    from google.protobuf import json_format
    server = service.grpc.get_server_metadata()
    for key in 'name', 'version':
        expect(getattr(server, key) == service.client.get_server_metadata()[key], f'{key} is {getattr(server, key)!r}')
    for version in '', service.model.version:
        found = json_format.MessageToDict(service.grpc.get_model_metadata(service.model.name, version))
        for key in 'name', 'versions', 'platform':
            expect(found.get(key) == service.model.metadata.get(key), f'{key} is {found.get(key)!r}')
        for key in 'inputs', 'outputs':
            tensors = [{'name': entry['name'], 'datatype': entry['datatype'],
                        'shape': [int(extent) for extent in entry.get('shape', [])]} for entry in found[key]]
            expect(tensors == service.model.metadata[key], f'{key} is {tensors!r}')


@check('queries', 'grpc')
def grpc_unknown_names(service):
    """gRPC: unknown models and versions are answered with NOT_FOUND."""
    import tritonclient.grpc
    inputs = service.client_inputs(kind=tritonclient.grpc)
    for name, version in (NOBODY, ''), (service.model.name, other_version(service)):
        expect_refusal(lambda: service.grpc.get_model_metadata(name, version), 'NOT_FOUND')
        expect_refusal(lambda: service.grpc.infer(name, inputs, version), 'NOT_FOUND')


@check('queries', 'grpc')
def grpc_health_service(service):
    """gRPC: grpc.health.v1 says that the server serves."""
    import grpc
    # The messages are HealthCheckRequest with a service, and HealthCheckResponse with the status SERVING, which is 1.
    call = service.channel.unary_unary('/grpc.health.v1.Health/Check')
    watch = service.channel.unary_stream('/grpc.health.v1.Health/Watch')
    options = {'timeout': service.timeout, 'metadata': list(service.headers.items())}
    try:
        expect(call(b'', **options) == b'\x08\x01', 'the server does not serve')
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            raise Skip('the server does not have it') from None
        raise
    updates = watch(b'', **options)
    expect(next(updates) == b'\x08\x01', 'the first update is another one')
    updates.cancel()
    try:
        call(b'\x0a\x04none', **options)
    except grpc.RpcError as error:
        expect(error.code() == grpc.StatusCode.NOT_FOUND, f'an unknown service is answered with {error.code()}')
    else:
        expect(False, 'an unknown service has a status')
