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
#include <limits>
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

/// Whether a program may state this size because it does not know the size: one just below 2^31 or
/// 2^32, often without the bytes of the header.
bool may_be_placeholder(std::uint64_t size) {
  constexpr std::uint64_t margin = 0x10000;
  return (size >= 0x80000000 - margin && size <= 0x80000000) ||
         (size >= 0x100000000 - margin && size < 0x100000000);
}

/// Where the samples end.
struct sample_extent {
  std::uint64_t size = 0;  ///< in bytes, as the header states it
  /// The program that wrote the header did not know the size: the samples end with the file.
  bool open_ended = false;
};

recording read_samples(byte_source& source, const sample_format& format,
                       const sample_extent& extent) {
  const std::uint64_t size =
      extent.open_ended ? std::numeric_limits<std::uint64_t>::max() : extent.size;
  recording result{format.sample_rate, format.channels, {}};
  if (const auto available = source.remaining())
    result.samples.reserve(
        static_cast<std::size_t>(std::min(size, *available) / format.block_alignment));
  // Blocks of whole frames, about 64 KiB each.
  const std::uint64_t block =
      std::max<std::uint64_t>(1, 65536 / format.block_alignment) * format.block_alignment;
  std::uint64_t position = 0;
  while (position < size) {
    const std::uint64_t wanted = std::min(block, size - position);
    const std::vector<std::byte> bytes = read_up_to(source, wanted);
    position += bytes.size();
    const std::size_t partial = bytes.size() % format.block_alignment;
    if (partial != 0 && position == size)
      throw invalid_argument(source.name(), "the 'data' chunk of " + std::to_string(size) +
                                                " bytes is not a multiple of the block alignment " +
                                                std::to_string(format.block_alignment));
    append_samples(std::span(bytes).first(bytes.size() - partial), format, source, result.samples);
    if (bytes.size() < wanted) break;
  }
  if (position < size && !extent.open_ended && !may_be_placeholder(size))
    result.missing_bytes = size - position;
  return result;
}

/// The size of the samples that a 'ds64' chunk states: the second of its 64-bit numbers.
std::uint64_t read_large_size(byte_source& source, std::uint32_t size) {
  std::array<std::byte, 16> bytes{};
  const std::uint64_t rest = padded(size) - bytes.size();
  if (size < bytes.size() || source.read(bytes) < bytes.size() || skip(source, rest) < rest)
    throw invalid_argument(source.name(), "is truncated within the 'ds64' chunk");
  return little_endian<std::uint64_t>(bytes.data() + 8);
}

/// Reads the chunks of a file one after another, up to the samples.
class wav_reader {
 public:
  explicit wav_reader(byte_source& source) : source_(source) {}

  recording read() {
    read_prologue();
    while (const std::optional<chunk_header> chunk = next_chunk(source_)) {
      position_ += 8;
      if (chunk->is("data")) {
        if (!format_)
          throw invalid_argument(source_.name(), "has its 'data' chunk before the 'fmt ' chunk");
        return read_samples(source_, *format_, extent_of(chunk->size));
      }
      read_chunk(*chunk);
      position_ += padded(chunk->size);
    }
    throw invalid_argument(source_.name(), format_ ? "has no 'data' chunk" : "has no 'fmt ' chunk");
  }

 private:
  void read_prologue() {
    std::array<std::byte, 12> prologue{};
    const std::size_t received = source_.read(prologue);
    const std::string_view text(reinterpret_cast<const char*>(prologue.data()), received);
    if (received == 0) throw invalid_argument(source_.name(), "is empty, not a WAV file");
    const auto form = text.substr(0, 4);
    if (received < prologue.size() || (form != "RIFF" && form != "RF64" && form != "BW64") ||
        text.substr(8, 4) != "WAVE")
      throw invalid_argument(source_.name(), "is not a WAV file (RIFF/WAVE or RF64)");
    has_large_sizes_ = form != "RIFF";
    end_ = std::uint64_t{8} + little_endian<std::uint32_t>(prologue.data() + 4);
  }

  void read_chunk(const chunk_header& chunk) {
    if (chunk.is("fmt ")) {
      if (format_) throw invalid_argument(source_.name(), "has two 'fmt ' chunks");
      format_ = read_format(source_, chunk.size);
    } else if (has_large_sizes_ && chunk.is("ds64")) {
      large_size_ = read_large_size(source_, chunk.size);
    } else {
      const std::uint64_t size = padded(chunk.size);
      if (skip(source_, size) < size)
        throw invalid_argument(source_.name(),
                               "is truncated within the chunk " +
                                   quoted(std::string_view(chunk.id.data(), chunk.id.size())));
    }
  }

  /// The extent of the samples behind a header of the 'data' chunk, which has just been read.
  [[nodiscard]] sample_extent extent_of(std::uint32_t stated) const {
    constexpr std::uint32_t largest = 0xffffffff;
    if (has_large_sizes_ && stated == largest)
      return {large_size_, large_size_ == 0 || large_size_ > std::uint64_t{1} << 62};
    if (stated == 0) {
      // A recording is empty if the file states that other chunks follow it.
      return {0, end_ < position_ + 8 || may_be_placeholder(end_ - 8)};
    }
    return {stated, stated == largest || stated == 0x7fffffff};
  }

  byte_source& source_;
  std::optional<sample_format> format_;
  bool has_large_sizes_ = false;
  std::uint64_t large_size_ = 0;
  std::uint64_t position_ = 12;  ///< in the file, in bytes
  std::uint64_t end_ = 0;        ///< of the file, as its header states it, in bytes
};

recording read_recording(byte_source& source) {
  return wav_reader(source).read();
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
