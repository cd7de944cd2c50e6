// SPDX-License-Identifier: Apache-2.0
#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/executor.hpp>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {
namespace {

constexpr std::size_t max_text_bytes = 1024;

/// `why` with at most `max_text_bytes` of text. As it is if there is no memory.
error with_bounded_text(const error& why) noexcept {
  constexpr std::string_view ellipsis = "...";
  const std::string_view text = why.what();
  if (text.size() <= max_text_bytes) return why;
  auto end = max_text_bytes - ellipsis.size();
  const auto continues_character = [&] {
    return (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U;  // of UTF-8
  };
  for (int bytes = 3; bytes != 0 && continues_character(); --bytes) --end;
  try {
    return {why.code(), std::string(text.substr(0, end)).append(ellipsis), why.status(),
            why.where()};
  } catch (...) {
    return why;
  }
}

}  // namespace

/// Collects the results of a bulk, and gives the answer with the last one. It lives until the last
/// of its tokens has gone, which lie in its memory. Thread-safe, but for `token`.
class bulk::collector {
 public:
  /// Destroys itself after `count` tokens and the returned owner.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] static std::unique_ptr<collector, void (*)(collector*)> make(
      std::size_t count, reply_token<bulk_results> answer);
  /// The size of one for `count` operations in host memory.
  [[nodiscard]] static std::size_t bytes_of(std::size_t count) noexcept {
    return sizeof(collector) + count * (token_bytes + sizeof(bulk_result));
  }
  collector(const collector&) = delete;
  collector& operator=(const collector&) = delete;

  /// The size of the texts of the errors so far.
  [[nodiscard]] std::size_t text_bytes() const noexcept {
    return text_bytes_.load(std::memory_order_relaxed);
  }
  /// The token of operation `i`. Called once for each.
  [[nodiscard]] reply_token<tensor> token(std::size_t i) noexcept;

 private:
  class receiver;
  template <class T>
  class allocator;

  collector(std::size_t count, reply_token<bulk_results> answer);
  ~collector() = default;
  [[nodiscard]] bulk_result& result(std::size_t i) noexcept { return results_.results[i]; }
  void fail_one(std::size_t i, const error& why) noexcept;
  void answer_one() noexcept;
  void let_go() noexcept;

  static constexpr std::size_t token_bytes = 288;  // with the result that it holds

  reply_token<bulk_results> answer_;
  bulk_results results_;
  std::unique_ptr<std::byte[]> tokens_;
  std::size_t tokens_taken_ = 0;
  std::atomic<std::size_t> text_bytes_{0};
  std::atomic<std::size_t> unanswered_;
  std::atomic<std::size_t> owners_;
};

/// Receives the answer to one operation of a bulk.
class bulk::collector::receiver final : public reply_token<tensor>::receiver {
 public:
  receiver(collector& collector, std::size_t number) noexcept
      : collector_(collector), number_(number) {}
  void succeed(tensor value) noexcept override {
    collector_.result(number_).value = std::move(value);
    collector_.answer_one();
  }
  void fail(const error& why) noexcept override { collector_.fail_one(number_, why); }

 private:
  collector& collector_;
  std::size_t number_;
};

/// Allocates tokens in the memory of their collector.
template <class T>
class bulk::collector::allocator {
 public:
  using value_type = T;

  explicit allocator(collector& collector) noexcept : collector_(&collector) {}
  template <class U>
  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert.
  allocator(const allocator<U>& other) noexcept : collector_(other.collector_) {}

  [[nodiscard]] T* allocate(std::size_t) noexcept {
    static_assert(sizeof(T) <= token_bytes && token_bytes % alignof(T) == 0);
    auto* const memory = collector_->tokens_.get() + token_bytes * collector_->tokens_taken_++;
    return reinterpret_cast<T*>(memory);
  }
  void deallocate(T*, std::size_t) noexcept { collector_->let_go(); }
  [[nodiscard]] bool operator==(const allocator&) const noexcept = default;

 private:
  template <class U>
  friend class allocator;
  collector* collector_;
};

std::unique_ptr<bulk::collector, void (*)(bulk::collector*)> bulk::collector::make(
    std::size_t count, reply_token<bulk_results> answer) {
  return {new collector(count, std::move(answer)), [](collector* collector) {
            collector->let_go();
          }};
}

bulk::collector::collector(std::size_t count, reply_token<bulk_results> answer)
    : answer_(std::move(answer)),
      results_{std::vector<bulk_result>(count)},
      tokens_(new std::byte[count * token_bytes]),
      unanswered_(count),
      owners_(count + 1) {}

reply_token<tensor> bulk::collector::token(std::size_t i) noexcept {
  return reply_token<tensor>::allocate<receiver>(allocator<receiver>(*this), *this, i);
}

void bulk::collector::fail_one(std::size_t i, const error& why) noexcept {
  const auto& failure = result(i).failure.emplace(with_bounded_text(why));
  text_bytes_.fetch_add(std::string_view(failure.what()).size(), std::memory_order_relaxed);
  answer_one();
}

void bulk::collector::answer_one() noexcept {
  if (unanswered_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    answer_.succeed(std::move(results_));
  }
}

void bulk::collector::let_go() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void bulk::submit_one(executor& executor, const operation_descriptor& descriptor, void* operation,
                      const request_options& options, request_sender sender, collector& collector,
                      std::size_t i) noexcept {
  auto token = collector.token(i);
  executor.submit_operation(descriptor, operation, options, &token, sender);
}

void executor::submit(bulk operations, const request_options& options,
                      reply_token<bulk_results> token, request_sender sender) noexcept {
  if (operations.empty()) return (void)token.succeed({});
  try {
    const auto collector = bulk::collector::make(operations.size(), token);
    gathering scope(*this, sender, bulk::collector::bytes_of(operations.size()));
    std::size_t next = 0;
    for (const auto& run : operations.runs_)
      next = run->submit(*this, options, sender, *collector, next);
    scope.share(collector->text_bytes());
  } catch (...) {
    operations = {};
    token.fail(current_error());
  }
}

}  // namespace sluice
