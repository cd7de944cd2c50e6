// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/runtime/host_transfer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sluice::operations {

/// What one run of a program needs of its own: the transfers of inputs and outputs that lie in
/// host memory, and the calls of the varying steps.
class program_launch final : public operation_launch {
 public:
  struct transfer {
    std::uint32_t external = 0;
    std::size_t offset = 0;  ///< of the first byte
    std::shared_ptr<host_transfer> copy{};
  };

  std::size_t commands() const noexcept override;
  bool precedes_batch() const noexcept override { return !uploads.empty(); }
  void enqueue_before_batch(std::span<void* const> externals) override;
  bool follows_batch() const noexcept override { return !downloads.empty(); }
  void enqueue_after_batch(std::span<void* const> externals) override;
  bool must_finish() const noexcept override { return !downloads.empty(); }
  void finish() noexcept override;

  std::vector<transfer> uploads{};
  std::vector<transfer> downloads{};
  std::vector<step_call> calls{};
  std::vector<std::uint32_t> row_bytes{};  ///< of a padded run; see `batch_layout`
};

}  // namespace sluice::operations
