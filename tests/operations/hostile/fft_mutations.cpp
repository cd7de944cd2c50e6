// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"

#include <sluice/operations/fft.hpp>

namespace sluice::test {
namespace {

using enum element_type;

/// The types of the operands of a transform.
struct transform_types {
  element_type x;
  element_type y;
};

/// A transform of rows of `x` numbers to rows of `y` numbers.
template <class Operation>
Operation transform(bench& test_bench, transform_types types, std::int64_t x, std::int64_t y) {
  auto rows = test_bench.shape(static_cast<std::size_t>(test_bench.extent(1, 2)));
  auto results = rows;
  rows.push_back(x);
  results.push_back(y);
  Operation operation;
  operation.x = test_bench.make(types.x, rows);
  operation.y = test_bench.make(types.y, results);
  return operation;
}
fft valid_fft(bench& test_bench) {
  const auto type = test_bench.one_of({c64, c128});
  const auto n = test_bench.extent(2, 9);
  auto operation = transform<fft>(test_bench, {type, type}, n, n);
  operation.direction = test_bench.one_of({fft_direction::forward, fft_direction::inverse});
  return operation;
}
rfft valid_rfft(bench& test_bench) {
  const auto n = test_bench.extent(2, 9);
  return transform<rfft>(test_bench,
                         test_bench.coin() ? transform_types{f32, c64} : transform_types{f64, c128},
                         n, n / 2 + 1);
}
irfft valid_irfft(bench& test_bench) {
  const auto n = test_bench.extent(2, 9);
  auto operation = transform<irfft>(
      test_bench, test_bench.coin() ? transform_types{c64, f32} : transform_types{c128, f64},
      n / 2 + 1, n);
  operation.length = n % 2 == 0 && test_bench.coin() ? 0 : n;
  return operation;
}

/// What is wrong with any transform. Its X is of type `single` or twice as precise.
template <class Operation>
mutations_of<Operation> common(Operation (*valid)(bench&), transform_types single,
                               std::initializer_list<element_type> wrong) {
  mutations_of<Operation> mutations(valid);
  mutations.required("x", &Operation::x);
  mutations.output("y", &Operation::y, u64);
  for (const auto type : wrong) {
    mutations.add("x of " + std::string(to_string(type)), bad, "x",
                  [type](Operation& f, bench& test_bench) {
                    f.x = test_bench.make(type, f.x.value().shape());
                  });
  }
  mutations.add("x is a number", bad, "x", [single](Operation& f, bench& test_bench) {
    f.x = test_bench.make(single.x, {1}).select(0, 0);
  });
  mutations.add("rows without elements", bad, "x", [single](Operation& f, bench& test_bench) {
    f.x = test_bench.empty(single.x, {test_bench.extent(), 0});
  });
  // Rows that coincide are packed.
  mutations.add(
      "2^40 rows that are one", errc::out_of_memory, "x", [](Operation& f, bench& test_bench) {
        const auto& x = f.x.value();
        f.x = test_bench.repeated(x.type(), {std::int64_t{1} << 40U, x.shape()[x.rank() - 1]});
        f.y = {};
      });
  mutations.add("a row of 2^45 numbers that are one", errc::out_of_memory, "x",
                [](Operation& f, bench& test_bench) {
                  f.x = test_bench.repeated(f.x.value().type(), {std::int64_t{1} << 45U});
                  f.y = {};
                  if constexpr (requires { f.length; }) f.length = 0;
                });
  add_not_finite(mutations, "scale", &Operation::scale);
  add_not_real(mutations, "scale", &Operation::scale);
  mutations.add("scale is beyond f32", bad, "scale", [single](Operation& f, bench& test_bench) {
    f.x = test_bench.make(single.x, f.x.value().shape());
    f.y = test_bench.make(single.y, f.y.value().shape());
    f.scale = -1e300;
  });
  return mutations;
}

operation_mutations fft_list() {
  auto mutations =
      common<fft>(valid_fft, {c64, c64}, {boolean, e4m3, u8, i32, f16, bf16, f32, f64});
  mutations.aliasing("y", &fft::y, "x", &fft::x);
  for (const int value : {2, 255}) {
    mutations.value(&fft::direction, "direction " + std::to_string(value), "direction",
                    static_cast<fft_direction>(value));
  }
  return std::move(mutations).take();
}

operation_mutations rfft_list() {
  auto mutations =
      common<rfft>(valid_rfft, {f32, c64}, {boolean, e5m2, u8, i64, f16, bf16, c64, c128});
  mutations.aliasing("y", &rfft::y, "x", &rfft::x);
  return std::move(mutations).take();
}

operation_mutations irfft_list() {
  auto mutations = common<irfft>(valid_irfft, {c64, f32}, {boolean, u16, i32, f16, bf16, f32, f64});
  mutations.aliasing("y", &irfft::y, "x", &irfft::x);
  for (const auto value : {std::int64_t{1}, std::int64_t{-1}, -most, least, std::int64_t{99},
                           std::int64_t{1} << 31U, std::int64_t{1} << 62U, most}) {
    mutations.value(&irfft::length, "length " + std::to_string(value), "length", value);
  }
  mutations.add("no even length fits one bin", bad, "length", [](irfft& f, bench& test_bench) {
    f.x = test_bench.make(c64, {test_bench.extent(), 1});
    f.y = {};
    f.length = 0;
  });
  mutations.add("an even length that overflows", bad, "x", [](irfft& f, bench& test_bench) {
    f.x = test_bench.empty(c64, {0, most});
    f.y = {};
    f.length = 0;
  });
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> fft_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(fft_list());
  all.push_back(rfft_list());
  all.push_back(irfft_list());
  return all;
}

}  // namespace sluice::test
