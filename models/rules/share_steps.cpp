// SPDX-License-Identifier: Apache-2.0
#include "models/rules/rules.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::models {
namespace {

using number = step_graph::number;
using value_kind = step_graph::value_kind;

std::size_t combined(std::size_t hash, std::size_t next) noexcept {
  return hash ^ (next + 0x9e3779b97f4a7c15U + (hash << 6U) + (hash >> 2U));
}

/// Constants of more bytes are the same only if they share their memory.
constexpr std::size_t most_compared = 1024;

/// What differs, but has one hash, is compared with so many others: what a file costs is bounded.
constexpr std::size_t most_candidates = 16;

std::string_view bytes_of(const host_tensor& x) {
  return {static_cast<const char*>(x.data().get()), x.bytes()};
}

class sharing {
 public:
  explicit sharing(optimizer& state) : state_(state), graph_(state.graph()) {}

  void run() {
    // Views and constants that are added later need not be the same as others.
    const auto count = static_cast<number>(graph_.value_count());
    for (number value = 0; value < count; ++value) {
      switch (graph_.kind(value)) {
        case value_kind::constant:
          share(value, hash_of_constant(value), [&](number other) { return same(value, other); });
          break;
        case value_kind::view:
          share(value, hash_of_view(value), [&](number other) { return same(value, other); });
          break;
        case value_kind::result:
          share_step(value);
          break;
        case value_kind::input:
          break;
      }
    }
  }

 private:
  template <class Same>
  void share(number value, std::size_t hash, const Same& is_same) {
    if (graph_.uses(value) == 0) return;
    auto& candidates = values_[hash];
    for (const auto other : candidates) {
      if (graph_.uses(other) == 0 || !is_same(other)) continue;
      graph_.forward(value, other);
      return;
    }
    if (candidates.size() < most_candidates) candidates.push_back(value);
  }

  [[nodiscard]] std::size_t hash_of_constant(number value) const {
    const auto& x = graph_.constant_of(value).elements;
    const auto hash = static_cast<std::size_t>(x.type());
    if (x.bytes() > most_compared) return combined(hash, std::hash<const void*>()(x.data().get()));
    return combined(hash, std::hash<std::string_view>()(bytes_of(x)));
  }
  [[nodiscard]] std::size_t hash_of_view(number value) const {
    const auto& [viewed, what] = graph_.view_of(value);
    auto hash = combined(static_cast<std::size_t>(what.what), graph_.resolve(viewed));
    for (const auto n : what.numbers) hash = combined(hash, static_cast<std::size_t>(n));
    return hash;
  }
  [[nodiscard]] bool same(number a, number b) const {
    if (graph_.kind(a) != graph_.kind(b) || graph_.spec(a) != graph_.spec(b)) return false;
    if (graph_.kind(a) == value_kind::view) {
      const auto& view_a = graph_.view_of(a);
      const auto& view_b = graph_.view_of(b);
      return graph_.resolve(view_a.viewed) == graph_.resolve(view_b.viewed) &&
             view_a.what == view_b.what;
    }
    const auto& x = graph_.constant_of(a).elements;
    const auto& y = graph_.constant_of(b).elements;
    if (x.data() == y.data()) return true;
    return x.bytes() <= most_compared && bytes_of(x) == bytes_of(y);
  }

  /// Once for each step, with its first result.
  void share_step(number value) {
    const auto number_of_step = graph_.step_of(value);
    const auto& s = graph_.steps()[number_of_step];
    if (!s.operation || s.first_result != value) return;
    auto hash = std::hash<std::string_view>()(s.operation->name());
    for (const auto operand : s.operation->operands()) {
      hash = combined(hash, graph_.resolve(operand));
    }
    auto& candidates = steps_[hash];
    for (const auto candidate : candidates) {
      const auto& other = graph_.steps()[candidate];
      if (!other.operation || !same(s, other)) continue;
      const auto results = s.is_made.size();
      for (std::size_t i = 0; i < results; ++i) {
        const auto offset = static_cast<number>(i);
        graph_.forward(value + offset, other.first_result + offset);
      }
      state_.log("shared", number_of_step);
      return;
    }
    if (candidates.size() < most_candidates) candidates.push_back(number_of_step);
  }
  [[nodiscard]] bool same(const step_graph::step& a, const step_graph::step& b) const {
    const auto operands_a = a.operation->operands();
    const auto operands_b = b.operation->operands();
    return operands_a.size() == operands_b.size() &&
           std::equal(operands_a.begin(), operands_a.end(), operands_b.begin(),
                      [&](number x, number y) { return graph_.resolve(x) == graph_.resolve(y); }) &&
           a.operation->has_parameters_of(*b.operation);
  }

  optimizer& state_;
  step_graph& graph_;
  std::unordered_map<std::size_t, std::vector<number>> values_;      // by hash
  std::unordered_map<std::size_t, std::vector<std::size_t>> steps_;  // likewise
};

}  // namespace

void share_steps(optimizer& state) {
  sharing(state).run();
}

}  // namespace sluice::models
