// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"
#include "tests/operations/hostile/shapes.hpp"

#include <sluice/operations/rng.hpp>

#include <cstdint>
#include <limits>

namespace sluice::test {
namespace {

using enum element_type;

template <class Operation>
Operation numbers(bench& test_bench, element_type type) {
  Operation operation;
  operation.shape = test_bench.shape(static_cast<std::size_t>(test_bench.extent(1, 4)));
  operation.seed = test_bench.extent(0, 1000);
  operation.offset = test_bench.extent(0, 1000);
  operation.y = test_bench.make(type, *operation.shape);
  return operation;
}
template <class Operation>
Operation valid_reals(bench& test_bench) {
  auto operation = numbers<Operation>(test_bench, test_bench.one_of({f32, f64}));
  if (test_bench.coin()) operation.type = operation.y.value().type();
  return operation;
}

/// What is wrong with numbers of any distribution.
template <class Operation>
mutations_of<Operation> common(Operation (*valid)(bench&), element_type wrong) {
  mutations_of<Operation> mutations(valid);
  mutations.output("y", &Operation::y, wrong);
  add_shapes(mutations);
  add_no_word(mutations, "seed", &Operation::seed);
  add_no_word(mutations, "offset", &Operation::offset);
  // Every request draws at least two numbers.
  mutations.value(&Operation::offset, "the last offset", "offset",
                  scalar(std::numeric_limits<std::uint64_t>::max()));
  mutations.add("one number too many", bad, "offset", [](Operation& r, bench&) {
    r.offset = std::numeric_limits<std::uint64_t>::max() - r.y.value().size() + 2;
  });
  return mutations;
}

/// Adds what is wrong with the types of real numbers.
template <class Operation>
void add_real_types(mutations_of<Operation>& mutations) {
  add_no_types(mutations);
  for (const auto type : {boolean, u8, i32, u32, f16, bf16, c64, c128}) {
    mutations.value(&Operation::type, "type " + std::string(to_string(type)), "type", type);
  }
  mutations.add("y of bf16 without a type", bad, "y", [](Operation& r, bench& test_bench) {
    r.type.reset();
    r.y = test_bench.make(bf16, *r.shape);
  });
  mutations.add("f64 into y of f32", bad, "y", [](Operation& r, bench& test_bench) {
    r.type = f64;
    r.y = test_bench.make(f32, *r.shape);
  });
}

operation_mutations bits() {
  return std::move(
             common<random_bits>(
                 [](bench& test_bench) { return numbers<random_bits>(test_bench, u32); }, i32))
      .take();
}

operation_mutations uniform() {
  auto mutations = common<random_uniform>(valid_reals<random_uniform>, u32);
  add_real_types(mutations);
  return std::move(mutations).take();
}

operation_mutations normal() {
  auto mutations = common<random_normal>(valid_reals<random_normal>, u32);
  add_real_types(mutations);
  for (const auto& [name, member] :
       {std::pair{"mean", &random_normal::mean}, std::pair{"stddev", &random_normal::stddev}}) {
    add_not_finite(mutations, name, member);
    add_not_real(mutations, name, member);
    mutations.add(name + std::string(" is beyond f32"), bad, name,
                  [member = member](random_normal& r, bench& test_bench) {
                    r.type = f32;
                    r.y = test_bench.make(f32, *r.shape);
                    r.*member = 1e300;
                  });
  }
  mutations.value(&random_normal::stddev, "stddev is -1", "stddev", scalar(-1));
  mutations.value(&random_normal::stddev, "stddev is nearly 0", "stddev", scalar(-1e-30));
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> rng_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(bits());
  all.push_back(uniform());
  all.push_back(normal());
  return all;
}

}  // namespace sluice::test
