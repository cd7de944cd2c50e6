// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/reduce_functions.hpp"

namespace sluice::host {

using namespace operations;

void compute_reduce(const reduce_call& call, const void* x, void* y) {
  (void)visit(call, [&](const auto& reducer) {
    using reducer_type = std::decay_t<decltype(reducer)>;
    using value = typename reducer_type::value;
    for_each_position(call.kept, [&](const map_position<2>& at) {
      auto all = reducer_type::identity();
      if (call.reduced.count != 0) {
        for_each_position(call.reduced, [&](const map_position<1>& of) {
          all = reducer_type::combine(all, load<value>(call.kept.types[1], x, at.of[1] + of.of[0]));
        });
      }
      store<overflow::wraps>(call.kept.types[0], y, at.of[0], reducer.finish(all));
    });
    return 0;
  });
}

}  // namespace sluice::host
