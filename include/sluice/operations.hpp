// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything of layer 3, in one header: operations and the executor that runs them.
#include <sluice/operations/binary.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/element_functions.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/for_each_index.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/indexed_operation.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/normalization.hpp>
#include <sluice/operations/operand.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/operation_request.hpp>
#include <sluice/operations/operation_table.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/program_step.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/operations/resize.hpp>
#include <sluice/operations/rng.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/scalar.hpp>
#include <sluice/operations/spectral.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/operations/unary.hpp>
