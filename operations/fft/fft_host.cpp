// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/fft_functions.hpp"
#include "operations/fft/host_rows.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>

namespace sluice::host {
namespace {

using operations::fft_call;
using operations::fft_key;
using operations::fft_row;
using operations::host_rows;

/// The scratch memory of a thread that helps. It stays until the device ends its threads.
void* scratch_of_helper(std::size_t bytes) {
  thread_local std::unique_ptr<std::byte[]> memory;
  thread_local std::size_t size = 0;
  if (size < bytes) {
    size = 0;
    memory.reset();
    memory.reset(new std::byte[bytes]);
    size = bytes;
  }
  return memory.get();
}

/// A plan for any number of rows. Only one stream may run it at a time.
class rows_plan final : public operation_plan {
 public:
  explicit rows_plan(const fft_row& row)
      : bytes_(operations::host_rows_bytes(row)),
        row_nanoseconds_(nanoseconds_of(row)),
        rows_(operations::make_host_rows(row)),
        scratch_(new std::byte[rows_->scratch_bytes()]) {}
  std::size_t bytes() const noexcept override { return bytes_; }

  /// Transforms rows, on the threads of the device if they are many.
  /// @throws std::bad_alloc if there is no scratch memory for a helper
  void run(const fft_key& key, const void* x, void* y, double scale) const {
    // Helpers keep their scratch memory, so it must be small.
    constexpr std::size_t most_scratch = 2U << 20U;
    constexpr std::int64_t rows_at_once = 16;  // a multiple of the rows in a vector
    const auto scratch_bytes = rows_->scratch_bytes();
    const work_chunks chunks(key.batch, scratch_bytes <= most_scratch ? row_nanoseconds_ : 0,
                             rows_at_once);
    const auto caller = std::this_thread::get_id();
    const auto* const input = static_cast<const std::byte*>(x);
    auto* const output = static_cast<std::byte*>(y);
    const auto input_bytes = key.input_row_bytes() / key.input_row() * key.input_distance;
    const auto output_bytes = key.output_row_bytes() / key.output_row() * key.output_distance;
    parallel_for(chunks.count(), [&](std::int64_t chunk) {
      const auto [begin, end] = chunks[chunk];
      void* const scratch =
          std::this_thread::get_id() == caller ? scratch_.get() : scratch_of_helper(scratch_bytes);
      rows_->run({input + begin * input_bytes, key.input_distance, output + begin * output_bytes,
                  key.output_distance},
                 end - begin, scale, scratch);
    });
  }

 private:
  /// About 0.2 ns for each element and factor 2 of the length.
  static double nanoseconds_of(const fft_row& row) noexcept {
    const auto steps = std::bit_width(static_cast<std::uint64_t>(row.length));
    return 0.2 * static_cast<double>(row.length) * static_cast<double>(steps);
  }

  std::size_t bytes_;
  double row_nanoseconds_;
  std::unique_ptr<host_rows> rows_;
  std::unique_ptr<std::byte[]> scratch_;  // of the stream's thread
};

/// The size of the plan of a row, in bytes.
std::size_t plan_bytes(const fft_row& row) {
  // The factors of a larger length are not looked for: that could take minutes.
  constexpr auto largest = std::size_t{1} << 40U;
  const auto length = static_cast<std::size_t>(row.length);
  if (length > largest) {
    return std::min(length, std::numeric_limits<std::size_t>::max() / 32) *
           sizeof(std::complex<double>);
  }
  return operations::host_rows_bytes(row);
}

}  // namespace

plan_price price_of_fft_plan(const fft_call& call) {
  // Nearly all of it is for roots of unity, about 50 ns for each 16 bytes of the plan.
  constexpr double nanoseconds_of_byte = 3;
  const auto bytes = plan_bytes(call.host_key());
  return {bytes, nanoseconds_of_byte * static_cast<double>(bytes)};
}

std::shared_ptr<const operation_plan> make_fft_plan(lane_libraries&, const fft_call& call) {
  return std::make_shared<rows_plan>(call.host_key());
}

void compute_fft(const fft_call& call, const operation_plan* plan, const void* x, void* y) {
  static_cast<const rows_plan*>(plan)->run(call.key, x, y, call.scale);
}

}  // namespace sluice::host
