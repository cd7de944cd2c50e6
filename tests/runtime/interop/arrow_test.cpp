// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/interop/external_memory_test.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/arrow.hpp>

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <limits>
#include <string>
#include <type_traits>

namespace sluice::test {
namespace {

// Descriptors

void nothing(ArrowSchema*) {}
void nothing(ArrowArray*) {}

/// Valid descriptors of `f32` elements, which the tests make invalid.
struct descriptors {
  alignas(16) std::array<float, 16> elements{};
  std::array<const void*, 2> buffers{nullptr, elements.data()};
  ArrowSchema schema{};
  ArrowDeviceArray array{};

  descriptors() {
    schema.format = "f";
    schema.release = nothing;
    array.array.length = 10;
    array.array.n_buffers = 2;
    array.array.buffers = buffers.data();
    array.array.release = nothing;
    array.device_type = ARROW_DEVICE_CPU;
    array.device_id = -1;
  }
  [[nodiscard]] arrow_layout read() const { return layout_of(schema, array); }
};

template <class Spoil>
::testing::AssertionResult refused(errc code, const std::string& field, Spoil spoil) {
  descriptors d;
  spoil(d);
  return throws(code, field, [&] { (void)d.read(); });
}

TEST(arrow_layout, is_what_the_descriptors_say) {
  descriptors d;
  d.array.array.offset = 3;
  EXPECT_EQ(d.read().address, d.elements.data() + 3);
  EXPECT_EQ(d.read().bytes, 40u);
  EXPECT_EQ(d.read().type, element_type::f32);
}

TEST(arrow_layout, knows_the_primitive_formats) {
  descriptors d;
  const auto type_of = [&](const char* format) {
    d.schema.format = format;
    return d.read().type;
  };
  EXPECT_EQ(type_of("C"), element_type::u8);
  EXPECT_EQ(type_of("c"), element_type::i8);
  EXPECT_EQ(type_of("S"), element_type::u16);
  EXPECT_EQ(type_of("s"), element_type::i16);
  EXPECT_EQ(type_of("e"), element_type::f16);
  EXPECT_EQ(type_of("i"), element_type::i32);
  EXPECT_EQ(type_of("I"), element_type::u32);
  EXPECT_EQ(type_of("l"), element_type::i64);
  EXPECT_EQ(type_of("L"), element_type::u64);
  EXPECT_EQ(type_of("f"), element_type::f32);
  EXPECT_EQ(type_of("g"), element_type::f64);
}

TEST(arrow_layout, takes_a_validity_buffer_without_nulls) {
  descriptors d;
  d.buffers[0] = d.elements.data();
  EXPECT_EQ(d.read().bytes, 40u);
  d.buffers[0] = nullptr;
  d.array.array.null_count = -1;
  EXPECT_EQ(d.read().bytes, 40u);
}

TEST(arrow_layout, of_no_elements_needs_no_data) {
  descriptors d;
  d.array.array.length = 0;
  d.buffers[1] = nullptr;
  EXPECT_EQ(d.read().bytes, 0u);
}

TEST(arrow_layout, refuses_what_is_malformed) {
  constexpr auto invalid = errc::invalid_argument;
  constexpr auto unsupported = errc::unsupported;
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  using d_ref = descriptors&;
  EXPECT_TRUE(refused(invalid, "schema.release", [](d_ref d) { d.schema.release = nullptr; }));
  EXPECT_TRUE(refused(invalid, "array.release", [](d_ref d) { d.array.array.release = nullptr; }));
  EXPECT_TRUE(refused(invalid, "format", [](d_ref d) { d.schema.format = nullptr; }));
  for (const char* format : {"", "ss", "b", "ff", "fg", "+s", "u"}) {
    EXPECT_TRUE(refused(unsupported, "format", [=](d_ref d) { d.schema.format = format; }));
  }
  EXPECT_TRUE(refused(unsupported, "schema.n_children", [](d_ref d) { d.schema.n_children = 1; }));
  EXPECT_TRUE(
      refused(unsupported, "schema.dictionary", [](d_ref d) { d.schema.dictionary = &d.schema; }));
  EXPECT_TRUE(
      refused(unsupported, "array.n_children", [](d_ref d) { d.array.array.n_children = 1; }));
  EXPECT_TRUE(refused(unsupported, "array.dictionary",
                      [](d_ref d) { d.array.array.dictionary = &d.array.array; }));
  EXPECT_TRUE(refused(unsupported, "reserved", [](d_ref d) { d.array.reserved[2] = 1; }));
  EXPECT_TRUE(
      refused(invalid, "length: -1 is negative", [](d_ref d) { d.array.array.length = -1; }));
  EXPECT_TRUE(refused(invalid, "length", [](d_ref d) { d.array.array.length = most / 2; }));
  EXPECT_TRUE(
      refused(invalid, "offset: -1 is negative", [](d_ref d) { d.array.array.offset = -1; }));
  EXPECT_TRUE(
      refused(invalid, "elements overflow the size", [](d_ref d) { d.array.array.offset = most; }));
  EXPECT_TRUE(refused(invalid, "offset", [](d_ref d) {
    d.array.array.offset = most / 8;
    d.buffers[1] = reinterpret_cast<const void*>(~std::uintptr_t{0} - 15);
  }));
  EXPECT_TRUE(refused(invalid, "n_buffers", [](d_ref d) { d.array.array.n_buffers = 1; }));
  EXPECT_TRUE(refused(invalid, "n_buffers", [](d_ref d) { d.array.array.n_buffers = 3; }));
  EXPECT_TRUE(refused(invalid, "buffers", [](d_ref d) { d.array.array.buffers = nullptr; }));
  EXPECT_TRUE(refused(invalid, "buffers[1]", [](d_ref d) { d.buffers[1] = nullptr; }));
  EXPECT_TRUE(refused(invalid, "buffers[1]", [](d_ref d) {
    d.buffers[1] = reinterpret_cast<const std::byte*>(d.elements.data()) + 2;
  }));
  EXPECT_TRUE(refused(invalid, "null_count", [](d_ref d) { d.array.array.null_count = -2; }));
  EXPECT_TRUE(refused(invalid, "null_count", [](d_ref d) { d.array.array.null_count = 11; }));
  EXPECT_TRUE(refused(unsupported, "null_count", [](d_ref d) {
    d.array.array.null_count = 1;
    d.buffers[0] = d.elements.data();
  }));
  EXPECT_TRUE(refused(unsupported, "null_count", [](d_ref d) {
    d.array.array.null_count = -1;
    d.buffers[0] = d.elements.data();
  }));
}

// Import and export

/// An array of another program over `words` of its memory.
class producer_array {
 public:
  explicit producer_array(gpu_ref<std::uint32_t> memory) : memory_(std::move(memory)) {
    buffers_[1] = memory_.data();
    schema_.format = "I";
    schema_.release = nothing;
    array_.array.length = static_cast<std::int64_t>(memory_.size());
    array_.array.n_buffers = 2;
    array_.array.buffers = buffers_.data();
    array_.array.private_data = this;
    array_.array.release = [](ArrowArray* self) {
      auto* producer = static_cast<producer_array*>(self->private_data);
      EXPECT_NE(self, &producer->array_.array) << "it has not been moved";
      self->release = nullptr;
      producer->back.note();
    };
    const bool cuda = memory_.device().kind == device_kind::cuda;
    array_.device_type = cuda ? ARROW_DEVICE_CUDA : ARROW_DEVICE_CPU;
    array_.device_id = cuda ? memory_.device().ordinal : -1;
  }
  ~producer_array() { EXPECT_LE(back.times.load(), 1); }

  [[nodiscard]] const ArrowSchema& schema() const noexcept { return schema_; }
  [[nodiscard]] ArrowDeviceArray* get() noexcept { return &array_; }
  [[nodiscard]] const gpu_ref<std::uint32_t>& memory() const noexcept { return memory_; }

  returned back;

 private:
  gpu_ref<std::uint32_t> memory_;
  std::array<const void*, 2> buffers_{};
  ArrowSchema schema_{};
  ArrowDeviceArray array_{};
};

void release(arrow_array& out) {
  out.array.array.release(&out.array.array);
  out.schema.release(&out.schema);
  EXPECT_EQ(out.array.array.release, nullptr);
  EXPECT_EQ(out.schema.release, nullptr);
}

class arrow_on : public external_memory_test {};
INSTANTIATE_TEST_SUITE_P(devices, arrow_on, every_device(), parameter_name);

TEST_P(arrow_on, an_import_is_a_part_of_the_producers_memory) {
  producer_array array(words(100));
  array.get()->array.offset = 10;
  array.get()->array.length = 90;
  {
    const auto imported = import_arrow(runtime(), array.schema(), array.get(), {.ready = true});
    EXPECT_EQ(array.get()->array.release, nullptr) << "moved";
    EXPECT_NE(array.schema().release, nullptr) << "the caller's";
    EXPECT_TRUE(imported.block().read_only());
    EXPECT_EQ(imported.address(), array.memory().data() + 10);
    EXPECT_EQ(extents(imported.shape()), extents{90});
    EXPECT_EQ(array.back.times.load(), 0);
  }
  array.back.wait();
  EXPECT_TRUE(array.back.elsewhere.load());
  expect_nothing_is_out();
}

TEST_P(arrow_on, only_ordinary_host_memory_comes_in_without_an_order) {
  producer_array array(words(100));
  if (on_host()) array.get()->device_type = ARROW_DEVICE_CUDA_HOST;
  EXPECT_TRUE(throws(errc::invalid_argument, "stream: the import has no order",
                     [&] { (void)import_arrow(runtime(), array.schema(), array.get()); }));
  EXPECT_EQ(array.back.times.load(), 0);
  if (!on_host()) return;
  array.get()->device_type = ARROW_DEVICE_CPU;
  (void)import_arrow(runtime(), array.schema(), array.get());
  array.back.wait();
}

TEST_P(arrow_on, an_import_with_a_stream_is_ordered_after_it) {
  producer_array array(words(100));
  const auto value = random_word();
  const auto result = runtime().allocate<std::uint32_t>(100, stream());
  gate closed;
  closed.hold(other_stream());
  enqueue_fill(array.memory(), value, other_stream());
  array.back.in_use.store(true);
  {
    const auto imported =
        import_arrow(runtime(), array.schema(), array.get(), {.stream = named(other_stream())});
    const auto point = copy(result, imported.as<std::uint32_t>(), stream());
    EXPECT_FALSE(ended(point));
    auto recorder = launch_recorder::strict(stream());
    recorder.write(imported);
    EXPECT_TRUE(throws(errc::stream_misuse, "read-only", [&] { recorder.preflight(); }));
  }
  array.back.in_use.store(false);
  closed.open();
  EXPECT_EQ(download(result, stream()), std::vector(100, value));
  array.back.wait();
  EXPECT_FALSE(array.back.too_early.load());
}

TEST_P(arrow_on, a_sync_event_is_waited_for) {
  if (on_host()) GTEST_SKIP() << "a host device has no events of others";
  producer_array array(words(100));
  const auto value = random_word();
  auto& device = other().device();
  auto* event = device.create_event();
  array.get()->sync_event = &event;
  {
    gate closed;
    closed.hold(other_stream());
    enqueue_fill(array.memory(), value, other_stream());
    device.record(event, 1, other_stream().native());
    const auto imported = import_arrow(runtime(), array.schema(), array.get());
    const auto result = runtime().allocate<std::uint32_t>(100, stream());
    EXPECT_FALSE(ended(copy(result, imported.as<std::uint32_t>(), stream())));
    closed.open();
    EXPECT_EQ(download(result, stream()), std::vector(100, value));
  }
  array.back.wait();
  device.destroy_event(event);
}

TEST_P(arrow_on, what_is_refused_is_still_the_callers) {
  const auto refused = [&](errc code, const std::string& field, auto spoil) {
    producer_array array(words(10));
    spoil(*array.get());
    const auto result = throws(code, field, [&] {
      (void)import_arrow(runtime(), array.schema(), array.get(), {.ready = true});
    });
    EXPECT_EQ(array.back.times.load(), 0);
    EXPECT_NE(array.get()->array.release, nullptr);
    return result;
  };
  EXPECT_TRUE(refused(errc::unsupported, "null_count", [](auto& a) { a.array.null_count = 1; }));
  EXPECT_TRUE(refused(errc::invalid_argument, "device_type", [&](auto& a) {
    a.device_type = on_host() ? ARROW_DEVICE_CUDA : ARROW_DEVICE_CPU;
  }));
  void* no_event = nullptr;
  EXPECT_TRUE(
      refused(errc::invalid_argument, "sync_event", [&](auto& a) { a.sync_event = &no_event; }));
  if (on_host()) {
    void* an_event = &no_event;
    EXPECT_TRUE(
        refused(errc::invalid_argument, "sync_event", [&](auto& a) { a.sync_event = &an_event; }));
  } else {
    EXPECT_TRUE(refused(errc::invalid_argument, "device_id", [](auto& a) { a.device_id = 99; }));
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "array", [&] {
    (void)import_arrow(runtime(), producer_array(words(1)).schema(), nullptr);
  }));
  expect_nothing_is_out();
}

TEST_P(arrow_on, survives_a_lack_of_host_memory) {
  if (!on_host()) GTEST_SKIP() << "the driver does not take failed allocations";
  producer_array first(words(10));
  (void)import_arrow(runtime(), first.schema(), first.get(), {.stream = named(other_stream())});
  first.back.wait();
  for (const import_options& options :
       {import_options{.ready = true}, import_options{.stream = named(other_stream())}}) {
    producer_array array(words(10));
    const auto failures = with_each_allocation_failing(
        [&] { (void)import_arrow(runtime(), array.schema(), array.get(), options); },
        [&] {
          EXPECT_EQ(array.back.times.load(), 0);
          EXPECT_NE(array.get()->array.release, nullptr);
          expect_nothing_is_out();
        });
    EXPECT_GE(failures, 1);
    array.back.wait();
  }
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  arrow_array out{};
  EXPECT_GE(with_each_allocation_failing([&] { out = export_arrow(runtime(), a); },
                                         [&] { expect_nothing_is_out(); }),
            1);
  release(out);
  expect_nothing_is_out();
}

template <element T>
void goes_round(device_runtime& runtime, stream_ref stream) {
  SCOPED_TRACE(to_string(element_type_v<T>));
  auto random = make_generator();
  std::vector<T> values(24);
  for (auto& value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random());
    } else {
      value = T(static_cast<float>(random() % 1000));
    }
  }
  const auto part = upload(runtime, stream, values).subspan(4, 20);
  auto out = export_arrow(runtime, part);
  EXPECT_EQ(out.array.array.length, 20);
  EXPECT_EQ(out.array.array.null_count, 0);
  EXPECT_EQ(out.array.array.offset, 0);
  EXPECT_EQ(runtime.statistics().exports, 1u);
  // On a GPU the array has its event; the import adopts it nevertheless.
  const auto back = import_arrow(runtime, out.schema, &out.array, {.ready = true});
  out.schema.release(&out.schema);
  EXPECT_EQ(download(back.template as<T>(), stream),
            std::vector<T>(values.begin() + 4, values.end()));
}

TEST_P(arrow_on, every_primitive_type_goes_round) {
  for_each_real_type([this]<element T>() {
    goes_round<T>(runtime(), stream());
    expect_nothing_is_out();
  });
  const auto complex = runtime().allocate<std::complex<float>>(4, stream());
  EXPECT_TRUE(throws(errc::unsupported, "format", [&] { (void)export_arrow(runtime(), complex); }));
  const auto small = runtime().allocate<e4m3>(4, stream());
  EXPECT_TRUE(throws(errc::unsupported, "format", [&] { (void)export_arrow(runtime(), small); }));
  const tensor matrix = tensor(runtime().allocate<float>(4, stream())).reshape({2, 2});
  EXPECT_TRUE(throws(errc::unsupported, "shape", [&] { (void)export_arrow(runtime(), matrix); }));
  EXPECT_TRUE(throws(errc::unsupported, "strides",
                     [&] { (void)export_arrow(runtime(), matrix.select(1, 0)); }));
}

TEST_P(arrow_on, an_export_with_a_stream_is_ordered_both_ways) {
  const auto value = random_word();
  const auto a = runtime().allocate<std::uint32_t>(100, stream());
  const auto seen = words(100);
  gate ours;
  ours.hold(stream());
  launch_fill(a, value, stream());
  auto out = export_arrow(runtime(), a, named(other_stream()));
  gate theirs;
  theirs.hold(other_stream());
  other().device().copy(seen.data(), out.array.array.buffers[1], seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  std::thread([&] { release(out); }).join();
  const auto point = launch_fill(a, value + 1, stream());
  ours.open();
  EXPECT_FALSE(ended(point));
  theirs.open();
  EXPECT_EQ(download(seen, other_stream()), std::vector(100, value));
  EXPECT_EQ(download(a, stream()), std::vector(100, value + 1));
  expect_nothing_is_out();
}

TEST_P(arrow_on, an_export_waits_here_or_brings_an_event) {
  const auto value = random_word();
  const auto a = runtime().allocate<std::uint32_t>(100, stream());
  const auto seen = words(100);
  if (on_host()) {
    launch_fill(a, value, stream());
    auto out = export_arrow(runtime(), a);
    EXPECT_EQ(out.array.sync_event, nullptr);
    EXPECT_EQ(static_cast<const std::uint32_t*>(out.array.array.buffers[1])[99], value);
    release(out);
    return;
  }
  gate closed;
  closed.hold(stream());
  launch_fill(a, value, stream());
  auto out = export_arrow(runtime(), a);
  ASSERT_NE(out.array.sync_event, nullptr);
  auto* event = *static_cast<native_event**>(out.array.sync_event);
  other().device().wait(other_stream().native(), event, 0);
  other().device().copy(seen.data(), out.array.array.buffers[1], seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  closed.open();
  EXPECT_EQ(download(seen, other_stream()), std::vector(100, value));
  release(out);
}

TEST_P(arrow_on, an_export_outlives_its_block_and_its_runtime) {
  const auto value = random_word();
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  auto own_stream = owned->create_stream();
  auto a = owned->allocate<std::uint32_t>(100, own_stream);
  launch_fill(a, value, own_stream);
  own_stream.synchronize();
  auto out = export_arrow(*owned, a);
  a = {};
  own_stream = {};
  owned.reset();
  const auto seen = words(100);
  other().device().copy(seen.data(), out.array.array.buffers[1], seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  EXPECT_EQ(download(seen, other_stream()), std::vector(100, value));
  std::thread([&] { release(out); }).join();
}

}  // namespace
}  // namespace sluice::test
