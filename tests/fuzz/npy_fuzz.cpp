// SPDX-License-Identifier: Apache-2.0
// The reader of NumPy files. What it accepts and writes back reads the same.
#include "tests/fuzz/fuzz.hpp"
#include "tools/io/npy.hpp"
#include "tools/io/npy_header.hpp"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace sluice::fuzz {
namespace {

/// How often each byte occurs.
std::array<std::size_t, 256> histogram(std::span<const std::byte> bytes) {
  std::array<std::size_t, 256> counts{};
  for (const auto byte : bytes) ++counts[std::to_integer<std::size_t>(byte)];
  return counts;
}

std::vector<std::byte> written(const io::array& contents) {
  const std::string header = io::format_npy_header(contents.type, contents.shape);
  std::vector<std::byte> file(header.size() + contents.bytes.size());
  std::memcpy(file.data(), header.data(), header.size());
  if (!contents.bytes.empty())
    std::memcpy(file.data() + header.size(), contents.bytes.data(), contents.bytes.size());
  return file;
}

void check(std::span<const std::byte> file) {
  const auto contents = accepted([&] { return io::parse_npy(file, input_name); });
  if (!contents) return;
  require(io::byte_size(contents->type, contents->shape) == contents->bytes.size(),
          "there are as many elements as the shape says");
  require(contents->bytes.size() < file.size(), "the elements come from the file");
  require(histogram(contents->bytes) == histogram(file.last(contents->bytes.size())),
          "another order moves bytes and changes none");

  const auto again =
      accepted([&, copy = written(*contents)] { return io::parse_npy(copy, input_name); });
  require(again.has_value(), "what is written can be read");
  require(again->type == contents->type && again->shape == contents->shape,
          "type and shape are written as they were read");
  require(again->bytes == contents->bytes, "elements are written as they were read");
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
