// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a name that the shared libraries export. They hide all other names.
///
/// A function needs the mark if its definition is not in a header. A class needs it if it has such
/// functions or virtual functions, or if it is thrown. Other types need no mark, not even as
/// messages: libstdc++ compares types by name.
#define SLUICE_EXPORT [[gnu::visibility("default")]]
