// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/fft_functions.hpp"
#include "operations/fft/host_rows.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <limits>
#include <memory>

namespace sluice::host {
namespace {

using operations::fft_call;
using operations::fft_row;
using operations::host_rows;

/// A plan for any number of rows. Only one thread may run it at a time.
class rows_plan final : public operation_plan {
 public:
  explicit rows_plan(const fft_row& row)
      : bytes_(operations::host_rows_bytes(row)), rows_(operations::make_host_rows(row)) {}
  std::size_t bytes() const noexcept override { return bytes_; }
  [[nodiscard]] host_rows& rows() const noexcept { return *rows_; }

 private:
  std::size_t bytes_;
  std::unique_ptr<host_rows> rows_;
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
  const auto& key = call.key;
  static_cast<const rows_plan*>(plan)->rows().run({x, key.input_distance, y, key.output_distance},
                                                  key.batch, call.scale);
}

}  // namespace sluice::host
