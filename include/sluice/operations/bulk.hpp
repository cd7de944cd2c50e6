// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/host_bytes.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

class executor;

/// The answer to one operation of a `bulk`: its result or its error.
struct bulk_result {
  tensor value{};  ///< the result; empty after a failure
  /// The error; nothing after a success. A text of more than 1024 bytes is cut and ends with "...".
  std::optional<error> failure{};
};
/// The answer to a `bulk`: one result for each operation, in their order.
struct bulk_results {
  std::vector<bulk_result> results{};  ///< one for each operation
};

/// Operations of any kinds that travel in one message and are answered by one.
///
///     bulk many;
///     for (auto& p : products) many.add(gemm{.a = p.a, .b = p.b, .c = p.c});
///     request(self, blas, caf::infinite, many).then([](const bulk_results& results) { ... });
///
/// To the executor they are single requests, submitted in their order: each is checked, fenced and
/// launched by itself or in a batch, and fails by itself. They share the options of the message;
/// each counts in the queue. The answer comes when the last of them has been answered.
///
/// Every executor takes operations of every library: those of the actor that receives the message
/// share its lane. Copies share nothing. Not thread-safe.
class bulk {
 public:
  /// The most operations of a bulk. An actor takes all of one before its next message.
  static constexpr std::size_t max_size = 4096;

  bulk() = default;
  bulk(bulk&& other) noexcept
      : runs_(std::move(other.runs_)), size_(std::exchange(other.size_, 0)) {}
  bulk& operator=(bulk&& other) noexcept {
    if (this == &other) return *this;
    runs_ = std::exchange(other.runs_, {});
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  bulk(const bulk& other) : size_(other.size_) {
    for (const auto& run : other.runs_) runs_.push_back(run->clone());
  }
  bulk& operator=(const bulk& other) { return *this = bulk(other); }
  ~bulk() = default;

  /// Appends an operation, or what a `to_operation` turns into one. It has one result: an operation
  /// with several outputs and a run of a program are requests of their own. A `download` needs a
  /// target, `download::target`.
  /// @throws error `invalid_argument` if there are `max_size` of them; as `to_operation`
  /// @throws std::bad_alloc if there is no memory
  template <class Request>
  bulk& add(Request request) {
    if constexpr (requires { to_operation(std::move(request)); }) {
      return append(to_operation(std::move(request)));
    } else {
      return append(std::move(request));
    }
  }
  /// The number of operations.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether there is none.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// The host memory that the operations take, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (const auto& run : runs_) sum += run->bytes();
    return sum;
  }

 private:
  friend class executor;
  class collector;

  /// Operations of one kind that follow each other.
  class run_of_operations {
   public:
    run_of_operations() = default;
    run_of_operations(const run_of_operations&) = delete;
    run_of_operations& operator=(const run_of_operations&) = delete;
    virtual ~run_of_operations() = default;
    [[nodiscard]] virtual std::unique_ptr<run_of_operations> clone() const = 0;
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
    /// Submits all operations, which have the numbers from `first` on. Returns the next number.
    virtual std::size_t submit(executor& executor, const request_options& options,
                               request_sender sender, collector& collector,
                               std::size_t first) noexcept = 0;
  };
  template <class Operation>
  class run_of final : public run_of_operations {
   public:
    std::vector<Operation> operations;

    [[nodiscard]] std::unique_ptr<run_of_operations> clone() const override {
      auto copy = std::make_unique<run_of>();
      copy->operations = operations;
      return copy;
    }
    [[nodiscard]] std::size_t bytes() const noexcept override {
      std::size_t sum = operations.capacity() * sizeof(Operation);
      for (const auto& operation : operations) sum += detail::host_bytes_of(operation);
      return sum;
    }
    std::size_t submit(executor& executor, const request_options& options, request_sender sender,
                       collector& collector, std::size_t first) noexcept override {
      for (auto& operation : operations) {
        submit_one(executor, detail::find_descriptor(operation), &operation, options, sender,
                   collector, first++);
      }
      return first;
    }
  };

  /// Submits the operation of `descriptor` at `operation`, which is moved from, as number `i`.
  SLUICE_EXPORT static void submit_one(executor& executor, const operation_descriptor& descriptor,
                                       void* operation, const request_options& options,
                                       request_sender sender, collector& collector,
                                       std::size_t i) noexcept;

  template <class Operation>
  bulk& append(Operation operation) {
    static_assert(
        requires { descriptor_of(operation_type<Operation>{}); },
        "a bulk holds operations; runs of programs are none");
    static_assert(!detail::has_several_results<Operation>(),
                  "a bulk holds operations with one result");
    if (size_ == max_size) {
      throw error(errc::invalid_argument,
                  "bulk: has " + std::to_string(max_size) + " operations already");
    }
    auto* last = runs_.empty() ? nullptr : dynamic_cast<run_of<Operation>*>(runs_.back().get());
    if (last == nullptr) {
      auto run = std::make_unique<run_of<Operation>>();
      last = run.get();
      runs_.push_back(std::move(run));
    }
    last->operations.push_back(std::move(operation));
    ++size_;
    return *this;
  }

  std::vector<std::unique_ptr<run_of_operations>> runs_;
  std::size_t size_ = 0;
};

}  // namespace sluice
