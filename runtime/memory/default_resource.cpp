// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_resource.hpp>

namespace sluice {

// The default of the interface, for resources without a budget below them.
memory_reservation memory_resource::reserve(std::size_t) {
  return {};
}

std::unique_ptr<memory_resource> make_default_resource() {
  return make_budget_resource(make_pool_resource(make_async_resource()));
}

}  // namespace sluice
