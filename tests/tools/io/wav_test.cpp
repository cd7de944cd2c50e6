// SPDX-License-Identifier: Apache-2.0
#include "tools/io/wav.hpp"

#include "tests/support/seed.hpp"
#include "tests/tools/io/files.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sluice::io {
namespace {

using test::as_bytes;
using test::expect_error;
using test::little_endian;
using test::make_generator;

constexpr std::uint16_t pcm = 1;
constexpr std::uint16_t ieee_float = 3;

std::string number16(unsigned value) {
  return little_endian(static_cast<std::uint16_t>(value));
}
std::string number32(std::size_t value) {
  return little_endian(static_cast<std::uint32_t>(value));
}

std::string chunk(const std::string& id, const std::string& contents) {
  return id + number32(contents.size()) + contents + std::string(contents.size() % 2, '\0');
}

std::string format(unsigned code, unsigned channels, std::size_t rate, unsigned bits) {
  const unsigned alignment = channels * bits / 8;
  return number16(code) + number16(channels) + number32(rate) + number32(rate * alignment) +
         number16(alignment) + number16(bits);
}

std::string extensible(unsigned code, unsigned channels, std::size_t rate, unsigned bits,
                       unsigned valid_bits) {
  return format(0xfffe, channels, rate, bits) + number16(22) + number16(valid_bits) + number32(3) +
         number16(code) +
         std::string("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 14);
}

std::string riff(const std::string& chunks) {
  return "RIFF" + number32(chunks.size() + 4) + "WAVE" + chunks;
}

std::string file_with(const std::string& format_contents, const std::string& data) {
  return riff(chunk("fmt ", format_contents) + chunk("data", data));
}

recording parse(std::string_view file) {
  return parse_wav(as_bytes(file), "test.wav");
}

void expect_refused(std::string_view file, std::string_view text) {
  expect_error(errc::invalid_argument, "test.wav: ", text, [&] { return parse(file); });
}

TEST(Wav, ScalesEveryEncoding) {
  const std::vector<float> extremes{-1, -0.5F, 0, 0.5F};
  const auto samples = [](unsigned code, unsigned bits, const std::string& data) {
    return parse(file_with(format(code, 1, 8000, bits), data)).samples;
  };
  EXPECT_EQ(samples(pcm, 8, std::string("\x00\x40\x80\xc0", 4)), extremes);
  EXPECT_EQ(samples(pcm, 16, std::string("\x00\x80\x00\xc0\x00\x00\x00\x40", 8)), extremes);
  EXPECT_EQ(samples(pcm, 24, std::string("\0\0\x80\0\0\xc0\0\0\0\0\0\x40", 12)), extremes);
  EXPECT_EQ(samples(pcm, 32, std::string("\0\0\0\x80\0\0\0\xc0\0\0\0\0\0\0\0\x40", 16)), extremes);
  EXPECT_EQ(samples(ieee_float, 32,
                    little_endian(-1.0F) + little_endian(-0.5F) + little_endian(0.0F) +
                        little_endian(0.5F)),
            extremes);
  EXPECT_EQ(
      samples(ieee_float, 64,
              little_endian(-1.0) + little_endian(-0.5) + little_endian(0.0) + little_endian(0.5)),
      extremes);
  // The largest and the smallest step of each width.
  EXPECT_EQ(samples(pcm, 8, "\xff\x81"), (std::vector<float>{127.0F / 128, 1.0F / 128}));
  EXPECT_EQ(samples(pcm, 16, std::string("\xff\x7f\x01\x00\xff\xff", 6)),
            (std::vector<float>{32767.0F / 32768, 0x1p-15F, -0x1p-15F}));
  EXPECT_EQ(samples(pcm, 24, std::string("\xff\xff\x7f\x01\0\0\xff\xff\xff", 9)),
            (std::vector<float>{8388607.0F / 8388608, 0x1p-23F, -0x1p-23F}));
  EXPECT_EQ(samples(pcm, 32, std::string("\x01\0\0\0", 4)), std::vector<float>{0x1p-31F});
  // Floating-point samples may leave the range.
  EXPECT_EQ(samples(ieee_float, 32, little_endian(-17.25F)), std::vector<float>{-17.25F});
}

TEST(Wav, ReadsTheFormat) {
  const recording sound = parse(file_with(format(pcm, 2, 44100, 16), std::string(8, '\0')));
  EXPECT_EQ(sound.sample_rate, 44100U);
  EXPECT_EQ(sound.channels, 2U);
  EXPECT_EQ(sound.samples.size(), 2U);
  EXPECT_EQ(parse(file_with(format(pcm, 1, 0xffffffff, 8), "x")).sample_rate, 0xffffffffU);
}

TEST(Wav, AveragesChannelsInDouble) {
  auto generator = make_generator();
  for (const unsigned channels : {1U, 2U, 3U, 6U, 1000U}) {
    SCOPED_TRACE(channels);
    std::string data;
    std::vector<float> expected;
    for (int moment = 0; moment < 50; ++moment) {
      long double sum = 0;
      for (unsigned channel = 0; channel < channels; ++channel) {
        const float value = std::uniform_real_distribution<float>(-1, 1)(generator);
        sum += value;
        data += little_endian(value);
      }
      expected.push_back(static_cast<float>(static_cast<double>(sum / channels)));
    }
    const recording sound = parse(file_with(format(ieee_float, channels, 16000, 32), data));
    ASSERT_EQ(sound.samples.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(sound.samples[i], expected[i], std::abs(expected[i]) * 0x1p-23F);
  }
  // In f32 the small one would be lost.
  const std::string cancelling =
      little_endian(1e8F) + little_endian(1.0F) + little_endian(-1e8F) + little_endian(0.0F);
  EXPECT_EQ(parse(file_with(format(ieee_float, 4, 8000, 32), cancelling)).samples,
            std::vector<float>{0.25F});
}

TEST(Wav, ExtensibleHeaders) {
  for (const unsigned valid_bits : {0U, 12U, 16U}) {
    const recording sound =
        parse(file_with(extensible(pcm, 1, 48000, 16, valid_bits), std::string("\x00\xc0", 2)));
    EXPECT_EQ(sound.samples, std::vector<float>{-0.5F});
  }
  EXPECT_EQ(
      parse(file_with(extensible(ieee_float, 1, 48000, 32, 32), little_endian(0.25F))).samples,
      std::vector<float>{0.25F});
  expect_refused(file_with(extensible(pcm, 1, 48000, 16, 17), "xx"), "more valid bits");
  expect_refused(file_with(extensible(2, 1, 48000, 16, 16), "xx"), "encoding 2 is not supported");
  expect_refused(file_with(extensible(0xfffe, 1, 48000, 16, 16), "xx"),
                 "encoding 65534 is not supported");
  std::string other = extensible(pcm, 1, 48000, 16, 16);
  other.back() = 'x';
  expect_refused(file_with(other, "xx"), "the encoding is not supported");
  expect_refused(file_with(extensible(pcm, 1, 48000, 16, 16).substr(0, 38), "xx"),
                 "extensible 'fmt ' chunk is too short");
}

TEST(Wav, OtherChunksAreSkipped) {
  const std::string list = chunk("LIST", "odd size!");
  const std::string data = chunk("data", std::string("\x00\x40", 2));
  const std::string fmt = chunk("fmt ", format(pcm, 1, 8000, 16));
  const std::string large = chunk("junk", std::string(50001, 'j'));
  const std::vector<float> half{0.5F};
  EXPECT_EQ(parse(riff(list + fmt + data)).samples, half);
  EXPECT_EQ(parse(riff(fmt + list + large + list + data)).samples, half);
  EXPECT_EQ(parse(riff(chunk(std::string(4, '\0'), "") + fmt + data + list)).samples, half);
  // What follows the samples may be anything.
  EXPECT_EQ(parse(riff(fmt + data) + "LIST\xff\xff\xff\xff").samples, half);
  // A longer 'fmt ' chunk: what is beyond the known fields is skipped, padding included.
  const std::string longer = format(pcm, 1, 8000, 16) + std::string(77, 'x');
  EXPECT_EQ(parse(riff(chunk("fmt ", longer) + data)).samples, half);
  expect_refused(riff(fmt + "junk" + number32(100) + "short"), "truncated within the chunk 'junk'");
  expect_refused(riff(fmt + "j\nn\xff" + number32(0xffffffff)),
                 "truncated within the chunk 'j\\x0an\\xff'");
}

TEST(Wav, OddDataMayLackItsPadding) {
  EXPECT_EQ(parse("RIFF" + number32(0) + "WAVE" + chunk("fmt ", format(pcm, 1, 8000, 8)) + "data" +
                  number32(3) + "\x80\xc0\x40")
                .samples,
            (std::vector<float>{0, 0.5F, -0.5F}));
}

TEST(Wav, SizeOfTheRiffChunkIsNotReliedUpon) {
  const std::string file = file_with(format(pcm, 1, 8000, 16), std::string("\x00\x40", 2));
  for (const std::size_t size : {0UL, 1UL, 4UL, 30UL, 1000000UL, 0xffffffffUL}) {
    std::string lying = file;
    lying.replace(4, 4, number32(size));
    EXPECT_EQ(parse(lying).samples, std::vector<float>{0.5F}) << size;
  }
}

TEST(Wav, AnEmptyRecordingIsEmpty) {
  const recording sound = parse(file_with(format(pcm, 2, 8000, 16), ""));
  EXPECT_EQ(sound.sample_rate, 8000U);
  EXPECT_TRUE(sound.samples.empty());
}

TEST(Wav, MalformedFilesAreRefused) {
  const std::string fmt = chunk("fmt ", format(pcm, 1, 8000, 16));
  const std::string data = chunk("data", "xx");
  expect_refused("", "is empty");
  expect_refused("RIFF", "is not a WAV file");
  expect_refused("RIFX" + riff(fmt + data).substr(4), "is not a WAV file");
  expect_refused("RIFF" + number32(4) + "AVI ", "is not a WAV file");
  expect_refused("\x93NUMPY\x01\0v\0{'descr", "is not a WAV file");
  expect_refused(riff(""), "has no 'fmt ' chunk");
  expect_refused(riff(fmt), "has no 'data' chunk");
  expect_refused(riff(fmt + "dat"), "has no 'data' chunk");
  expect_refused(riff(data + fmt), "before the 'fmt ' chunk");
  expect_refused(riff(fmt + fmt + data), "two 'fmt ' chunks");
  expect_refused(riff(chunk("fmt ", format(pcm, 1, 8000, 16).substr(0, 14)) + data),
                 "'fmt ' chunk is too short");
  expect_refused(riff("fmt " + number32(0xffffffff) + format(pcm, 1, 8000, 16) + data),
                 "truncated within the 'fmt ' chunk");
}

TEST(Wav, FormatsThatCannotBeAreRefused) {
  const auto with = [](unsigned code, unsigned channels, std::size_t rate, unsigned bits) {
    return file_with(format(code, channels, rate, bits), std::string(48, '\0'));
  };
  expect_refused(with(pcm, 0, 8000, 16), "0 channels");
  expect_refused(with(pcm, 1, 0, 16), "sampling rate of 0");
  for (const unsigned bits : {0U, 1U, 4U, 12U, 20U, 40U, 64U, 65535U})
    expect_refused(with(pcm, 1, 8000, bits), "bits per sample are not supported");
  for (const unsigned bits : {0U, 8U, 16U, 24U, 80U})
    expect_refused(with(ieee_float, 1, 8000, bits), "bits per sample are not supported");
  for (const unsigned code : {0U, 2U, 6U, 7U, 0x55U, 0xffffU})
    expect_refused(with(code, 1, 8000, 16),
                   "encoding " + std::to_string(code) + " is not supported");
  // 65535 channels of 16 bits: their alignment does not fit into its field.
  expect_refused(with(pcm, 65535, 8000, 16), "block alignment");
  std::string misaligned = format(pcm, 2, 8000, 16);
  misaligned.replace(12, 2, number16(2));
  expect_refused(file_with(misaligned, "xxxx"),
                 "block alignment of 2 does not match 2 channel(s) of 16 bits");
  misaligned.replace(12, 2, number16(0));
  expect_refused(file_with(misaligned, "xxxx"), "block alignment of 0");
}

TEST(Wav, DataMustBeWhole) {
  const std::string fmt = chunk("fmt ", format(pcm, 2, 8000, 16));
  expect_refused(riff(fmt + chunk("data", "12345")), "not a multiple of the block alignment 4");
}

/// A file with samples of 16 bits and any sizes in its headers.
std::string file_stating(std::size_t riff_size, std::size_t data_size, const std::string& data,
                         unsigned channels = 1) {
  return "RIFF" + number32(riff_size) + "WAVE" + chunk("fmt ", format(pcm, channels, 8000, 16)) +
         "data" + number32(data_size) + data;
}

TEST(Wav, SamplesOfUnknownSizeEndWithTheFile) {
  const std::string data("\x00\x40\x00\xc0\x00\x20", 6);
  const std::vector<float> samples{0.5F, -0.5F, 0.25F};
  // As a pipe holds them. Python's module `wave` states 36 and 0, FFmpeg 2^32 - 1 twice.
  for (const std::size_t riff_size : {0UL, 36UL, 0x7fffffffUL, 0x7ffff024UL, 0xffffffffUL}) {
    for (const std::size_t data_size : {0UL, 0x7fffffffUL, 0x7ffff000UL, 0x7fffffdaUL, 0x80000000UL,
                                        0xffffffffUL, 0xffffffdaUL}) {
      SCOPED_TRACE(std::to_string(riff_size) + ' ' + std::to_string(data_size));
      const recording sound = parse(file_stating(riff_size, data_size, data));
      EXPECT_EQ(sound.samples, samples);
      EXPECT_EQ(sound.missing_bytes, 0U);
      EXPECT_TRUE(parse(file_stating(riff_size, data_size, "")).samples.empty());
      // An incomplete last frame.
      EXPECT_EQ(parse(file_stating(riff_size, data_size, data + "x")).samples, samples);
      EXPECT_EQ(parse(file_stating(riff_size, data_size, data, 2)).samples,
                std::vector<float>{0.0F});
    }
  }
}

TEST(Wav, AnEmptyRecordingBeforeAnotherChunkIsEmpty) {
  const std::string fmt = chunk("fmt ", format(pcm, 1, 8000, 16));
  EXPECT_TRUE(parse(riff(fmt + chunk("data", "") + chunk("LIST", "abcd"))).samples.empty());
}

TEST(Wav, AFileThatEndsWithinItsSamplesTellsHowManyAreMissing) {
  const std::string data("\x00\x40\x00\xc0\x00\x20", 6);
  for (const std::size_t missing : {1UL, 2UL, 16UL, 1000000UL}) {
    const recording sound = parse(file_stating(36 + 6 + missing, 6 + missing, data));
    EXPECT_EQ(sound.samples, (std::vector<float>{0.5F, -0.5F, 0.25F}));
    EXPECT_EQ(sound.missing_bytes, missing);
  }
  EXPECT_EQ(parse(file_stating(42, 6, data)).missing_bytes, 0U);
}

TEST(Wav, LargeFiles) {
  const auto number64 = [](std::uint64_t value) {
    return little_endian(value);
  };
  const auto file = [&](const std::string& form, std::uint64_t data_size, const std::string& rest) {
    const auto sizes = number64(72 + data_size) + number64(data_size) + number64(0) + number32(0);
    return form + number32(0xffffffff) + "WAVE" + chunk("ds64", sizes) +
           chunk("fmt ", format(pcm, 1, 8000, 16)) + "data" + number32(0xffffffff) + rest;
  };
  const std::string data("\x00\x40\x00\xc0", 4);
  const std::vector<float> samples{0.5F, -0.5F};
  for (const auto* form : {"RF64", "BW64"}) {
    SCOPED_TRACE(form);
    EXPECT_EQ(parse(file(form, 4, data)).samples, samples);
    EXPECT_EQ(parse(file(form, 4, data + chunk("LIST", "abcd"))).samples, samples);
    EXPECT_EQ(parse(file(form, 0, data)).samples, samples);
    EXPECT_EQ(parse(file(form, ~std::uint64_t{0}, data)).samples, samples);
    const recording sound = parse(file(form, (std::uint64_t{1} << 33) + 4, data));
    EXPECT_EQ(sound.samples, samples);
    EXPECT_EQ(sound.missing_bytes, std::uint64_t{1} << 33);
  }
  expect_refused("RF64" + number32(0xffffffff) + "WAVE" + chunk("ds64", "short") + data,
                 "truncated within the 'ds64' chunk");
  // Without the form RF64, the chunk has no meaning.
  EXPECT_EQ(parse("RIFF" + file("RF64", 2, data).substr(4)).samples, samples);
}

TEST(Wav, ValuesThatAreNotFiniteAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float value : {nan, infinite, -infinite})
    expect_refused(
        file_with(format(ieee_float, 1, 8000, 32), little_endian(0.0F) + little_endian(value)),
        "sample 1 is not a finite");
  expect_refused(file_with(format(ieee_float, 1, 8000, 64), little_endian(1e300)),
                 "sample 0 is not a finite");
  expect_refused(
      file_with(format(ieee_float, 2, 8000, 64), little_endian(1.7e308) + little_endian(1.7e308)),
      "sample 0 is not a finite");
}

TEST(Wav, EveryTruncationBeforeTheSamplesIsRefused) {
  constexpr std::size_t data_size = 16;
  for (const std::string& file :
       {riff(chunk("LIST", "abc") + chunk("fmt ", format(pcm, 2, 44100, 16)) +
             chunk("data", std::string(data_size, 'd'))),
        file_with(extensible(ieee_float, 1, 48000, 32, 32), std::string(data_size, '\0'))})
    for (std::size_t size = 0; size < file.size(); ++size) {
      SCOPED_TRACE(size);
      const std::size_t missing = file.size() - size;
      if (missing > data_size) {
        expect_refused(file.substr(0, size), "");
      } else {
        const recording sound = parse(file.substr(0, size));
        EXPECT_EQ(sound.samples.size(), (data_size - missing) / 4);
        EXPECT_EQ(sound.missing_bytes, missing);
      }
    }
}

/// Whatever a damaged file does, it is either read or refused, and what is read is consistent.
void expect_read_or_refused(std::string_view file) {
  try {
    const recording sound = parse(file);
    EXPECT_GT(sound.sample_rate, 0U);
    EXPECT_GT(sound.channels, 0U);
    EXPECT_LE(sound.samples.size(), file.size());
    for (const float sample : sound.samples) EXPECT_TRUE(std::isfinite(sample));
  } catch (const error& e) {
    EXPECT_EQ(to_string(e.code()), to_string(errc::invalid_argument)) << e.what();
    EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos);
  }
}

std::vector<std::string> valid_files() {
  return {
      riff(chunk("LIST", "abc") + chunk("fmt ", format(pcm, 2, 44100, 24)) +
           chunk("data", std::string(12, 'd'))),
      file_with(extensible(ieee_float, 1, 48000, 64, 64), little_endian(0.5) + little_endian(1.0)),
      file_with(format(pcm, 1, 8000, 8), "sample")};
}

TEST(Wav, EveryBitFlipIsReadOrRefused) {
  for (const std::string& file : valid_files())
    for (std::size_t i = 0; i < file.size(); ++i)
      for (unsigned bit = 0; bit < 8; ++bit) {
        std::string damaged = file;
        damaged[i] = static_cast<char>(static_cast<unsigned char>(damaged[i]) ^ (1U << bit));
        expect_read_or_refused(damaged);
      }
}

TEST(Wav, RandomDamageIsReadOrRefused) {
  auto generator = make_generator();
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(generator);
  };
  for (const std::string& file : valid_files())
    for (int round = 0; round < 5000; ++round) {
      std::string damaged = file;
      for (std::size_t change = below(6) + 1; change > 0; --change)
        damaged[below(damaged.size())] = static_cast<char>(below(3) == 0 ? 0xff : below(256));
      if (below(2) == 0) damaged.resize(below(damaged.size()));
      expect_read_or_refused(damaged);
    }
}

TEST(Wav, LongRecordingsInBlocks) {
  // Longer than the blocks that are read at a time, with frames that do not divide them.
  std::string data;
  std::vector<float> expected;
  for (int i = 0; i < 40000; ++i) {
    const auto value = static_cast<std::int16_t>(i * 7919 % 65536 - 32768);
    for (int channel = 0; channel < 3; ++channel)
      data += little_endian(static_cast<std::uint16_t>(value));
    expected.push_back(static_cast<float>(value / 32768.0));
  }
  EXPECT_EQ(parse(file_with(format(pcm, 3, 8000, 16), data)).samples, expected);
}

TEST(Wav, ReadsFilesAndNamesThoseItCannotRead) {
  const test::temporary_folder folder;
  test::write_text(folder / "a.wav", file_with(format(pcm, 1, 8000, 16), std::string("\0\x40", 2)));
  EXPECT_EQ(read_wav(folder / "a.wav").samples, std::vector<float>{0.5F});
  expect_error(errc::invalid_argument, "missing.wav", "No such file",
               [&] { return read_wav(folder / "missing.wav"); });
  expect_error(errc::invalid_argument, folder.path().string(), "is a folder",
               [&] { return read_wav(folder.path()); });
  expect_error(errc::invalid_argument, "/dev/zero", "is not a WAV file",
               [] { return read_wav("/dev/zero"); });
}

}  // namespace
}  // namespace sluice::io
