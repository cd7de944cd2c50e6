// SPDX-License-Identifier: Apache-2.0
#pragma once

// The message classes of ONNX, the only part of its library that sluice uses.
#include <onnx/onnx_pb.h>
