// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/byte_budget.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/read_buffer.hpp"
#include "service/front/region_registry.hpp"
#include "service/front/request_body.hpp"
#include "service/front/tenant_registry.hpp"
#include "service/front/tensor_regions.hpp"
#include "service/protocol/inference_request.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// JSON of more bytes is parsed and written on a thread of its own, not between reads and writes.
inline constexpr std::size_t most_json_between_reads = std::size_t{64} << 10;

/// Reads the body of one infer request after the other: the JSON text, then each binary tensor into
/// its place in the memory of the backend, at last the tensors in shared memory. It needs no
/// socket.
class inference_reader {
 public:
  enum class need : std::uint8_t {
    bytes,    ///< `read` with further bytes
    work,     ///< `work`, which takes long
    nothing,  ///< the request is complete
  };

  /// `json` limits the text that all readers hold.
  inference_reader(model_backend& backend, byte_budget& json, const tenant_registry& tenants,
                   const region_registry& regions) noexcept
      : backend_(backend), tenants_(tenants), known_regions_(regions), text_charge_(json) {}

  /// Begins a request of the tenant with this body, of which the first `json_bytes` are JSON; all
  /// if it is empty.
  /// @throws request_error `invalid_argument` if the text is longer than the body
  void begin(const request_body& body, std::optional<std::uint64_t> json_bytes,
             std::uint64_t body_limit, std::string_view tenant);
  /// Reads as much as the input and the body allow. The input and the body agree also after an
  /// exception, if the body is plain.
  /// @throws request_error what parsing, `tensor_regions`, `tenant_registry::charge` and the
  /// backend's `allocate` throw;
  /// `resource_exhausted` if there is too much JSON text of all readers; http_error as
  /// `request_body`
  [[nodiscard]] need read(read_buffer& input, request_body& body);
  /// Where the next bytes of the body belong. Empty unless the body is plain; then bytes may be
  /// read there instead of being passed to `read`.
  [[nodiscard]] std::span<std::byte> direct_target(const request_body& body) const noexcept;
  /// The first `bytes` of `direct_target` have been read.
  void take_direct(std::size_t bytes, request_body& body) noexcept;
  /// Parses the text or reads shared memory after `need::work`. On any thread, with no other call
  /// at the same time.
  /// @throws as `read`
  void work();

  /// The request, without the elements.
  [[nodiscard]] const inference_request& request() const noexcept { return request_; }
  /// Its tensors in shared memory.
  [[nodiscard]] const tensor_regions& regions() const noexcept { return regions_; }
  /// What keeps the request counted among those of its tenant.
  [[nodiscard]] std::shared_ptr<const void> take_charge() noexcept { return std::move(charge_); }
  /// The memory with the elements of the inputs.
  [[nodiscard]] std::unique_ptr<input_memory> take_inputs() noexcept { return std::move(inputs_); }
  /// Releases what is left of a request that ended early.
  void reset() noexcept;

 private:
  enum class stage : std::uint8_t { json, parsing, tensors, end, regions, complete };

  [[nodiscard]] bool fill(read_buffer& input, request_body& body);
  [[nodiscard]] bool read_text(read_buffer& input, request_body& body);
  void grow_text();
  void prepare(std::string_view text);
  void next_tensor();
  void read_regions();

  model_backend& backend_;
  const tenant_registry& tenants_;
  const region_registry& known_regions_;
  byte_charge text_charge_;
  stage stage_ = stage::json;
  std::uint64_t json_bytes_ = 0;                 ///< of the text; or the most it may have
  bool is_json_known_ = false;                   ///< whether `json_bytes_` is its length
  std::optional<std::uint64_t> binary_bytes_{};  ///< of the body after the text, if known
  std::string json_{};
  std::span<std::byte> target_{};  ///< where the next decoded bytes belong
  std::byte after_end_{};          ///< where a byte after the end would be decoded to
  std::string tenant_{};
  inference_request request_{};
  tensor_regions regions_{};
  std::shared_ptr<const void> charge_{};
  std::unique_ptr<input_memory> inputs_{};
  std::size_t tensor_ = 0;  ///< the next input
};

}  // namespace sluice::service
