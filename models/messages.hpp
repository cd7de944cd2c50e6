// SPDX-License-Identifier: Apache-2.0
#pragma once

// The message classes of ONNX, the only part of its library that sluice uses.
#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>
