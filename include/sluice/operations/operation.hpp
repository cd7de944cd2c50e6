// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/operation_request.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/program_step.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/host_task.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {
template <class Operation, class T>
[[nodiscard]] std::string_view name_of_operand(T Operation::*member) noexcept {
  std::string_view name;
  const auto compare = [&](const auto& each) {
    if constexpr (std::is_same_v<decltype(each.pointer), T Operation::*>) {
      if (each.pointer == member) name = each.name;
    }
  };
  std::apply([&](const auto&... each) { (compare(each), ...); }, Operation::members());
  return name;
}
/// The operand with this number, as `operand_index` counts; nullptr if it is of another type.
template <class Operation>
[[nodiscard]] operand Operation::*operand_member(std::size_t number) noexcept {
  operand Operation::*found = nullptr;
  std::size_t index = 0;
  const auto compare = [&](const auto& each) {
    if constexpr (points_to_operand<decltype(each.pointer)>) {
      if constexpr (std::is_same_v<decltype(each.pointer), operand Operation::*>) {
        if (index == number) found = each.pointer;
      }
      ++index;
    }
  };
  std::apply([&](const auto&... each) { (compare(each), ...); }, Operation::members());
  return found;
}
/// @throws error `invalid_argument`
[[noreturn]] inline void refuse_element_type(std::string_view name, element_type type,
                                             element_type accessed) {
  throw invalid_argument(name, "is of type " + std::string(to_string(type)) +
                                   ", but its launch accesses it as " +
                                   std::string(to_string(accessed)));
}
}  // namespace detail

/// The memory and the plan of one launch of an operation.
///
///     const float* x = launch.get<float>(&affine::x);
template <class Operation>
class launch_of {
 public:
  /// The launch with the memory `memory`.
  explicit launch_of(const launch_memory& memory) noexcept
      : plan_(memory.plan),
        workspace_(memory.workspace),
        launch_(memory.own),
        errors_(memory.errors),
        prepacked_(memory.prepacked),
        step_(memory.step),
        knows_types_(!memory.types.empty()) {
    auto count = addresses_.size();
    if constexpr (has_list) {
      count = memory.addresses.size();
      list_size_ = count - detail::operand_count<Operation>();
    }
    std::copy_n(memory.addresses.begin(), count, addresses_.begin());
    if (knows_types_) std::copy_n(memory.types.begin(), count, types_.begin());
  }
  /// The first element of an operand; nullptr if it is not given or the launch does not touch it.
  ///
  /// If `T` is the C++ type of an `element_type`, the operand must be of that type. Other types,
  /// such as `void`, `std::byte` and the types of a library, are not checked. The check is made
  /// once for each call, and not for each element. In a batch, it sees the types of the first
  /// launch.
  /// @throws error `invalid_argument` with the name of the operand if its elements are of another
  /// type; the launch fails with this error
  ///@{
  template <class T>
  [[nodiscard]] T* get(operand Operation::*member) const {
    return find<T>(member);
  }
  template <class T>
  [[nodiscard]] T* get(operand_or_number Operation::*member) const {
    return find<T>(member);
  }
  ///@}
  /// Likewise of operand `i` of the list, which has more.
  template <class T>
  [[nodiscard]] T* get(std::vector<operand> Operation::*member, std::size_t i) const {
    return typed<T>(detail::operands_before_list<Operation>() + i,
                    [&] { return detail::name_of_operand(member); });
  }
  /// Whether `get` returns a prepacked copy of an operand, in the layout that
  /// `device_functions::prepacked` has stated. Only in programs, of constants.
  [[nodiscard]] bool is_prepacked(operand Operation::*member) const noexcept {
    return (prepacked_ >> detail::operand_index(member) & 1U) != 0;
  }
  /// The number of operands in the list.
  [[nodiscard]] std::size_t size(std::vector<operand> Operation::*) const noexcept {
    return list_size_;
  }
  /// Reports indices in an operand that are out of range; see `index_report`. The call states in
  /// its `facts` where the launch looks for such errors. Elsewhere nothing is reported.
  ///
  ///     launch_facts facts() const { return {.errors = error_detection::everywhere}; }
  [[nodiscard]] index_report index_errors(operand Operation::*member) const noexcept {
    return {errors_, step_, static_cast<std::uint32_t>(detail::operand_index(member))};
  }
  /// The plan of the launch, which is of type `Plan`.
  template <class Plan>
  [[nodiscard]] const Plan& plan() const noexcept {
    return static_cast<const Plan&>(*plan_);
  }
  /// Scratch memory for the launch; nullptr if its plan needs none.
  [[nodiscard]] void* workspace() const noexcept { return workspace_; }
  /// What `begin` has made for this launch, which is of type `Own`.
  template <class Own>
  [[nodiscard]] Own& own() const noexcept {
    return static_cast<Own&>(*launch_);
  }

 private:
  static constexpr bool has_list = detail::has_operand_list<Operation>();
  static constexpr std::size_t capacity =
      has_list ? max_operands : detail::operand_count<Operation>();

  template <class T, class Member>
  [[nodiscard]] T* find(Member Operation::*member) const {
    auto i = detail::operand_index(member);
    if constexpr (has_list) {
      if (i >= detail::operands_before_list<Operation>()) i += list_size_;
    }
    return typed<T>(i, [&] { return detail::name_of_operand(member); });
  }
  template <class T, class Name>
  [[nodiscard]] T* typed(std::size_t i, const Name& name) const {
    if constexpr (element<std::remove_cv_t<T>>) {
      constexpr auto type = element_type_v<std::remove_cv_t<T>>;
      if (knows_types_ && types_[i] != type && addresses_[i] != nullptr) {
        detail::refuse_element_type(name(), types_[i], type);
      }
    }
    return static_cast<T*>(addresses_[i]);
  }

  std::array<void*, capacity> addresses_;
  std::size_t list_size_ = 0;
  const operation_plan* plan_;
  void* workspace_;
  operation_launch* launch_;
  error_word* errors_;
  std::uint64_t prepacked_;
  std::uint32_t step_;
  bool knows_types_;
  std::array<element_type, capacity> types_{};
};

/// A prepacked copy of an input that is being made.
template <class Operation>
struct prepacking_of {
  operand Operation::*input = nullptr;   ///< the member that is copied
  const void* source = nullptr;          ///< the first element of the input
  void* copy = nullptr;                  ///< `prepacked_layout::bytes`, aligned to 256
  const operation_plan* plan = nullptr;  ///< of the call; nullptr if the operation makes none
};

/// The functions of an operation on one kind of device.
template <class Operation, class Call>
struct device_functions {
  std::string_view library{};          ///< name of the library: "cuBLAS"
  std::string (*version)() = nullptr;  ///< version of the library at run time; may be null
  /// Makes the library objects of a lane that the operation uses. Slow. May be null.
  void (*prepare)(lane_libraries&) = nullptr;
  /// Refuses calls that the library does not take. May be null.
  void (*check)(const Call&) = nullptr;
  /// What the plan for a call costs. A plan that costs too much is not begun, and a long one keeps
  /// no others waiting. Null: the size is not known, and the work is the usual one.
  plan_price (*price)(const Call&) = nullptr;
  /// Makes the plan for a call; it depends only on the launch key. Slow. Null: the operation needs
  /// none.
  std::shared_ptr<const operation_plan> (*make_plan)(lane_libraries&, const Call&) = nullptr;
  /// The layout of the prepacked copy of an input with which launches of a call are faster. A
  /// program makes the copy if the input is a constant in host memory and the call does not vary;
  /// then `launch_of::is_prepacked` is true. Not for operations with a list. May be null.
  prepacked_layout (*prepacked)(const Call&, const operation_plan*,
                                operand Operation::*input) = nullptr;
  /// Makes a prepacked copy. On a host device, computes in the thread of a host stream. On a GPU,
  /// enqueues on the stream of the libraries, which are not those of the lane. Null if `prepacked`
  /// is null.
  void (*prepack)(lane_libraries&, const Call&, const prepacking_of<Operation>&) = nullptr;
};

/// The launches of a batch on a GPU: their calls are equal, and their operands are not.
template <class Operation>
class batch_of {
 public:
  /// The batch with the memory `memory`: its addresses are those of the operands of each launch.
  explicit batch_of(const launch_memory& memory) noexcept
      : addresses_(memory.addresses),
        types_(memory.types),
        plan_(memory.plan),
        workspace_(memory.workspace),
        launch_(memory.own) {}
  /// The number of launches.
  [[nodiscard]] std::size_t size() const noexcept {
    return addresses_.size() / detail::operand_count<Operation>();
  }
  /// The memory of launch `i`.
  [[nodiscard]] launch_of<Operation> operator[](std::size_t i) const noexcept {
    constexpr auto count = detail::operand_count<Operation>();
    return launch_of<Operation>({.addresses = addresses_.subspan(i * count, count),
                                 .types = types_,
                                 .plan = plan_,
                                 .workspace = workspace_});
  }
  /// The plan of the launches, which is of type `Plan`.
  template <class Plan>
  [[nodiscard]] const Plan& plan() const noexcept {
    return static_cast<const Plan&>(*plan_);
  }
  /// Scratch memory of `operation_plan::batch_workspace_bytes`; nullptr if the plan needs none.
  [[nodiscard]] void* workspace() const noexcept { return workspace_; }
  /// What `begin` has made for this batch, which is of type `Own`.
  template <class Own>
  [[nodiscard]] Own& own() const noexcept {
    return static_cast<Own&>(*launch_);
  }

 private:
  std::span<void* const> addresses_;
  std::span<const element_type> types_;
  const operation_plan* plan_;
  void* workspace_;
  operation_launch* launch_;
};

/// The functions with which requests of an operation are launched together. On the host device they
/// are computed one by one.
template <class Operation, class Call>
struct batch_functions {
  /// The largest number of launches with this call in a batch; at most 1: none. Null: no batches.
  std::size_t (*most)(const Call&) = nullptr;
  /// Whether launches with these calls may be in one batch, if `most` of both is above 1.
  bool (*same)(const Call&, const Call&) = nullptr;
  /// The alignment of operands of launches in a batch, in bytes.
  std::size_t alignment = 1;
  /// Makes what a batch of up to `count` launches needs of its own, before anything is locked.
  std::shared_ptr<operation_launch> (*begin)(lane_libraries&, std::size_t count) = nullptr;
  /// Enqueues the launches of a batch as one call on the lane's stream. Throws `nothing_enqueued`,
  /// or an error after which all of them have failed.
  void (*enqueue)(lane_libraries&, const Call&, const batch_of<Operation>&) = nullptr;
};

/// The functions behind an operation.
///
/// `Call` is what `infer` works out: a trivially copyable type without addresses. If the operation
/// makes plans, its member `key`, the launch key, is a trivially copyable type without padding;
/// calls with equal keys share a plan. If plans of the host device depend on less, a function
/// `host_key()` of the call returns a reference to that part of it. A call may have a function
/// `launch_facts facts() const`. An operation that does more than a bounded number of steps for
/// each element of its operands, like a product of matrices, states its work there.
template <class Operation, class Call>
struct operation_functions {
  std::string_view name{};  ///< name of the operation: "gemm"
  /// Refuses what no device can compute, and works out the call. Pure.
  Call (*infer)(const Operation&, inference&) = nullptr;
  device_functions<Operation, Call> host{};  ///< of the host device
  /// Computes in the thread of a host stream. Null: the host device does not have the operation.
  void (*compute)(const Call&, const launch_of<Operation>&) = nullptr;
  device_functions<Operation, Call> cuda{};  ///< of GPUs
  /// Enqueues kernels on the lane's stream. Null: GPUs do not have the operation.
  void (*enqueue)(lane_libraries&, const Call&, const launch_of<Operation>&) = nullptr;
  /// Whether a graph of a GPU may repeat what `enqueue` does; see `capture_policy`. Then `enqueue`
  /// depends on its arguments alone and works on the lane's stream, its library objects are made by
  /// `prepare`, and these give up no memory that an earlier call has used. Of an address, it uses
  /// the value, as an argument of a kernel, and the largest power of two that divides it. The
  /// planner may call it with library objects of another lane, while the owner of the lane calls
  /// it, too.
  bool can_be_captured = false;
  /// Makes what one launch needs of its own, before anything is locked. May be null.
  std::shared_ptr<operation_launch> (*begin)(lane_libraries&, const Operation&,
                                             const Call&) = nullptr;
  /// Enqueues on the lane's stream through functions of the device, which every kind of device has;
  /// instead of `compute` and `enqueue`.
  void (*enqueue_on_any)(lane_libraries&, const Call&, const launch_of<Operation>&) = nullptr;
  batch_functions<Operation, Call> batches{};  ///< launches of several requests as one
};

/// The descriptor of an operation, made from its functions.
template <class Operation, class Call>
class typed_operation_descriptor final : public operation_descriptor,
                                         private batch_descriptor,
                                         private detail::error_names {
  static_assert(std::is_trivially_copyable_v<Call>,
                "the call of an operation must be trivially copyable: numbers and structs of "
                "numbers, and no string, vector or tensor");
  static_assert(sizeof(Call) <= call_storage::max_bytes,
                "the call of an operation is larger than call_storage::max_bytes");
  static_assert(detail::operand_count<Operation>() <= max_operands,
                "an operation has at most max_operands operands");

 public:
  /// The descriptor of an operation with these functions.
  explicit typed_operation_descriptor(operation_functions<Operation, Call> functions) noexcept
      : functions_(functions) {}

  std::string_view name() const noexcept override { return functions_.name; }
  std::string_view library(device_kind kind) const noexcept override {
    return functions_of(kind).library;
  }
  std::string version(device_kind kind) const override {
    return functions_of(kind).version != nullptr ? functions_of(kind).version() : std::string();
  }
  void infer(const void* operation, inference& inference, call_storage& call) const override {
    new (call.bytes.data())
        Call(functions_.infer(*static_cast<const Operation*>(operation), inference));
    inference.require_results();
  }
  [[nodiscard]] std::optional<error> try_infer(const void* operation, inference& inference,
                                               call_storage& call) const noexcept override {
    return detail::failure_of([&] { infer(operation, inference, call); });
  }
  void check(device_kind kind, const call_storage& call) const override {
    const bool is_host = kind == device_kind::host;
    const bool is_available =
        is_host ? functions_.compute != nullptr : functions_.enqueue != nullptr;
    if (!is_available && functions_.enqueue_on_any == nullptr) {
      throw error(errc::unsupported, std::string(name()) + ": this build does not have it for " +
                                         (is_host ? "the host device" : "GPUs"));
    }
    if (functions_of(kind).check != nullptr) functions_of(kind).check(typed(call));
  }
  launch_facts facts(const call_storage& call) const noexcept override {
    if constexpr (requires { typed(call).facts(); }) {
      return typed(call).facts();
    } else {
      return {};
    }
  }
  bool has_libraries(device_kind kind) const noexcept override {
    return functions_of(kind).prepare != nullptr;
  }
  bool makes_plans(device_kind kind) const noexcept override {
    return functions_of(kind).make_plan != nullptr;
  }
  std::span<const std::byte> key(device_kind kind,
                                 const call_storage& call) const noexcept override {
    if constexpr (requires { typed(call).host_key(); }) {
      if (kind == device_kind::host) return bytes_of(typed(call).host_key());
    }
    if constexpr (requires { typed(call).key; }) {
      return bytes_of(typed(call).key);
    } else {
      return {};
    }
  }
  plan_price price_of_plan(device_kind kind, const call_storage& call) const override {
    return functions_of(kind).price != nullptr ? functions_of(kind).price(typed(call))
                                               : plan_price();
  }
  void prepare(lane_libraries& libraries) const override {
    const auto& device = functions_of(kind_of(libraries));
    if (device.prepare != nullptr) device.prepare(libraries);
  }
  std::shared_ptr<const operation_plan> make_plan(lane_libraries& libraries,
                                                  const call_storage& call) const override {
    return functions_of(kind_of(libraries)).make_plan(libraries, typed(call));
  }
  std::shared_ptr<operation_launch> begin(lane_libraries& libraries, const void* operation,
                                          const call_storage& call) const override {
    if (functions_.begin == nullptr) return nullptr;
    return functions_.begin(libraries, *static_cast<const Operation*>(operation), typed(call));
  }
  void enqueue(lane_libraries& libraries, const call_storage& call,
               const launch_memory& memory) const override {
    const launch_of<Operation> launch(memory);
    if (functions_.enqueue_on_any != nullptr) {
      functions_.enqueue_on_any(libraries, typed(call), launch);
    } else if (kind_of(libraries) == device_kind::host) {
      try {
        submit_host_task(libraries.stream(), [compute = functions_.compute, call = typed(call),
                                              launch] { compute(call, launch); });
      } catch (...) {
        throw nothing_enqueued(current_error());
      }
    } else {
      functions_.enqueue(libraries, typed(call), launch);
    }
  }
  std::shared_ptr<const detail::error_names> names_of_errors(const operation_plan*) const override {
    return {std::shared_ptr<void>(), static_cast<const detail::error_names*>(this)};
  }
  std::string_view operand_name(std::size_t number) const noexcept override {
    return detail::operand_name<Operation>(number);
  }
  const batch_descriptor* batches() const noexcept override {
    // The members of a batch have equal numbers of operands.
    return functions_.batches.most != nullptr && !detail::has_operand_list<Operation>() ? this
                                                                                        : nullptr;
  }
  bool share_batch(const call_storage& a, const call_storage& b) const noexcept override {
    return functions_.batches.same(typed(a), typed(b));
  }
  bool composes() const noexcept override {
    return functions_.begin == nullptr && functions_.enqueue_on_any == nullptr;
  }
  bool can_be_captured() const noexcept override { return functions_.can_be_captured; }
  void compute(const call_storage& call, const launch_memory& memory) const override {
    functions_.compute(typed(call), launch_of<Operation>(memory));
  }
  prepacked_layout prepacked(device_kind kind, const call_storage& call, const operation_plan* plan,
                             std::size_t number) const override {
    const auto layout = functions_of(kind).prepacked;
    if (layout == nullptr || detail::has_operand_list<Operation>()) return {};
    const auto input = detail::operand_member<Operation>(number);
    return input == nullptr ? prepacked_layout() : layout(typed(call), plan, input);
  }
  void prepack(lane_libraries& libraries, const call_storage& call,
               const prepacking_memory& memory) const override {
    functions_of(kind_of(libraries))
        .prepack(libraries, typed(call),
                 {detail::operand_member<Operation>(memory.number), memory.source, memory.copy,
                  memory.plan});
  }

  detail::owner_pointer<detail::operation_request> make_request(detail::owner_memory& memory,
                                                                void* operation,
                                                                request_options&& options,
                                                                request_sender sender,
                                                                void* token) const override {
    return detail::make_owned<detail::typed_request<Operation>, detail::operation_request>(
        memory, *this, std::move(*static_cast<Operation*>(operation)), std::move(options), sender,
        std::move(*static_cast<reply_token<operation_result<Operation>>*>(token)));
  }
  std::shared_ptr<detail::program_step> make_step(void* operation) const override {
    return std::make_shared<detail::typed_program_step<Operation>>(
        *this, std::move(*static_cast<Operation*>(operation)));
  }
  void refuse(void* operation, void* token, const error& failure) const noexcept override {
    // The client that gets the error shares its memory with nobody.
    detail::for_each_operand(*static_cast<Operation*>(operation),
                             [](operand& value, auto&&...) { value = operand(); });
    static_cast<reply_token<operation_result<Operation>>*>(token)->fail(failure);
  }

 private:
  std::size_t most_in_batch(const call_storage& call) const noexcept override {
    if constexpr (requires { typed(call).facts(); }) {
      // A batch has no word for each of its launches.
      if (typed(call).facts().errors != error_detection::none) return 0;
    }
    return functions_.batches.most(typed(call));
  }
  std::string name(std::uint32_t, std::uint32_t operand) const override {
    return std::string(operand_name(operand));
  }
  std::size_t batch_alignment() const noexcept override { return functions_.batches.alignment; }
  std::shared_ptr<operation_launch> begin_batch(lane_libraries& libraries,
                                                std::size_t count) const override {
    const bool begins =
        functions_.batches.begin != nullptr && kind_of(libraries) != device_kind::host;
    return begins ? functions_.batches.begin(libraries, count) : nullptr;
  }
  void enqueue_batch(lane_libraries& libraries, const call_storage& call,
                     const launch_memory& memory) const override {
    functions_.batches.enqueue(libraries, typed(call), batch_of<Operation>(memory));
  }

  static const Call& typed(const call_storage& call) noexcept {
    return *std::launder(reinterpret_cast<const Call*>(call.bytes.data()));
  }
  template <class Key>
  static std::span<const std::byte> bytes_of(const Key& key) noexcept {
    static_assert(std::has_unique_object_representations_v<Key>);
    return std::as_bytes(std::span(&key, 1));
  }
  const device_functions<Operation, Call>& functions_of(device_kind kind) const noexcept {
    return kind == device_kind::host ? functions_.host : functions_.cuda;
  }

  operation_functions<Operation, Call> functions_;
};

}  // namespace sluice
