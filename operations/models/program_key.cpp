// SPDX-License-Identifier: Apache-2.0
#include "operations/models/program_key.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

namespace sluice::detail {
namespace {

[[nodiscard]] std::string_view bytes_of(const host_tensor& x) noexcept {
  return {static_cast<const char*>(x.data().get()), x.bytes()};
}

[[nodiscard]] bool equal(const program_key::input& a, const program_key::input& b) noexcept {
  return a.type == b.type && a.shape == b.shape && a.padded == b.padded &&
         bool(a.value) == bool(b.value) && (!a.value || bytes_of(a.value) == bytes_of(b.value));
}

}  // namespace

program_key::program_key(const std::vector<run_input>& inputs, const std::vector<extents>& padded) {
  inputs_.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto shape = inputs[i].shape();
    inputs_.push_back(
        {.type = inputs[i].type(), .shape = shape, .padded = padded.empty() ? shape : padded[i]});
  }
  update();
}

program_key program_key::rounded() const {
  auto result = *this;
  for (auto& each : result.inputs_) each.shape = each.padded;
  result.update();
  return result;
}

program_key program_key::unrounded() const {
  auto result = *this;
  for (auto& each : result.inputs_) each.padded = each.shape;
  result.update();
  return result;
}

std::size_t program_key::bound_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& each : inputs_) sum += each.value.bytes();
  return sum;
}

void program_key::bind(std::size_t number, const host_tensor& value) {
  inputs_[number].value = value;
  const bool is_padded = inputs_[number].padded != inputs_[number].shape;
  if (is_padded || bound_bytes() > most_bound_of_padded) *this = unrounded();
  update();
}

program_key program_key::copy() const {
  auto result = *this;
  for (auto& each : result.inputs_) {
    if (!each.value) continue;
    host_tensor own(each.type, each.shape);
    if (own.bytes() != 0) std::memcpy(own.data().get(), each.value.data().get(), own.bytes());
    each.value = std::move(own);
  }
  return result;
}

bool program_key::operator==(const program_key& other) const noexcept {
  if (hash_ != other.hash_ || inputs_.size() != other.inputs_.size()) return false;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!equal(inputs_[i], other.inputs_[i])) return false;
  }
  return true;
}

void program_key::update() noexcept {
  is_rounded_ = false;
  std::uint64_t hash = 0;
  const auto add = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  };
  for (const auto& each : inputs_) {
    add(static_cast<std::uint64_t>(each.type));
    add(each.shape.size());
    for (const auto extent : each.shape) add(static_cast<std::uint64_t>(extent));
    for (const auto extent : each.padded) add(static_cast<std::uint64_t>(extent));
    is_rounded_ = is_rounded_ || each.padded != each.shape;
    add(each.value ? std::hash<std::string_view>()(bytes_of(each.value)) : 0);
  }
  hash_ = hash;
}

}  // namespace sluice::detail
