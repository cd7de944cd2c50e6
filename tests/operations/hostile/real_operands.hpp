// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/hostile/mutation.hpp"

#include <string>

namespace sluice::test {

inline element_type any_real(bench& test_bench) {
  return test_bench.one_of(
      {element_type::f16, element_type::bf16, element_type::f32, element_type::f64});
}

/// What is wrong with X and Y of any normalization.
template <class Operation>
void add_operands(mutations_of<Operation>& mutations) {
  mutations.required("x", &Operation::x);
  mutations.output("y", &Operation::y, element_type::c64);
  mutations.aliasing("y", &Operation::y, "x", &Operation::x);
  for (const auto type :
       {element_type::boolean, element_type::u8, element_type::i16, element_type::i64,
        element_type::c64, element_type::c128, element_type::e4m3}) {
    mutations.add("x of " + std::string(to_string(type)), bad, "x",
                  [type](Operation& o, bench& test_bench) {
                    o.x = test_bench.make(type, o.x.value().shape());
                    o.y = {};
                  });
  }
  mutations.add("x is a number", bad, "x", [](Operation& o, bench& test_bench) {
    o.x = test_bench.make(element_type::f32, {1}).select(0, 0);
    o.y = {};
  });
}
}  // namespace sluice::test
