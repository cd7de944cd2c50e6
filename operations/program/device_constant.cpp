// SPDX-License-Identifier: Apache-2.0
#include "operations/program/device_constant.hpp"

#include <utility>

namespace sluice::operations {

std::shared_ptr<const constant_copy> device_constant::find_copy(constant_copy_key key) const {
  key.block = 0;
  const std::lock_guard lock(mutex_);
  const auto place = copies_.find(key);
  return place == copies_.end() ? nullptr : place->second.lock();
}

std::shared_ptr<const constant_copy> device_constant::add_copy(
    constant_copy_key key, std::shared_ptr<const constant_copy> copy) const {
  key.block = 0;
  const std::lock_guard lock(mutex_);
  std::erase_if(copies_, [](const auto& other) { return other.second.expired(); });
  auto& known = copies_[std::move(key)];
  if (auto existing = known.lock()) return existing;
  known = copy;
  return copy;
}

}  // namespace sluice::operations
