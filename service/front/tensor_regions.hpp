// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/front/region_registry.hpp"
#include "service/protocol/inference_request.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// The tensors of a request that are in shared memory. It keeps their regions open.
///
/// Copies belong on a thread that serves no other clients: the owner of the file can delay them.
class tensor_regions {
 public:
  /// Of a request without such tensors.
  tensor_regions() = default;
  /// Finds the regions that a request of the tenant names.
  /// @throws request_error `invalid_argument`, which names the tensor, if there is no such region,
  /// if the tensor is not in it, or if an output cannot be written; `permission_denied` as
  /// `region_registry::find`
  tensor_regions(const inference_request& request, const region_registry& regions,
                 std::string_view tenant);

  /// The bytes of the inputs in shared memory.
  [[nodiscard]] std::uint64_t input_bytes() const noexcept { return input_bytes_; }
  /// Reads the inputs to their places.
  /// @throws request_error as `client_region::read`
  void read_inputs(input_memory& inputs) const;

  /// The bytes of the results that belong in shared memory.
  [[nodiscard]] std::uint64_t output_bytes(const run_result& result) const noexcept;
  /// Writes results to their places; nothing unless all fit.
  /// @throws request_error `too_large`, which names the output and both sizes, if a result does not
  /// fit; as `client_region::write`
  void write_outputs(const run_result& result) const;

 private:
  struct input_place {
    std::size_t index = 0;  ///< of the input
    std::uint64_t offset = 0;
    std::shared_ptr<const client_region> region{};
  };
  struct output_place {
    std::string name{};  ///< of the output
    std::uint64_t offset = 0;
    std::uint64_t room = 0;  ///< in bytes
    std::shared_ptr<const client_region> region{};
  };

  /// The result of the output, if there is one.
  [[nodiscard]] static const result_tensor* result_of(const run_result& result,
                                                      const output_place& output) noexcept;

  std::vector<input_place> inputs_{};
  std::vector<output_place> outputs_{};
  std::uint64_t input_bytes_ = 0;
};

}  // namespace sluice::service
