// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/stream.hpp>

#include <atomic>
#include <cstdint>

namespace sluice::test {

/// A word of host memory that streams of a GPU set and wait for.
using stream_word = std::atomic<std::uint32_t>;
static_assert(stream_word::is_always_lock_free && sizeof(stream_word) == 4);

/// A word that is 0. It stays until all tests have ended: a stream may look at it at any time.
/// Thread-safe. @throws error `unsupported` in a build without CUDA, as all of these
[[nodiscard]] stream_word* make_stream_word();

/// Sets `word` to 1 in the order of `stream`.
void set_word_on(stream_ref stream, stream_word& word);

/// What is queued on `stream` from now on starts once `word` is 1.
void await_word_on(stream_ref stream, stream_word& word);

}  // namespace sluice::test
