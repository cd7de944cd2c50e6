// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_functions.hpp"

#include <sluice/operations.hpp>
#include <sluice/operations/operation_table.hpp>

namespace sluice {
namespace {

constexpr std::string_view every_type = "all";
constexpr std::string_view real_types = "f16, bf16, f32, f64";
constexpr std::string_view ordered_types = "all but e4m3, e5m2, c64 and c128";
constexpr std::string_view any_strides = "any strides";
constexpr std::string_view packs_rows = "last dimension contiguous, packs others";
constexpr std::string_view packs_weights =
    "x: sequences within steps, w and r: rows or columns contiguous, packs others; rest: any "
    "strides";
constexpr std::string_view packs = "contiguous, packs others";

template <class Operation>
operation_description describe(std::string_view result, std::string_view types,
                               std::string_view layouts) {
  return {&descriptor_of(operation_type<Operation>{}), result, types, layouts};
}

}  // namespace

std::vector<operation_description> describe_operations() {
  std::vector<operation_description> all{
      describe<gemm>("alpha · A · B + beta · C, also of stacks of matrices; with bias, activation "
                     "and residual",
                     "u8, i8, f16, bf16, f32, f64, c64, c128",
                     "rows or columns contiguous, packs others"),
      describe<scaled_gemm>("the same of 8-bit floating-point numbers with scales",
                            "e4m3, e5m2; to f16, bf16, f32",
                            "rows or columns contiguous, packs others"),
      describe<conv2d>("convolution of images, with bias, residual and activation",
                       "f16, bf16, f32", "NCHW or channels-last, packs others"),
      describe<convolution>("the same in one, two or three dimensions", "f16, bf16, f32",
                            "channels first or last, packs others"),
      describe<transposed_convolution>("the same, transposed: filters added at distances",
                                       "f16, bf16, f32", "channels first or last, packs others"),
      describe<integer_convolution>("convolution of integers less their zero points, in i32",
                                    "u8, i8", any_strides),
      describe<softmax>("exp(x) divided by its sum along a dimension", real_types, any_strides),
      describe<log_softmax>("logarithm of softmax", real_types, any_strides),
      describe<lp_norm>("division by the norm along a dimension", real_types, any_strides),
      describe<layer_norm>("normalization over the last dimensions", real_types, any_strides),
      describe<rms_norm>("division by the root of the mean square", real_types, any_strides),
      describe<group_norm>("normalization over groups of channels", real_types, any_strides),
      describe<batch_norm>("normalization with given means and variances", real_types, any_strides),
      describe<local_response_norm>("division by a power of squares of near channels", real_types,
                                    any_strides),
      describe<pool>("maximum, average or norm of windows",
                     "f16, bf16, f32, f64; maximum: also i8, u8", any_strides),
      describe<adaptive_pool>("pool of a given number of windows",
                              "f16, bf16, f32, f64; maximum: also i8, u8", any_strides),
      describe<roi_align>("bins of interpolated samples in regions of images", real_types,
                          any_strides),
      describe<non_maximum_suppression>(
          "the best boxes of each class without those that overlap them", real_types, any_strides),
      describe<max_pool_with_indices>("maxima of windows, and where they are",
                                      "f16, bf16, f32, f64, i8, u8",
                                      "x: any strides; results: contiguous, packs others"),
      describe<rotary_embedding>("pairs rotated by angles of positions", real_types, any_strides),
      describe<attention>("softmax(Q · Kᵀ · scale + mask) · V of heads", "f16, bf16, f32",
                          any_strides),
      describe<lstm>("a layer of long short-term memory", real_types, packs_weights),
      describe<gru>("a layer of gated recurrent units", real_types, packs_weights),
      describe<rnn>("a layer of plain recurrent units", real_types, packs_weights),
      describe<fft>("Fourier transform along the last dimension", "c64, c128", packs_rows),
      describe<rfft>("Fourier transform of real numbers", "f32, f64", packs_rows),
      describe<irfft>("n times the inverse of rfft", "c64, c128", packs_rows),
      describe<random_bits>("numbers of Philox4x32-10", "u32", packs),
      describe<random_uniform>("uniform random numbers in (0, 1]", "f32, f64", packs),
      describe<random_normal>("normal random numbers", "f32, f64", packs),
      describe<cast>("conversion to another type", every_type, any_strides),
      describe<strided_copy>("copy between strides", every_type, any_strides),
      describe<affine>("X · scale + bias for each channel",
                       "all but e4m3, e5m2, c64 and c128; to f16, bf16, "
                       "f32, f64",
                       any_strides)};
  for (const auto& family : {operations::describe_binary(), operations::describe_unary()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  const std::vector<operation_description> rest{
      describe<where>("A where a condition holds, else B", every_type, any_strides),
      describe<concatenate>("tensors one behind the other along a dimension", every_type,
                            "any order of dimensions without gaps, packs others"),
      describe<stack>("tensors as the indices of a new dimension", every_type,
                      "any order of dimensions without gaps, packs others"),
      describe<reduce>("sums, extrema and other numbers over dimensions",
                       "all but e4m3 and e5m2; c64 and c128: sum, mean, product", any_strides),
      describe<sort>("elements along a dimension in order, and their positions", ordered_types,
                     any_strides),
      describe<top_k>("the largest or smallest elements along a dimension, and their positions",
                      ordered_types, any_strides),
      describe<resize>("interpolation along one to three axes", "u8, i8, f16, bf16, f32, f64",
                       any_strides),
      describe<grid_sample>("interpolation at the positions of a grid", real_types, any_strides),
      describe<gather>("slices of X that indices name along a dimension", every_type, any_strides),
      describe<gather_elements>("elements of X, each with an index along a dimension", every_type,
                                any_strides),
      describe<gather_nd>("slices of X at points of several dimensions", every_type, any_strides),
      describe<pad>("X with numbers or elements of X around it, or cropped", every_type,
                    any_strides),
      describe<tile>("X again and again", every_type, any_strides),
      describe<roll>("X shifted along dimensions, from one end to the other", every_type,
                     any_strides),
      describe<triangle>("lower or upper triangles of matrices", every_type, any_strides),
      describe<eye>("ones on a diagonal", every_type, any_strides),
      describe<range>("numbers at equal distances", "u8 to u64, i8 to i64, f16, bf16, f32, f64",
                      any_strides),
      describe<one_hot>("one number where an index says so, and another elsewhere",
                        "of indices: i32, i64; of the result: all", any_strides),
      describe<cumulative>("sums or products up to each element along a dimension",
                           "all but boolean, e4m3 and e5m2", any_strides),
      describe<scatter_elements>("X with updates of elements, each with an index",
                                 "all; e4m3 and e5m2: set", any_strides),
      describe<scatter_nd>("X with updates of slices at points", "all; e4m3 and e5m2: set",
                           any_strides),
      describe<quantize>("X / scale as small integers or 8-bit numbers, also of blocks",
                         "f16, bf16, f32, i32; to u8, i8, u16, i16, e4m3, e5m2", any_strides),
      describe<dequantize>("small integers or 8-bit numbers times a scale",
                           "u8, i8, u16, i16, i32, e4m3, e5m2; to f16, bf16, f32", any_strides),
      describe<dynamic_quantize>("bytes with the scale and the zero point that fit X",
                                 "f16, bf16, f32; to u8", any_strides),
      describe<histogram>("how many elements are in each of several bins",
                          "u8 to u64, i8 to i64, f16, bf16, f32, f64; to i64",
                          "x: any strides; y: contiguous, packs others"),
      describe<depth_to_space>("channels as blocks of a larger image", every_type, any_strides),
      describe<space_to_depth>("blocks as channels of a smaller image", every_type, any_strides),
      describe<reverse>("X with the last element along dimensions first", every_type, any_strides),
      describe<reverse_sequence>("X with the first elements of each sequence reversed", every_type,
                                 any_strides),
      describe<im2col>("windows of images as columns", every_type, any_strides),
      describe<col2im>("sums of windows, which are columns, as images",
                       "all but boolean, e4m3 and e5m2", any_strides),
      describe<frame_signal>("overlapping frames times a window", "f32, f64", any_strides),
      describe<power_spectrum>("squared magnitudes", "c64, c128", any_strides),
      describe<power_to_decibel>("decibels relative to a reference", "f32, f64", any_strides),
      describe<fill>("one number in every element", every_type, packs),
      describe<upload>("elements from the process", every_type, packs),
      describe<download>("elements to the process", every_type, packs)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace sluice
