// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/memory_log.hpp>
#include <sluice/runtime/user_code_scope.hpp>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

namespace sluice {
namespace {

constexpr std::string_view column_names =
    "order,event,thread,stream,address,bytes,tag,generation,result\n";
constexpr std::size_t written_at_once = 64 * 1024;

/// Appends a field as specified by RFC 4180: quoted if necessary, with doubled quotes.
void append_field(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

std::string line_of(const memory_record& record) {
  std::string line = std::to_string(record.order);
  line += ',';
  line += to_string(record.event);
  line += ',';
  line += std::to_string(record.thread);
  line += ',';
  if (record.stream) {
    line += std::to_string(record.stream.runtime) + ':' + std::to_string(record.stream.index);
  }
  line += ',';
  if (record.address != nullptr) {
    char text[24];
    (void)std::snprintf(text, sizeof text, "0x%" PRIxPTR,
                        reinterpret_cast<std::uintptr_t>(record.address));
    line += text;
  }
  line += ',';
  line += std::to_string(record.bytes);
  line += ',';
  append_field(line, record.tag);
  line += ',';
  line += std::to_string(record.generation);
  line += ',';
  line += record.failure ? to_string(*record.failure) : "ok";
  line += '\n';
  return line;
}

bool write_all(int file, std::string_view text) noexcept {
  while (!text.empty()) {
    const auto count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

std::string_view to_string(memory_event event) noexcept {
  switch (event) {
    case memory_event::allocate:
      return "allocate";
    case memory_event::free:
      return "free";
    case memory_event::reap:
      return "reap";
  }
  return "unknown";
}

void memory_log_sink::log(memory_record record) noexcept {
  thread_local const auto thread_id = static_cast<std::uint64_t>(::gettid());
  record.order = last_order_.fetch_add(1, std::memory_order_relaxed) + 1;
  record.thread = thread_id;
  try {
    const detail::user_code_scope user_code;
    write(record);
  } catch (...) {
    count_lost(1);
  }
}

void memory_log::write(const memory_record& record) {
  const std::lock_guard lock(mutex_);
  if (count_ >= records_.size()) count_lost(1);
  if (!records_.empty()) records_[count_ % records_.size()] = record;
  ++count_;
}

std::vector<memory_record> memory_log::snapshot() const {
  std::vector<memory_record> records;
  {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::ptrdiff_t>(std::min(count_, records_.size()));
    records.assign(records_.begin(), records_.begin() + count);
  }
  std::sort(records.begin(), records.end(),
            [](const memory_record& a, const memory_record& b) { return a.order < b.order; });
  return records;
}

memory_log_file::memory_log_file(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_ >= 0 && write_all(file_, column_names)) {
    size_ = static_cast<std::int64_t>(column_names.size());
    return;
  }
  const std::error_code code(errno, std::generic_category());
  if (file_ >= 0) (void)::close(file_);
  throw error(errc::invalid_argument,
              "memory_log_file: '" + path.string() + "' cannot be written: " + code.message());
}

memory_log_file::~memory_log_file() {
  flush();
  (void)::close(file_);
}

void memory_log_file::flush() noexcept {
  const std::lock_guard lock(mutex_);
  write_collected();
}

void memory_log_file::write(const memory_record& record) {
  const auto line = line_of(record);
  const std::lock_guard lock(mutex_);
  collected_ += line;
  ++collected_records_;
  if (collected_.size() >= written_at_once) write_collected();
}

void memory_log_file::write_collected() noexcept {
  if (write_all(file_, collected_)) {
    size_ += static_cast<std::int64_t>(collected_.size());
  } else {
    count_lost(collected_records_);
    // Half a line would corrupt the lines after it.
    [[maybe_unused]] const int failed = ::ftruncate(file_, size_);
  }
  collected_.clear();
  collected_records_ = 0;
}

}  // namespace sluice
