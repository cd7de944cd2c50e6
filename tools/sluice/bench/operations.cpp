// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/by_hand_on_gpu.hpp"
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"

#include <sluice/actors/program.hpp>
#include <sluice/operations/attention.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/gather.hpp>
#include <sluice/operations/normalization.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/resize.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/scaled_gemm.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/operations/unary.hpp>

#include <fmt/format.h>

#include <type_traits>
#include <utility>

namespace sluice::cli {
namespace {

constexpr std::size_t large_in_flight = 8;  // requests, which keep a device busy
constexpr auto copy_name = "copy of as many bytes";

/// Sizes and types that suit the device.
struct bench_sizes {
  element_type type;         // of most operands
  extents rows;              // of operations along rows
  std::int64_t elements;     // of element-wise steps
  std::int64_t images;       // in a request
  extents attention_shape;   // batch, heads, elements of a sequence, elements of a head
  std::int64_t convolution;  // images in a request
  std::vector<std::int64_t> products;
};
const bench_sizes on_gpu{element_type::f16, {8192, 4096}, 64 << 20,    64,
                         {8, 12, 512, 64},  32,           {2048, 8192}};
const bench_sizes on_host{element_type::f32, {1024, 4096}, 4 << 20, 1, {1, 12, 512, 64}, 1, {512}};

/// Measures operations beside copies in the memory of the device.
class operation_suite {
 public:
  explicit operation_suite(bench_run& run)
      : run_(run),
        session_(run.current),
        sizes_(run.on_host() ? on_host : on_gpu),
        stream_(run.runtime().create_stream()) {}

  void measure() {
    measure_products();
    measure_convolutions();
    measure_attention();
    measure_rows();
    if (run_.on_host()) measure_movement();
    if (run_.on_host()) measure_constants();
    measure_steps();
    measure_images();
  }

 private:
  [[nodiscard]] tensor random(const extents& shape, element_type type) {
    auto numbers = random_tensor(session_, shape);
    if (type == element_type::f32) return numbers;
    return session_.ask<tensor>(session_.device().elementwise(), cast{.x = numbers, .type = type});
  }
  [[nodiscard]] tensor random(const extents& shape) { return random(shape, sizes_.type); }

  /// Memory like that of `output`.
  [[nodiscard]] tensor other_output(const tensor& output) {
    return {run_.runtime().allocate_bytes(output.bytes(), stream_.ref()), output.type(),
            output.shape(), output.strides()};
  }
  /// Gives a request an output of its own.
  template <class Request>
  void replace_output(Request& request) {
    if constexpr (std::is_same_v<Request, sluice::run>) {
      for (auto& output : request.outputs) output = other_output(output.value());
    } else if constexpr (requires { request.c; }) {
      request.c = other_output(request.c.value());
    } else {
      request.y = other_output(request.y.value());
    }
  }

  /// Requests that take turns, one client with several in flight. Those in flight have outputs of
  /// their own, whatever the order of the replies.
  template <class Reply = tensor, class Handle, class Request>
  timed_work requests(const Handle& target, std::vector<Request> requests) {
    for (std::size_t i = 0; requests.size() < 2 * large_in_flight; ++i) {
      auto copy = requests[i];
      replace_output(copy);
      requests.push_back(std::move(copy));
    }
    const auto shared = std::make_shared<std::vector<Request>>(std::move(requests));
    return [shared, load = make_load<Reply>(session_, target, *shared, 1, large_in_flight)](
               std::int64_t n) {
      load->send(n);
    };
  }
  static void add_way(paired_rounds& ways, std::string name, timed_work work) {
    ways.add({.name = std::move(name), .run = std::move(work), .fewest_pieces = large_in_flight});
  }
  /// Copies by the driver that read and write `bytes` together.
  timed_work copies(std::size_t bytes) {
    const auto count = static_cast<std::int64_t>(bytes / 2 / sizeof(float));
    const auto source = random_tensor(session_, {count});
    const auto target = random_tensor(session_, {count});
    return [this, source, target](std::int64_t n) {
      auto& device = run_.runtime().device();
      for (std::int64_t i = 0; i < n; ++i) {
        device.copy(target.address(), source.address(), source.bytes(),
                    copy_direction::device_to_device, stream_.ref().native());
      }
      stream_.synchronize();
    };
  }
  /// A section with one operation on `operand` that reads and writes `bytes` in all.
  void beside_copy(const std::string& path, const std::string& operand, std::size_t bytes,
                   const std::string& name, timed_work work) {
    paired_rounds ways(run_, path, name + ", " + operand,
                       {.unit = "GB/s", .pieces_per_second = 1e9 / static_cast<double>(bytes)});
    add_way(ways, copy_name, copies(bytes));
    add_way(ways, name, std::move(work));
    ways.measure();
  }

  void measure_products() {
    for (const auto size : sizes_.products) {
      for (const auto type : {element_type::f16, element_type::bf16, element_type::f32}) {
        if (run_.on_host() && type != element_type::f32) continue;
        const bool tf32 = !run_.on_host() && type == element_type::f32;
        const extents shape{size, size};
        gemm product{.a = random(shape, type), .b = random(shape, type), .c = random(shape, type)};
        if (tf32) product.math = math_mode::tf32;
        const auto name = tf32 ? std::string("tf32") : std::string(to_string(type));
        const auto flops = 2.0 * static_cast<double>(size * size * size);
        paired_rounds ways(run_, fmt::format("gemm/{}_{}", size, name),
                           fmt::format("gemm({}), {}", size, name),
                           {.unit = "TFLOP/s", .pieces_per_second = 1e12 / flops});
        const auto blas = session_.device().blas();
        if (auto by_hand = make_products_by_hand(run_.runtime(), product.a.value(),
                                                 product.b.value(), random(shape, type))) {
          add_way(ways, "cuBLASLt, the best of its heuristic", std::move(by_hand));
        }
        add_way(ways, "product", requests(blas, std::vector{product}));
        product.bias = random({size}, type);
        product.activation = activation::gelu_tanh;
        add_way(ways, "with bias and gelu_tanh", requests(blas, std::vector{product}));
        product.activation = activation::gelu;
        add_way(ways, "with bias and gelu", requests(blas, std::vector{product}));
        ways.measure();
      }
      if (!run_.on_host()) measure_scaled_products(size);
    }
  }

  /// Products of 8-bit numbers: as the tensor cores of a GPU take them, and otherwise.
  void measure_scaled_products(std::int64_t size) {
    const extents shape{size, size};
    const auto scale = random({1}, element_type::f32);
    const auto flops = 2.0 * static_cast<double>(size * size * size);
    paired_rounds ways(run_, fmt::format("gemm/{}_e4m3", size), fmt::format("gemm({}), e4m3", size),
                       {.unit = "TFLOP/s", .pieces_per_second = 1e12 / flops});
    scaled_gemm product{.a = random(shape, element_type::e4m3),
                        .b = random(shape, element_type::e4m3).transposed(),
                        .c = random(shape, element_type::bf16),
                        .a_scale = scale,
                        .b_scale = scale};
    const auto blas = session_.device().blas();
    add_way(ways, "product", requests(blas, std::vector{product}));
    product.bias = random({size}, element_type::bf16);
    product.activation = activation::gelu_tanh;
    add_way(ways, "with bias and gelu_tanh", requests(blas, std::vector{product}));
    product.bias = {};
    product.activation = activation::none;
    product.b = product.b.value().transposed();
    add_way(ways, "of copies as bf16", requests(blas, std::vector{product}));
    ways.measure();
  }

  /// The distinct convolutions of ResNet-50, of images with 3 × 224 × 224 elements.
  void measure_convolutions() {
    struct layer {
      std::int64_t channels, filters, size, taps, stride;
    };
    constexpr std::array layers{
        layer{3, 64, 224, 7, 2},    layer{64, 64, 56, 1, 1},    layer{64, 64, 56, 3, 1},
        layer{64, 256, 56, 1, 1},   layer{256, 64, 56, 1, 1},   layer{256, 128, 56, 1, 1},
        layer{128, 128, 56, 3, 2},  layer{128, 512, 28, 1, 1},  layer{256, 512, 56, 1, 2},
        layer{512, 128, 28, 1, 1},  layer{128, 128, 28, 3, 1},  layer{512, 256, 28, 1, 1},
        layer{256, 256, 28, 3, 2},  layer{256, 1024, 14, 1, 1}, layer{512, 1024, 28, 1, 2},
        layer{1024, 256, 14, 1, 1}, layer{256, 256, 14, 3, 1},  layer{1024, 512, 14, 1, 1},
        layer{512, 512, 14, 3, 2},  layer{512, 2048, 7, 1, 1},  layer{1024, 2048, 14, 1, 2},
        layer{2048, 512, 7, 1, 1},  layer{512, 512, 7, 3, 1}};
    const auto make = [&](activation function) {
      std::vector<conv2d> convolutions;
      for (const auto& [channels, filters, size, taps, stride] : layers) {
        const auto channels_last = [&](std::int64_t n, std::int64_t c, std::int64_t h) {
          return random({n, h, h, c}).permute({0, 3, 1, 2});
        };
        conv2d convolution{
            .x = channels_last(sizes_.convolution, channels, size),
            .w = channels_last(filters, channels, taps),
            .bias = random({filters}),
            .geometry = {.padding = {taps / 2, taps / 2}, .stride = {stride, stride}},
            .activation = function};
        convolution.y = channels_last(sizes_.convolution, filters, (size - 1) / stride + 1);
        convolutions.push_back(convolution);
      }
      return convolutions;
    };
    paired_rounds ways(
        run_, "convolutions",
        fmt::format(
            "conv2d, the {} layers of ResNet-50 one after another, {}, channels last, batch {}",
            layers.size(), to_string(sizes_.type), sizes_.convolution),
        {.unit = "us a layer"});
    add_way(ways, "with bias", requests(session_.device().dnn(), make(activation::none)));
    add_way(ways, "with bias and relu", requests(session_.device().dnn(), make(activation::relu)));
    add_way(ways, "with bias and silu", requests(session_.device().dnn(), make(activation::silu)));
    ways.measure();
  }

  void measure_attention() {
    const auto& shape = sizes_.attention_shape;
    const attention whole{
        .q = random(shape), .k = random(shape), .v = random(shape), .y = random(shape)};
    auto causal = whole;
    causal.causal = causal_mask::top_left;
    const auto flops =
        4.0 * static_cast<double>(shape[0] * shape[1] * shape[2] * shape[2] * shape[3]);
    paired_rounds ways(run_, "attention",
                       fmt::format("attention of {}x{} heads, {}x{}, masked products counted",
                                   shape[0], shape[1], shape[2], shape[3]),
                       {.unit = "TFLOP/s", .pieces_per_second = 1e12 / flops});
    add_way(ways, "without a mask", requests(session_.device().dnn(), std::vector{whole}));
    add_way(ways, "causal", requests(session_.device().dnn(), std::vector{causal}));
    ways.measure();
  }

  void measure_rows() {
    const auto x = random(sizes_.rows);
    const auto y = random(sizes_.rows);
    const auto scale = random({sizes_.rows[1]});
    const auto both = x.bytes() + y.bytes();
    const auto rows =
        fmt::format("{}x{} {}", sizes_.rows[0], sizes_.rows[1], to_string(sizes_.type));
    const auto dnn = session_.device().dnn();
    const auto elementwise = session_.device().elementwise();
    beside_copy("rows/softmax", rows, both, "softmax",
                requests(dnn, std::vector{softmax{.x = x, .y = y}}));
    beside_copy(
        "rows/layer_norm", rows, both, "layer_norm",
        requests(dnn, std::vector{layer_norm{.x = x, .scale = scale, .bias = scale, .y = y}}));
    auto gelu_of_x = gelu(x);
    gelu_of_x.y = y;
    beside_copy("rows/gelu", rows, both, "gelu", requests(elementwise, std::vector{gelu_of_x}));
    const auto sums = random({sizes_.rows[0]});
    beside_copy("rows/sum", rows, x.bytes() + sums.bytes(), "sum of rows",
                requests(elementwise, std::vector{reduce{.x = x, .axes = {1}, .y = sums}}));
  }

  void measure_movement() {
    const auto x = random(sizes_.rows);
    const auto y = random(sizes_.rows);
    const auto [height, width] = std::pair(sizes_.rows[0], sizes_.rows[1]);
    const auto both = x.bytes() + y.bytes();
    const auto elementwise = session_.device().elementwise();
    std::vector<std::int64_t> order(static_cast<std::size_t>(height));
    for (auto& row : order)
      row = std::uniform_int_distribution<std::int64_t>(0, height - 1)(random_source());
    const tensor indices = upload_values(session_, order);
    const auto operand = fmt::format("{}x{} {}", height, width, to_string(sizes_.type));
    beside_copy("movement/gather", operand, both, "gather of rows",
                requests(elementwise, std::vector{gather{.x = x, .indices = indices, .y = y}}));
    beside_copy("movement/transpose", operand, both, "transposed copy",
                requests(elementwise, std::vector{strided_copy{.x = x.transposed(),
                                                               .y = y.reshape({width, height})}}));
    const auto halves = random({height / 2, width});
    beside_copy(
        "movement/concatenate", operand, both, "concatenation",
        requests(elementwise, std::vector{concatenate{.x = {halves, halves}, .axis = 0, .y = y}}));
  }

  /// A convolution as a step of a program, whose filters each run gives or are a constant.
  void measure_constants() {
    struct layer {
      std::int64_t channels, size, taps;
    };
    for (const auto& each : {layer{128, 28, 3}, layer{256, 14, 3}, layer{512, 7, 3}}) {
      const auto channels = each.channels;
      const auto size = each.size;
      const auto taps = each.taps;
      const auto x = random({1, size, size, channels});
      const auto w = random({channels, taps, taps, channels});
      const auto values = session_.ask<host_tensor>(session_.device().actor(), download{.x = w});
      const auto run_of = [&](bool is_constant) {
        program_builder builder;
        const auto image = builder.input("x");
        const auto filters = is_constant ? builder.constant("w", values) : builder.input("w");
        const auto y = builder.add("y", conv2d{.x = image.permute({0, 3, 1, 2}),
                                               .w = filters.permute({0, 3, 1, 2}),
                                               .geometry = {.padding = {taps / 2, taps / 2}}});
        sluice::run result{std::move(builder).build({y}), {x}};
        if (!is_constant) result.inputs.emplace_back(w);
        return result;
      };
      paired_rounds ways(run_, fmt::format("constants/conv2d_{}", channels),
                         fmt::format("conv2d of {0} to {0} channels, {1}x{1}, {2}x{2} taps, "
                                     "channels last, in a program",
                                     channels, size, taps),
                         shown_times);
      const auto programs = session_.device().programs();
      add_way(ways, "filters of each run", requests<tensors>(programs, std::vector{run_of(false)}));
      add_way(ways, "constant filters", requests<tensors>(programs, std::vector{run_of(true)}));
      ways.measure();
    }
  }

  /// Eight element-wise steps as a program, fused and one by one.
  void measure_steps() {
    const auto x = random({sizes_.elements});
    const auto y = random({sizes_.elements});
    const auto programs = session_.device().programs();
    const auto run_of = [&](bool fuse) {
      program_builder builder;
      auto value = builder.input("x");
      value = builder.add("scaled", affine{.x = value, .factor = 1.5, .offset = 0.25});
      value = builder.add("positive", relu(value));
      value = builder.add("square", multiply(value, value));
      value = builder.add("root", sqrt(value));
      value = builder.add("negative", negate(value));
      value = builder.add("sum", add(value, value));
      value = builder.add("magnitude", abs(value));
      value = builder.add("shifted", affine{.x = value, .factor = 0.5, .offset = -0.25});
      return sluice::run{std::move(builder).build({value}, {.fuse = fuse}), {x}, {y}};
    };
    const auto fused = run_of(true);
    const prepare description{
        .what = fused.what, .inputs = {tensor_spec::of(x)}, .outputs = {tensor_spec::of(y)}};
    // A GPU has the kernel a moment after the first run.
    std::string reason;
    do {
      (void)session_.ask<tensors>(programs, fused);
      reason = session_.ask<prepared>(programs, description).not_fused;
    } while (reason == "the kernels are being compiled");
    const auto bytes = x.bytes() + y.bytes();
    paired_rounds ways(run_, "steps",
                       fmt::format("8 element-wise steps, {} Mi {}", sizes_.elements >> 20,
                                   to_string(sizes_.type)),
                       {.unit = "GB/s", .pieces_per_second = 1e9 / static_cast<double>(bytes)});
    add_way(ways, copy_name, copies(bytes));
    add_way(ways, "fused" + (reason.empty() ? "" : ", but " + reason),
            requests<tensors>(programs, std::vector{fused}));
    add_way(ways, "one by one", requests<tensors>(programs, std::vector{run_of(false)}));
    ways.measure();
  }

  /// Images of bytes, resized and normalized.
  void measure_images() {
    const extents shape{sizes_.images, 720, 1280, 3};
    const auto images =
        session_.ask<tensor>(session_.device().elementwise(),
                             cast{.x = random_tensor(session_, shape), .type = element_type::u8});
    program_builder builder;
    auto value = builder.input("images");
    value = builder.add("resized", resize{.x = value, .sizes = {224, 224}, .axes = {-3, -2}});
    value = builder.add("normalized", affine{.x = value.permute({0, 3, 1, 2}),
                                             .scale = random_tensor(session_, {3}),
                                             .bias = random_tensor(session_, {3}),
                                             .axis = 1,
                                             .type = sizes_.type});
    const auto steps = std::move(builder).build({value});
    const auto planes = random({sizes_.images, 3, 224, 224});
    paired_rounds ways(run_, "images",
                       fmt::format("{} {}, 720x1280 to 224, normalized, channels first",
                                   sizes_.images, sizes_.images == 1 ? "image" : "images"),
                       {.unit = "us an image", .pieces_per_second = 0});
    add_way(ways, "runs of a program",
            [this, work = requests<tensors>(session_.device().programs(),
                                            std::vector{sluice::run{steps, {images}, {planes}}})](
                std::int64_t n) { return work((n + sizes_.images - 1) / sizes_.images); });
    ways.measure();
  }

  bench_run& run_;
  session& session_;
  const bench_sizes& sizes_;
  stream stream_;
};

}  // namespace

void bench_operations(bench_run& run) {
  operation_suite(run).measure();
  run.report.set_library(run.library_of<gemm>() + ", " + run.library_of<conv2d>());
}

}  // namespace sluice::cli
