#include <sluice/envelope/chrome_trace.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using clock = std::chrono::steady_clock;

/// A name cut to a fixed length, so that recording it allocates nothing.
struct short_name {
  char text[32]{};
  short_name& operator=(std::string_view name) noexcept {
    const auto length = std::min(name.size(), sizeof text - 1);
    std::memcpy(text, name.data(), length);
    text[length] = '\0';
    return *this;
  }
};

struct launch_record {
  std::uint64_t launch_id = 0;
  short_name library;
  short_name operation;
  short_name label;
  element_type type = element_type::f32;
  device_id device{};
  stream_id stream{};
  std::array<std::int64_t, 4> sizes{};
  std::uint64_t thread = 0;
  clock::time_point enqueue_begin{};
  clock::time_point enqueue_end{};
  clock::time_point completed{};
  errc failure{};
  bool failed = false;
  std::atomic<bool> complete{false};
};

std::uint64_t this_thread_number() noexcept {
  return std::hash<std::thread::id>{}(std::this_thread::get_id()) % 1'000'000;
}

}  // namespace

struct chrome_trace::buffer {
  explicit buffer(std::size_t capacity) : records(capacity) {}

  clock::time_point begun = clock::now();
  std::vector<launch_record> records;
  std::atomic<std::uint64_t> used{0};
  std::atomic<std::uint64_t> left_out{0};
  // From a request to its record: an open-addressed table of twice the capacity, claimed by one
  // thread per request.
  struct entry {
    std::atomic<std::uint64_t> request{0};
    std::uint32_t index = 0;
  };
  std::vector<entry> index = std::vector<entry>(std::max<std::size_t>(16, records.size() * 2));

  launch_record* add(std::uint64_t request) noexcept {
    const auto i = used.fetch_add(1, std::memory_order_relaxed);
    if (i >= records.size()) {
      left_out.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    for (auto slot = request % index.size();; slot = (slot + 1) % index.size()) {
      std::uint64_t expected = 0;
      if (index[slot].request.compare_exchange_strong(expected, request,
                                                      std::memory_order_relaxed)) {
        index[slot].index = static_cast<std::uint32_t>(i);
        return &records[i];
      }
    }
  }

  // The launching thread wrote the entry; the completing one learnt of the launch from it.
  launch_record* find(std::uint64_t request) noexcept {
    for (auto slot = request % index.size();; slot = (slot + 1) % index.size()) {
      const auto stored = index[slot].request.load(std::memory_order_relaxed);
      if (stored == request) return &records[index[slot].index];
      if (stored == 0) return nullptr;
    }
  }

  [[nodiscard]] double microseconds(clock::time_point t) const noexcept {
    return std::chrono::duration<double, std::micro>(t - begun).count();
  }
};

chrome_trace::chrome_trace(std::size_t capacity) : buffer_(std::make_unique<buffer>(capacity)) {}
chrome_trace::~chrome_trace() = default;

void chrome_trace::before_enqueue(const kernel_info& info) {
  auto* record = buffer_->add(info.launch_id);
  if (record == nullptr) return;
  record->launch_id = info.launch_id;
  record->library = info.library;
  record->operation = info.operation;
  record->label = info.label;
  record->type = info.type;
  record->device = info.device;
  record->stream = info.stream;
  record->sizes = info.sizes;
  record->thread = this_thread_number();
  record->enqueue_begin = clock::now();
  record->enqueue_end = record->enqueue_begin;
}

void chrome_trace::after_enqueue(const kernel_info& info, const error*) {
  if (auto* record = buffer_->find(info.launch_id)) record->enqueue_end = clock::now();
}

void chrome_trace::after_complete(const kernel_info& info, const kernel_outcome& outcome) {
  auto* record = buffer_->find(info.launch_id);
  if (record == nullptr) return;
  record->completed = clock::now();
  record->failed = outcome.failure != nullptr;
  if (outcome.failure != nullptr) record->failure = outcome.failure->code();
  record->complete.store(true, std::memory_order_release);
}

std::uint64_t chrome_trace::left_out() const noexcept {
  return buffer_->left_out.load(std::memory_order_relaxed);
}

std::string chrome_trace::json() const {
  using nlohmann::json;
  const auto& b = *buffer_;
  std::vector<const launch_record*> complete;
  const auto used =
      std::min<std::uint64_t>(b.used.load(std::memory_order_relaxed), b.records.size());
  for (std::size_t i = 0; i < used; ++i) {
    if (b.records[i].complete.load(std::memory_order_acquire)) complete.push_back(&b.records[i]);
  }
  std::sort(complete.begin(), complete.end(),
            [](const auto* x, const auto* y) { return x->enqueue_end < y->enqueue_end; });

  auto events = json::array();
  constexpr int host_process = 1;
  const auto process_of = [](device_id device) {
    return 2 + (device.kind == device_kind::cuda ? 0 : 1000) + device.ordinal;
  };
  const auto name_track = [&](int process, std::uint64_t thread, const std::string& process_name,
                              const std::string& thread_name) {
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", process},
                      {"args", {{"name", process_name}}}});
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", process},
                      {"tid", thread},
                      {"args", {{"name", thread_name}}}});
  };

  // A stream runs its launches one after the other: a slice begins where the one before it ended.
  // Tracks are numbered here: viewers read a `tid` as 32 bits.
  struct track {
    std::size_t number = 0;
    clock::time_point free{};
  };
  std::map<std::uint64_t, track> tracks;
  std::map<std::uint64_t, bool> thread_named;
  for (const auto* r : complete) {
    const auto process = process_of(r->device);
    const auto [found, is_new] = tracks.try_emplace(
        (static_cast<std::uint64_t>(r->stream.runtime) << 32U) | r->stream.index);
    auto& on = found->second;
    if (is_new) {
      on.number = tracks.size();
      name_track(process, on.number, to_string(r->device),
                 "stream " + std::to_string(r->stream.index));
    }
    if (!thread_named[r->thread]) {
      thread_named[r->thread] = true;
      name_track(host_process, r->thread, "enqueueing", "thread " + std::to_string(r->thread));
    }
    const auto begin = std::max(r->enqueue_end, on.free);
    const auto end = std::max(begin, r->completed);
    on.free = end;
    const std::string name = r->label.text[0] != '\0' ? r->label.text : r->operation.text;
    json arguments = {{"library", r->library.text},
                      {"operation", r->operation.text},
                      {"type", std::string(to_string(r->type))},
                      {"launch", r->launch_id},
                      {"sizes", r->sizes}};
    if (r->failed) arguments["failure"] = std::string(to_string(r->failure));
    events.push_back({{"ph", "X"},
                      {"name", name},
                      {"cat", "launch"},
                      {"pid", process},
                      {"tid", on.number},
                      {"ts", b.microseconds(begin)},
                      {"dur", b.microseconds(end) - b.microseconds(begin)},
                      {"args", arguments}});
    events.push_back({{"ph", "X"},
                      {"name", "enqueue " + name},
                      {"cat", "enqueue"},
                      {"pid", host_process},
                      {"tid", r->thread},
                      {"ts", b.microseconds(r->enqueue_begin)},
                      {"dur", b.microseconds(r->enqueue_end) - b.microseconds(r->enqueue_begin)},
                      {"args", {{"launch", r->launch_id}}}});
  }
  return json({{"traceEvents", events},
               {"displayTimeUnit", "ms"},
               {"otherData", {{"left_out", left_out()}}}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sluice
