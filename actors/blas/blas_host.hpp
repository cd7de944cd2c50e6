// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/blas/blas_library.hpp"

#include <memory>

/// The door to OpenBLAS.
namespace sluice::host {

[[nodiscard]] std::unique_ptr<actors::blas_library> make_blas_library(stream_ref stream);

}  // namespace sluice::host
