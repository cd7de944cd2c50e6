// SPDX-License-Identifier: Apache-2.0
#include "operations/fusion/kernel_compiler_cuda.hpp"

#include "operations/fusion/content_hash.hpp"

#include <sluice/runtime/error.hpp>

#include <cuda.h>

#include <array>
#include <cstddef>
#include <dlfcn.h>
#include <nvrtc.h>
#include <optional>
#include <string_view>

namespace sluice::cuda {
namespace {

struct embedded_header {
  const char* name;
  const char* text;
};
constexpr embedded_header headers[] = {
#include "embedded_headers.inc"
};
constexpr std::string_view public_folder = "include/";
constexpr std::string_view standard_library = "operations/fusion/device/standard.hpp";
constexpr std::array standard_names{"cmath",   "cstddef", "cstdint",
                                    "cstring", "limits",  "type_traits"};

/// The functions of NVRTC.
struct compiler {
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcGetErrorString) error_text = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetCUBINSize) size = nullptr;
  decltype(&nvrtcGetCUBIN) get = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  std::string refusal{};  ///< why there is none
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::string version_of(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

/// Loads the compiler. It stays loaded.
compiler load() {
  compiler result;
  void* library = nullptr;
  // The driver runs code of its own version of CUDA and of older ones.
  const std::string name = "libnvrtc.so." + std::to_string(CUDA_VERSION / 1000);
  for (const auto& candidate : {name, std::string("libnvrtc.so")}) {
    library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    result.refusal = "the compiler of kernels, " + name + ", is not installed";
    return result;
  }
  const bool is_whole = find(library, "nvrtcVersion", result.version) &&
                        find(library, "nvrtcGetErrorString", result.error_text) &&
                        find(library, "nvrtcCreateProgram", result.create) &&
                        find(library, "nvrtcDestroyProgram", result.destroy) &&
                        find(library, "nvrtcCompileProgram", result.compile) &&
                        find(library, "nvrtcGetCUBINSize", result.size) &&
                        find(library, "nvrtcGetCUBIN", result.get) &&
                        find(library, "nvrtcGetProgramLogSize", result.log_size) &&
                        find(library, "nvrtcGetProgramLog", result.log);
  int major = 0;
  int minor = 0;
  if (!is_whole || result.version(&major, &minor) != NVRTC_SUCCESS) {
    result.refusal = "the compiler of kernels, " + name + ", lacks functions";
    return result;
  }
  const auto version = version_of(major, minor);
  if (version != kernel_compiler_version()) {
    result.refusal = "the compiler of kernels is of CUDA " + version +
                     ", but sluice is built with CUDA " + kernel_compiler_version();
  }
  return result;
}

const compiler& loaded_compiler() {
  static const compiler loaded = load();
  if (!loaded.refusal.empty()) throw error(errc::unsupported, loaded.refusal);
  return loaded;
}

/// One program of NVRTC.
class compilation {
 public:
  compilation(const compiler& nvrtc, const std::string& text) : nvrtc_(nvrtc) {
    std::vector<const char*> texts;
    std::vector<const char*> names;
    for (const auto& header : headers) {
      const std::string_view name = header.name;
      if (name == standard_library) {
        for (const auto* const standard_name : standard_names) {
          names.push_back(standard_name);
          texts.push_back(header.text);
        }
        continue;
      }
      const bool is_public = name.substr(0, public_folder.size()) == public_folder;
      names.push_back(header.name + (is_public ? public_folder.size() : 0));
      texts.push_back(header.text);
    }
    check(nvrtc.create(&program_, text.c_str(), "sluice_fused.cu", static_cast<int>(texts.size()),
                       texts.data(), names.data()));
  }
  compilation(const compilation&) = delete;
  compilation& operator=(const compilation&) = delete;
  ~compilation() { (void)nvrtc_.destroy(&program_); }

  [[nodiscard]] std::vector<char> run(int architecture) {
    const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
    // The options with which the kernels of the library are compiled.
    const std::array<const char*, 4> options{target.c_str(), "--std=c++17", "--fmad=false",
                                             "--device-as-default-execution-space"};
    const auto status = nvrtc_.compile(program_, static_cast<int>(options.size()), options.data());
    if (status == NVRTC_ERROR_INVALID_OPTION) {
      throw error(errc::unsupported, "NVRTC " + kernel_compiler_version() + " does not know sm_" +
                                         std::to_string(architecture));
    }
    if (status == NVRTC_ERROR_COMPILATION) {
      throw error(errc::library_failure, "NVRTC refuses a kernel: " + log());
    }
    check(status);
    std::size_t size = 0;
    check(nvrtc_.size(program_, &size));
    std::vector<char> code(size);
    check(nvrtc_.get(program_, code.data()));
    return code;
  }

 private:
  void check(nvrtcResult status) const {
    if (status == NVRTC_SUCCESS) return;
    throw error(errc::library_failure, std::string("NVRTC: ") + nvrtc_.error_text(status));
  }
  [[nodiscard]] std::string log() const {
    std::size_t size = 0;
    if (nvrtc_.log_size(program_, &size) != NVRTC_SUCCESS || size == 0) return "no reason";
    std::string text(size, '\0');
    if (nvrtc_.log(program_, text.data()) != NVRTC_SUCCESS) return "no reason";
    text.resize(size - 1);
    return text;
  }

  const compiler& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace

std::string kernel_compiler_version() {
  return version_of(CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
}

void load_kernel_compiler() {
  (void)loaded_compiler();
}

std::vector<char> compile_kernel(const std::string& text, int architecture) {
  return compilation(loaded_compiler(), text).run(architecture);
}

std::uint64_t version_of_kernel_headers() noexcept {
  static const auto version = [] {
    operations::content_hash hash;
    for (const auto& header : headers) hash.add(header.name).add(header.text);
    return hash.value();
  }();
  return version;
}

}  // namespace sluice::cuda
