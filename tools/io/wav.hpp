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
  /// One sample per moment: the mean of the channels, computed in double. Integer samples are
  /// scaled to [-1, 1) by 2^(1 - bits); floating-point samples are taken as they are. Empty when
  /// the file holds no sample.
  std::vector<float> samples;
};

/// Reads a RIFF/WAVE file: PCM of 8 (unsigned), 16, 24 or 32 bits or IEEE floats of 32 or 64 bits,
/// described plainly or by WAVE_FORMAT_EXTENSIBLE. Other chunks are skipped, and what follows the
/// sample data is not looked at; the size of the RIFF chunk, which recorders often leave wrong, is
/// not relied upon. Throws `invalid_argument`, in one line that names the file, when the file is
/// missing, not readable, malformed, truncated, of another encoding, says 0 channels or 0 samples
/// per second, has a block alignment that does not fit its samples, or holds a value that is not
/// finite in f32; `library_failure` when the system fails while reading. Never allocates more than
/// a small multiple of the file's true size, whatever its headers say.
[[nodiscard]] recording read_wav(const std::filesystem::path& path);

/// As `read_wav`, over the bytes of a file; errors call it `name`.
[[nodiscard]] recording parse_wav(std::span<const std::byte> file, std::string_view name);

}  // namespace sluice::io
