// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/source_location.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <string>
#include <utility>

namespace sluice::host {

/// The one way in which oneDNN is called: check_onednn("what for", [&] { ... }).
/// @throws error for a `dnnl::error` that leaves `function`: `out_of_memory`, `unsupported`, else
/// `library_failure`, with the raw status
template <class Function>
auto check_onednn(const char* operation, Function&& function,
                  source_location location = source_location::current()) {
  try {
    return std::forward<Function>(function)();
  } catch (const dnnl::error& failure) {
    errc code = errc::library_failure;
    if (failure.status == dnnl_out_of_memory) code = errc::out_of_memory;
    if (failure.status == dnnl_unimplemented) code = errc::unsupported;
    throw error(code, std::string(operation) + ": " + failure.what(),
                library_status{"oneDNN", static_cast<long>(failure.status)}, location);
  }
}

}  // namespace sluice::host
