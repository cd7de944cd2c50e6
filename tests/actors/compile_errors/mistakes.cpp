// SPDX-License-Identifier: Apache-2.0
// What a user may get wrong, one mistake for each macro. Without a macro, the file compiles.
#include <mistake_headers.hpp>

using namespace sluice;

struct undeclared {
  int number;
};

tensor asked(caf::actor_system& system, const device_actor& device, const blas_actor& blas) {
  (void)ask<tensor>(system, device, allocate{.shape = {4}});
#if defined(WRONG_MESSAGE)
  return ask<tensor>(system, blas, conv2d{});
#elif defined(WRONG_OPTIONS)
  return ask<tensor>(system, blas, std::chrono::seconds(1), gemm{}, get_queue_status{});
#elif defined(WRONG_REPLY)
  return tensor(ask<gpu_ref<float>>(system, blas, gemm{}));
#elif defined(UNDECLARED_MESSAGE)
  return ask<tensor>(system, blas, undeclared{});
#else
  return ask<tensor>(system, blas, std::chrono::seconds(1), gemm{}, request_options{});
#endif
}

struct negated_body {
  const float* x;
  float* y;
#if defined(BODY_WITHOUT_INDEX)
  void operator()(std::string) const {}
#else
  void operator()(std::size_t i) const {
    y[i] = -x[i];
  }
#endif
};

struct negated {
  operand x{};
  operand y{};
#if !defined(NO_MEMBERS)
  static constexpr auto members() {
    return std::make_tuple(input("x", &negated::x), output("y", &negated::y));
  }
#endif
#if !defined(NO_NAME)
  static constexpr std::string_view name = "negated";
#endif
#if !defined(NO_HAS_KERNEL)
  static constexpr bool has_kernel = false;
#endif
  struct call {
#if defined(CALL_WITHOUT_COUNT)
    std::size_t size;
#else
    std::size_t count;
#endif
#if defined(CALL_WITH_A_STRING)
    std::string text{};
#endif
  };
#if !defined(NO_INFER)
  static call infer(const negated& op, inference& inference) {
    return {inference.result(op.y, element_type::f32, inference.require(op.x).shape).size()};
  }
#endif
#if !defined(NO_MEMBERS)
  static negated_body body(const call&, const launch_of<negated>& launch) {
    return {launch.get<const float>(&negated::x), launch.get<float>(&negated::y)};
  }
#endif
};

const operation_descriptor& row_of_negate() {
  return descriptor_of(operation_type<negated>{});
}

float first_of_a_temporary() {
#if defined(VALUES_OF_A_TEMPORARY)
  return host_tensor(std::vector<float>{1}).values<float>()[0];
#else
  return host_tensor(std::vector<float>{1}).to_vector<float>()[0];
#endif
}

reduce reduced_axes_in_braces(const tensor& x) {
  return {.x = x, .axes = {0, 1}};
}

fill shape_in_braces() {
  return {.value = 1, .shape = {2, 3}};
}
random_uniform extent_in_braces() {
  return {.shape = {512}, .seed = 1};
}

struct doubled {
#if defined(MESSAGE_WITHOUT_DEFAULT)
  explicit doubled(tensor operand) : x(std::move(operand)) {}
#endif
  tensor x{};
};
SLUICE_MESSAGES(mistakes, 300, doubled)
using service = caf::typed_actor<takes<tensor(doubled)>>;

service::behavior_type behavior(service::pointer self, const blas_actor& blas) {
#if defined(UNDECLARED_SENT)
  send(self, blas, undeclared{});
#elif defined(WRONG_SENT)
  send(self, blas, conv2d{});
#elif defined(WRONG_POSTED)
  post(blas, conv2d{});
#else
  send(self, blas, cancel_request{});
  post(caf::actor_cast<caf::actor>(blas), gemm{});
#endif
#if defined(WRONG_REQUEST)
  request(self, blas, caf::infinite, conv2d{})
#else
  request(self, blas, caf::infinite, gemm{})
#endif
#if defined(WRONG_THEN)
      .then([](const host_tensor&) {}, [](const caf::error&) {});
#else
      .then([](const tensor&) {}, [](const caf::error&) {});
#endif
#if defined(WRONG_HANDLER)
  return {[](const gemm&) {
    return tensor();
  }};
#else
  return {[=](const doubled& message) -> caf::result<tensor> {
#if defined(WRONG_DELEGATED)
    return delegate(self, blas, conv2d{.x = message.x});
#else
    return delegate(self, blas, gemm{.a = message.x, .b = message.x});
#endif
  }};
#endif
}

caf::behavior converting_behavior(caf::event_based_actor* self, const program_actor& programs,
                                  const program& program) {
  return {[=](const host_tensor& x) {
#if defined(WRONG_CONVERTER)
    const auto to_count = [](const tensors& results) {
      return results.size();
    };
#else
    const auto to_count = [](const host_tensors& results) {
      return results.size();
    };
#endif
    return answer_with(self, programs, to_count, run_to_host{program, {x}});
  }};
}

#if defined(UNDECLARED_OPERATION)
auto spawn_own(caf::actor_system& system, std::shared_ptr<device_service> service) {
  return spawn_operations<negated>(system, "mistakes.negated", std::move(service));
}
#endif
