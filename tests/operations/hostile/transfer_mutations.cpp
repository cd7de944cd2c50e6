// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"
#include "tests/operations/hostile/shapes.hpp"

#include <sluice/operations/transfer.hpp>

#include <complex>
#include <cstdint>
#include <limits>
#include <memory>

namespace sluice::test {
namespace {

using enum element_type;

element_type any_type(bench& test_bench) {
  return test_bench.one_of({boolean, u8, i8, i32, u32, i64, u64, f32, f64, c64, c128});
}

fill valid_fill(bench& test_bench) {
  const auto type = any_type(test_bench);
  const auto shape = any_shape(test_bench);
  return {.value = test_bench.extent(0, 1),
          .shape = shape,
          .type = type,
          .y = test_bench.make(type, shape)};
}
upload valid_upload(bench& test_bench) {
  const auto type = any_type(test_bench);
  const auto shape = any_shape(test_bench);
  return {.values = test_bench.process(type, shape), .y = test_bench.make(type, shape)};
}
download valid_download(bench& test_bench) {
  const auto type = any_type(test_bench);
  const auto shape = any_shape(test_bench);
  return {.x = test_bench.make(type, shape),
          .target = std::make_shared<host_tensor>(
              test_bench.coin() ? test_bench.process(type, shape) : host_tensor())};
}

operation_mutations fill_list() {
  mutations_of<fill> mutations(valid_fill);
  mutations.output("y", &fill::y, f16);
  add_shapes(mutations);
  add_no_types(mutations);
  const auto number = [&](const std::string& description, element_type type, const scalar& value) {
    mutations.add(description + " in " + std::string(to_string(type)), bad, "value",
                  [type, value](fill& f, bench& test_bench) {
                    f.type = type;
                    f.value = value;
                    f.y = test_bench.coin() ? test_bench.make(type, *f.shape) : tensor();
                  });
  };
  for (const auto type : {boolean, u8, i8, u16, i16, i32, u32, i64, u64}) {
    number("0.5", type, 0.5);
    number("1e300", type, 1e300);
    number("a complex number", type, std::complex<double>(1, 1));
  }
  for (const auto type : {boolean, u8, u16, u32, u64}) number("-1", type, -1);
  for (const auto type : {boolean, u8, i8, u16, i32, u32}) number("2^63 - 1", type, most);
  number("2", boolean, 2);
  number("256", u8, 256);
  number("128", i8, 128);
  number("-129", i8, -129);
  number("32768", i16, 32768);
  number("65536", u16, 65536);
  number("2^31", i32, std::int64_t{1} << 31U);
  number("2^32", u32, std::int64_t{1} << 32U);
  number("2^64 - 1", i64, std::numeric_limits<std::uint64_t>::max());
  for (const auto type : {boolean, u8, i64, c64, c128}) {
    number("NaN", type, nan);
    number("infinity", type, infinity);
  }
  for (const auto type : {f16, bf16, f32, c64}) number("1e300", type, -1e300);
  number("65520", f16, 65520.0);
  for (const auto type : {f16, bf16, f32, f64}) number("i", type, std::complex<double>(0, 1));
  return std::move(mutations).take();
}

operation_mutations upload_list() {
  mutations_of<upload> mutations(valid_upload);
  mutations.output("y", &upload::y, u16);
  mutations.value(&upload::values, "no values", "values", host_tensor());
  mutations.add("as many elements in another shape", bad, "y", [](upload& u, bench& test_bench) {
    u.values = test_bench.process(f32, {3, 4});
    u.y = test_bench.make(f32, {4, 3});
  });
  return std::move(mutations).take();
}

operation_mutations download_list() {
  mutations_of<download> mutations(valid_download);
  mutations.required("x", &download::x);
  mutations.value(&download::target, "nowhere to go", "target", nullptr);
  mutations.add("x of 2^62 elements that are one", errc::out_of_memory, "x",
                [](download& d, bench& test_bench) {
                  d.x = test_bench.repeated(u8, {std::int64_t{1} << 31U, std::int64_t{1} << 31U});
                  d.target = std::make_shared<host_tensor>();
                });
  mutations.add("to another type", bad, "target", [](download& d, bench& test_bench) {
    *d.target = test_bench.process(u16, d.x.value().shape());
  });
  mutations.add("to one more element", bad, "target", [](download& d, bench& test_bench) {
    auto shape = d.x.value().shape();
    ++shape[0];
    *d.target = test_bench.process(d.x.value().type(), shape);
  });
  mutations.add("to another dimension", bad, "target", [](download& d, bench& test_bench) {
    auto shape = d.x.value().shape();
    shape.push_back(1);
    *d.target = test_bench.process(d.x.value().type(), shape);
  });
  mutations.add("to no elements", bad, "target", [](download& d, bench& test_bench) {
    *d.target = test_bench.process(d.x.value().type(), {0});
  });
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> transfer_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(fill_list());
  all.push_back(upload_list());
  all.push_back(download_list());
  return all;
}

}  // namespace sluice::test
