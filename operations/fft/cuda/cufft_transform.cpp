// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/cuda/cufft_transform.hpp"

#include "operations/capture_scope.hpp"
#include "operations/fft/cuda/check_cufft.hpp"
#include "operations/workspace.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>

#include <cstdio>

namespace sluice::cuda {
namespace {

using operations::check_cufft;
using operations::fft_key;
using operations::fft_kind;

[[nodiscard]] cufftType type_of(const fft_key& key) {
  const bool single = key.is_double == 0;
  if (key.kind == fft_kind::r2c) return single ? CUFFT_R2C : CUFFT_D2Z;
  if (key.kind == fft_kind::c2r) return single ? CUFFT_C2R : CUFFT_Z2D;
  return single ? CUFFT_C2C : CUFFT_Z2Z;
}

/// A stream on which the planner loads kernels.
struct warm_up_stream {
  warm_up_stream(device_runtime& runtime, stream_ref) : stream(runtime.create_stream()) {}
  sluice::stream stream;
};

}  // namespace

cufft_transform::cufft_transform(const fft_key& key, sluice::device& device, stream_ref stream)
    : key_(key), device_(device) {
  check_cufft(cufftCreate(&handle_));
  try {
    check_cufft(cufftSetAutoAllocation(handle_, 0));
    bind(stream);
    long long length = key.length;
    check_cufft(cufftMakePlanMany64(handle_, 1, &length, &length, 1, key.input_distance, &length, 1,
                                    key.output_distance, type_of(key), key.batch, &work_bytes_));
  } catch (...) {
    if (!device_.lost()) cufftDestroy(handle_);
    throw;
  }
}

cufft_transform::~cufft_transform() {
  const detail::library_call call(device_.id());
  // A lost device takes its handles along; destroying one there can abort the process.
  if (device_.lost()) return;
  const current_device_scope current(device_);
  const cufftResult result = cufftDestroy(handle_);
  if (result != CUFFT_SUCCESS && !device_.lost()) {
    std::fprintf(stderr, "sluice: cufftDestroy answered %d\n", static_cast<int>(result));
  }
}

void cufft_transform::bind(stream_ref stream) const {
  check_cufft(cufftSetStream(handle_, reinterpret_cast<cudaStream_t>(stream.native())));
}

void cufft_transform::warm_up(lane_libraries& libraries) const {
  if (operations::capture_scope::is_open()) return;
  constexpr std::size_t limit = std::size_t{64} << 20U;
  const auto bytes = [&](std::int64_t row, std::int64_t distance) {
    const auto elements = static_cast<std::size_t>((key_.batch - 1) * distance + row);
    const auto size = (key_.is_double != 0 ? 2 : 1) * sizeof(cufftComplex);
    return (elements * size + 255) / 256 * 256;
  };
  const auto x_bytes = bytes(key_.input_row(), key_.input_distance);
  const auto y_bytes = bytes(key_.output_row(), key_.output_distance);
  const auto bytes_needed = x_bytes + y_bytes + work_bytes_;
  if (bytes_needed > limit) return;
  // The lane's stream may hold launches of other plans, so the kernels are loaded apart.
  const auto apart = libraries.get<warm_up_stream>().stream.ref();
  operations::workspace scratch(libraries.runtime(), apart, "cufft warm-up");
  try {
    scratch.require(bytes_needed);
  } catch (const error& e) {
    if (e.code() == errc::out_of_memory || e.code() == errc::over_budget) return;
    throw;
  }
  auto* const x = static_cast<std::byte*>(scratch.address());
  const unsigned char zero = 0;
  libraries.runtime().device().fill(x, &zero, 1, x_bytes, apart.native());
  bind(apart);
  enqueue(x + x_bytes + y_bytes, x, x + x_bytes);
  apart.synchronize();
  bind(libraries.stream());
}

void cufft_transform::enqueue(void* workspace, void* x, void* y) const {
  if (workspace != workspace_ && work_bytes_ != 0) {
    check_cufft(cufftSetWorkArea(handle_, workspace));
    workspace_ = workspace;
  }
  const int direction = key_.kind == fft_kind::c2c_forward ? CUFFT_FORWARD : CUFFT_INVERSE;
  switch (type_of(key_)) {
    case CUFFT_R2C:
      return check_cufft(
          cufftExecR2C(handle_, static_cast<cufftReal*>(x), static_cast<cufftComplex*>(y)));
    case CUFFT_D2Z:
      return check_cufft(cufftExecD2Z(handle_, static_cast<cufftDoubleReal*>(x),
                                      static_cast<cufftDoubleComplex*>(y)));
    case CUFFT_C2R:
      return check_cufft(
          cufftExecC2R(handle_, static_cast<cufftComplex*>(x), static_cast<cufftReal*>(y)));
    case CUFFT_Z2D:
      return check_cufft(cufftExecZ2D(handle_, static_cast<cufftDoubleComplex*>(x),
                                      static_cast<cufftDoubleReal*>(y)));
    case CUFFT_C2C:
      return check_cufft(cufftExecC2C(handle_, static_cast<cufftComplex*>(x),
                                      static_cast<cufftComplex*>(y), direction));
    case CUFFT_Z2Z:
      return check_cufft(cufftExecZ2Z(handle_, static_cast<cufftDoubleComplex*>(x),
                                      static_cast<cufftDoubleComplex*>(y), direction));
  }
}

}  // namespace sluice::cuda
