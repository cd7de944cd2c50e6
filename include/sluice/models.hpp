// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything of the layer `models`: ONNX files as programs.

#include <sluice/models/model.hpp>
#include <sluice/models/model_chain.hpp>
#include <sluice/models/write_model.hpp>
