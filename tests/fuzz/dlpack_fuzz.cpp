// SPDX-License-Identifier: Apache-2.0
// The reader of DLPack's descriptors, held against the same sums in 128 bits, and the import of
// what they say.
#include "tests/fuzz/field_reader.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/importing.hpp"

#include <sluice/runtime/dlpack.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace sluice::fuzz {
namespace {

__extension__ using wide = __int128;

constexpr std::array<std::string_view, 6> fields{"ndim", "shape", "strides",
                                                 "data", "dtype", "byte_offset"};
// What only an import refuses.
constexpr std::array<std::string_view, 9> import_fields{"ndim",   "shape",  "strides",
                                                        "data",   "dtype",  "byte_offset",
                                                        "device", "stream", "version.major"};

/// Whether the tensor came in. A refused one stays the caller's; the other goes back once.
template <class Tensor>
bool goes_round(Tensor& tensor, const import_options& options, bool has_deleter, bool read_only) {
  auto& into = importing::instance();
  returns calls = 0;
  tensor.manager_ctx = &calls;
  if (has_deleter) {
    tensor.deleter = [](Tensor* self) {
      static_cast<returns*>(self->manager_ctx)->fetch_add(1);
    };
  }
  auto imported =
      described([&] { return import_dlpack(into.runtime(), &tensor, options); }, import_fields);
  require(calls.load() == 0, "neither a refusal nor an import gives back");
  const bool accepted = imported.has_value();
  if (accepted) {
    require(imported->block().read_only() == read_only, "the flag says whether it may be written");
    (void)imported->is_contiguous();
    imported.reset();
  }
  into.await_return();
  require(calls.load() == (accepted && has_deleter ? 1 : 0), "it is given back once");
  require(into.runtime().statistics().blocks == 0 && into.runtime().statistics().points == 0,
          "nothing stays");
  return accepted;
}

void take_in(const dlpack::tensor& described, field_reader& input, bool readable) {
  const bool versioned = input.flag();
  const auto major = static_cast<std::uint32_t>(input.number());
  const auto flags = static_cast<std::uint64_t>(input.number());
  const bool has_deleter = !input.flag();
  const auto options = importing::instance().options(input);
  const bool known_stream =
      !options.stream || reinterpret_cast<std::uintptr_t>(options.stream->native()) > 2;
  const bool here =
      described.device.type == dlpack::cpu || described.device.type == dlpack::cuda_host;
  const bool ordered = options.ready || options.stream || described.device.type == dlpack::cpu;
  const bool expected = readable && here && known_stream && ordered && (!versioned || major == 1);
  bool accepted = false;
  if (versioned) {
    dlpack::versioned_tensor tensor{};
    tensor.version = {major, 0};
    tensor.flags = flags;
    tensor.tensor = described;
    accepted = goes_round(tensor, options, has_deleter, (flags & dlpack::read_only_flag) != 0);
  } else {
    dlpack::managed_tensor tensor{};
    tensor.tensor = described;
    accepted = goes_round(tensor, options, has_deleter, false);
  }
  require(accepted == expected, "what can be read, on this device, comes in");
}

void check(field_reader input) {
  dlpack::tensor t{};
  t.data = input.address();
  t.device.type = static_cast<std::int32_t>(input.number());
  t.device.id = static_cast<std::int32_t>(input.number());
  t.ndim = static_cast<std::int32_t>(input.number());
  t.dtype.code = input.byte();
  t.dtype.bits = input.byte();
  t.dtype.lanes = static_cast<std::uint16_t>(input.number());
  t.byte_offset = static_cast<std::uint64_t>(input.number());
  const bool has_shape = input.flag();
  const bool has_strides = input.flag();
  const auto dimensions = static_cast<std::size_t>(std::clamp(t.ndim, 0, 8));
  std::vector<std::int64_t> shape(dimensions);
  std::vector<std::int64_t> strides(dimensions);
  for (auto& extent : shape) extent = input.number();
  for (auto& stride : strides) stride = input.number();
  if (has_shape) t.shape = shape.data();
  if (has_strides) t.strides = strides.data();

  const auto layout = described([&] { return dlpack::layout_of(t); }, fields);
  take_in(t, input, layout.has_value());
  if (!layout) return;
  require(std::ranges::equal(layout->shape, shape) && layout->strides.size() == dimensions,
          "the shape is the descriptor's");
  const bool empty = std::ranges::find(shape, 0) != shape.end();
  wide last = 0;
  for (std::size_t i = 0; i < dimensions; ++i) {
    if (shape[i] <= 1) continue;
    // Of nothing, the other extents and the strides may be anything.
    if (empty) continue;
    if (has_strides) require(layout->strides[i] == strides[i], "strides are the descriptor's");
    last += static_cast<wide>(shape[i] - 1) * layout->strides[i];
  }
  for (std::size_t i = 0; i < dimensions && !empty; ++i) {
    require(shape[i] == 1 || layout->strides[i] >= 0, "elements lie at and behind the first one");
  }
  const auto size = static_cast<wide>(size_of(layout->type));
  require(static_cast<wide>(layout->bytes) == (empty ? 0 : (last + 1) * size),
          "the bytes reach from the first element to the last one");
  require(size * 8 == t.dtype.bits && t.dtype.lanes == 1, "the type has the bits it says");
  if (empty) return;
  const auto address = reinterpret_cast<std::uintptr_t>(layout->address);
  require(address == reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset,
          "the first element lies at the offset");
  require(address % size_of(layout->type) == 0, "elements are aligned");
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::fuzz::check(sluice::fuzz::field_reader(std::span(data, size)));
  return 0;
}
