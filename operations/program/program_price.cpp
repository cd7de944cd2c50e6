// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_price.hpp"

#include "operations/program/epilogues.hpp"
#include "operations/program/program_graph.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace sluice::operations {
namespace {

/// The prices of plans. Actions with equal keys share a plan.
class plan_prices {
 public:
  explicit plan_prices(device_kind kind) noexcept : kind_(kind) {}

  void add(const program_inference::step& step) {
    if (!step.descriptor->makes_plans(kind_)) return;
    const auto key = step.descriptor->key(kind_, step.call);
    prices_.try_emplace(
        {step.descriptor, std::string(reinterpret_cast<const char*>(key.data()), key.size())},
        step.descriptor->price_of_plan(kind_, step.call));
  }
  [[nodiscard]] plan_price sum() const noexcept {
    plan_price result{.work = 0};
    for (const auto& [key, price] : prices_) {
      if (__builtin_add_overflow(result.host_bytes, price.host_bytes, &result.host_bytes)) {
        result.host_bytes = std::numeric_limits<std::size_t>::max();
      }
      result.work += price.work;
    }
    return result;
  }

 private:
  device_kind kind_;
  std::map<std::pair<const operation_descriptor*, std::string>, plan_price> prices_;
};

}  // namespace

plan_price price_of_plans(const detail::program_graph& graph, const program_inference& inferred,
                          device_kind kind) {
  constexpr double work_of_step = 1024;
  const auto groups = graph.fuses()
                          ? fuse_epilogues(graph, inferred, fold(graph, inferred, kind), kind)
                          : fusion(graph);
  plan_prices prices(kind);
  for (std::uint32_t i = 0; i < inferred.steps.size(); ++i) {
    if (groups.group_of_step[i] == fusion::none) prices.add(inferred.steps[i]);
  }
  for (const auto& group : groups.groups) prices.add(group.operation);
  auto price = prices.sum();
  price.work += work_of_step * static_cast<double>(inferred.steps.size());
  return price;
}

}  // namespace sluice::operations
