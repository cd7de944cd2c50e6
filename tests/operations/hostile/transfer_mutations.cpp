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

element_type any_type(bench& on) {
  return on.one_of({boolean, u8, i8, i32, u32, i64, u64, f32, f64, c64, c128});
}

fill valid_fill(bench& on) {
  const auto type = any_type(on);
  const auto shape = any_shape(on);
  return {.value = on.extent(0, 1), .shape = shape, .type = type, .y = on.make(type, shape)};
}
upload valid_upload(bench& on) {
  const auto type = any_type(on);
  const auto shape = any_shape(on);
  return {.values = on.process(type, shape), .y = on.make(type, shape)};
}
download valid_download(bench& on) {
  const auto type = any_type(on);
  const auto shape = any_shape(on);
  return {.x = on.make(type, shape),
          .to = std::make_shared<host_tensor>(on.coin() ? on.process(type, shape) : host_tensor())};
}

operation_mutations fill_list() {
  mutations_of<fill> to(valid_fill);
  to.output("y", &fill::y, f16);
  add_shapes(to);
  add_no_types(to);
  const auto number = [&](const std::string& what, element_type type, const scalar& value) {
    to.add(what + " in " + std::string(to_string(type)), bad, "value",
           [type, value](fill& f, bench& on) {
             f.type = type;
             f.value = value;
             f.y = on.coin() ? on.make(type, *f.shape) : tensor();
           });
  };
  for (const auto type : {boolean, u8, i8, u16, i32, u32, i64, u64}) {
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
  number("65536", u16, 65536);
  number("2^31", i32, std::int64_t{1} << 31U);
  number("2^32", u32, std::int64_t{1} << 32U);
  number("2^64 - 1", i64, std::numeric_limits<std::uint64_t>::max());
  for (const auto type : {boolean, u8, i64, f16, bf16, f32, f64, c64, c128}) {
    number("NaN", type, nan);
    number("infinity", type, infinity);
  }
  for (const auto type : {f16, bf16, f32, c64}) number("1e300", type, -1e300);
  number("65520", f16, 65520.0);
  for (const auto type : {f16, bf16, f32, f64}) number("i", type, std::complex<double>(0, 1));
  return std::move(to).take();
}

operation_mutations upload_list() {
  mutations_of<upload> to(valid_upload);
  to.output("y", &upload::y, u16);
  to.value(&upload::values, "no values", "values", host_tensor());
  to.add("as many elements in another shape", bad, "y", [](upload& u, bench& on) {
    u.values = on.process(f32, {3, 4});
    u.y = on.make(f32, {4, 3});
  });
  return std::move(to).take();
}

operation_mutations download_list() {
  mutations_of<download> to(valid_download);
  to.required("x", &download::x);
  to.value(&download::to, "nowhere to go", "to", nullptr);
  to.add("x of 2^62 elements that are one", errc::out_of_memory, "x", [](download& d, bench& on) {
    d.x = on.repeated(u8, {std::int64_t{1} << 31U, std::int64_t{1} << 31U});
    d.to = std::make_shared<host_tensor>();
  });
  to.add("to another type", bad, "to",
         [](download& d, bench& on) { *d.to = on.process(u16, d.x.value().shape()); });
  to.add("to one more element", bad, "to", [](download& d, bench& on) {
    auto shape = d.x.value().shape();
    ++shape[0];
    *d.to = on.process(d.x.value().type(), shape);
  });
  to.add("to another dimension", bad, "to", [](download& d, bench& on) {
    auto shape = d.x.value().shape();
    shape.push_back(1);
    *d.to = on.process(d.x.value().type(), shape);
  });
  to.add("to no elements", bad, "to",
         [](download& d, bench& on) { *d.to = on.process(d.x.value().type(), {0}); });
  return std::move(to).take();
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
