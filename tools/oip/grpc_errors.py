# SPDX-License-Identifier: Apache-2.0
"""Checks of messages of gRPC that a service must refuse with INVALID_ARGUMENT, and of its life after them."""
from oip.checks import Skip, add_check, check, expect
from oip.model import CONTENTS

GROUP = 'gRPC errors'


def code_of(call, *arguments, **options):
    """The name of the status with which a call ends."""
    import grpc
    try:
        call(*arguments, **options)
    except grpc.RpcError as error:
        return error.code().name
    return 'OK'


def message_error(change):
    """Decorates a function that makes a message wrong."""
    def function(service):
        message = service.message()
        message = change(service, message) or message
        code = code_of(service.call, message)
        expect(code == 'INVALID_ARGUMENT', f'it is answered with {code}')
        service.expect_alive()
    add_check(GROUP, change.__doc__, ('grpc',), function)
    return change


@message_error
def missing_input(service, message):
    """A missing input"""
    del message.inputs[0], message.raw_input_contents[0]


@message_error
def unknown_input(service, message):
    """An input that the model does not have"""
    message.inputs.add().CopyFrom(message.inputs[0])
    message.inputs[-1].name = 'oip-conformance'
    message.raw_input_contents.append(message.raw_input_contents[0])


@message_error
def repeated_input(service, message):
    """Two inputs of one name"""
    message.inputs.add().CopyFrom(message.inputs[0])
    message.raw_input_contents.append(message.raw_input_contents[0])


@message_error
def unknown_output(service, message):
    """An output that the model does not have"""
    message.outputs.add(name='oip-conformance')


@message_error
def other_datatype(service, message):
    """An input of another datatype than that of the model"""
    message.inputs[0].datatype = 'INT16' if message.inputs[0].datatype != 'INT16' else 'INT32'


@message_error
def unknown_datatype(service, message):
    """An input of a datatype that does not exist"""
    message.inputs[0].datatype = 'FP31'


@message_error
def other_rank(service, message):
    """An input with one axis more than that of the model"""
    message.inputs[0].shape.append(1)


@message_error
def negative_extent(service, message):
    """A negative extent"""
    del message.inputs[0].shape[:]
    message.inputs[0].shape.extend([-1] * max(1, service.model.tensors[0].values.ndim))


@message_error
def huge_shape(service, message):
    """A shape whose product has more than 64 bits"""
    del message.inputs[0].shape[:]
    message.inputs[0].shape.extend([2 ** 62] * max(2, service.model.tensors[0].values.ndim))


@message_error
def short_contents(service, message):
    """Raw contents that are too short"""
    message.raw_input_contents[0] = message.raw_input_contents[0][:-1]


@message_error
def long_contents(service, message):
    """Raw contents that are too long"""
    message.raw_input_contents[-1] += b'\0'


@message_error
def surplus_contents(service, message):
    """More raw contents than inputs"""
    message.raw_input_contents.append(b'1234')


@message_error
def missing_contents(service, message):
    """Fewer raw contents than inputs, or none"""
    del message.raw_input_contents[-1]


@message_error
def two_forms(service, message):
    """An input that has both raw contents and numbers"""
    typed = service.message(raw=False)
    typed.raw_input_contents.extend(message.raw_input_contents)
    return typed


@message_error
def other_field(service, message):
    """Numbers in the field of another datatype"""
    message = service.message(raw=False)
    tensor, entry = service.model.tensors[0], message.inputs[0]
    if not tensor.values.size:
        raise Skip('the input is empty')
    entry.ClearField('contents')
    other = 'fp64_contents' if CONTENTS[tensor.datatype] != 'fp64_contents' else 'fp32_contents'
    getattr(entry.contents, other).extend([0] * tensor.values.size)
    return message


@message_error
def few_numbers(service, message):
    """Fewer numbers than the shape says"""
    message = service.message(raw=False)
    tensor, entry = service.model.tensors[0], message.inputs[0]
    if not tensor.values.size:
        raise Skip('the input is empty')
    getattr(entry.contents, CONTENTS[tensor.datatype]).pop()
    return message


@check(GROUP, 'grpc')
def random_messages(service):
    """Random bytes in place of a message"""
    call = service.channel.unary_unary('/inference.GRPCInferenceService/ModelInfer')
    for size in 1, 10, 100, 1000:
        code = code_of(call, service.random.bytes(size), timeout=service.timeout,
                       metadata=list(service.headers.items()))
        expect(code not in ('OK', 'UNAVAILABLE', 'DEADLINE_EXCEEDED'), f'{size} bytes are answered with {code}')
    service.expect_alive()


@check(GROUP, 'grpc')
def unknown_methods(service):
    """Methods and services that do not exist"""
    for path in '/inference.GRPCInferenceService/Conformance', '/oip.Conformance/Infer':
        code = code_of(service.channel.unary_unary(path), b'', timeout=service.timeout,
                       metadata=list(service.headers.items()))
        expect(code == 'UNIMPLEMENTED', f'{path} is answered with {code}')
    service.expect_alive()
