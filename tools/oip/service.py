# SPDX-License-Identifier: Apache-2.0
"""The running service: its addresses, its clients and requests that a client library would not send."""
import contextlib
import http.client
import json
import socket

import numpy
import tritonclient.http
from tritonclient.utils import InferenceServerException

from oip.checks import Failure, Skip, expect
from oip.model import CONTENTS, Model, expect_same

# What results may differ by if the service computes requests together.
TOLERANCE = {'FP16': 1e-2, 'BF16': 5e-2}
HEADER_LENGTH = 'Inference-Header-Content-Length'


class Reply:
    """An answer over HTTP."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        """The object in the body."""
        return json.loads(self.body)

    def results(self):
        """The outputs by name."""
        expect(self.status == 200, f'answered with {self.status}: {self.body[:200]!r}')
        length = self.headers.get(HEADER_LENGTH)
        result = tritonclient.http.InferResult.from_response_body(self.body, header_length=length and int(length))
        return {entry['name']: result.as_numpy(entry['name']) for entry in result.get_response()['outputs']}

    def expect_error(self, statuses=range(400, 500), form='the request'):
        """Fails the check unless the answer is an error of the protocol with one of the statuses."""
        expect(self.status in statuses, f'{form} is answered with {self.status}: {self.body[:200]!r}')
        try:
            text = self.json()['error']
        except (ValueError, KeyError, TypeError):
            raise Failure(f'{form}: the body is not {{"error": ...}} but {self.body[:200]!r}') from None
        expect(isinstance(text, str) and text, f'{form}: the error is no text: {text!r}')


class Service:
    """What the checks know about the service."""

    def __init__(self, options):
        self.options = options
        self.timeout = options.timeout
        self.host, _, port = options.http.rpartition(':')
        self.host, self.port = self.host.strip('[]'), int(port)
        self.headers = {'authorization': f'Bearer {options.token}'} if options.token else {}
        self.random = numpy.random.default_rng(options.seed)
        self.client = tritonclient.http.InferenceServerClient(
            options.http, concurrency=8, network_timeout=options.timeout, connection_timeout=options.timeout)
        self.client.register_plugin(lambda request: request.headers.update(self.headers))
        self.extensions = self.client.get_server_metadata()['extensions']
        self.has_binary = 'binary_tensor_data' in self.extensions
        self.model = self.model_of(options.model)
        self.expected = self.infer()
        self.sequence_model = None
        if options.sequence_model and 'sequence' in self.extensions:
            self.sequence_model = self.model_of(options.sequence_model, sequence_id=1, sequence_start=True,
                                                sequence_end=True)
        self.grpc = self.channel = self.stub = None
        self.grpc_extensions = []
        if options.grpc:
            self.connect_grpc()

    def connect_grpc(self):
        """Makes the client of gRPC, and a stub for requests that it would not send."""
        import grpc
        import tritonclient.grpc
        self.grpc = tritonclient.grpc.InferenceServerClient(self.options.grpc)
        self.grpc.register_plugin(lambda request: request.headers.update(self.headers))
        self.channel = grpc.insecure_channel(self.options.grpc)
        self.stub = tritonclient.grpc.service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.grpc_extensions = list(self.grpc.get_server_metadata(client_timeout=self.timeout).extensions)

    def model_of(self, name, **request):
        """The model of a name, with inputs of the first shapes that it accepts in a request with these options."""
        metadata = self.client.get_model_metadata(name)
        if request and 'model_configuration' in self.extensions:
            self.leave_out_state(metadata)
        for first_extent, other_extents in (1, 2), (1, 1), (2, 2):
            model = Model(metadata, self.options, self.random, first_extent, other_extents)
            try:
                self.infer(model=model, **request)
                return model
            except InferenceServerException as error:
                refusal = error
        raise Failure(f'{name} accepts no request; --shape and --value state other inputs: {refusal}')

    def leave_out_state(self, metadata):
        """Removes the inputs and outputs that the service keeps for a sequence."""
        config = self.client.get_model_config(metadata['name'])
        state = config.get('sequence_batching', {}).get('state', [])
        for kind, key in ('inputs', 'input_name'), ('outputs', 'output_name'):
            names = [tensor[key] for tensor in state]
            metadata[kind] = [entry for entry in metadata[kind] if entry['name'] not in names]

    def lacks(self, need):
        """Why the service does not have what a check needs, or nothing if it has it."""
        if need == 'grpc':
            return '' if self.grpc else 'no --grpc'
        if need == 'token':
            return '' if self.options.token else 'no --token'
        if need == 'admin':
            return '' if self.options.admin else 'no --admin'
        if need == 'sequence model':
            return '' if self.sequence_model else 'no --sequence-model'
        protocol, _, extension = need.rpartition(' ')
        extensions = self.grpc_extensions if protocol == 'grpc' else self.extensions
        return '' if extension in extensions else f'{extension} is not advertised'

    # Inference

    @property
    def path(self):
        """The path of the model."""
        return f'/v2/models/{self.model.name}'

    def client_inputs(self, tensors=None, binary=True, kind=tritonclient.http):
        """Inputs for a client of tritonclient."""
        inputs = []
        for tensor in tensors or self.model.tensors:
            entry = kind.InferInput(tensor.name, list(tensor.values.shape), tensor.datatype)
            if kind is tritonclient.http:
                entry.set_data_from_numpy(tensor.values, binary_data=binary)
            else:
                entry.set_data_from_numpy(tensor.values)
            inputs.append(entry)
        return inputs

    def infer(self, tensors=None, model=None, **options):
        """Results of the client over HTTP, in the form that the service supports best."""
        model = model or self.model
        inputs = self.client_inputs(tensors or model.tensors, self.has_binary)
        options.setdefault('outputs', self.client_outputs(model.output_names, self.has_binary))
        return self.results_of(self.client.infer(model.name, inputs, **options), model)

    def client_outputs(self, names=None, binary=True):
        """Requested outputs for the client over HTTP."""
        names = names or self.model.output_names
        return [tritonclient.http.InferRequestedOutput(name, binary_data=binary) for name in names]

    def results_of(self, result, model=None):
        """The outputs of a result of tritonclient by name."""
        return {name: result.as_numpy(name) for name in (model or self.model).output_names}

    def expect_expected(self, results, form):
        """Fails the check unless the results are those of the first request."""
        expect_same(self.expected, results, form)

    def expect_close(self, expected, results, form):
        """As before, for requests that the service may have computed together with others."""
        tolerance = max(TOLERANCE.get(entry['datatype'], 1e-4) for entry in self.model.metadata['outputs'])
        expect_same(expected, results, form, tolerance)

    def expect_alive(self):
        """Fails the check unless an ordinary request still has the right results."""
        self.expect_expected(self.infer(), 'an ordinary request afterwards')

    def expect_finite(self):
        """Skips the check if results have NaN or infinity, which JSON does not have."""
        if not all(numpy.isfinite(values.astype(numpy.float64)).all() for values in self.expected.values()):
            raise Skip('the results are not finite')

    def json_request(self, tensors=None, **fields):
        """A request as an object of JSON, which a check may change."""
        return {**fields, 'inputs': [tensor.as_json() for tensor in tensors or self.model.tensors]}

    def binary_request(self, **options):
        """The head and the data of a request with binary inputs and outputs."""
        body, length = tritonclient.http.InferenceServerClient.generate_request_body(
            self.client_inputs(), outputs=self.client_outputs(), **options)
        return (body, b'') if length is None else (body[:length], body[length:])

    def message(self, tensors=None, raw=True, **fields):
        """A message of gRPC with raw inputs, or with numbers."""
        from tritonclient.grpc import service_pb2
        message = service_pb2.ModelInferRequest(model_name=self.model.name, **fields)
        for tensor in tensors or self.model.tensors:
            entry = message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.values.shape)
            if raw:
                message.raw_input_contents.append(tensor.values.tobytes())
            elif tensor.datatype in CONTENTS:
                getattr(entry.contents, CONTENTS[tensor.datatype]).extend(tensor.numbers)
            else:
                raise Skip(f'{tensor.datatype} has no numbers in a message')
        return message

    def call(self, message):
        """Sends a message of gRPC."""
        return self.stub.ModelInfer(message, timeout=self.timeout, metadata=list(self.headers.items()))

    # HTTP below the client library

    def without_token(self, method, path, body=None):
        """As request, but without the token."""
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body)
            return Reply(connection.getresponse())

    def post(self, request, path=None, headers=None):
        """Sends an object of JSON, or bytes, as a request for inference."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return self.request('POST', path or f'{self.path}/infer', body, headers)

    def request(self, method, path, body=None, headers=None, timeout=None):
        """Sends a request over a connection of its own."""
        with contextlib.closing(self.connection(timeout)) as connection:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            return Reply(connection.getresponse())

    def connection(self, timeout=None):
        """A connection of http.client."""
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout or self.timeout)

    def socket(self):
        """A connection without a protocol."""
        plain = socket.create_connection((self.host, self.port), timeout=self.timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain

    def head(self, *lines, method='POST', path=None):
        """The bytes of a head with further lines."""
        host = f'[{self.host}]' if ':' in self.host else self.host
        fields = [f'{name}: {value}' for name, value in self.headers.items()]
        first = f'{method} {path or self.path + "/infer"} HTTP/1.1'
        return '\r\n'.join([first, f'Host: {host}:{self.port}', *fields, *lines, '', '']).encode()

    def exchange(self, *pieces):
        """Sends bytes piece by piece and reads one answer."""
        with self.socket() as plain:
            try:
                for piece in pieces:
                    plain.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # A service may answer and close before it has read everything.
            return read_reply(plain)


def read_reply(plain):
    """Reads one answer from a socket. Later answers on the same socket may be lost."""
    response = http.client.HTTPResponse(plain)
    try:
        response.begin()
        return Reply(response)
    except http.client.BadStatusLine as error:
        raise Failure(f'closed the connection without an answer: {error}') from None


def expect_refusal(function, *statuses):
    """Fails the check unless a call of tritonclient ends with one of the statuses of HTTP or gRPC."""
    try:
        answer = function()
    except InferenceServerException as error:
        status = (error.status() or '').replace('StatusCode.', '')
        expect(status in statuses, f'ended with {status} ({error.message()}) instead of {" or ".join(statuses)}')
        return
    raise Failure(f'succeeded with {str(answer)[:100]} instead of {" or ".join(statuses)}')
