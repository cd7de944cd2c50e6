// SPDX-License-Identifier: Apache-2.0
#include "tools/io/wav.hpp"

#include "tools/io/byte_source.hpp"
#include "tools/io/displayed.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

namespace sluice::io {

namespace {

enum class encoding : std::uint16_t { pcm = 1, ieee_float = 3, extensible = 0xfffe };

struct sample_format {
  encoding code = encoding::pcm;
  std::uint16_t channels = 0;
  std::uint32_t sample_rate = 0;
  std::uint16_t block_alignment = 0;  ///< bytes of one frame: a sample of every channel
  std::uint16_t bits = 0;
};

struct chunk_header {
  std::array<char, 4> id{};
  std::uint32_t size = 0;
  [[nodiscard]] bool is(std::string_view wanted) const {
    return std::string_view(id.data(), id.size()) == wanted;
  }
};

/// The little-endian number in the first sizeof(T) bytes.
template <class T>
T little_endian(const std::byte* bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value |
                           (static_cast<T>(std::to_integer<std::uint8_t>(bytes[i])) << (8 * i)));
  return value;
}

/// The header of the next chunk. Empty at the end of the file, also if a few stray bytes are left.
std::optional<chunk_header> next_chunk(byte_source& source) {
  std::array<std::byte, 8> bytes{};
  if (source.read(bytes) < bytes.size()) return std::nullopt;
  chunk_header header;
  std::memcpy(header.id.data(), bytes.data(), header.id.size());
  header.size = little_endian<std::uint32_t>(bytes.data() + 4);
  return header;
}

/// Chunks begin at even offsets: a byte of padding follows a chunk of odd size.
std::uint64_t padded(std::uint64_t size) {
  return size + size % 2;
}

sample_format read_format(byte_source& source, std::uint32_t size) {
  // The last 14 bytes of the identifiers KSDATAFORMAT_SUBTYPE_PCM and ..._IEEE_FLOAT.
  static constexpr std::array<unsigned char, 14> identifier{
      0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x80, 0x00, 0x00, 0xaa, 0x00, 0x38, 0x9b, 0x71};
  constexpr std::size_t plain_size = 16;
  constexpr std::size_t extensible_size = 40;

  std::array<std::byte, extensible_size> bytes{};
  if (size < plain_size) throw invalid_argument(source.name(), "the 'fmt ' chunk is too short");
  const std::size_t known = std::min<std::size_t>(size, bytes.size());
  const std::uint64_t rest = padded(size) - known;
  if (source.read(std::span(bytes).first(known)) < known || skip(source, rest) < rest)
    throw invalid_argument(source.name(), "is truncated within the 'fmt ' chunk");

  const auto code = little_endian<std::uint16_t>(bytes.data());
  sample_format format;
  format.code = static_cast<encoding>(code);
  format.channels = little_endian<std::uint16_t>(bytes.data() + 2);
  format.sample_rate = little_endian<std::uint32_t>(bytes.data() + 4);
  format.block_alignment = little_endian<std::uint16_t>(bytes.data() + 12);
  format.bits = little_endian<std::uint16_t>(bytes.data() + 14);

  if (format.code == encoding::extensible) {
    if (size < extensible_size)
      throw invalid_argument(source.name(), "the extensible 'fmt ' chunk is too short");
    if (std::memcmp(bytes.data() + 26, identifier.data(), identifier.size()) != 0)
      throw invalid_argument(source.name(),
                             "the encoding is not supported; must be PCM or IEEE float");
    // Samples with fewer valid bits are left-justified, so the size of the container scales them.
    if (little_endian<std::uint16_t>(bytes.data() + 18) > format.bits)
      throw invalid_argument(source.name(), "has more valid bits than bits per sample");
    format.code = static_cast<encoding>(little_endian<std::uint16_t>(bytes.data() + 24));
  }
  if (format.code != encoding::pcm && format.code != encoding::ieee_float)
    throw invalid_argument(source.name(), "encoding " +
                                              std::to_string(static_cast<unsigned>(format.code)) +
                                              " is not supported; must be PCM or IEEE float");
  const bool bits_fit = format.code == encoding::pcm ? format.bits == 8 || format.bits == 16 ||
                                                           format.bits == 24 || format.bits == 32
                                                     : format.bits == 32 || format.bits == 64;
  if (!bits_fit)
    throw invalid_argument(source.name(),
                           std::to_string(format.bits) +
                               " bits per sample are not supported; must be 8, 16, 24 or 32 "
                               "for PCM, and 32 or 64 for IEEE float");
  if (format.channels == 0) throw invalid_argument(source.name(), "has 0 channels");
  if (format.sample_rate == 0) throw invalid_argument(source.name(), "has a sampling rate of 0");
  if (format.block_alignment != std::uint32_t{format.channels} * (format.bits / 8U))
    throw invalid_argument(source.name(),
                           "the block alignment of " + std::to_string(format.block_alignment) +
                               " does not match " + std::to_string(format.channels) +
                               " channel(s) of " + std::to_string(format.bits) + " bits");
  return format;
}

double decode_sample(const std::byte* bytes, const sample_format& format) {
  if (format.code == encoding::ieee_float) {
    if (format.bits == 32) return double{std::bit_cast<float>(little_endian<std::uint32_t>(bytes))};
    return std::bit_cast<double>(little_endian<std::uint64_t>(bytes));
  }
  switch (format.bits) {
    case 8:
      return (std::to_integer<int>(bytes[0]) - 128) / 0x1p7;
    case 16:
      return std::bit_cast<std::int16_t>(little_endian<std::uint16_t>(bytes)) / 0x1p15;
    case 24: {
      const std::uint32_t high = little_endian<std::uint16_t>(bytes + 1);
      const std::uint32_t low = std::to_integer<std::uint32_t>(bytes[0]);
      // In the upper three bytes, so that the sign bit is right.
      return std::bit_cast<std::int32_t>(high << 16 | low << 8) / 0x1p31;
    }
    default:
      return std::bit_cast<std::int32_t>(little_endian<std::uint32_t>(bytes)) / 0x1p31;
  }
}

/// Appends one sample for each frame: the mean of its channels.
void append_samples(std::span<const std::byte> moments, const sample_format& format,
                    const byte_source& source, std::vector<float>& samples) {
  const std::size_t width = format.bits / 8U;
  for (std::size_t first = 0; first < moments.size(); first += format.block_alignment) {
    double sum = 0;
    for (std::size_t channel = 0; channel < format.channels; ++channel)
      sum += decode_sample(moments.data() + first + channel * width, format);
    const double mean = sum / format.channels;
    // Checked before the conversion, which is undefined for values beyond f32.
    if (!(std::abs(mean) <= double{std::numeric_limits<float>::max()}))
      throw invalid_argument(source.name(), "sample " + std::to_string(samples.size()) +
                                                " is not a finite f32 number");
    samples.push_back(static_cast<float>(mean));
  }
}

recording read_samples(byte_source& source, const sample_format& format, std::uint32_t size) {
  if (size % format.block_alignment != 0)
    throw invalid_argument(source.name(), "the 'data' chunk of " + std::to_string(size) +
                                              " bytes is not a multiple of the block alignment " +
                                              std::to_string(format.block_alignment));
  const std::optional<std::uint64_t> available = source.remaining();
  const auto fail_truncated = [&](std::uint64_t present) {
    throw invalid_argument(source.name(), "is truncated: " + std::to_string(present) + " of " +
                                              std::to_string(size) + " bytes of samples");
  };
  if (available && *available < size) fail_truncated(*available);

  recording result{format.sample_rate, format.channels, {}};
  if (available) result.samples.reserve(size / format.block_alignment);
  // Blocks of whole frames, about 64 KiB each.
  const std::uint64_t block =
      std::max<std::uint64_t>(1, 65536 / format.block_alignment) * format.block_alignment;
  for (std::uint64_t position = 0; position < size;) {
    const std::uint64_t wanted = std::min(block, size - position);
    const std::vector<std::byte> moments = read_up_to(source, wanted);
    if (moments.size() < wanted) fail_truncated(position + moments.size());
    append_samples(moments, format, source, result.samples);
    position += wanted;
  }
  return result;
}

recording read_recording(byte_source& source) {
  std::array<std::byte, 12> prologue{};
  const std::size_t received = source.read(prologue);
  const std::string_view text(reinterpret_cast<const char*>(prologue.data()), received);
  if (received == 0) throw invalid_argument(source.name(), "is empty, not a WAV file");
  if (received < prologue.size() || text.substr(0, 4) != "RIFF" || text.substr(8, 4) != "WAVE")
    throw invalid_argument(source.name(), "is not a WAV file (RIFF/WAVE)");

  std::optional<sample_format> format;
  while (const std::optional<chunk_header> chunk = next_chunk(source)) {
    if (chunk->is("fmt ")) {
      if (format) throw invalid_argument(source.name(), "has two 'fmt ' chunks");
      format = read_format(source, chunk->size);
    } else if (chunk->is("data")) {
      if (!format)
        throw invalid_argument(source.name(), "has its 'data' chunk before the 'fmt ' chunk");
      return read_samples(source, *format, chunk->size);
    } else {
      const std::uint64_t size = padded(chunk->size);
      if (skip(source, size) < size)
        throw invalid_argument(source.name(),
                               "is truncated within the chunk " +
                                   quoted(std::string_view(chunk->id.data(), chunk->id.size())));
    }
  }
  throw invalid_argument(source.name(), format ? "has no 'data' chunk" : "has no 'fmt ' chunk");
}

}  // namespace

recording read_wav(const std::filesystem::path& path) {
  file_source source(path);
  return read_recording(source);
}

recording parse_wav(std::span<const std::byte> file, std::string_view name) {
  span_source source(file, std::string(name));
  return read_recording(source);
}

}  // namespace sluice::io
