// SPDX-License-Identifier: Apache-2.0
// The reader of WAV files. What it accepts, written as 32-bit floats, reads the same.
#include "tests/fuzz/fuzz.hpp"
#include "tools/io/wav.hpp"

#include <bit>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::fuzz {
namespace {

void put(std::vector<std::byte>& file, std::string_view text) {
  for (const char c : text) file.push_back(static_cast<std::byte>(c));
}
void put(std::vector<std::byte>& file, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i)));
}

/// The samples on each of as many channels as the recording had.
std::vector<std::byte> written(const io::recording& sound) {
  constexpr std::uint32_t sample_bytes = 4;
  const auto moment_bytes = sample_bytes * sound.channels;
  const auto data_bytes = moment_bytes * static_cast<std::uint32_t>(sound.samples.size());
  std::vector<std::byte> file;
  put(file, "RIFF");
  put(file, data_bytes + 36, 4);
  put(file, "WAVEfmt ");
  put(file, 16, 4);
  put(file, 3, 2);  // IEEE float
  put(file, sound.channels, 2);
  put(file, sound.sample_rate, 4);
  put(file, sound.sample_rate * moment_bytes, 4);
  put(file, moment_bytes, 2);
  put(file, sample_bytes * 8, 2);
  put(file, "data");
  put(file, data_bytes, 4);
  for (const float sample : sound.samples) {
    for (int channel = 0; channel < sound.channels; ++channel)
      put(file, std::bit_cast<std::uint32_t>(sample), sample_bytes);
  }
  return file;
}

void check(std::span<const std::byte> file) {
  const auto sound = accepted([&] { return io::parse_wav(file, input_name); });
  if (!sound) return;
  require(sound->sample_rate >= 1 && sound->channels >= 1, "there is a rate and a channel");
  require(sound->samples.size() * sound->channels < file.size(), "the samples come from the file");
  for (const float sample : sound->samples) require(std::isfinite(sample), "samples are finite");

  // The size of one moment has to fit into 16 bits.
  if (sound->channels > 0xffff / 4) return;
  const auto again =
      accepted([&, copy = written(*sound)] { return io::parse_wav(copy, input_name); });
  require(again.has_value(), "what is written can be read");
  require(again->sample_rate == sound->sample_rate && again->channels == sound->channels,
          "rate and channels are written as they were read");
  require(again->samples == sound->samples, "samples are written as they were read");
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
