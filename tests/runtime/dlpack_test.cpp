#include "runtime/external_memory.hpp"
#include "tests/runtime/external_memory_test.hpp"
#include "tests/runtime/use_state.hpp"
#include "tests/support/compute_sanitizer.hpp"

#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <complex>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

// What descriptors say

/// A descriptor of `f32` elements that is right, to be spoilt.
struct descriptor {
  std::vector<std::int64_t> shape{3, 5};
  std::vector<std::int64_t> strides{5, 1};
  alignas(16) std::array<float, 64> elements{};
  dlpack::tensor tensor{.data = elements.data(),
                        .device = {dlpack::cpu, 0},
                        .ndim = 2,
                        .dtype = {dlpack::real, 32, 1},
                        .shape = shape.data(),
                        .strides = strides.data(),
                        .byte_offset = 0};
};

template <class Spoil>
::testing::AssertionResult refused(errc code, const std::string& field, Spoil spoil) {
  descriptor d;
  spoil(d);
  return throws(code, field, [&] { (void)dlpack::layout_of(d.tensor); });
}

TEST(dlpack_layout, is_what_the_descriptor_says) {
  descriptor d;
  d.tensor.byte_offset = 8;
  const auto read = dlpack::layout_of(d.tensor);
  EXPECT_EQ(read.address, d.elements.data() + 2);
  EXPECT_EQ(read.bytes, 60u);
  EXPECT_EQ(read.type, element_type::f32);
  EXPECT_EQ(read.shape, d.shape);
  EXPECT_EQ(read.strides, d.strides);
}

TEST(dlpack_layout, is_compact_without_strides) {
  descriptor d;
  d.tensor.strides = nullptr;
  EXPECT_EQ(dlpack::layout_of(d.tensor).strides, (std::vector<std::int64_t>{5, 1}));
  EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, 60u);
}

TEST(dlpack_layout, of_no_dimensions_is_one_element) {
  descriptor d;
  d.tensor.ndim = 0;
  d.tensor.shape = nullptr;
  d.tensor.strides = nullptr;
  EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, 4u);
}

TEST(dlpack_layout, of_no_elements_needs_no_data) {
  descriptor d;
  d.shape = {3, 0};
  d.tensor.shape = d.shape.data();
  d.tensor.data = nullptr;
  d.tensor.byte_offset = 3;
  EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, 0u);
  EXPECT_EQ(dlpack::layout_of(d.tensor).address, nullptr);
}

TEST(dlpack_layout, ignores_the_stride_of_one_element) {
  descriptor d;
  d.shape = {1, 5};
  d.strides = {std::numeric_limits<std::int64_t>::min(), 2};
  d.tensor.shape = d.shape.data();
  d.tensor.strides = d.strides.data();
  EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, 9 * 4u);
}

TEST(dlpack_layout, covers_every_element_of_random_strides) {
  auto random = make_generator();
  for (int round = 0; round < 200; ++round) {
    descriptor d;
    const auto dimensions = random() % 5;
    d.shape.assign(dimensions, 0);
    d.strides.assign(dimensions, 0);
    std::vector<std::int64_t> offsets{0};
    for (std::size_t i = 0; i < dimensions; ++i) {
      d.shape[i] = 1 + static_cast<std::int64_t>(random() % 4);
      d.strides[i] = static_cast<std::int64_t>(random() % 7);
      std::vector<std::int64_t> further;
      for (const auto offset : offsets) {
        for (std::int64_t k = 0; k < d.shape[i]; ++k) further.push_back(offset + k * d.strides[i]);
      }
      offsets = further;
    }
    d.tensor.ndim = static_cast<std::int32_t>(dimensions);
    d.tensor.shape = d.shape.data();
    d.tensor.strides = d.strides.data();
    const auto last = *std::ranges::max_element(offsets);
    EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, static_cast<std::size_t>(last + 1) * 4);
  }
}

TEST(dlpack_layout, refuses_what_is_malformed) {
  constexpr auto invalid = errc::invalid_argument;
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const auto with = [](auto change) {
    return [change](descriptor& d) {
      change(d.tensor);
    };
  };
  EXPECT_TRUE(refused(invalid, "ndim", with([](auto& t) { t.ndim = -1; })));
  EXPECT_TRUE(refused(invalid, "ndim", with([](auto& t) { t.ndim = 65; })));
  EXPECT_TRUE(refused(invalid, "ndim",
                      with([](auto& t) { t.ndim = std::numeric_limits<std::int32_t>::max(); })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) { t.shape = nullptr; })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) { t.shape[1] = -1; })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) {
                        t.shape[0] = -3;
                        t.strides = nullptr;
                      })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) {
                        t.shape[0] = most;
                        t.strides = nullptr;
                      })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) {
                        t.shape[0] = most / 20 + 1;  // the elements do not overflow, the bytes do
                        t.strides = nullptr;
                      })));
  EXPECT_TRUE(refused(invalid, "strides", with([](auto& t) { t.strides[0] = most; })));
  EXPECT_TRUE(refused(invalid, "strides", with([](auto& t) { t.strides[0] = most / 2 - 1; })));
  EXPECT_TRUE(refused(errc::unsupported, "strides", with([](auto& t) { t.strides[1] = -1; })));
  EXPECT_TRUE(refused(invalid, "data", with([](auto& t) { t.data = nullptr; })));
  EXPECT_TRUE(refused(invalid, "data",
                      with([](auto& t) { t.data = static_cast<std::byte*>(t.data) + 2; })));
  EXPECT_TRUE(refused(invalid, "byte_offset", with([](auto& t) { t.byte_offset = 2; })));
  EXPECT_TRUE(
      refused(invalid, "byte_offset", with([](auto& t) { t.byte_offset = ~std::uint64_t{7}; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.lanes", with([](auto& t) { t.dtype.lanes = 4; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.lanes", with([](auto& t) { t.dtype.lanes = 0; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.code", with([](auto& t) { t.dtype.code = 4; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.code", with([](auto& t) { t.dtype = {6, 8, 1}; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.bits", with([](auto& t) { t.dtype.bits = 16; })));
}

TEST(dlpack_layout, takes_an_offset_that_makes_up_for_the_data) {
  descriptor d;
  d.tensor.data = static_cast<std::byte*>(d.tensor.data) + 2;
  d.tensor.byte_offset = 6;
  EXPECT_EQ(dlpack::layout_of(d.tensor).address, d.elements.data() + 2);
}

TEST(dlpack_layout, wants_complex_elements_aligned_to_their_size) {
  descriptor d;
  d.tensor.dtype = {dlpack::complex, 64, 1};
  d.tensor.byte_offset = 4;
  EXPECT_TRUE(
      throws(errc::invalid_argument, "byte_offset", [&] { (void)dlpack::layout_of(d.tensor); }));
}

TEST(dlpack_tensor, is_contiguous_or_not) {
  const auto contiguous = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    return external_tensor{{}, std::move(shape), std::move(strides)}.is_contiguous();
  };
  EXPECT_TRUE(contiguous({}, {}));
  EXPECT_TRUE(contiguous({3, 5}, {5, 1}));
  EXPECT_TRUE(contiguous({3, 1, 5}, {5, 77, 1}));
  EXPECT_TRUE(contiguous({3, 0}, {7, 7}));
  // Without elements the strides may say anything.
  constexpr auto large = std::int64_t{1} << 40;
  EXPECT_TRUE(contiguous({0, large, large}, {1, large, 1}));
  EXPECT_FALSE(contiguous({3, 5}, {1, 3}));
  EXPECT_FALSE(contiguous({3, 5}, {6, 1}));
  EXPECT_FALSE(contiguous({3}, {0}));
}

TEST(dlpack_stream, is_never_0_or_minus_1) {
  EXPECT_TRUE(
      throws(errc::invalid_argument, "stream", [] { (void)foreign_stream(std::uintptr_t{0}); }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "stream", [] { (void)foreign_stream(~std::uintptr_t{0}); }));
}

// In and out

/// A tensor of another program's, of either generation, over `words` of its memory.
template <class Tensor>
class producer_tensor {
 public:
  explicit producer_tensor(gpu_ref<std::uint32_t> memory)
      : memory_(std::move(memory)), shape_{static_cast<std::int64_t>(memory_.size())} {
    tensor_.tensor = {
        .data = memory_.data(),
        .device = {memory_.device().kind == device_kind::cuda ? dlpack::cuda : dlpack::cpu,
                   memory_.device().ordinal},
        .ndim = 1,
        .dtype = {dlpack::unsigned_integer, 32, 1},
        .shape = shape_.data(),
        .strides = nullptr,
        .byte_offset = 0};
    tensor_.manager_ctx = this;
    tensor_.deleter = [](Tensor* self) {
      static_cast<producer_tensor*>(self->manager_ctx)->back.note();
    };
    if constexpr (std::is_same_v<Tensor, dlpack::versioned_tensor>) tensor_.version = {1, 1};
  }
  ~producer_tensor() {
    if (ends_when_back) back.wait();
    EXPECT_LE(back.times.load(), 1);
  }

  [[nodiscard]] Tensor* get() noexcept { return &tensor_; }
  [[nodiscard]] const gpu_ref<std::uint32_t>& memory() const noexcept { return memory_; }

  returned back;
  /// For a tensor whose import lives as long as the test's scope.
  bool ends_when_back = false;

 private:
  gpu_ref<std::uint32_t> memory_;
  std::vector<std::int64_t> shape_;
  Tensor tensor_{};
};
using old_tensor = producer_tensor<dlpack::managed_tensor>;
using new_tensor = producer_tensor<dlpack::versioned_tensor>;

class dlpack_on : public external_memory_test {
 protected:
  /// Both generations go through `check`.
  template <class Check>
  void with_both(Check check) {
    {
      old_tensor tensor(words(100));
      check(tensor);
    }
    {
      new_tensor tensor(words(100));
      check(tensor);
    }
    expect_nothing_is_out();
  }
};
INSTANTIATE_TEST_SUITE_P(devices, dlpack_on, every_device(), parameter_name);

TEST_P(dlpack_on, an_import_without_an_order_is_external) {
  with_both([&](auto& tensor) {
    auto imported = import_dlpack(runtime(), tensor.get());
    EXPECT_TRUE(imported.memory.is_external());
    EXPECT_EQ(imported.memory.address(), tensor.memory().data());
    EXPECT_EQ(imported.memory.bytes(), tensor.memory().bytes());
    EXPECT_EQ(imported.memory.type(), element_type::u32);
    EXPECT_FALSE(imported.memory.read_only());
    EXPECT_EQ(imported.shape, std::vector<std::int64_t>{100});
    EXPECT_EQ(imported.strides, std::vector<std::int64_t>{1});
    await_imports(1);
    EXPECT_EQ(runtime().statistics().blocks, 0u);
    EXPECT_TRUE(throws(errc::stream_misuse, "identity",
                       [&] { (void)imported.memory.template as<std::uint32_t>(); }));
    auto strict = launch_recorder::strict(stream());
    strict.read(imported.memory);
    EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { strict.preflight(); }));
    auto permissive = launch_recorder::permissive(stream());
    permissive.read(imported.memory);
    EXPECT_EQ(permissive.recorded_count(), 0u);

    auto another = imported.memory;
    imported = {};
    EXPECT_EQ(tensor.back.times.load(), 0);
    another = {};
    tensor.back.wait();
    EXPECT_TRUE(tensor.back.elsewhere.load());
  });
}

TEST_P(dlpack_on, an_import_with_a_stream_is_ordered_after_it) {
  with_both([&](auto& tensor) {
    const auto value = random_word();
    const auto result = runtime().allocate<std::uint32_t>(100, stream());
    gate closed;
    closed.hold(other_stream());
    fill(tensor.memory(), value, other_stream());
    auto imported = import_dlpack(runtime(), tensor.get(), {.stream = named(other_stream())});
    EXPECT_FALSE(imported.memory.is_external());
    auto ref = imported.memory.template as<std::uint32_t>();
    imported = {};
    const auto point = copy(result, ref, stream());
    EXPECT_FALSE(ended(point));
    tensor.back.in_use.store(true);
    ref = {};
    tensor.back.in_use.store(false);
    closed.open();
    EXPECT_EQ(download(result, stream()), std::vector(100, value));
    tensor.back.wait();
    EXPECT_TRUE(tensor.back.elsewhere.load());
    EXPECT_FALSE(tensor.back.too_early.load());
  });
}

TEST_P(dlpack_on, what_is_queued_after_the_import_is_not_waited_for) {
  new_tensor tensor(words(100));
  tensor.ends_when_back = true;
  const auto value = random_word();
  fill(tensor.memory(), value, other_stream());
  gate closed;
  auto imported = import_dlpack(runtime(), tensor.get(), {.stream = named(other_stream())});
  closed.hold(other_stream());
  const auto ref = imported.memory.as<std::uint32_t>();
  EXPECT_EQ(download(ref, stream()), std::vector(100, value));
  closed.open();
}

TEST_P(dlpack_on, one_import_does_not_wait_for_another_ones_stream) {
  const auto third = other().create_stream();
  new_tensor late(words(10));
  new_tensor early(words(10));
  late.ends_when_back = true;
  early.ends_when_back = true;
  gate closed;
  closed.hold(third);
  const auto waiting = import_dlpack(runtime(), late.get(), {.stream = named(third)});
  fill(early.memory(), 7, other_stream());
  const auto other_import =
      import_dlpack(runtime(), early.get(), {.stream = named(other_stream())});
  EXPECT_EQ(download(other_import.memory.as<std::uint32_t>(), stream()),
            std::vector<std::uint32_t>(10, 7));
  closed.open();
}

TEST_P(dlpack_on, more_imports_than_adoption_streams_are_all_ordered) {
  const auto third = other().create_stream();
  std::vector<std::unique_ptr<new_tensor>> tensors;
  std::vector<external_tensor> imported;
  std::vector<std::uint32_t> values;
  gate closed;
  closed.hold(third);
  for (int i = 0; i < 9; ++i) {
    tensors.push_back(std::make_unique<new_tensor>(words(10)));
    values.push_back(random_word());
    fill(tensors.back()->memory(), values.back(), third);
    imported.push_back(import_dlpack(runtime(), tensors.back()->get(), {.stream = named(third)}));
  }
  EXPECT_LE(runtime().statistics().streams, 2 + 4u);
  closed.open();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(download(imported[i].memory.as<std::uint32_t>(), stream()),
              std::vector(10, values[i]));
  }
  imported.clear();
  for (auto& tensor : tensors) tensor->back.wait();
}

TEST_P(dlpack_on, an_import_that_is_ready_waits_for_nothing) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it synchronises one stream while another one is held");
  with_both([&](auto& tensor) {
    const auto value = random_word();
    fill(tensor.memory(), value, other_stream());
    other_stream().synchronize();
    gate closed;
    closed.hold(other_stream());
    {
      auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
      const auto ref = imported.memory.template as<std::uint32_t>();
      EXPECT_EQ(uses_of(ref).last_write, timeline_point{});
      EXPECT_EQ(download(ref, stream()), std::vector(100, value));
      write(ref, value + 1, stream());
      EXPECT_EQ(download(ref, stream()), std::vector(100, value + 1));
    }
    closed.open();
    tensor.back.wait();
  });
}

TEST_P(dlpack_on, the_default_streams_of_cuda_are_streams) {
  if (on_host()) GTEST_SKIP() << "the host has no default streams";
  for (const std::uintptr_t handle : {1, 2}) {
    new_tensor tensor(words(10));
    fill(tensor.memory(), 5, other_stream());
    other_stream().synchronize();
    {
      const auto imported =
          import_dlpack(runtime(), tensor.get(), {.stream = foreign_stream(handle)});
      const auto ref = imported.memory.as<std::uint32_t>();
      EXPECT_EQ(download(ref, stream()), std::vector<std::uint32_t>(10, 5));
      auto* out = export_dlpack(runtime(), ref, {.stream = foreign_stream(handle)});
      out->deleter(out);
    }
    tensor.back.wait();
  }
}

TEST_P(dlpack_on, an_import_goes_back_after_its_uses) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("the producer goes by what the host has learnt by asking");
  with_both([&](auto& tensor) {
    const auto result = runtime().allocate<std::uint32_t>(100, stream());
    tensor.back.in_use.store(true);
    gate closed;
    {
      const auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
      closed.hold(stream());
      copy(result, imported.memory.template as<std::uint32_t>(), stream());
    }
    await_imports(1);
    tensor.back.in_use.store(false);
    closed.open();
    tensor.back.wait();
    EXPECT_FALSE(tensor.back.too_early.load());
  });
}

TEST_P(dlpack_on, deallocating_an_import_gives_it_back) {
  with_both([&](auto& tensor) {
    const auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
    const auto bytes = runtime().statistics().bytes_outstanding;
    EXPECT_EQ(bytes, 0u);
    runtime().deallocate(imported.memory.block());
    tensor.back.wait();
    EXPECT_TRUE(imported.memory.block().stale());
    auto recorder = launch_recorder::strict(stream());
    recorder.read(imported.memory);
    EXPECT_TRUE(throws(errc::stale_ref, "", [&] { recorder.preflight(); }));
  });
}

TEST_P(dlpack_on, a_tensor_without_deleter_or_elements_comes_in) {
  new_tensor empty(words(0));
  empty.get()->tensor.data = nullptr;
  new_tensor kept(words(4));
  kept.get()->deleter = nullptr;
  {
    const auto nothing = import_dlpack(runtime(), empty.get(), {.ready = true});
    EXPECT_EQ(nothing.memory.as<std::uint32_t>().size(), 0u);
    EXPECT_TRUE(download(nothing.memory.as<std::uint32_t>(), stream()).empty());
    (void)import_dlpack(runtime(), kept.get());
  }
  empty.back.wait();
  expect_nothing_is_out();
  EXPECT_EQ(kept.back.times.load(), 0);
}

TEST_P(dlpack_on, a_view_with_strides_covers_its_extent) {
  new_tensor tensor(words(100));
  std::vector<std::int64_t> shape{4, 5};
  std::vector<std::int64_t> strides{1, 20};
  auto& t = tensor.get()->tensor;
  t.ndim = 2;
  t.shape = shape.data();
  t.strides = strides.data();
  t.byte_offset = 12;
  {
    const auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
    EXPECT_FALSE(imported.is_contiguous());
    EXPECT_EQ(imported.strides, strides);
    EXPECT_EQ(imported.memory.as<std::uint32_t>().size(), 84u);
    EXPECT_EQ(imported.memory.address(), tensor.memory().data() + 3);
  }
  tensor.back.wait();
}

TEST_P(dlpack_on, an_import_is_no_more_aligned_than_its_address) {
  new_tensor tensor(words(100));
  auto& t = tensor.get()->tensor;
  t.dtype = {dlpack::unsigned_integer, 8, 1};
  const std::int64_t bytes = 31;
  std::vector<std::int64_t> shape{bytes};
  t.shape = shape.data();
  t.byte_offset = 1;
  {
    const auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
    const auto all = imported.memory.as<std::uint8_t>();
    const auto refused = [](auto convert) {
      return throws(errc::invalid_argument, "aligned", convert);
    };
    EXPECT_TRUE(refused([&] { (void)all.subspan(0, 4).reinterpret<float>(); }));
    EXPECT_TRUE(refused([&] { (void)all.subspan(4, 4).reinterpret<float>(); }));
    EXPECT_EQ(all.subspan(3, 4).reinterpret<float>().offset(), 3u);
    // Kernels of complex elements load them whole.
    EXPECT_TRUE(refused([&] { (void)all.subspan(3, 8).reinterpret<std::complex<float>>(); }));
    EXPECT_EQ(all.subspan(7, 8).reinterpret<std::complex<float>>().size(), 1u);
    EXPECT_TRUE(refused([&] { (void)column(all.block(), element_type::f32).as<float>(); }));
  }
  tensor.back.wait();
}

// Read-only

TEST_P(dlpack_on, a_read_only_import_is_not_written) {
  new_tensor tensor(words(10));
  tensor.get()->flags = dlpack::read_only_flag;
  {
    const auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
    EXPECT_TRUE(imported.memory.read_only());
    const auto ref = imported.memory.as<std::uint32_t>();
    EXPECT_NO_THROW((void)download(ref, stream()));
    const auto refused = [&](auto note) {
      auto recorder = launch_recorder::permissive(stream());
      note(recorder);
      return throws(errc::stream_misuse, "read-only", [&] { recorder.preflight(); });
    };
    EXPECT_TRUE(refused([&](auto& r) { r.write(ref); }));
    EXPECT_TRUE(refused([&](auto& r) { r.read_write(ref.subspan(1, 2)); }));
    EXPECT_TRUE(refused([&](auto& r) { r.write(imported.memory); }));
    EXPECT_TRUE(refused([&](auto& r) { r.use(ref.block(), access_kind::write, true); }));
    EXPECT_TRUE(throws(errc::stream_misuse, "read-only", [&] {
      (void)runtime().prepare_use(ref.block(), stream(), access_kind::write);
    }));
    EXPECT_TRUE(throws(errc::stream_misuse, "read-only", [&] {
      (void)runtime().record_use(ref.block(), stream(), access_kind::read_write);
    }));
    // It goes out as such, whatever is asked for.
    auto* out = export_dlpack(runtime(), ref);
    EXPECT_EQ(out->flags, dlpack::read_only_flag);
    out->deleter(out);
  }
  tensor.back.wait();

  new_tensor untracked(words(10));
  untracked.get()->flags = dlpack::read_only_flag;
  {
    const auto imported = import_dlpack(runtime(), untracked.get());
    auto recorder = launch_recorder::permissive(stream());
    recorder.write(imported.memory);
    EXPECT_TRUE(throws(errc::stream_misuse, "read-only", [&] { recorder.preflight(); }));
  }
  untracked.back.wait();

  // The record of that block serves others now.
  const auto own = runtime().allocate<std::uint32_t>(10, stream());
  EXPECT_NO_THROW(write(own, 1, stream()));
}

// Refusals

TEST_P(dlpack_on, what_is_refused_is_still_the_callers) {
  const auto refused = [&](errc code, const std::string& field, auto spoil) {
    new_tensor tensor(words(10));
    spoil(*tensor.get());
    auto result = ::testing::AssertionSuccess();
    for (const import_options& options : {import_options{}, import_options{.ready = true},
                                          import_options{.stream = named(other_stream())}}) {
      result = throws(code, field, [&] { (void)import_dlpack(runtime(), tensor.get(), options); });
      if (!result) return result;
    }
    EXPECT_EQ(tensor.back.times.load(), 0);
    return result;
  };
  EXPECT_TRUE(refused(errc::unsupported, "version.major", [](auto& t) { t.version.major = 2; }));
  EXPECT_TRUE(refused(errc::unsupported, "version.major", [](auto& t) { t.version.major = 0; }));
  EXPECT_TRUE(refused(errc::invalid_argument, "ndim", [](auto& t) { t.tensor.ndim = -1; }));
  EXPECT_TRUE(refused(errc::invalid_argument, "device.device_type",
                      [](auto& t) { t.tensor.device.type = 10; }));
  EXPECT_TRUE(refused(errc::invalid_argument, "device.device_type", [&](auto& t) {
    t.tensor.device.type = on_host() ? dlpack::cuda : dlpack::cpu;
  }));
  EXPECT_TRUE(refused(errc::invalid_argument, "device.device_type", [&](auto& t) {
    t.tensor.device.type = on_host() ? dlpack::cuda_managed : dlpack::cuda_host;
  }));
  if (on_host()) {
    new_tensor tensor(words(10));
    const auto a = runtime().allocate<std::uint32_t>(10, stream());
    for (const std::uintptr_t of_cuda : {1, 2}) {
      const foreign_stream named(of_cuda);
      EXPECT_TRUE(throws(errc::invalid_argument, "stream",
                         [&] { (void)import_dlpack(runtime(), tensor.get(), {.stream = named}); }));
      EXPECT_TRUE(throws(errc::invalid_argument, "stream",
                         [&] { (void)export_dlpack(runtime(), a, {.stream = named}); }));
    }
    EXPECT_EQ(tensor.back.times.load(), 0);
  } else {
    EXPECT_TRUE(refused(errc::invalid_argument, "device.device_id",
                        [](auto& t) { t.tensor.device.id = 99; }));
  }
  expect_nothing_is_out();
  EXPECT_TRUE(throws(errc::invalid_argument, "tensor", [&] {
    (void)import_dlpack(runtime(), static_cast<dlpack::managed_tensor*>(nullptr));
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "tensor", [&] {
    (void)import_dlpack(runtime(), static_cast<dlpack::versioned_tensor*>(nullptr));
  }));
}

TEST_P(dlpack_on, a_runtime_that_is_closing_takes_nothing) {
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  (void)owned->shut_down();
  for (const import_options& options : {import_options{}, import_options{.ready = true}}) {
    EXPECT_TRUE(throws(errc::shutting_down, "",
                       [&] { (void)import_dlpack(*owned, tensor.get(), options); }));
  }
  EXPECT_EQ(tensor.back.times.load(), 0);
}

TEST_P(dlpack_on, pinned_or_managed_memory_comes_in) {
  new_tensor tensor(words(10));
  tensor.get()->tensor.device.type = on_host() ? dlpack::cuda_host : dlpack::cuda_managed;
  (void)import_dlpack(runtime(), tensor.get());
  tensor.back.wait();
}

TEST(dlpack_devices, have_a_number_where_the_memory_is_that_of_one_gpu) {
  const auto on_gpu_1 = [](std::int32_t type, std::int64_t id) {
    detail::require_device({device_kind::cuda, 1}, type, id, "type", "id");
  };
  EXPECT_NO_THROW(on_gpu_1(dlpack::cuda, 1));
  EXPECT_TRUE(throws(errc::invalid_argument, "id", [&] { on_gpu_1(dlpack::cuda, 0); }));
  EXPECT_NO_THROW(on_gpu_1(dlpack::cuda_managed, 0));
  device_runtime numbered(open_host_device({.ordinal = 3}));
  const auto s = numbered.create_stream();
  auto* out = export_dlpack(numbered, numbered.allocate<float>(4, s));
  EXPECT_EQ(out->tensor.device.type, dlpack::cpu);
  EXPECT_EQ(out->tensor.device.id, 0);
  out->deleter(out);
}

TEST_P(dlpack_on, a_stream_of_another_gpu_is_refused) {
  if (on_host()) GTEST_SKIP() << "a host device takes streams of any other one";
  if (!has_device("cuda:1")) GTEST_SKIP() << "this machine has one GPU";
  device_runtime second(open_device("cuda:1"));
  const auto theirs = second.create_stream();
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  EXPECT_TRUE(throws(errc::invalid_argument, "stream",
                     [&] { (void)export_dlpack(runtime(), a, {.stream = named(theirs)}); }));
  new_tensor tensor(words(10));
  EXPECT_TRUE(throws(errc::invalid_argument, "stream", [&] {
    (void)import_dlpack(runtime(), tensor.get(), {.stream = named(theirs)});
  }));
  EXPECT_EQ(tensor.back.times.load(), 0);
  expect_nothing_is_out();
}

TEST_P(dlpack_on, an_import_that_went_back_leaves_no_points) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("the producer goes by what the host has learnt by asking");
  const auto points = runtime().statistics().points;
  new_tensor tensor(words(10));
  {
    const auto imported = import_dlpack(runtime(), tensor.get(), {.stream = named(other_stream())});
    const auto ref = imported.memory.as<std::uint32_t>();
    write(ref, 1, stream());
    EXPECT_GT(runtime().statistics().points, points);
  }
  tensor.back.wait();
  EXPECT_EQ(runtime().statistics().points, points);
}

TEST_P(dlpack_on, a_busy_adoption_stream_serves_where_there_can_be_no_other) {
  if (!on_host()) GTEST_SKIP() << "the driver does not take failed allocations";
  new_tensor tensor(words(10));
  tensor.ends_when_back = true;
  gate closed;
  closed.hold(other_stream());
  const auto imported = import_dlpack(runtime(), tensor.get(), {.stream = named(other_stream())});
  auto& core = *runtime().core();
  int refusals = 0;
  const auto failures = with_each_allocation_failing(
      [&] {
        const auto streams = runtime().statistics().streams;
        const auto& on = core.adoption_timeline();
        if (runtime().statistics().streams == streams) {
          EXPECT_GT(on.newest().ticket, 0u) << "the one that there is";
        }
      },
      [&] { ++refusals; });
  EXPECT_GE(failures, 3);
  EXPECT_EQ(refusals, 0);
  closed.open();
}

TEST_P(dlpack_on, survives_a_lack_of_host_memory) {
  if (!on_host()) GTEST_SKIP() << "the driver does not take failed allocations";
  // What is made once is there, and a record is free.
  new_tensor first(words(10));
  (void)import_dlpack(runtime(), first.get(), {.stream = named(other_stream())});
  first.back.wait();
  expect_nothing_is_out();
  for (const import_options& options : {import_options{}, import_options{.ready = true},
                                        import_options{.stream = named(other_stream())}}) {
    new_tensor tensor(words(10));
    const auto failures =
        with_each_allocation_failing([&] { (void)import_dlpack(runtime(), tensor.get(), options); },
                                     [&] {
                                       EXPECT_EQ(tensor.back.times.load(), 0);
                                       expect_nothing_is_out();
                                       EXPECT_EQ(runtime().statistics().blocks, 0u);
                                     });
    EXPECT_GE(failures, 3);
    tensor.back.wait();
  }
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  write(a, 3, stream());
  for (const dlpack_export& as :
       {dlpack_export{}, dlpack_export{.stream = named(other_stream())}}) {
    // One succeeds at last; others may, where the lack is made up for.
    std::vector<dlpack::versioned_tensor*> out;
    out.reserve(1000);
    const auto failures =
        with_each_allocation_failing([&] { out.push_back(export_dlpack(runtime(), a, as)); },
                                     [&] {
                                       EXPECT_EQ(runtime().statistics().exports, out.size());
                                       EXPECT_EQ(runtime().statistics().leases, 0u);
                                     });
    EXPECT_GE(failures, 2);
    for (auto* each : out) each->deleter(each);
  }
  expect_nothing_is_out();
}

// Out

template <element T>
void goes_round(device_runtime& runtime, stream_ref stream) {
  SCOPED_TRACE(to_string(element_type_v<T>));
  auto random = make_generator();
  std::vector<T> values(24);
  for (auto& value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random());
    } else {
      value = T(static_cast<float>(static_cast<int>(random() % 1000)));
    }
  }
  const auto whole = upload(runtime, stream, values);
  const auto part = whole.subspan(4, 20);
  auto* out = export_dlpack(runtime, part, {.shape = std::vector<std::int64_t>{2, 10}});
  EXPECT_EQ(out->version.major, 1u);
  EXPECT_EQ(out->flags, 0u);
  EXPECT_EQ(out->tensor.strides[0], 10);
  EXPECT_EQ(runtime.statistics().exports, 1u);
  const auto back = import_dlpack(runtime, out, {.ready = true});
  EXPECT_EQ(back.shape, (std::vector<std::int64_t>{2, 10}));
  EXPECT_TRUE(back.is_contiguous());
  EXPECT_EQ(download(back.memory.template as<T>(), stream),
            std::vector<T>(values.begin() + 4, values.end()));
}

TEST_P(dlpack_on, every_element_type_goes_round) {
  goes_round<std::uint8_t>(runtime(), stream());
  expect_nothing_is_out();
  goes_round<std::int32_t>(runtime(), stream());
  expect_nothing_is_out();
  goes_round<std::uint32_t>(runtime(), stream());
  expect_nothing_is_out();
  goes_round<std::int64_t>(runtime(), stream());
  expect_nothing_is_out();
  goes_round<std::uint64_t>(runtime(), stream());
  expect_nothing_is_out();
  goes_round<float>(runtime(), stream());
  expect_nothing_is_out();
  goes_round<double>(runtime(), stream());
  expect_nothing_is_out();
  goes_round<std::complex<float>>(runtime(), stream());
  expect_nothing_is_out();
  goes_round<std::complex<double>>(runtime(), stream());
  expect_nothing_is_out();
}

TEST_P(dlpack_on, an_export_with_a_stream_is_ordered_both_ways) {
  const auto first = random_word();
  const auto second = random_word();
  const auto a = runtime().allocate<std::uint32_t>(100, stream());
  const auto result = runtime().allocate<std::uint32_t>(100, stream());
  const auto seen = words(100);
  gate ours;
  ours.hold(stream());
  write(a, first, stream());
  auto* out = export_dlpack(runtime(), a, {.stream = named(other_stream())});
  ASSERT_EQ(out->tensor.data, a.data());
  other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  ours.open();
  EXPECT_EQ(download(seen, other_stream()), std::vector(100, first));

  gate theirs;
  theirs.hold(other_stream());
  other().device().fill(out->tensor.data, &second, sizeof second, 100, other_stream().native());
  std::thread([out] { out->deleter(out); }).join();
  expect_nothing_is_out();
  const auto point = copy(result, a, stream());
  EXPECT_FALSE(ended(point));
  theirs.open();
  EXPECT_EQ(download(result, stream()), std::vector(100, second));
}

// Its use is published without a lease, so it may come between a launch's ends.
TEST_P(dlpack_on, an_export_that_comes_back_during_a_launch_is_waited_for_later) {
  const auto value = random_word();
  const auto a = runtime().allocate<std::uint32_t>(20, stream());
  const auto third = runtime().create_stream();
  const auto seen = words(10);
  write(a, value, stream());
  auto* out = export_dlpack(runtime(), a.subspan(0, 10),
                            {.stream = named(other_stream()), .read_only = true});
  gate closed;
  closed.hold(other_stream());
  other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  const auto rest = a.subspan(10, 10);
  auto recorder = launch_recorder::strict(stream());
  recorder.write(rest);
  recorder.preflight();
  const auto before = uses_of(a);
  out->deleter(out);
  timeline_point consumed;
  for (const auto& point : uses_of(a).all) {
    if (!before.holds(point)) consumed = point;
  }
  ASSERT_TRUE(consumed);
  fill(rest, value + 1, stream());
  (void)recorder.commit();
  EXPECT_TRUE(uses_of(a).holds(consumed));
  const auto point = write(a, value + 2, third);
  EXPECT_FALSE(
      third.ref().timeline()->wait_for(*runtime().core()->find(consumed.stream), consumed.ticket));
  EXPECT_FALSE(ended(point));
  closed.open();
  EXPECT_EQ(download(seen, other_stream()), std::vector(10, value));
  EXPECT_EQ(download(a, third), std::vector(20, value + 2));
}

TEST_P(dlpack_on, memory_that_was_exported_is_freed_after_the_consumers_uses) {
  const auto value = random_word();
  auto a = runtime().allocate<std::uint32_t>(1000, stream());
  write(a, value, stream());
  const auto seen = words(1000);
  gate closed;
  auto* out = export_dlpack(runtime(), a, {.stream = named(other_stream()), .read_only = true});
  closed.hold(other_stream());
  other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  a = {};
  out->deleter(out);
  // Whoever gets that memory now comes later.
  for (int i = 0; i < 4; ++i) {
    write(runtime().allocate<std::uint32_t>(1000, stream()), value + 1, stream());
  }
  closed.open();
  EXPECT_EQ(download(seen, other_stream()), std::vector(1000, value));
}

TEST_P(dlpack_on, an_export_without_a_stream_waits_here) {
  const auto a = runtime().allocate<std::uint32_t>(100, stream());
  const auto own_stream = runtime().create_stream();
  gate closed;
  closed.hold(own_stream);
  write(a, random_word(), own_stream);
  const auto launches = runtime().statistics().launches;
  std::atomic<bool> opened{false};
  bool waited = false;
  dlpack::versioned_tensor* out = nullptr;
  std::thread exporting([&] {
    out = export_dlpack(runtime(), a);
    waited = opened.load();
  });
  await([&] { return runtime().statistics().launches > launches; });
  opened.store(true);
  closed.open();
  exporting.join();
  EXPECT_TRUE(waited);
  out->deleter(out);
}

TEST_P(dlpack_on, a_writable_export_comes_after_reads_and_a_read_only_one_does_not) {
  const auto before = random_word();
  const auto a = runtime().allocate<std::uint32_t>(100, stream());
  const auto result = runtime().allocate<std::uint32_t>(100, stream());
  write(a, before, stream());
  gate closed;
  closed.hold(stream());
  copy(result, a, stream());
  auto* reading = export_dlpack(runtime(), a, {.stream = named(other_stream()), .read_only = true});
  EXPECT_EQ(reading->flags, dlpack::read_only_flag);
  other_stream().synchronize();  // stands behind no gate
  reading->deleter(reading);
  auto* writing = export_dlpack(runtime(), a, {.stream = named(other_stream())});
  EXPECT_EQ(writing->flags, 0u);
  const auto after = before + 1;
  other().device().fill(writing->tensor.data, &after, sizeof after, 100, other_stream().native());
  writing->deleter(writing);
  closed.open();
  EXPECT_EQ(download(result, stream()), std::vector(100, before));
  EXPECT_EQ(download(a, stream()), std::vector(100, after));
}

TEST_P(dlpack_on, an_export_outlives_its_block_and_its_runtime) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("the consumer goes by what the host has learnt by asking");
  using make_resource = std::unique_ptr<memory_resource> (*)();
  for (const make_resource make :
       {make_resource([] { return make_async_resource(); }),
        make_resource([] { return make_direct_resource({.tracked = true}); }),
        make_resource([] { return make_pool_resource(make_async_resource()); })}) {
    for (const bool with_stream : {false, true}) {
      const auto value = random_word();
      auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                    runtime_options{.resource = make()});
      const std::weak_ptr<detail::runtime_core> core = owned->core();
      auto own_stream = owned->create_stream();
      auto a = owned->allocate<std::uint32_t>(100, own_stream);
      write(a, value, own_stream);
      dlpack_export as{};
      if (with_stream) as.stream = named(other_stream());
      auto* out = export_dlpack(*owned, a, as);
      auto* twice = export_dlpack(*owned, a, as);
      owned->deallocate(a.block());
      EXPECT_EQ(owned->statistics().blocks, 0u);
      EXPECT_EQ(owned->statistics().bytes_outstanding, 400u);
      EXPECT_TRUE(throws(errc::stale_ref, "", [&] { (void)export_dlpack(*owned, a); }));
      a = {};
      own_stream = {};
      twice->deleter(twice);
      ::testing::internal::CaptureStderr();
      owned.reset();
      EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
      EXPECT_FALSE(core.expired());
      const auto seen = words(100);
      other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                            copy_direction::device_to_device, other_stream().native());
      EXPECT_EQ(download(seen, other_stream()), std::vector(100, value));
      std::thread([out] { out->deleter(out); }).join();
      EXPECT_TRUE(core.expired());
    }
  }
}

TEST_P(dlpack_on, the_deleter_of_an_export_that_outlives_its_runtime_does_not_wait) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it ends the last of a runtime behind a gate");
  using make_resource = std::unique_ptr<memory_resource> (*)();
  for (const make_resource make :
       {make_resource([] { return make_default_resource(); }),
        make_resource([] { return make_direct_resource({.tracked = true}); }), make_resource([] {
          return make_pool_resource(make_direct_resource({.tracked = true}));
        })}) {
    const auto value = random_word();
    const auto seen = words(100);
    auto device = open_device(GetParam());
    const std::weak_ptr<sluice::device> ends = device;
    auto owned = std::make_unique<device_runtime>(device, runtime_options{.resource = make()});
    auto own_stream = owned->create_stream();
    auto a = owned->allocate<std::uint32_t>(100, own_stream);
    write(a, value, own_stream);
    auto* out = export_dlpack(*owned, a, {.stream = named(other_stream())});
    a = {};
    own_stream = {};
    owned.reset();
    device.reset();
    gate closed;
    closed.hold(other_stream());
    other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                          copy_direction::device_to_device, other_stream().native());
    out->deleter(out);
    closed.open();
    EXPECT_EQ(download(seen, other_stream()), std::vector(100, value));
    await([&] { return ends.expired(); });
  }
}

TEST_P(dlpack_on, a_producer_may_end_the_runtime_that_gives_it_back) {
  new_tensor tensor(words(10));
  new_tensor waiting(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                runtime_options{.drain_timeout = 100ms});
  const std::weak_ptr<detail::runtime_core> core = owned->core();
  struct owner {
    std::unique_ptr<device_runtime>& runtime;
    returned& back;
  } kept{owned, tensor.back};
  tensor.get()->manager_ctx = &kept;
  tensor.get()->deleter = [](dlpack::versioned_tensor* self) {
    auto* last = static_cast<owner*>(self->manager_ctx);
    last->runtime.reset();
    last->back.note();
  };
  auto other_import = import_dlpack(*owned, waiting.get(), {.ready = true});
  ::testing::internal::CaptureStderr();
  (void)import_dlpack(*owned, tensor.get(), {.ready = true});
  tensor.back.wait();
  // Freed by the runtime's end, behind the one whose producer made it.
  waiting.back.wait();
  EXPECT_TRUE(other_import.memory.block().stale());
  other_import = {};
  await([&] { return core.expired(); });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "it waited for itself";
}

TEST_P(dlpack_on, an_external_column_outlives_the_runtime) {
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  const std::weak_ptr<detail::runtime_core> core = owned->core();
  auto imported = import_dlpack(*owned, tensor.get());
  owned.reset();
  EXPECT_EQ(tensor.back.times.load(), 0);
  imported = {};
  tensor.back.wait();
  EXPECT_TRUE(tensor.back.elsewhere.load());
  await([&] { return core.expired(); });
}

TEST_P(dlpack_on, a_tracked_import_has_gone_back_when_the_runtime_has_ended) {
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  const auto imported = import_dlpack(*owned, tensor.get(), {.stream = named(other_stream())});
  owned.reset();
  EXPECT_EQ(tensor.back.times.load(), 1);
  EXPECT_TRUE(imported.memory.block().stale());
}

// The device is given up, and goes on with what it was given.
TEST_P(dlpack_on, a_runtime_ends_although_the_use_of_an_import_does_not) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("a lost GPU keeps its memory");
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                runtime_options{.drain_timeout = 100ms});
  auto s = owned->create_stream();
  auto imported = import_dlpack(*owned, tensor.get(), {.ready = true});
  gate closed;
  closed.hold(s);
  auto recorder = launch_recorder::strict(s);
  recorder.read(imported.memory);
  recorder.preflight();
  (void)recorder.commit();
  imported = {};
  tensor.back.in_use.store(true);
  ::testing::internal::CaptureStderr();
  owned.reset();
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("imports"), std::string::npos) << said;
  EXPECT_EQ(tensor.back.times.load(), 0);
  tensor.back.in_use.store(false);
  s = {};
  closed.open();
  tensor.back.wait();
  EXPECT_FALSE(tensor.back.too_early.load());
}

TEST_P(dlpack_on, a_stream_that_is_gone_still_keeps_an_import_on_a_lost_device) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("a lost GPU keeps its memory");
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                runtime_options{.drain_timeout = 100ms});
  auto s = owned->create_stream();
  auto imported = import_dlpack(*owned, tensor.get(), {.ready = true});
  gate closed;
  closed.hold(s);
  auto recorder = launch_recorder::strict(s);
  recorder.read(imported.memory);
  recorder.preflight();
  (void)recorder.commit();
  s = {};  // before the loss: only its last ticket is left of it
  imported = {};
  tensor.back.in_use.store(true);
  ::testing::internal::CaptureStderr();
  owned.reset();
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("imports"), std::string::npos) << said;
  EXPECT_EQ(tensor.back.times.load(), 0);
  tensor.back.in_use.store(false);
  closed.open();
  tensor.back.wait();
  EXPECT_FALSE(tensor.back.too_early.load());
}

TEST_P(dlpack_on, a_runtime_may_end_with_imports_of_its_own_exports) {
  for (const import_options& options : {import_options{}, import_options{.ready = true}}) {
    auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
    const std::weak_ptr<detail::runtime_core> core = owned->core();
    auto own_stream = owned->create_stream();
    auto a = owned->allocate<std::uint32_t>(10, own_stream);
    write(a, 1, own_stream);
    auto imported = import_dlpack(*owned, export_dlpack(*owned, a), options);
    own_stream = {};
    a = {};
    owned.reset();
    imported = {};
    await([&] { return core.expired(); });
  }
}

TEST_P(dlpack_on, a_recorder_with_leases_on_an_import_may_outlive_the_runtime) {
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                runtime_options{.drain_timeout = 100ms});
  const std::weak_ptr<detail::runtime_core> core = owned->core();
  auto own_stream = owned->create_stream();
  auto imported = import_dlpack(*owned, tensor.get(), {.ready = true});
  ::testing::internal::CaptureStderr();
  {
    auto recorder = launch_recorder::strict(own_stream);
    recorder.read(imported.memory);
    recorder.preflight();
    owned.reset();
    EXPECT_EQ(tensor.back.times.load(), 0);
  }
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("still holds memory"), std::string::npos) << said;
  tensor.back.wait();
  imported = {};
  own_stream = {};
  await([&] { return core.expired(); });
}

TEST_P(dlpack_on, many_threads_may_pass_memory_round) {
  constexpr int rounds = 40;
  // These have to be there until the last deleter has been called.
  std::vector<sluice::stream> consumers(4);
  for (auto& consumer : consumers) consumer = other().create_stream();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto own_stream = runtime().create_stream();
      const auto consumer = consumers[t].ref();
      for (std::uint32_t i = 0; i < rounds; ++i) {
        auto a = runtime().allocate<std::uint32_t>(50, own_stream);
        write(a, i * 4 + t, own_stream);
        auto* out = export_dlpack(runtime(), a, {.stream = named(consumer)});
        // To the other one, and its copy back.
        const auto there = import_dlpack(other(), out, {.stream = named(consumer)});
        const auto word = i * 4 + t + 1;
        {
          const auto theirs = there.memory.as<std::uint32_t>();
          auto recorder = launch_recorder::strict(consumer);
          recorder.read_write(theirs);
          recorder.preflight();
          fill(theirs, word, consumer);
          (void)recorder.commit();
          if (download(theirs, consumer) != std::vector(50, word)) wrong.fetch_add(1);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  await([&] { return other().statistics().imports == 0; });
  expect_nothing_is_out();
  EXPECT_EQ(runtime().statistics().blocks, 0u);
}

TEST_P(dlpack_on, what_cannot_be_exported_is_refused) {
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  const auto refused = [&](errc code, const std::string& word, const column& c,
                           const dlpack_export& as = {}) {
    return throws(code, word, [&] { (void)export_dlpack(runtime(), c, as); });
  };
  std::uint32_t outside[4] = {};
  EXPECT_TRUE(refused(
      errc::stream_misuse, "identity",
      column::external(runtime().device().id(), outside, sizeof outside, element_type::u32)));
  EXPECT_TRUE(refused(errc::stream_misuse, "identity", column()));
  EXPECT_TRUE(refused(errc::invalid_argument, "runtime", words(4)));
  const auto shaped = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}) {
    return dlpack_export{.shape = std::move(shape), .strides = std::move(strides)};
  };
  EXPECT_TRUE(refused(errc::invalid_argument, "shape", a, shaped({11})));
  EXPECT_TRUE(refused(errc::invalid_argument, "shape", a, shaped({-1})));
  EXPECT_TRUE(refused(errc::invalid_argument, "shape", a,
                      shaped({std::int64_t{1} << 40, std::int64_t{1} << 40})));
  EXPECT_TRUE(
      refused(errc::invalid_argument, "shape", a, shaped(std::vector<std::int64_t>(65, 1))));
  EXPECT_TRUE(refused(errc::invalid_argument, "strides", a, shaped({2, 5}, {6, 1})));
  EXPECT_TRUE(refused(errc::invalid_argument, "strides", a, shaped({2, 5}, {1})));
  EXPECT_TRUE(refused(errc::unsupported, "strides", a, shaped({2, 5}, {5, -1})));
  EXPECT_EQ(runtime().statistics().exports, 0u);
  runtime().deallocate(a.block());
  EXPECT_TRUE(refused(errc::stale_ref, "", a));

  device_runtime untracked(open_device(GetParam()), {.resource = make_direct_resource()});
  const auto own_stream = untracked.create_stream();
  const auto b = untracked.allocate<std::uint32_t>(10, own_stream);
  EXPECT_TRUE(throws(errc::stream_misuse, "track", [&] { (void)export_dlpack(untracked, b); }));
}

TEST_P(dlpack_on, a_tensor_goes_out_in_the_shape_asked_for) {
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  const auto check = [&](const dlpack_export& as, const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& strides) {
    auto* out = export_dlpack(runtime(), a, as);
    EXPECT_EQ(out->tensor.ndim, static_cast<std::int32_t>(shape.size()));
    EXPECT_EQ(std::vector(out->tensor.shape, out->tensor.shape + shape.size()), shape);
    EXPECT_EQ(std::vector(out->tensor.strides, out->tensor.strides + shape.size()), strides);
    out->deleter(out);
  };
  check({}, {10}, {1});
  check({.shape = std::vector<std::int64_t>{}}, {}, {});
  check({.shape = std::vector<std::int64_t>{2, 5}}, {2, 5}, {5, 1});
  check({.shape = std::vector<std::int64_t>{2, 0, 5}}, {2, 0, 5}, {5, 5, 1});
  check({.shape = std::vector<std::int64_t>{5, 2}, .strides = {1, 5}}, {5, 2}, {1, 5});
}

// Failures, which the host device can have

TEST(dlpack_on_a_failing_host, refuses_to_export_what_a_failed_launch_wrote) {
  const auto faults = std::make_shared<fault_script>();
  device_runtime runtime(open_host_device({.faults = faults}));
  device_runtime consumer(open_host_device());
  const auto s = runtime.create_stream();
  const auto theirs = consumer.create_stream();
  for (const bool with_stream : {false, true}) {
    const auto a = runtime.allocate<std::uint32_t>(10, s);
    faults->fail_nth(fault_target::launch, 1);
    auto recorder = launch_recorder::strict(s);
    recorder.write(a);
    recorder.preflight();
    submit_host_task(s, [] {});
    const auto point = recorder.commit();
    dlpack_export as{};
    if (with_stream) {
      runtime.core()->wait_until_complete(point);
      as.stream = foreign_stream(theirs.ref().native());
    }
    EXPECT_TRUE(throws(errc::upstream_failed, "", [&] { (void)export_dlpack(runtime, a, as); }));
  }
  EXPECT_EQ(runtime.statistics().exports, 0u);
}

TEST(dlpack_on_a_failing_host, what_a_lost_producer_wrote_has_failed) {
  device_runtime runtime(open_host_device());
  const auto s = runtime.create_stream();
  auto lost = std::make_unique<device_runtime>(open_host_device());
  auto theirs = lost->create_stream();
  new_tensor tensor(lost->allocate<std::uint32_t>(10, theirs));
  gate closed;
  closed.hold(theirs);
  {
    const auto imported =
        import_dlpack(runtime, tensor.get(), {.stream = foreign_stream(theirs.ref().native())});
    auto recorder = launch_recorder::strict(s);
    recorder.read(imported.memory);
    recorder.preflight();
    const auto point = recorder.commit();
    lost->device().lose(error(errc::device_lost, "smoke"));
    closed.open();
    auto* line = runtime.core()->find(point.stream);
    line->wait_until(point.ticket);
    ASSERT_TRUE(line->failure_of(point.ticket).has_value());
    EXPECT_EQ(line->failure_of(point.ticket)->code(), errc::upstream_failed);
  }
  tensor.back.wait();
}

TEST(dlpack_on_a_failing_host, a_lost_runtime_gives_back_once_nothing_runs) {
  device_runtime producer(open_host_device());
  const auto theirs = producer.create_stream();
  new_tensor tensor(producer.allocate<std::uint32_t>(10, theirs));
  auto runtime = std::make_unique<device_runtime>(open_host_device());
  auto s = runtime->create_stream();
  auto imported = import_dlpack(*runtime, tensor.get(), {.ready = true});
  std::atomic<bool> end{false};
  auto recorder = launch_recorder::strict(s);
  recorder.read(imported.memory);
  recorder.preflight();
  submit_host_task(s, [&] {
    tensor.back.in_use.store(true);
    await([&] { return end.load(); });
    tensor.back.in_use.store(false);
  });
  await([&] { return tensor.back.in_use.load(); });
  runtime->device().lose(error(errc::device_lost, "smoke"));
  EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] { (void)recorder.commit(); }));
  imported = {};
  EXPECT_EQ(runtime->statistics().imports, 1u);
  end.store(true);
  tensor.back.wait();
  EXPECT_FALSE(tensor.back.too_early.load());
  runtime.reset();
}

TEST(dlpack_on_a_failing_host, a_loss_that_a_deleter_is_the_first_to_see_gives_back) {
  device_runtime producer(open_host_device());
  const auto theirs = producer.create_stream();
  new_tensor tensor(producer.allocate<std::uint32_t>(10, theirs));
  device_runtime runtime(open_host_device());
  auto imported = import_dlpack(runtime, tensor.get(), {.ready = true});
  auto* out =
      export_dlpack(runtime, imported.memory, {.stream = foreign_stream(theirs.ref().native())});
  imported = {};
  // Then the deleter's first allocation is made under no lock: that to follow the consumer's
  // stream.
  await([&] {
    bool idle = true;
    runtime.core()->for_each_timeline(
        [&](detail::timeline& t) { idle = t.advance() >= t.newest().ticket && idle; });
    return idle;
  });
  const std::function<void()> lose = [&] {
    runtime.device().lose(error(errc::device_lost, "smoke"));
  };
  fail_allocation(1, &lose);
  out->deleter(out);
  EXPECT_FALSE(allocation_is_to_fail());
  fail_allocation(0);
  ASSERT_TRUE(runtime.device().lost());
  EXPECT_EQ(runtime.statistics().exports, 0u);
  tensor.back.wait();
}

TEST(dlpack_on_a_failing_host, a_lost_runtime_waits_for_no_producer) {
  device_runtime producer(open_host_device());
  const auto theirs = producer.create_stream();
  new_tensor tensor(producer.allocate<std::uint32_t>(10, theirs));
  gate closed;
  closed.hold(theirs);
  auto runtime = std::make_unique<device_runtime>(open_host_device());
  const auto imported =
      import_dlpack(*runtime, tensor.get(), {.stream = foreign_stream(theirs.ref().native())});
  runtime->device().lose(error(errc::device_lost, "smoke"));
  runtime.reset();
  EXPECT_EQ(tensor.back.times.load(), 1);
  closed.open();
}

}  // namespace
}  // namespace sluice::test
