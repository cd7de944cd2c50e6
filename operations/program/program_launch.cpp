// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_launch.hpp"

#include "operations/parts_of_launch.hpp"

#include <cstddef>
#include <span>

namespace sluice::operations {

void program_launch::enqueue_before_batch(std::span<void* const> externals) {
  parts_of_launch parts;
  for (const auto& t : uploads) {
    parts.enqueue([&] { t.copy->enqueue(externals[t.external]); });
  }
}

void program_launch::enqueue_after_batch(std::span<void* const> externals) {
  parts_of_launch parts;
  for (const auto& t : downloads) {
    auto* const address = static_cast<std::byte*>(externals[t.external]) + t.offset;
    parts.enqueue([&] { t.copy->enqueue(address); });
  }
}

std::size_t program_launch::commands() const noexcept {
  std::size_t sum = 0;
  for (const auto& t : uploads) sum += t.copy->commands();
  for (const auto& t : downloads) sum += t.copy->commands();
  return sum;
}

void program_launch::finish() noexcept {
  for (const auto& t : downloads) t.copy->finish();
  downloads.clear();  // the client that has its answer shares its memory with nobody
}

}  // namespace sluice::operations
