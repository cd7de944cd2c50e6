// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/models/program_key.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sluice::detail {

/// What became of an attempt to make a program: the program, or the reason why there is none. Of a
/// key that is rounded, only the shapes of the results are kept.
struct program_outcome {
  program what{};                             ///< no program: see `is_for_results`
  std::vector<std::size_t> inputs{};          ///< by input of the program: that of the model
  std::vector<std::uint32_t> outputs{};       ///< by output of the model: that of the program
  std::vector<tensor_spec> results{};         ///< by output of the model; empty: unknown
  std::optional<error> failure{};             ///< why there is no program
  std::vector<std::size_t> unbound_inputs{};  ///< of the model, which must be bound first

  /// Whether this is not about a program: the key is rounded, and its program is another one.
  [[nodiscard]] bool is_for_results() const noexcept { return !failure && !what; }

  /// Whether another attempt would end in the same way.
  [[nodiscard]] bool is_final() const noexcept {
    return !failure || failure->code() == errc::invalid_argument ||
           failure->code() == errc::unsupported;
  }
};

/// The programs of a model that are kept for later requests, and those that are still to be made.
/// At most a number of programs are kept, and as many reasons why there is none. The outcomes that
/// name inputs to be bound are counted apart, because a request meets several of them on the way to
/// one program. So are those that only have shapes of results, which are small. What was used the
/// longest time ago is dropped. Not thread-safe.
class program_cache {
 public:
  /// A program, or a place for one.
  struct entry {
    explicit entry(program_key entry_key) : key(std::move(entry_key)) {}

    const program_key key;                     ///< with values of its own
    std::optional<program_outcome> outcome{};  ///< nothing until the attempt has ended
    std::vector<std::uint64_t> waiting{};      ///< the numbers of the requests that wait for it
    bool has_begun = false;                    ///< whether the attempt has
  };

  /// A cache that keeps `most` programs.
  explicit program_cache(std::size_t most) noexcept : most_(most) {}

  /// The entry for a key, which now is that used last; nullptr if there is none.
  [[nodiscard]] std::shared_ptr<entry> find(const program_key& key) noexcept;
  /// Adds an entry without an outcome, for a key that has none. Its attempt is the last one.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] std::shared_ptr<entry> add(const program_key& key);
  /// Begins the next attempt; nullptr if there is none.
  [[nodiscard]] std::shared_ptr<entry> begin_next() noexcept;
  /// Drops an entry whose attempt has not begun if no request waits for it.
  void drop_unless_awaited(const entry& unused) noexcept;
  /// States what became of an entry. It is kept if another attempt would end in the same way.
  void finish(entry& ended, program_outcome&& outcome) noexcept;
  /// The number of programs that are kept.
  [[nodiscard]] std::size_t programs() const noexcept { return programs_.size(); }

 private:
  struct hash_of_key {
    [[nodiscard]] std::size_t operator()(const program_key& key) const noexcept {
      return key.hash();
    }
  };
  using entries = std::list<std::shared_ptr<entry>>;

  [[nodiscard]] entries& list_of(const entry& each) noexcept;
  [[nodiscard]] std::size_t limit_of(const entries& list) const noexcept;
  void drop(const program_key& key) noexcept;

  const std::size_t most_;
  entries waiting_;  // attempts that have not begun, the next one first
  entries begun_;
  // The one used last first.
  entries programs_;
  entries results_;
  entries unbound_;
  entries failures_;
  std::unordered_map<program_key, entries::iterator, hash_of_key> by_key_;
};

}  // namespace sluice::detail
