// SPDX-License-Identifier: Apache-2.0
// Generated kernels of all functions and types are compiled. This needs a compiler and no GPU.
#include "operations/fusion/kernel_compiler_cuda.hpp"

#include "operations/fusion/kernel_builder_cuda.hpp"
#include "operations/fusion/kernel_source.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using namespace operations;

template <class Call>
Call call_of(std::vector<storage> types) {
  Call call{};
  for (std::size_t k = 0; k < types.size(); ++k) call.layout.types[k] = types[k];
  return call;
}

/// A map of functions that all read the first inputs, and whose last one makes the result.
fused_map map_of(std::vector<storage> inputs, std::vector<fused_call> calls, bool flat = true) {
  fused_map map;
  map.inputs = inputs.size();
  for (const auto& call : calls) {
    fused_map::function function{call, {}};
    function.arguments = {0, 1, 2};
    map.functions.push_back(function);
  }
  map.layout.count = 1000;
  map.layout.shape[0] = 1000;
  map.layout.types[0] = map.functions.back().type();
  for (std::size_t k = 0; k < inputs.size(); ++k) map.layout.types[k + 1] = inputs[k];
  for (std::size_t k = 0; k <= inputs.size(); ++k) {
    map.layout.strides[k][0] = flat ? 1 : 2;
    map.alignments[k] = 256;
  }
  return map;
}

/// The same map, whose last value is reduced: rows of 24 elements, or columns.
fused_map with_reduction(fused_map map, reduction kind, storage y, bool along_rows = true) {
  auto& reduced = map.reduced.emplace();
  reduced.along_rows = along_rows;
  reduced.call.kind = kind;
  reduced.call.results.types[0] = y;
  reduced.call.results.types[1] = map.last_type();
  reduced.elements = map.layout;
  const auto set = [](auto& layout, std::int64_t extent, std::int64_t stride) {
    layout.count = layout.shape[0] = extent;
    for (auto& strides : layout.strides) strides[0] = strides[0] == 0 ? 0 : stride;
  };
  const auto stride = map.layout.strides[1][0];
  set(map.layout, 40, along_rows ? 24 : stride);
  set(reduced.elements, 24, along_rows ? stride : 40);
  reduced.call.reduced.count = reduced.call.part_length = 24;
  reduced.call.lanes = along_rows ? 8 : 1;
  map.layout.types[0] = y;
  return map;
}

void expect_compiled(const fused_map& map, int architecture = 90) {
  const auto source = source_of(map);
  try {
    EXPECT_FALSE(cuda::compile_kernel(source.text, architecture).empty());
  } catch (const error& e) {
    ADD_FAILURE() << e.what() << "\n" << source.text;
  }
}

class kernel_compiler_cuda : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda::load_kernel_compiler();
    } catch (const error& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

bool is_complex_storage(storage type) {
  return type >= storage::c64;
}

TEST_F(kernel_compiler_cuda, compiles_unary_functions_of_all_types) {
  for (const auto type : {storage::boolean, storage::i8, storage::u64, storage::f16, storage::bf16,
                          storage::f32, storage::f64, storage::c64}) {
    std::vector<fused_call> calls;
    for (int f = 0; f < static_cast<int>(unary_function_count); ++f) {
      const auto function = static_cast<unary_function>(f);
      const bool is_real = type >= storage::f16 && type <= storage::f64;
      // Any function compiles for any type, but it shall have the type of its result.
      auto call = call_of<unary_call>({is_predicate(function) ? storage::boolean : type, type});
      call.function = function;
      if (is_complex_storage(type)) {
        if (call.is_of_parts()) call.layout.types[0] = storage::f32;
        if (function != unary_function::negate && !call.is_of_parts()) continue;
      } else if (function == unary_function::angle || (!is_real && f % 8 != 0)) {
        continue;
      }
      calls.emplace_back(call);
    }
    expect_compiled(map_of({type}, calls));
  }
}

TEST_F(kernel_compiler_cuda, compiles_binary_functions_of_all_types) {
  for (const auto type : {storage::boolean, storage::i32, storage::u64, storage::f16, storage::f32,
                          storage::f64, storage::c128}) {
    std::vector<fused_call> calls;
    for (int f = 0; f < static_cast<int>(binary_function_count); ++f) {
      const auto function = static_cast<binary_function>(f);
      auto call =
          call_of<binary_call>({is_predicate(function) ? storage::boolean : type, type, type});
      call.function = function;
      calls.emplace_back(call);
    }
    expect_compiled(map_of({type, type}, calls));
  }
}

TEST_F(kernel_compiler_cuda, compiles_casts_between_all_types) {
  for (int x = 0; x <= static_cast<int>(storage::c128); ++x) {
    std::vector<fused_call> calls;
    for (int y = 0; y <= static_cast<int>(storage::c128); ++y) {
      const auto source = static_cast<storage>(x);
      const auto target = static_cast<storage>(y);
      if (is_complex_storage(source) && !is_complex_storage(target) && target != storage::boolean)
        continue;
      auto call = call_of<cast_call>({target, source});
      calls.emplace_back(call);
      if (is_complex_storage(source) || (target != storage::e4m3 && target != storage::e5m2))
        continue;
      call.saturates = false;
      calls.emplace_back(call);
    }
    expect_compiled(map_of({static_cast<storage>(x)}, calls), x % 2 == 0 ? 75 : 90);
  }
}

TEST_F(kernel_compiler_cuda, compiles_choices_and_affine_maps) {
  for (const bool flat : {false, true}) {
    for (const int architecture : {75, 80, 90, 100}) {
      expect_compiled(
          map_of(
              {storage::boolean, storage::f16, storage::f16},
              {call_of<where_call>({storage::f16, storage::boolean, storage::f16, storage::f16})},
              flat),
          architecture);
      expect_compiled(
          map_of({storage::u8, storage::bf16, storage::f32},
                 {call_of<affine_call>({storage::bf16, storage::u8, storage::bf16, storage::f32})},
                 flat),
          architecture);
    }
  }
}

TEST_F(kernel_compiler_cuda, compiles_reductions_of_all_kinds_and_types) {
  auto generator = make_generator();
  for (int k = 0; k < reduction_count; ++k) {
    const auto kind = static_cast<reduction>(k);
    if (kind == reduction::argmax || kind == reduction::argmin) continue;
    for (const auto type : {storage::boolean, storage::i32, storage::u64, storage::f16,
                            storage::bf16, storage::f32, storage::f64, storage::c64}) {
      const bool takes_complex =
          kind == reduction::sum || kind == reduction::mean || kind == reduction::product;
      if (is_complex_storage(type) && !takes_complex) continue;
      if (generator() % 4 != 0) continue;  // each takes a tenth of a second
      const auto number = generator();
      auto map = map_of({type}, {call_of<copy_call>({type, type})}, number % 3 != 0);
      map = with_reduction(map, kind, type, number % 2 == 0);
      // Elements of several dimensions.
      if (number % 5 == 0) {
        auto& elements = map.reduced->elements;
        elements.rank = 2;
        elements.shape[1] = elements.shape[0] / 2;
        elements.shape[0] = 2;
        for (auto& strides : elements.strides) {
          strides[1] = strides[0];
          strides[0] *= elements.shape[1];
        }
      }
      expect_compiled(map, number / 2 % 2 == 0 ? 75 : 90);
    }
  }
}

// Vectors along the rows or along the results, as far as they are aligned.
TEST_F(kernel_compiler_cuda, reduces_vectors) {
  const auto call = call_of<copy_call>({storage::f16, storage::f16});
  for (const bool along_rows : {true, false}) {
    auto map =
        with_reduction(map_of({storage::f16}, {call}), reduction::sum, storage::f32, along_rows);
    EXPECT_EQ(source_of(map).width, 8);
    EXPECT_EQ(source_of(map).lanes, 1);  // three vectors
    EXPECT_EQ(source_of(map).blocks, 1);
    expect_compiled(map, 75);
    expect_compiled(map, 90);
    // Two functions of a variance do not fit into the registers of a thread with many columns.
    auto other = with_reduction(map_of({storage::f16}, {call}), reduction::variance, storage::f32,
                                along_rows);
    EXPECT_EQ(source_of(other).width, along_rows ? 8 : 2);
    // Rows and columns that do not begin at vectors.
    other = map;
    (along_rows ? other.layout : other.reduced->elements).strides[1][0] += 1;
    EXPECT_EQ(source_of(other).width, 1);
    EXPECT_NE(source_of(other).text, source_of(map).text);
    // A rest of a row is reduced, and one of columns leads to smaller vectors.
    other = map;
    (along_rows ? other.reduced->elements : other.layout).shape[0] = 12;
    EXPECT_EQ(source_of(other).width, along_rows ? 8 : 4);
    // Shapes, parts and lanes are no part of the text.
    other = map;
    other.layout.count = other.layout.shape[0] = 4000;
    other.reduced->call.parts = 3;
    other.reduced->call.lanes = 4;
    EXPECT_EQ(source_of(other).text, source_of(map).text);
    EXPECT_GT(source_of(other).blocks, 1);
    other.reduced->call.kind = reduction::max;
    EXPECT_NE(source_of(other).text, source_of(map).text);
  }
}

TEST_F(kernel_compiler_cuda, makes_one_text_for_all_shapes_and_parameters) {
  auto call = call_of<unary_call>({storage::f32, storage::f32});
  call.function = unary_function::leaky_relu;
  call.alpha = unary_parameter(0.5F);
  const auto one = map_of({storage::f32}, {call});
  call.alpha = unary_parameter(0.25F);
  auto other = map_of({storage::f32}, {call});
  other.layout.count = other.layout.shape[0] = 77;
  EXPECT_EQ(source_of(one).text, source_of(other).text);
  EXPECT_EQ(source_of(one).width, 4);
  other.alignments[1] = 4;
  EXPECT_EQ(source_of(other).width, 1);
  EXPECT_NE(source_of(one).text, source_of(other).text);
}

// Rows of 64 elements, which are added to one row and to a column.
TEST_F(kernel_compiler_cuda, reads_vectors_of_repeated_operands) {
  auto call = call_of<binary_call>({storage::f16, storage::f16, storage::f16});
  auto map = map_of({storage::f16, storage::f16, storage::f16}, {call, call});
  map.functions[1].arguments = {3, 2, fused_map::none};
  auto& layout = map.layout;
  layout.rank = 2;
  layout.count = 640;
  layout.shape[0] = 10;
  layout.shape[1] = 64;
  const std::int64_t strides[4][2] = {{64, 1}, {64, 1}, {0, 1}, {1, 0}};
  for (int k = 0; k < 4; ++k) {
    for (int d = 0; d < 2; ++d) layout.strides[k][d] = strides[k][d];
  }
  EXPECT_EQ(source_of(map).width, 8);
  expect_compiled(map);
  layout.shape[1] = 60;
  EXPECT_EQ(source_of(map).width, 4);
  layout.strides[1][0] = 65;
  EXPECT_EQ(source_of(map).width, 1);
  expect_compiled(map);
}

TEST_F(kernel_compiler_cuda, has_the_positions_of_vectors) {
  auto generator = make_generator();
  const auto number = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator);
  };
  for (int round = 0; round < 100; ++round) {
    fused_indices<3> arguments{};
    arguments.rank = number(1, 4);
    const auto width = std::int64_t{1} << number(0, 3);
    arguments.count = 1;
    for (std::int64_t d = 0; d < arguments.rank; ++d) {
      arguments.shape[d] = number(1, 5) * (d + 1 == arguments.rank ? width : 1);
      arguments.count *= arguments.shape[d];
      for (auto& strides : arguments.strides) strides[d] = number(0, 100);
    }
    for (std::int64_t i = 0; i < arguments.count; i += width) {
      std::int64_t expected[3]{};
      auto rest = i;
      for (auto d = arguments.rank - 1; d >= 0; --d) {
        for (int k = 0; k < 3; ++k) {
          expected[k] += rest % arguments.shape[d] * arguments.strides[k][d];
        }
        rest /= arguments.shape[d];
      }
      const auto position = vector_position(arguments, i / width, width);
      for (int k = 0; k < 3; ++k) ASSERT_EQ(position.offsets[k], expected[k]);
    }
  }
}

TEST_F(kernel_compiler_cuda, refuses_what_is_no_kernel_and_no_gpu) {
  EXPECT_THROW((void)cuda::compile_kernel("no kernel", 90), error);
  EXPECT_THROW((void)cuda::compile_kernel("", 12), error);
}

TEST_F(kernel_compiler_cuda, compiles_in_another_thread) {
  const auto map = map_of({storage::f32}, {call_of<cast_call>({storage::f16, storage::f32})});
  const auto text = source_of(map).text;
  const cuda::kernel_client client;
  const auto code = cuda::code_of(text, 90);
  EXPECT_EQ(cuda::code_of(text, 90), code);
  const auto refused = cuda::code_of("no kernel", 90);
  while (code->progress() == cuda::kernel_code::state::pending ||
         refused->progress() == cuda::kernel_code::state::pending) {
    std::this_thread::yield();
  }
  EXPECT_EQ(code->progress(), cuda::kernel_code::state::made);
  EXPECT_FALSE(code->bytes().empty());
  EXPECT_EQ(refused->progress(), cuda::kernel_code::state::refused);
  EXPECT_NE(refused->refusal().find("NVRTC refuses a kernel"), std::string::npos);
}

}  // namespace
}  // namespace sluice::test
