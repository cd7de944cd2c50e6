// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::io {

/// A sound recording, mixed down to one channel.
struct recording {
  std::uint32_t sample_rate = 0;  ///< samples per second, at least 1
  std::uint16_t channels = 0;     ///< channels of the file, at least 1
  /// The mean of the channels for each point in time, computed in double. Integer samples are
  /// scaled to [-1, 1) by 2^(1 - bits); floating-point samples are not scaled. Empty if the file
  /// has no samples.
  std::vector<float> samples;
  /// Bytes of samples that the header states beyond the end of the file. 0 if the header states a
  /// size that stands for an unknown one.
  std::uint64_t missing_bytes = 0;
};

/// Reads a RIFF/WAVE, RF64 or BW64 file: PCM of 8 (unsigned), 16, 24 or 32 bits, or IEEE floats of
/// 32 or 64 bits, with a plain format or WAVE_FORMAT_EXTENSIBLE. Skips other chunks and ignores
/// everything after the sample data. For any header it allocates at most a small multiple of the
/// true size of the file.
///
/// Programs that write to a pipe cannot know the size of the samples in advance. So samples end
/// with the file if their size is stated as 0xFFFFFFFF, 0x7FFFFFFF, or 0 without a stated chunk
/// after them, or if the file ends before the stated size. An incomplete last frame is dropped.
/// @throws error `invalid_argument`, in one line that names the file: the file is missing, not
/// readable, malformed, truncated before its samples or of another encoding; it has 0 channels or 0
/// samples per second, a block alignment that does not match its samples, or a value that is not
/// finite in f32. `library_failure`: the read fails
[[nodiscard]] recording read_wav(const std::filesystem::path& path);

/// As `read_wav`, for the bytes of a file. Errors call it `name`.
[[nodiscard]] recording parse_wav(std::span<const std::byte> file, std::string_view name);

}  // namespace sluice::io
