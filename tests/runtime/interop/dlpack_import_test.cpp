// SPDX-License-Identifier: Apache-2.0
// Imports: their order after the producer's work, their type, and their return.
#include "tests/runtime/interop/dlpack_test.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/use_state.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::test {
namespace {

INSTANTIATE_TEST_SUITE_P(devices, dlpack_on, every_device(), parameter_name);

TEST_P(dlpack_on, only_ordinary_host_memory_comes_in_without_an_order) {
  with_both([&](auto& tensor) {
    auto& device = tensor.get()->tensor.device;
    for (const auto type : {on_host() ? dlpack::cuda_host : dlpack::cuda,
                            on_host() ? dlpack::cuda_host : dlpack::cuda_managed}) {
      device.type = type;
      EXPECT_TRUE(throws(errc::invalid_argument, "stream: the import has no order",
                         [&] { (void)import_dlpack(runtime(), tensor.get()); }));
    }
    EXPECT_EQ(tensor.back.times.load(), 0);
    if (!on_host()) return;
    device.type = dlpack::cpu;
    {
      const auto imported = import_dlpack(runtime(), tensor.get());
      EXPECT_EQ(imported.address(), tensor.memory().data());
      EXPECT_EQ(uses_of(imported.template as<std::uint32_t>()).last_write, timeline_point{});
    }
    tensor.back.wait();
  });
}

TEST_P(dlpack_on, an_import_is_the_producers_view) {
  with_both([&](auto& tensor) {
    {
      const auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
      EXPECT_EQ(imported.address(), tensor.memory().data());
      EXPECT_EQ(imported.bytes(), tensor.memory().bytes());
      EXPECT_EQ(imported.type(), element_type::u32);
      EXPECT_EQ(extents(imported.shape()), extents{100});
      EXPECT_EQ(extents(imported.strides()), extents{1});
      EXPECT_FALSE(imported.block().read_only());
      EXPECT_EQ(runtime().statistics().imports, 1u);
      EXPECT_EQ(runtime().statistics().blocks, 1u);
    }
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
    enqueue_fill(tensor.memory(), value, other_stream());
    auto imported = import_dlpack(runtime(), tensor.get(), {.stream = named(other_stream())});
    auto ref = imported.template as<std::uint32_t>();
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
  enqueue_fill(tensor.memory(), value, other_stream());
  gate closed;
  auto imported = import_dlpack(runtime(), tensor.get(), {.stream = named(other_stream())});
  closed.hold(other_stream());
  const auto ref = imported.as<std::uint32_t>();
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
  enqueue_fill(early.memory(), 7, other_stream());
  const auto other_import =
      import_dlpack(runtime(), early.get(), {.stream = named(other_stream())});
  EXPECT_EQ(download(other_import.as<std::uint32_t>(), stream()),
            std::vector<std::uint32_t>(10, 7));
  closed.open();
}

TEST_P(dlpack_on, more_imports_than_adoption_streams_are_all_ordered) {
  const auto third = other().create_stream();
  std::vector<std::unique_ptr<new_tensor>> tensors;
  std::vector<sluice::tensor> imported;
  std::vector<std::uint32_t> values;
  gate closed;
  closed.hold(third);
  for (int i = 0; i < 9; ++i) {
    tensors.push_back(std::make_unique<new_tensor>(words(10)));
    values.push_back(random_word());
    enqueue_fill(tensors.back()->memory(), values.back(), third);
    imported.push_back(import_dlpack(runtime(), tensors.back()->get(), {.stream = named(third)}));
  }
  EXPECT_LE(runtime().statistics().streams, 2 + 4u);
  closed.open();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(download(imported[i].as<std::uint32_t>(), stream()), std::vector(10, values[i]));
  }
  imported.clear();
  for (auto& tensor : tensors) tensor->back.wait();
}

TEST_P(dlpack_on, an_import_that_is_ready_waits_for_nothing) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it synchronises one stream while another one is held");
  with_both([&](auto& tensor) {
    const auto value = random_word();
    enqueue_fill(tensor.memory(), value, other_stream());
    other_stream().synchronize();
    gate closed;
    closed.hold(other_stream());
    {
      auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
      const auto ref = imported.template as<std::uint32_t>();
      EXPECT_EQ(uses_of(ref).last_write, timeline_point{});
      EXPECT_EQ(download(ref, stream()), std::vector(100, value));
      launch_fill(ref, value + 1, stream());
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
    enqueue_fill(tensor.memory(), 5, other_stream());
    other_stream().synchronize();
    {
      const auto imported =
          import_dlpack(runtime(), tensor.get(), {.stream = foreign_stream(handle)});
      const auto ref = imported.as<std::uint32_t>();
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
      copy(result, imported.template as<std::uint32_t>(), stream());
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
    runtime().deallocate(imported.block());
    tensor.back.wait();
    EXPECT_TRUE(imported.block().stale());
    auto recorder = launch_recorder::strict(stream());
    recorder.read(imported);
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
    EXPECT_EQ(nothing.as<std::uint32_t>().size(), 0u);
    EXPECT_TRUE(download(nothing.as<std::uint32_t>(), stream()).empty());
    (void)import_dlpack(runtime(), kept.get(), {.ready = true});
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
    EXPECT_EQ(extents(imported.strides()), (extents{1, 20}));
    EXPECT_EQ(imported.size(), 20u);
    EXPECT_EQ(imported.block().bytes(), 84 * sizeof(std::uint32_t));
    EXPECT_TRUE(
        throws(errc::unsupported, "contiguous", [&] { (void)imported.as<std::uint32_t>(); }));
    EXPECT_EQ(imported.address(), tensor.memory().data() + 3);
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
    const auto all = imported.as<std::uint8_t>();
    const auto refused = [](auto convert) {
      return throws(errc::invalid_argument, "aligned", convert);
    };
    EXPECT_TRUE(refused([&] { (void)all.subspan(0, 4).reinterpret<float>(); }));
    EXPECT_TRUE(refused([&] { (void)all.subspan(4, 4).reinterpret<float>(); }));
    EXPECT_EQ(all.subspan(3, 4).reinterpret<float>().offset(), 3u);
    // Kernels of complex elements load whole elements.
    EXPECT_TRUE(refused([&] { (void)all.subspan(3, 8).reinterpret<std::complex<float>>(); }));
    EXPECT_EQ(all.subspan(7, 8).reinterpret<std::complex<float>>().size(), 1u);
    EXPECT_TRUE(refused([&] { (void)sluice::tensor(all.block(), element_type::f32, {7}); }));
  }
  tensor.back.wait();
}

TEST_P(dlpack_on, pinned_or_managed_memory_comes_in) {
  new_tensor tensor(words(10));
  tensor.get()->tensor.device.type = on_host() ? dlpack::cuda_host : dlpack::cuda_managed;
  (void)import_dlpack(runtime(), tensor.get(), {.ready = true});
  tensor.back.wait();
}

TEST_P(dlpack_on, an_import_that_went_back_leaves_no_points) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("the producer goes by what the host has learnt by asking");
  const auto points = runtime().statistics().points;
  new_tensor tensor(words(10));
  {
    const auto imported = import_dlpack(runtime(), tensor.get(), {.stream = named(other_stream())});
    const auto ref = imported.as<std::uint32_t>();
    launch_fill(ref, 1, stream());
    EXPECT_GT(runtime().statistics().points, points);
  }
  tensor.back.wait();
  EXPECT_EQ(runtime().statistics().points, points);
}

// Read-only

TEST_P(dlpack_on, a_read_only_import_is_not_written) {
  new_tensor tensor(words(10));
  tensor.get()->flags = dlpack::read_only_flag;
  {
    const auto imported = import_dlpack(runtime(), tensor.get(), {.ready = true});
    EXPECT_TRUE(imported.block().read_only());
    const auto ref = imported.as<std::uint32_t>();
    EXPECT_NO_THROW((void)download(ref, stream()));
    const auto refused = [&](auto note) {
      auto recorder = launch_recorder::permissive(stream());
      note(recorder);
      return throws(errc::stream_misuse, "read-only", [&] { recorder.preflight(); });
    };
    EXPECT_TRUE(refused([&](auto& r) { r.write(ref); }));
    EXPECT_TRUE(refused([&](auto& r) { r.read_write(ref.subspan(1, 2)); }));
    EXPECT_TRUE(refused([&](auto& r) { r.write(imported); }));
    EXPECT_TRUE(refused([&](auto& r) { r.use(ref.block(), access_kind::write, true); }));
    EXPECT_TRUE(throws(errc::stream_misuse, "read-only", [&] {
      (void)runtime().prepare_use(ref.block(), stream(), access_kind::write);
    }));
    EXPECT_TRUE(throws(errc::stream_misuse, "read-only", [&] {
      (void)runtime().record_use(ref.block(), stream(), access_kind::read_write);
    }));
    // The export is read-only, too, although the program did not ask for that.
    auto* out = export_dlpack(runtime(), ref);
    EXPECT_EQ(out->flags, dlpack::read_only_flag);
    out->deleter(out);
  }
  tensor.back.wait();

  // Another block now uses the record of that one.
  const auto block = runtime().allocate<std::uint32_t>(10, stream());
  EXPECT_NO_THROW(launch_fill(block, 1, stream()));
}

}  // namespace
}  // namespace sluice::test
