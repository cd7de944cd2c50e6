// SPDX-License-Identifier: Apache-2.0
#include <sluice/operations/bulk.hpp>

namespace sluice {

/// Receives the answer to one operation of a bulk.
class bulk::collector::receiver final : public reply_token<tensor>::receiver {
 public:
  receiver(collector& into, std::size_t i) noexcept : into_(into), i_(i) {}
  void succeed(tensor value) noexcept override {
    into_.result(i_).value = std::move(value);
    into_.answer_one();
  }
  void fail(const error& why) noexcept override {
    into_.result(i_).failure = why;
    into_.answer_one();
  }

 private:
  collector& into_;
  std::size_t i_;
};

/// Allocates tokens in the memory of their collector.
template <class T>
class bulk::collector::allocator {
 public:
  using value_type = T;

  explicit allocator(collector& of) noexcept : of_(&of) {}
  template <class U>
  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert.
  allocator(const allocator<U>& other) noexcept : of_(other.of_) {}

  [[nodiscard]] T* allocate(std::size_t) noexcept {
    static_assert(sizeof(T) <= token_bytes && token_bytes % alignof(T) == 0);
    auto* const memory = of_->tokens_.get() + token_bytes * of_->tokens_taken_++;
    return reinterpret_cast<T*>(memory);
  }
  void deallocate(T*, std::size_t) noexcept { of_->let_go(); }
  [[nodiscard]] bool operator==(const allocator&) const noexcept = default;

 private:
  template <class U>
  friend class allocator;
  collector* of_;
};

std::unique_ptr<bulk::collector, void (*)(bulk::collector*)> bulk::collector::make(
    std::size_t count, reply_token<bulk_results> answer) {
  return {new collector(count, std::move(answer)), [](collector* of) {
            of->let_go();
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

void bulk::collector::answer_one() noexcept {
  if (unanswered_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    answer_.succeed(std::move(results_));
  }
}

void bulk::collector::let_go() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void executor::submit(bulk asked, const request_options& options, reply_token<bulk_results> token,
                      request_sender sender) noexcept {
  if (asked.empty()) return (void)token.succeed({});
  try {
    const auto into = bulk::collector::make(asked.size(), token);
    const gathering together(*this, sender, bulk::collector::bytes_of(asked.size()));
    std::size_t next = 0;
    for (const auto& run : asked.runs_) next = run->submit(*this, options, sender, *into, next);
  } catch (...) {
    asked = {};
    token.fail(current_error());
  }
}

}  // namespace sluice
