// SPDX-License-Identifier: Apache-2.0
#include "models/derived_constants.hpp"

#include "operations/seam.hpp"

#include <algorithm>
#include <utility>

namespace sluice::models {

namespace {

// Of all keys. The factors of channels are a part of them.
constexpr std::size_t max_key_bytes = std::size_t{8} << 20U;

}  // namespace

host_tensor derived_constants::find(const std::string& key) const {
  const auto found = results_.find(key);
  return found == results_.end() ? host_tensor() : found->second.elements;
}

void derived_constants::drop_unused() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [key, known] : results_) {
    // Beside this one there is the owner that `data` returns.
    if (known.elements && known.elements.data().use_count() == 2) known.elements = host_tensor();
  }
}

std::uint64_t derived_constants::number_of(const host_tensor& tensor) {
  const auto found = identities_.find(tensor.data().get());
  // Memory that lives is the memory of the tensor, because that lives at this address, too.
  if (found != identities_.end() && !found->second.memory.expired()) return found->second.number;
  remember(tensor, ++last_number_);
  return last_number_;
}

void derived_constants::remember(const host_tensor& tensor, std::uint64_t number) {
  constexpr std::size_t most_unswept = 1024;
  if (identities_.size() >= 2 * swept_identities_ + most_unswept) {
    std::erase_if(identities_, [](const auto& entry) { return entry.second.memory.expired(); });
    swept_identities_ = identities_.size();
  }
  identities_.insert_or_assign(tensor.data().get(), identity{tensor.data(), number});
}

host_tensor derived_constants::find_or_make(std::span<const host_tensor* const> sources,
                                            const std::string& derivation,
                                            const std::function<host_tensor()>& make) {
  const auto is_looked_up = [](const host_tensor* source) {
    return source->bytes() >= min_bytes && sluice::detail::fixed_elements::are_fixed(*source);
  };
  if (!std::all_of(sources.begin(), sources.end(), is_looked_up)) return make();
  std::string key;
  {
    const std::lock_guard lock(mutex_);
    for (const auto* const source : sources) {
      key += std::to_string(number_of(*source)) + ' ' + std::string(to_string(source->type())) +
             to_string(source->shape()) + ' ';
    }
    key += derivation;
    if (auto known = find(key)) return known;
  }
  auto made = make();
  if (!made) return made;
  sluice::detail::fixed_elements::fix(made);
  const std::lock_guard lock(mutex_);
  if (auto known = find(key)) return known;  // another import has made it meanwhile
  auto position = results_.find(key);
  if (position == results_.end()) {
    if (key.size() > max_key_bytes - std::min(key_bytes_, max_key_bytes)) return made;
    key_bytes_ += key.size();
    position = results_.try_emplace(std::move(key), result{.number = ++last_number_}).first;
  }
  auto& entry = position->second;
  entry.elements = made;
  remember(made, entry.number);
  return made;
}

}  // namespace sluice::models
