// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/stream.hpp>

#include <atomic>
#include <cstdint>

namespace sluice::test {

/// A word of host memory that GPU streams write and wait for.
using stream_word = std::atomic<std::uint32_t>;
static_assert(stream_word::is_always_lock_free && sizeof(stream_word) == 4);

/// Makes a word with the value 0. Thread-safe.
///
/// The word stays until all tests have ended, because a stream may read it at any time.
/// @throws error `unsupported` in a build without CUDA
[[nodiscard]] stream_word* make_stream_word();

/// Sets `word` to 1 in the order of `stream`.
/// @throws error `unsupported` in a build without CUDA
void set_word_on(stream_ref stream, stream_word& word);

/// Makes work enqueued on `stream` from now on wait until `word` is 1.
/// @throws error `unsupported` in a build without CUDA
void await_word_on(stream_ref stream, stream_word& word);

}  // namespace sluice::test
