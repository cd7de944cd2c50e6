// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/pointer_tables.hpp"

#include <utility>

namespace sluice::cuda {
namespace {

/// As many batches as a lane usually has in flight, and one more that is being filled.
constexpr std::size_t tables_at_first = 3;

}  // namespace

pointer_table::pointer_table(std::shared_ptr<device> device, std::size_t pointers)
    : device_(std::move(device)),
      pointers_(static_cast<void**>(device_->allocate_staging(pointers * sizeof(void*))),
                pointers) {}

pointer_table::~pointer_table() {
  device_->deallocate_staging(pointers_.data());
}

pointer_tables::pointer_tables(device_runtime& runtime, stream_ref stream)
    : device_(runtime.shared_device()),
      stream_(stream),
      uploaded_(runtime, stream, "addresses of batches") {
  uploaded_.require(most_pointers * sizeof(void*));
  for (std::size_t i = 0; i < tables_at_first; ++i) {
    tables_.push_back(std::make_shared<pointer_table>(device_, most_pointers));
  }
}

std::shared_ptr<pointer_table> pointer_tables::take() {
  for (const auto& table : tables_) {
    if (table.use_count() == 1) return table;
  }
  tables_.push_back(std::make_shared<pointer_table>(device_, most_pointers));
  return tables_.back();
}

void** pointer_tables::upload(const pointer_table& table, std::size_t count) {
  auto* const addresses = static_cast<void**>(uploaded_.address());
  device_->copy(addresses, table.pointers().data(), count * sizeof(void*),
                copy_direction::host_to_device, stream_.native());
  return addresses;
}

}  // namespace sluice::cuda
