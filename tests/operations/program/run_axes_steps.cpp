// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/program/run_axes_steps.hpp"

#include "tests/support/seed.hpp"

#include <cstdint>
#include <random>
#include <utility>

namespace sluice::test {

host_tensor drawn_constant(element_type type, const extents& shape, int most) {
  static std::mt19937_64 generator = make_generator();
  std::size_t count = 1;
  for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
  std::vector<double> numbers(count);
  for (auto& number : numbers) {
    number = most != 0 ? static_cast<double>(std::uniform_int_distribution<>(0, most)(generator))
                       : std::uniform_real_distribution<>(0.1, 2)(generator);
  }
  return host_tensor(std::move(numbers), shape).to(type);
}
namespace {
using value = program_value;

value constant(program_builder& p, const extents& shape, element_type type = element_type::f32,
               int most = 0) {
  return p.constant("c", drawn_constant(type, shape, most));
}
/// Numbers up to 0.2, with which sums stay where a sigmoid or a tanh is not flat.
value small_constant(program_builder& p, const extents& shape) {
  return p.add(multiply(constant(p, shape), 0.1));
}
}  // namespace

std::vector<stepping> all_steppings() {
  using b = program_builder;
  const auto i64 = element_type::i64;
  const auto c64 = element_type::c64;
  return {
      {"gemm",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(gemm{.a = x, .b = constant(p, {4, 5})});
       }},
      {"gemm",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(gemm{.a = constant(p, {5, 3}), .b = x});
       }},
      {"gemm",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(gemm{.a = x, .b = x.transposed()});
       }},
      {"scaled_gemm",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(scaled_gemm{.a = p.add(cast{.x = x, .type = element_type::e4m3}),
                                  .b = constant(p, {4, 5}, element_type::e5m2),
                                  .a_scale = constant(p, {1})});
       }},
      {"conv2d",
       {2, 4, 5, 6},
       [](b& p, const value& x) {
         return p.add(
             "y", conv2d{.x = x, .w = constant(p, {3, 4, 3, 3}), .geometry = {.padding = {1, 1}}});
       }},
      {"conv2d",
       {2, 4, 5, 6},
       [](b& p, const value& x) {
         return p.add(conv2d{.x = x, .w = constant(p, {4, 1, 1, 1}), .geometry = {.groups = 4}});
       },
       element_type::f32,
       {2, 3}},
      {"conv2d",
       {3, 2, 2, 2},
       [](b& p, const value& x) {
         return p.add(conv2d{.x = constant(p, {1, 2, 4, 4}), .w = x});
       }},
      {"convolution",
       {2, 4, 9},
       [](b& p, const value& x) {
         return p.add(convolution{.x = x, .w = constant(p, {3, 4, 3})});
       }},
      {"convolution",
       {3, 2, 2},
       [](b& p, const value& x) {
         return p.add(convolution{.x = constant(p, {1, 2, 4}), .w = x});
       }},
      {"transposed_convolution",
       {2, 4, 5},
       [](b& p, const value& x) {
         return p.add(transposed_convolution{.x = x, .w = constant(p, {4, 3, 3})});
       }},
      {"transposed_convolution",
       {2, 3, 2},
       [](b& p, const value& x) {
         return p.add(transposed_convolution{.x = constant(p, {1, 2, 4}), .w = x});
       }},
      {"integer_convolution",
       {2, 4, 9},
       [](b& p, const value& x) {
         return p.add(
             integer_convolution{.x = x, .w = constant(p, {3, 4, 3}, element_type::i8, 20)});
       },
       element_type::u8},
      {"integer_convolution",
       {3, 2, 2},
       [](b& p, const value& x) {
         return p.add(
             integer_convolution{.x = constant(p, {1, 2, 4}, element_type::u8, 20), .w = x});
       },
       element_type::i8},
      {"lstm",
       {3, 2, 4},
       [](b& p, const value& x) {
         return p.add(
             lstm{.x = x, .w = small_constant(p, {1, 8, 4}), .r = small_constant(p, {1, 8, 2})})[0];
       }},
      {"lstm",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(lstm{.x = x,
                           .w = small_constant(p, {1, 8, 4}),
                           .r = small_constant(p, {1, 8, 2}),
                           .layout = sequence_layout::batch_major})[1];
       }},
      {"lstm",
       {1, 8, 4},
       [](b& p, const value& x) {
         return p.add(
             lstm{.x = constant(p, {3, 2, 4}), .w = x, .r = small_constant(p, {1, 8, 2})})[0];
       }},
      {"gru",
       {3, 2, 4},
       [](b& p, const value& x) {
         return p.add(
             gru{.x = x, .w = small_constant(p, {1, 6, 4}), .r = small_constant(p, {1, 6, 2})})[0];
       }},
      {"rnn",
       {3, 2, 4},
       [](b& p, const value& x) {
         return p.add(
             rnn{.x = x, .w = small_constant(p, {1, 2, 4}), .r = small_constant(p, {1, 2, 2})})[0];
       }},
      {"softmax",
       {3, 4, 2},
       [](b& p, const value& x) {
         return p.add(softmax{.x = x, .axis = 1});
       }},
      {"softmax",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(softmax{.x = x, .axis = 0});
       }},
      {"log_softmax",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(log_softmax{.x = x, .axis = 0});
       }},
      {"lp_norm",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(lp_norm{.x = x, .axis = 0});
       }},
      {"layer_norm",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(layer_norm{.x = x, .axis = 1});
       }},
      {"rms_norm",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(rms_norm{.x = x, .axis = 1});
       }},
      {"group_norm",
       {2, 4, 3},
       [](b& p, const value& x) {
         return p.add(group_norm{.x = x, .groups = 2});
       }},
      {"batch_norm",
       {2, 4, 3},
       [](b& p, const value& x) {
         return p.add(batch_norm{.x = x, .mean = constant(p, {4}), .variance = constant(p, {4})});
       }},
      {"local_response_norm",
       {2, 4, 3},
       [](b& p, const value& x) {
         return p.add(local_response_norm{.x = x, .size = 3, .alpha = 1});
       }},
      {"pool",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(
             "y",
             pool{.x = x, .kind = pooling::average, .window = {3}, .before = {1}, .after = {1}});
       }},
      {"adaptive_pool",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(adaptive_pool{.x = x, .size = {2}});
       }},
      {"roi_align",
       {2, 3, 5, 5},
       [](b& p, const value& x) {
         return p.add(roi_align{.x = x,
                                .rois = constant(p, {2, 4}),
                                .batch_indices = constant(p, {2}, element_type::i64, 1),
                                .height = 2,
                                .width = 2});
       }},
      {"roi_align",
       {2, 4},
       [](b& p, const value& x) {
         return p.add(
             "y", roi_align{.x = constant(p, {1, 1, 5, 5}),
                            .rois = x,
                            .batch_indices = p.add(
                                "zeros", fill{.value = 0, .shape = {2}, .type = element_type::i64}),
                            .height = 2,
                            .width = 2});
       }},
      {"non_maximum_suppression",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(non_maximum_suppression{
             .boxes = x, .scores = constant(p, {2, 1, 3}), .max_output_boxes_per_class = 2})[0];
       }},
      {"max_pool_with_indices",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(max_pool_with_indices{.x = x, .window = {2}})[1];
       }},
      {"max_pool_with_indices",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(max_pool_with_indices{.x = x, .window = {2}, .within_plane = true})[1];
       }},
      {"rotary_embedding",
       {2, 3, 5, 4},
       [](b& p, const value& x) {
         return p.add(rotary_embedding{
             .x = x, .cos = constant(p, {1, 1, 2}), .sin = constant(p, {1, 1, 2})});
       }},
      {"rotary_embedding",
       {3, 2},
       [](b& p, const value& x) {
         return p.add(rotary_embedding{.x = constant(p, {1, 1, 5, 4}),
                                       .cos = x,
                                       .sin = x,
                                       .positions = constant(p, {1, 5}, element_type::i64, 2)});
       }},
      {"attention",
       {2, 2, 3, 4},
       [](b& p, const value& x) { return p.add(attention{.q = x, .k = x, .v = x}); },
       element_type::f32,
       {1}},
      {"fft", {3, 4}, [](b& p, const value& x) { return p.add(fft{.x = x}); }, c64},
      {"rfft",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(rfft{.x = x});
       }},
      {"irfft", {3, 5}, [](b& p, const value& x) { return p.add(irfft{.x = x}); }, c64},
      {"cast",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(cast{.x = x, .type = element_type::f64});
       }},
      {"strided_copy",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(strided_copy{.x = x});
       }},
      {"affine",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(affine{.x = x, .scale = constant(p, {3}), .axis = 0});
       }},
      {"add",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(add(x, constant(p, {4})));
       }},
      {"exp",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(exp(x));
       }},
      {"where",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(where{.condition = p.add("c", less(x, 0.5)), .a = x, .b = 7});
       }},
      {"concatenate",
       {2, 3},
       [](b& p, const value& x) {
         return p.add(concatenate{.x = {x, x}, .axis = 0});
       }},
      {"concatenate",
       {2, 3},
       [](b& p, const value& x) {
         return p.add(concatenate{.x = {x}, .axis = 0});
       }},
      {"stack",
       {2, 3},
       [](b& p, const value& x) {
         return p.add(stack{.x = {x, x}, .axis = 0});
       }},
      {"reduce",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(reduce{.x = x, .axes = {1}});
       }},
      {"reduce",
       {2, 3},
       [](b& p, const value& x) {
         return p.add(subtract(
             x, p.add("mean",
                      reduce{.x = x, .kind = reduction::mean, .axes = {0}, .keep_dims = true})));
       }},
      {"reduce",
       {2, 3},
       [](b& p, const value& x) {
         return p.add(reduce{.x = x, .kind = reduction::argmax, .axes = {0}});
       }},
      {"sort",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(sort{.x = x, .axis = 0})[0];
       }},
      {"top_k",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(top_k{.x = x, .k = 2})[1];
       }},
      {"resize",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(resize{.x = x, .scales = {2}, .axes = {1}});
       }},
      {"grid_sample",
       {2, 3, 5},
       [](b& p, const value& x) {
         return p.add(grid_sample{.x = x, .grid = constant(p, {2, 4, 1})});
       }},
      {"gather",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(gather{.x = x, .indices = constant(p, {5}, element_type::i64, 2), .axis = 0});
       }},
      {"gather",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(gather{.x = constant(p, {3, 2}), .indices = x, .axis = 0});
       },
       i64},
      {"gather_elements",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(gather_elements{.x = constant(p, {16, 16}), .indices = x, .axis = 1});
       },
       i64},
      {"gather_elements",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(gather_elements{
             .x = x, .indices = constant(p, {3, 4}, element_type::i64, 2), .axis = 1});
       }},
      {"gather_nd",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(gather_nd{.x = x, .indices = constant(p, {5, 1}, element_type::i64, 2)});
       }},
      {"gather_nd",
       {5, 2},
       [](b& p, const value& x) {
         return p.add(gather_nd{.x = constant(p, {3, 3}), .indices = x});
       },
       i64},
      {"pad",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(pad{.x = x, .before = {0, 1}, .after = {0, 1}});
       }},
      {"pad",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(pad{.x = x, .before = {-1, 0}, .after = {1, 0}});
       }},
      {"tile",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(tile{.x = x, .repeats = {1, 2}});
       }},
      {"roll",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(roll{.x = x, .shifts = {1}, .axes = {0}});
       }},
      {"triangle",
       {2, 3, 4},
       [](b& p, const value& x) {
         return p.add(triangle{.x = x});
       }},
      {"one_hot",
       {3, 4},
       [](b& p, const value& x) { return p.add(one_hot{.indices = x, .depth = 3, .axis = 0}); },
       i64},
      {"cumulative",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(cumulative{.x = x, .axis = 0});
       }},
      {"scatter_elements",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(scatter_elements{.x = x,
                                       .indices = constant(p, {3, 2}, element_type::i64, 3),
                                       .updates = constant(p, {3, 2}),
                                       .axis = 1});
       }},
      {"scatter_elements",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(scatter_elements{.x = x,
                                       .indices = constant(p, {1, 4}, element_type::i64, 2),
                                       .updates = constant(p, {1, 4}),
                                       .axis = 1});
       }},
      {"scatter_nd",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(scatter_nd{.x = x,
                                 .indices = constant(p, {2, 1}, element_type::i64, 2),
                                 .updates = constant(p, {2, 4})});
       }},
      {"quantize",
       {4, 6},
       [](b& p, const value& x) {
         return p.add(quantize{.x = x, .scale = constant(p, {4, 2})});
       }},
      {"dequantize",
       {4, 6},
       [](b& p, const value& x) {
         return p.add(dequantize{.x = x, .scale = constant(p, {4, 1})});
       },
       element_type::u8},
      {"dynamic_quantize",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(dynamic_quantize{.x = x})[0];
       }},
      {"histogram",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(histogram{.x = x, .bins = 3, .low = 0, .high = 2});
       }},
      {"depth_to_space",
       {2, 4, 2, 3},
       [](b& p, const value& x) { return p.add(depth_to_space{.x = x, .block = 2}); },
       element_type::f32,
       {2, 3}},
      {"space_to_depth",
       {2, 2, 4, 2},
       [](b& p, const value& x) { return p.add(space_to_depth{.x = x, .block = 2}); },
       element_type::f32,
       {2, 3}},
      {"reverse",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(reverse{.x = x, .axes = {0}});
       }},
      {"reverse_sequence",
       {3, 2},
       [](b& p, const value& x) {
         return p.add(reverse_sequence{.x = x,
                                       .lengths = p.constant("l", std::vector<std::int64_t>{3, 2}),
                                       .time_axis = 0,
                                       .batch_axis = 1});
       }},
      {"im2col",
       {2, 3, 4, 4},
       [](b& p, const value& x) {
         return p.add(im2col{.x = x, .window = {2, 2}});
       }},
      {"col2im",
       {2, 8, 9},
       [](b& p, const value& x) {
         return p.add(col2im{.x = x, .size = {4, 4}, .window = {2, 2}});
       }},
      {"frame_signal",
       {2, 12},
       [](b& p, const value& x) {
         return p.add(frame_signal{.signal = x, .n_fft = 4, .hop = 2});
       }},
      {"frame_signal",
       {4},
       [](b& p, const value& x) {
         return p.add(frame_signal{.signal = constant(p, {2, 12}), .window = x, .hop = 2});
       }},
      {"power_spectrum",
       {3, 4},
       [](b& p, const value& x) { return p.add(power_spectrum{.x = x}); },
       c64},
      {"power_to_decibel",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(power_to_decibel{.x = x, .reference = constant(p, {1})});
       }},
      {"view",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(add(x.select(0, 0), 1));
       }},
      {"view",
       {3, 4},
       [](b& p, const value& x) {
         return p.add(add(x.slice(1, 0, 2), 1));
       }},
  };
}

}  // namespace sluice::test
