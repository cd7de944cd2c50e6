// SPDX-License-Identifier: Apache-2.0
#include "tests/support/stream_words.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::test {
namespace {

[[noreturn]] void refuse() {
  throw error(errc::unsupported, "built without CUDA");
}

}  // namespace

stream_word* make_stream_word() {
  refuse();
}
void set_word_on(stream_ref, stream_word&) {
  refuse();
}
void await_word_on(stream_ref, stream_word&) {
  refuse();
}

}  // namespace sluice::test
