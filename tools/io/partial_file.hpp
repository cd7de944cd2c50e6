#pragma once

#include <filesystem>

namespace sluice::io {

/// A file with a name of its own, ".sluice-....partial", in the folder of the file that it is going
/// to be. It is removed unless it has been renamed: by the destructor, and when a signal ends the
/// process (see `remove_partial_files_on_signals`).
class partial_file {
 public:
  partial_file() = default;
  partial_file(const partial_file&) = delete;
  partial_file& operator=(const partial_file&) = delete;
  ~partial_file() { remove(); }

  /// Makes the file in `folder` (empty: the current one) and opens it for writing. Returns its
  /// descriptor, or -1 with the reason in `errno`. Call it once. @throws std::bad_alloc
  [[nodiscard]] int create(const std::filesystem::path& folder);
  /// Whether there is such a file.
  [[nodiscard]] bool exists() const noexcept { return listed_; }
  /// Gives the file its final name. Returns 0, or the reason as an `errno` value.
  [[nodiscard]] int rename(const std::filesystem::path& location) noexcept;
  void remove() noexcept;

 private:
  friend void remove_all_partial_files() noexcept;
  void list() noexcept;
  void unlist() noexcept;

  std::filesystem::path path_;
  bool listed_ = false;
  partial_file* next_ = nullptr;
};

/// From now on a signal that ends the process first removes all partial files. It changes the
/// action of every such signal that has the default action, except SIGKILL. The process still ends
/// by the signal.
void remove_partial_files_on_signals() noexcept;

}  // namespace sluice::io
