# SPDX-License-Identifier: Apache-2.0
"""A model of the service with one request for it, and the comparison of results."""
import dataclasses

import numpy
from tritonclient.utils import triton_to_np_dtype

from oip.checks import Failure, expect

# The field of InferTensorContents of each datatype. FP16 and BF16 have none.
CONTENTS = {'BOOL': 'bool_contents', 'INT8': 'int_contents', 'INT16': 'int_contents', 'INT32': 'int_contents',
            'INT64': 'int64_contents', 'UINT8': 'uint_contents', 'UINT16': 'uint_contents', 'UINT32': 'uint_contents',
            'UINT64': 'uint64_contents', 'FP32': 'fp32_contents', 'FP64': 'fp64_contents'}


@dataclasses.dataclass
class Tensor:
    """An input of a request."""
    name: str
    datatype: str
    values: numpy.ndarray

    @property
    def numbers(self):
        """The elements as numbers of Python, in the order of memory."""
        if self.datatype == 'BF16':
            return self.values.astype(numpy.float32).flatten().tolist()
        return self.values.flatten().tolist()

    def as_json(self):
        """The input of a JSON request."""
        return {'name': self.name, 'datatype': self.datatype, 'shape': list(self.values.shape), 'data': self.numbers}


class Model:
    """The metadata of a model, and inputs that fit to it. The arguments have the free extents of the axes."""

    def __init__(self, metadata, options, random, first_extent, other_extents):
        self.name = metadata['name']
        self.version = metadata['versions'][-1]
        self.metadata = metadata
        self.tensors = []
        self.random = random
        self.constants = options.value
        for entry in metadata['inputs']:
            shape = options.shape.get(entry['name'])
            if shape is None:
                free = [first_extent] + [other_extents] * len(entry['shape'])
                shape = [extent if extent >= 0 else free[axis] for axis, extent in enumerate(entry['shape'])]
            self.tensors.append(Tensor(entry['name'], entry['datatype'], self.values(entry, shape)))

    def values(self, entry, shape):
        """New elements of an input: floats in [0, 1), integers 0 and 1, or the number of the command line."""
        dtype = triton_to_np_dtype(entry['datatype'])
        if dtype is None or dtype is numpy.object_:
            raise Failure(f'the input {entry["name"]} of {self.name} has no numbers but {entry["datatype"]}')
        if entry['name'] in self.constants:
            return numpy.full(shape, self.constants[entry['name']]).astype(dtype)
        if numpy.issubdtype(dtype, numpy.integer) or dtype is bool:
            return self.random.integers(0, 2, shape).astype(dtype)
        return self.random.random(shape).astype(dtype)

    def others(self):
        """Inputs of the same shapes with other elements."""
        return [Tensor(tensor.name, tensor.datatype,
                       self.values({'name': tensor.name, 'datatype': tensor.datatype}, tensor.values.shape))
                for tensor in self.tensors]

    @property
    def output_names(self):
        """The names of the outputs."""
        return [entry['name'] for entry in self.metadata['outputs']]

    @property
    def has_batch(self):
        """Whether the first axis of all inputs and outputs may have any extent."""
        entries = self.metadata['inputs'] + self.metadata['outputs']
        return all(entry['shape'] and entry['shape'][0] == -1 for entry in entries)


def difference(expected, found, tolerance=None):
    """Says how results differ, or nothing if they are the same bit by bit, or close with a tolerance."""
    if set(expected) != set(found):
        return f'outputs {sorted(found)} instead of {sorted(expected)}'
    for name, right in expected.items():
        other = found[name]
        if other is None or right.dtype != other.dtype or right.shape != other.shape:
            form = 'nothing' if other is None else f'{other.dtype}{list(other.shape)}'
            return f'output {name} is {form} instead of {right.dtype}{list(right.shape)}'
        if right.tobytes() == other.tobytes():
            continue
        if tolerance is None or numpy.issubdtype(right.dtype, numpy.integer) or right.dtype == bool:
            return f'output {name} has other elements'
        if not numpy.allclose(right.astype(numpy.float64), other.astype(numpy.float64),
                              rtol=tolerance, atol=tolerance, equal_nan=True):
            return f'output {name} has other elements'
    return ''


def expect_same(expected, found, form, tolerance=None):
    """Fails the check if results of a form of request differ from the expected ones."""
    text = difference(expected, found, tolerance)
    expect(not text, f'{form}: {text}')
