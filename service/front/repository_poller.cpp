// SPDX-License-Identifier: Apache-2.0
#include "service/front/repository_poller.hpp"

#include <cstdio>
#include <exception>

namespace sluice::service {

repository_poller::repository_poller(model_repository repository,
                                     std::chrono::milliseconds interval, std::function<void()> wake)
    : watch_(std::move(repository)), wake_(std::move(wake)) {
  poll();
  for (const auto& name : watch_.index()->ignored_folders) {
    std::fprintf(stderr, "sluiced: the folder %s is ignored: no model can have this name\n",
                 name.c_str());
  }
  thread_ = std::thread([this, interval] { run(interval); });
}

repository_poller::~repository_poller() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  closed_.notify_one();
  thread_.join();
}

std::vector<repository_news> repository_poller::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void repository_poller::poll() {
  repository_news news{.changes = watch_.poll(std::chrono::steady_clock::now())};
  if (news.changes.empty()) return;
  news.index = watch_.index();
  for (const auto* const versions : {&news.changes.loads, &news.changes.replaces}) {
    for (const auto& each : *versions) {
      auto& file = news.files[{each.model, each.version}];
      try {
        file.descriptor = std::make_shared<const file_descriptor>(
            watch_.repository().open_model(*news.index, each.model, each.version));
      } catch (const repository_error& e) {
        file.problem = e.what();
      }
    }
  }
  {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
  }
  wake_();
}

void repository_poller::run(std::chrono::milliseconds interval) noexcept {
  std::string last_problem;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (closed_.wait_for(lock, interval, [this] { return is_closed_; })) return;
    }
    try {
      poll();
      last_problem.clear();
    } catch (const std::exception& e) {
      if (last_problem == e.what()) continue;
      last_problem = e.what();
      std::fprintf(stderr, "sluiced: %s\n", e.what());
    }
  }
}

}  // namespace sluice::service
