// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::test {

/// Whether this process has a context (the primary one) on this GPU. Makes none.
[[nodiscard]] bool has_context(int ordinal);

}  // namespace sluice::test
