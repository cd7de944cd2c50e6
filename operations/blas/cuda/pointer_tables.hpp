// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/workspace.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace sluice::cuda {

/// The addresses of the operands of one batch, in pinned memory. Its launches own it.
class pointer_table final : public operation_launch {
 public:
  /// @throws error as `device::allocate_staging`
  pointer_table(std::shared_ptr<device> device, std::size_t pointers);
  pointer_table(const pointer_table&) = delete;
  pointer_table& operator=(const pointer_table&) = delete;
  ~pointer_table() override;

  [[nodiscard]] std::span<void*> pointers() const noexcept { return pointers_; }
  /// The copy of the table.
  [[nodiscard]] std::size_t commands() const noexcept override { return 1; }

 private:
  std::shared_ptr<device> device_;
  std::span<void*> pointers_;
};

/// The tables of one lane. Each batch fills one in pinned memory and copies it to the same device
/// memory, which the order of the stream protects. Belongs to the owner of the lane; not
/// thread-safe.
class pointer_tables {
 public:
  /// The largest number of addresses in a table.
  static constexpr std::size_t most_pointers = 3 * 128;

  /// @throws error `out_of_memory`, `over_budget`, `device_lost`, `shutting_down`
  pointer_tables(device_runtime& runtime, stream_ref stream);

  /// A table that no launch in flight owns.
  /// @throws error as `device::allocate_staging`
  [[nodiscard]] std::shared_ptr<pointer_table> take();
  /// Enqueues the copy of the first `count` pointers. Returns their address in device memory.
  /// @throws error as `device::copy`
  [[nodiscard]] void** upload(const pointer_table& table, std::size_t count);

 private:
  std::shared_ptr<device> device_;
  stream_ref stream_;
  operations::workspace uploaded_;
  std::vector<std::shared_ptr<pointer_table>> tables_;
};

}  // namespace sluice::cuda
