// SPDX-License-Identifier: Apache-2.0
#include "service/front/repository_poller.hpp"

#include "service/base/log.hpp"

#include <exception>
#include <set>

namespace sluice::service {

repository_poller::repository_poller(model_repository repository,
                                     std::chrono::milliseconds interval, std::function<void()> wake)
    : watch_(std::move(repository)), wake_(std::move(wake)) {
  poll({});
  for (const auto& name : watch_.index()->ignored_folders) {
    write_log(log_level::warning, "folder is ignored, no model can have its name",
              {{"folder", name}});
  }
  thread_ = std::thread([this, interval] { run(interval); });
}

repository_poller::~repository_poller() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void repository_poller::look_at(repository_look look) {
  {
    const std::lock_guard lock(mutex_);
    looks_.push_back(std::move(look));
  }
  changed_.notify_one();
}

std::vector<repository_news> repository_poller::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void repository_poller::open(const version_of_model& version, repository_news& news) const {
  auto& files = news.files[{version.model, version.version}];
  if (!files.descriptors.empty()) return;
  try {
    files.descriptors = watch_.repository().open_files(*news.index, version.model, version.version);
  } catch (const repository_error& e) {
    files.problem = e.what();
  }
}

void repository_poller::publish(repository_news news) {
  {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
  }
  wake_();
}

void repository_poller::poll(std::vector<repository_look> looks) {
  std::set<std::string> requested;
  for (const auto& look : looks) requested.insert(look.model);
  repository_news news{.changes = watch_.poll(std::chrono::steady_clock::now(), requested)};
  if (news.changes.empty() && looks.empty()) return;
  news.index = watch_.index();
  for (const auto* const versions : {&news.changes.loads, &news.changes.replaces}) {
    for (const auto& each : *versions) open(each, news);
  }
  for (const auto& name : requested) {
    const auto model = news.index->models.find(name);
    if (model == news.index->models.end()) continue;
    for (const auto version : served_versions(model->second)) open({name, version}, news);
  }
  news.looks = std::move(looks);
  publish(std::move(news));
}

void repository_poller::run(std::chrono::milliseconds interval) noexcept {
  std::string last_problem;
  for (;;) {
    std::vector<repository_look> looks;
    {
      std::unique_lock lock(mutex_);
      (void)changed_.wait_for(lock, interval, [this] { return is_closed_ || !looks_.empty(); });
      if (is_closed_) return;
      looks = std::exchange(looks_, {});
    }
    try {
      try {
        poll(looks);
        last_problem.clear();
      } catch (const std::exception& e) {
        if (!looks.empty()) {
          publish({.index = watch_.index(), .looks = std::move(looks), .problem = e.what()});
        }
        throw;
      }
    } catch (const std::exception& e) {
      if (last_problem == e.what()) continue;
      last_problem = e.what();
      write_log(log_level::error, "repository cannot be read", {{"problem", last_problem}});
    }
  }
}

}  // namespace sluice::service
