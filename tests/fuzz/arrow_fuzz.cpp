// SPDX-License-Identifier: Apache-2.0
// The reader of Arrow's descriptors, and the import of what they say.
#include "tests/fuzz/field_reader.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/importing.hpp"

#include <sluice/runtime/arrow.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::fuzz {
namespace {

__extension__ using wide = __int128;

constexpr std::array<std::string_view, 11> fields{
    "format",     "length",  "null_count", "offset",     "n_buffers", "buffers",
    "n_children", "release", "reserved",   "dictionary", "children"};
// What only an import refuses, too.
constexpr std::array<std::string_view, 14> import_fields{
    "format",  "length",   "null_count", "offset",   "n_buffers", "buffers", "n_children",
    "release", "reserved", "dictionary", "children", "device",    "stream",  "sync_event"};

/// A refused array stays the caller's; the other one is moved, and released once.
void take_in(const ArrowSchema& schema, ArrowDeviceArray& described_array, field_reader& input,
             bool readable) {
  auto& into = importing::instance();
  described_array.device_type = static_cast<ArrowDeviceType>(input.number());
  described_array.device_id = input.number();
  if (input.flag()) described_array.sync_event = &described_array;
  const auto options = into.options(input);
  const bool known_stream =
      !options.stream || reinterpret_cast<std::uintptr_t>(options.stream->native()) > 2;
  const bool ordered =
      options.ready || options.stream || described_array.device_type == ARROW_DEVICE_CPU;
  const bool expected = readable && known_stream && ordered &&
                        described_array.sync_event == nullptr &&
                        (described_array.device_type == ARROW_DEVICE_CPU ||
                         described_array.device_type == ARROW_DEVICE_CUDA_HOST);
  returns calls = 0;
  auto& array = described_array.array;
  array.private_data = &calls;
  if (array.release != nullptr) {
    array.release = [](ArrowArray* self) {
      self->release = nullptr;
      static_cast<returns*>(self->private_data)->fetch_add(1);
    };
  }
  const auto release = array.release;
  auto imported =
      described([&] { return import_arrow(into.runtime(), schema, &described_array, options); },
                import_fields);
  require(calls.load() == 0, "neither a refusal nor an import gives back");
  require(imported.has_value() == expected, "what can be read, on this device, comes in");
  if (imported) {
    require(array.release == nullptr, "it has been moved");
    require(imported->block().read_only(), "the data of Arrow's are immutable");
    imported.reset();
  } else {
    require(array.release == release, "a refusal takes nothing");
  }
  into.await_return();
  require(calls.load() == (expected ? 1 : 0), "it is released once");
  require(into.runtime().statistics().blocks == 0 && into.runtime().statistics().points == 0,
          "nothing stays");
}

void check(field_reader input) {
  std::string format(input.byte() % 4, ' ');
  for (auto& c : format) c = static_cast<char>(input.byte());
  ArrowSchema schema{};
  schema.format = input.flag() ? nullptr : format.c_str();
  schema.n_children = input.number();
  ArrowSchema other_schema{};
  if (input.flag()) schema.dictionary = &other_schema;
  if (!input.flag())
    schema.release = [](ArrowSchema*) {
    };

  ArrowDeviceArray described_array{};
  auto& array = described_array.array;
  array.length = input.number();
  array.null_count = input.number();
  array.offset = input.number();
  array.n_buffers = input.number();
  array.n_children = input.number();
  ArrowArray other_array{};
  if (input.flag()) array.dictionary = &other_array;
  if (!input.flag())
    array.release = [](ArrowArray*) {
    };
  for (auto& word : described_array.reserved) word = input.flag() ? input.number() : 0;
  std::vector<const void*> buffers(
      static_cast<std::size_t>(std::clamp<std::int64_t>(array.n_buffers, 0, 8)));
  // As many as it says, or none: with more than there are here it has to refuse before it looks.
  for (auto& buffer : buffers) buffer = input.address();
  if (!input.flag()) array.buffers = buffers.data();

  const auto layout = described([&] { return layout_of(schema, described_array); }, fields);
  take_in(schema, described_array, input, layout.has_value());
  if (!layout) return;
  const auto size = static_cast<wide>(size_of(layout->type));
  require(static_cast<wide>(layout->bytes) == array.length * size,
          "there are as many elements as it says");
  require(array.null_count == 0 || buffers[0] == nullptr, "there are no nulls");
  if (array.length == 0) return;
  require(static_cast<wide>(reinterpret_cast<std::uintptr_t>(layout->address)) ==
              static_cast<wide>(reinterpret_cast<std::uintptr_t>(buffers[1])) + array.offset * size,
          "the first element lies at the offset");
  require(reinterpret_cast<std::uintptr_t>(layout->address) % size_of(layout->type) == 0,
          "elements are aligned");
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::fuzz::check(sluice::fuzz::field_reader(std::span(data, size)));
  return 0;
}
