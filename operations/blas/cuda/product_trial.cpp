// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/product_trial.hpp"

#include "operations/aligned.hpp"
#include "operations/blas/cuda/cublas_handle.hpp"
#include "operations/core/algorithm_choices.hpp"
#include "operations/core/algorithm_trial_cuda.hpp"
#include "operations/workspace.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice::cuda {
namespace {

using operations::algorithm_choices;
using operations::fused_key;

/// The most algorithms that a trial compares.
constexpr std::size_t max_tried_algorithms = 8;

/// Operands up to this size, together, are multiplied when a plan is made.
constexpr std::size_t max_tried_bytes = std::size_t{512} << 20U;

double terms_of(const fused_key& key) noexcept {
  return static_cast<double>(key.m) * static_cast<double>(key.n) * static_cast<double>(key.k) *
         static_cast<double>(key.count);
}

/// What a choice depends on, beside the library and the GPU.
struct product_subject {
  fused_key key;
  std::int32_t second_type;
  std::int32_t scales;  // bits: of the first factors, of the second ones
};
static_assert(std::has_unique_object_representations_v<product_subject>);

/// Memory in place of the operands of products, in front of a workspace.
class trial_operands {
 public:
  trial_operands(const fused_key& key, const float8_factors& factors) {
    const auto type_of_second = factors.second_type != 0 ? factors.second_type : key.type;
    first_ = add(key.type, key.first_is_transposed != 0 ? key.k : key.m,
                 key.first_is_transposed != 0 ? key.m : key.k, key.first_leading,
                 key.first_distance, key.count);
    second_ = add(type_of_second, key.second_is_transposed != 0 ? key.n : key.k,
                  key.second_is_transposed != 0 ? key.k : key.n, key.second_leading,
                  key.second_distance, key.count);
    bytes_of_factors_ = bytes_;
    bias_ = add(key.c_type, key.m, 1, key.m, 0, 1);
    residual_ = add(key.c_type, key.m, key.n, key.residual_leading, key.residual_distance,
                    key.adds_residual != 0 ? key.count : 0);
    scale_ = add(static_cast<std::int32_t>(element_type::f32), 1, 1, 1, 0, 1);
    c_ = add(key.c_type, key.m, key.n, key.c_leading, key.c_distance, key.count);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t bytes_of_factors() const noexcept { return bytes_of_factors_; }
  [[nodiscard]] std::size_t bytes_in_front_of_c() const noexcept { return c_; }
  [[nodiscard]] fused_operands addresses(std::byte* memory) const noexcept {
    const auto* const scale = reinterpret_cast<const float*>(memory + scale_);
    return {.first = memory + first_,
            .second = memory + second_,
            .first_scale = scale,
            .second_scale = scale,
            .bias = memory + bias_,
            .residual = memory + residual_,
            .c = memory + c_};
  }

 private:
  std::size_t add(std::int32_t type, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                  std::int64_t distance, std::int64_t count) noexcept {
    const auto position = bytes_;
    if (count == 0) return position;
    const auto elements = (count - 1) * distance + (columns - 1) * leading + rows;
    const auto bytes =
        static_cast<std::size_t>(elements) * size_of(static_cast<element_type>(type));
    bytes_ += operations::aligned(bytes);
    return position;
  }

  std::size_t bytes_ = 0;
  std::size_t bytes_of_factors_ = 0;
  std::size_t first_, second_, bias_, residual_, scale_, c_;  // positions
};

/// The fastest algorithm; nothing if there is no memory, or the device has other work.
std::optional<std::size_t> measure(lane_libraries& libraries, const fused_key& key,
                                   const float8_factors& factors,
                                   const std::vector<fused_product>& products) {
  const trial_operands operands(key, factors);
  if (products.size() < 2 || operands.bytes() > max_tried_bytes) return std::nullopt;
  std::size_t workspace_bytes = 0;
  for (const auto& product : products) {
    workspace_bytes = std::max(workspace_bytes, product.workspace_bytes());
  }
  const auto stream = libraries.stream();
  operations::workspace scratch(libraries.runtime(), stream, "cublas trial");
  try {
    scratch.require(operands.bytes() + workspace_bytes);
  } catch (const error& e) {
    if (!is_retryable(e.code())) throw;
    return std::nullopt;
  }
  auto* const memory = static_cast<std::byte*>(scratch.address());
  const auto factors_end = operands.bytes_of_factors();
  fill_with_noise(memory, factors_end, static_cast<element_type>(key.type), stream);
  fill_with_noise(memory + factors_end, operands.bytes_in_front_of_c() - factors_end,
                  static_cast<element_type>(key.c_type), stream);
  auto* const handle = libraries.get<cublas_handle>().get_lt();
  return fastest_algorithm(libraries, products.size(), [&](std::size_t i) {
    try {
      return products[i].enqueue(handle, 1, 0, operands.addresses(memory),
                                 memory + operands.bytes(),
                                 reinterpret_cast<cudaStream_t>(stream.native()));
    } catch (const error&) {
      libraries.runtime().device().require_usable();
      return false;  // the first one is taken, then
    }
  });
}

}  // namespace

std::optional<fused_product> find_product(lane_libraries& libraries, const fused_key& key,
                                          const float8_factors& factors) {
  auto& device = libraries.runtime().device();
  const bool may_choose = libraries.algorithms().policy == algorithm_policy::fastest &&
                          terms_of(key) >= operations::min_terms_of_choice;
  const auto products =
      fused_product::propose(libraries.get<cublas_handle>().get_lt(), key,
                             recommended_workspace(device.info().compute_capability), factors,
                             may_choose ? max_tried_algorithms : 1);
  if (products.empty()) return std::nullopt;
  if (!may_choose) return products.front();
  const product_subject subject{key, factors.second_type,
                                (factors.scales_first ? 1 : 0) + (factors.scales_second ? 2 : 0)};
  const auto text = subject_of_choice("cuBLASLt " + std::to_string(cublasLtGetVersion()), device,
                                      &subject, sizeof subject);
  auto& choices = algorithm_choices::of_process();
  auto choice = choices.find(text);
  if (!choice) {
    std::optional<std::size_t> best;
    if (libraries.algorithms().has_nothing_in_flight)
      best = measure(libraries, key, factors, products);
    choice = choices.keep(text, static_cast<std::uint32_t>(best.value_or(0)), best.has_value());
  }
  return products[*choice < products.size() ? *choice : 0];
}

}  // namespace sluice::cuda
