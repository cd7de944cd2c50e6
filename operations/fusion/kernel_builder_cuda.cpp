// SPDX-License-Identifier: Apache-2.0
#include "operations/fusion/kernel_builder_cuda.hpp"

#include "operations/core/disk_cache.hpp"
#include "operations/fusion/kernel_compiler_cuda.hpp"

#include <sluice/runtime/error.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace sluice::cuda {
namespace {

// Of the process. Programs of more structures run unfused.
constexpr std::size_t max_kernels = 4096;

/// All kernels of the process, and the thread that compiles them.
class kernel_builder {
 public:
  /// Never destroyed, so that a thread that outlives static objects may ask for code.
  [[nodiscard]] static kernel_builder& instance() {
    static auto* const builder = new kernel_builder();
    return *builder;
  }

  std::shared_ptr<const kernel_code> code_of(const std::string& text, int architecture) {
    auto key = std::pair(architecture, text);
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = codes_.find(key); found != codes_.end()) return found->second;
      if (codes_.size() == max_kernels) {
        auto code = std::make_shared<kernel_code>();
        code->refuse("the process has too many kernels");
        return code;
      }
    }
    // The disk is read without the lock, so two threads may do so.
    auto code = std::make_shared<kernel_code>();
    if (auto bytes = find_on_disk(key)) code->set(std::move(*bytes));
    const std::lock_guard lock(mutex_);
    const auto [position, is_new] = codes_.try_emplace(std::move(key), code);
    if (!is_new || code->progress() == kernel_code::state::made) return position->second;
    try {
      todo_.push_back({&position->first, code});
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    } catch (...) {
      code->refuse("there is no thread that compiles kernels");
    }
    changed_.notify_all();
    return code;
  }

  void add_client() {
    const std::lock_guard lock(mutex_);
    ++clients_;
    changed_.notify_all();
  }
  void remove_client() {
    std::unique_lock lock(mutex_);
    --clients_;
    changed_.wait(lock, [&] { return clients_ != 0 || !compiles_; });
  }

 private:
  using key_type = std::pair<int, std::string>;
  struct job {
    const key_type* key;
    std::shared_ptr<kernel_code> code;
  };

  /// All that the code depends on.
  [[nodiscard]] static std::string origin_of(const key_type& key) {
    return "NVRTC " + kernel_compiler_version() + ", headers " +
           std::to_string(version_of_kernel_headers()) + ", sm_" + std::to_string(key.first) +
           "\n" + key.second;
  }
  [[nodiscard]] std::optional<std::vector<char>> find_on_disk(const key_type& key) const noexcept {
    try {
      return cache_.find(origin_of(key));
    } catch (...) {
      return std::nullopt;
    }
  }

  void run() {
    bool is_registered = false;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || (clients_ != 0 && !todo_.empty()); });
      if (ends_) return;
      const auto next = std::move(todo_.front());
      todo_.pop_front();
      compiles_ = true;
      lock.unlock();
      try {
        load_kernel_compiler();
        // A process may end without closing its devices. What is registered last is called first.
        if (!std::exchange(is_registered, true)) (void)std::atexit([] { instance().end(); });
        auto bytes = compile_kernel(next.key->second, next.key->first);
        cache_.keep(origin_of(*next.key), bytes);
        next.code->set(std::move(bytes));
      } catch (...) {
        refuse(*next.code);
      }
      lock.lock();
      compiles_ = false;
      changed_.notify_all();
    }
  }
  static void refuse(kernel_code& code) noexcept {
    try {
      code.refuse(current_error().what());
    } catch (...) {
      code.refuse({});
    }
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const operations::disk_cache cache_ = operations::disk_cache::of_user("kernels");
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<key_type, std::shared_ptr<kernel_code>> codes_;
  std::deque<job> todo_;
  std::size_t clients_ = 0;
  bool compiles_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace

kernel_client::kernel_client() {
  kernel_builder::instance().add_client();
}
kernel_client::~kernel_client() {
  kernel_builder::instance().remove_client();
}

std::shared_ptr<const kernel_code> code_of(const std::string& text, int architecture) {
  return kernel_builder::instance().code_of(text, architecture);
}

}  // namespace sluice::cuda
