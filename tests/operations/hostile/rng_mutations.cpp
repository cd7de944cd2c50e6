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
Operation numbers(bench& on, element_type type) {
  Operation made;
  made.shape = on.shape(static_cast<std::size_t>(on.extent(1, 4)));
  made.seed = on.extent(0, 1000);
  made.offset = on.extent(0, 1000);
  made.y = on.make(type, *made.shape);
  return made;
}
template <class Operation>
Operation valid_reals(bench& on) {
  auto made = numbers<Operation>(on, on.one_of({f32, f64}));
  if (on.coin()) made.type = made.y.value().type();
  return made;
}

/// What is wrong with numbers of any distribution.
template <class Operation>
mutations_of<Operation> common(Operation (*valid)(bench&), element_type wrong) {
  mutations_of<Operation> to(valid);
  to.output("y", &Operation::y, wrong);
  add_shapes(to);
  add_no_word(to, "seed", &Operation::seed);
  add_no_word(to, "offset", &Operation::offset);
  // Every request draws at least two numbers.
  to.value(&Operation::offset, "the last offset", "offset",
           scalar(std::numeric_limits<std::uint64_t>::max()));
  to.add("one number too many", bad, "offset", [](Operation& r, bench&) {
    r.offset = std::numeric_limits<std::uint64_t>::max() - r.y.value().size() + 2;
  });
  return to;
}

/// Adds what is wrong with the types of real numbers.
template <class Operation>
void add_real_types(mutations_of<Operation>& to) {
  add_no_types(to);
  for (const auto type : {boolean, u8, i32, u32, f16, bf16, c64, c128}) {
    to.value(&Operation::type, "type " + std::string(to_string(type)), "type", type);
  }
  to.add("y of bf16 without a type", bad, "y", [](Operation& r, bench& on) {
    r.type.reset();
    r.y = on.make(bf16, *r.shape);
  });
  to.add("f64 into y of f32", bad, "y", [](Operation& r, bench& on) {
    r.type = f64;
    r.y = on.make(f32, *r.shape);
  });
}

operation_mutations bits() {
  return std::move(
             common<random_bits>([](bench& on) { return numbers<random_bits>(on, u32); }, i32))
      .take();
}

operation_mutations uniform() {
  auto to = common<random_uniform>(valid_reals<random_uniform>, u32);
  add_real_types(to);
  return std::move(to).take();
}

operation_mutations normal() {
  auto to = common<random_normal>(valid_reals<random_normal>, u32);
  add_real_types(to);
  for (const auto& [name, member] :
       {std::pair{"mean", &random_normal::mean}, std::pair{"stddev", &random_normal::stddev}}) {
    add_not_finite(to, name, member);
    add_not_real(to, name, member);
    to.add(name + std::string(" is beyond f32"), bad, name,
           [member = member](random_normal& r, bench& on) {
             r.type = f32;
             r.y = on.make(f32, *r.shape);
             r.*member = 1e300;
           });
  }
  to.value(&random_normal::stddev, "stddev is -1", "stddev", scalar(-1));
  to.value(&random_normal::stddev, "stddev is nearly 0", "stddev", scalar(-1e-30));
  return std::move(to).take();
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
