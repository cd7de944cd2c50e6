// SPDX-License-Identifier: Apache-2.0
#include "service/front/thread_filter.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <initializer_list>
#include <sched.h>

namespace sluice::service {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t this_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t this_architecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t this_architecture = 0;
#endif

constexpr std::array refused{SYS_execve,
                             SYS_execveat,
                             SYS_kill,
                             SYS_pidfd_send_signal,
                             SYS_ptrace,
                             SYS_process_vm_readv,
                             SYS_process_vm_writev,
                             SYS_connect,
                             SYS_renameat2,
                             SYS_linkat,
                             SYS_symlinkat,
                             SYS_fchmodat,
                             SYS_fchownat,
                             SYS_mkdirat,
                             SYS_mknodat,
                             SYS_truncate,
                             SYS_ftruncate,
                             SYS_mount,
                             SYS_umount2,
                             SYS_pivot_root,
                             SYS_chroot,
                             SYS_setns,
                             SYS_unshare,
                             SYS_setuid,
                             SYS_setgid,
                             SYS_setreuid,
                             SYS_setregid,
                             SYS_setresuid,
                             SYS_setresgid,
                             SYS_setgroups,
                             SYS_capset,
                             SYS_bpf,
                             SYS_perf_event_open,
                             SYS_userfaultfd,
                             SYS_io_uring_setup,
                             SYS_io_uring_enter,
                             SYS_io_uring_register,
                             SYS_keyctl,
                             SYS_add_key,
                             SYS_request_key,
                             SYS_open_by_handle_at,
                             SYS_init_module,
                             SYS_finit_module,
                             SYS_delete_module,
                             SYS_kexec_load,
                             SYS_reboot,
                             SYS_swapon,
                             SYS_swapoff,
                             SYS_personality,
                             SYS_fanotify_init,
#ifdef SYS_fork  // calls that newer architectures do not have
                             SYS_fork,
                             SYS_vfork,
                             SYS_creat,
                             SYS_rename,
                             SYS_link,
                             SYS_symlink,
                             SYS_chmod,
                             SYS_chown,
                             SYS_mkdir,
                             SYS_mknod,
#endif
                             SYS_renameat};

/// A program of the filter, which looks at one system call. It reads the number and the arguments,
/// never memory of the process.
class filter_program {
 public:
  filter_program() {
    load(offsetof(seccomp_data, arch));
    refuse_unless(BPF_JEQ, this_architecture);
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    constexpr std::uint32_t of_x32 = 0x40000000U;
    refuse_if(BPF_JGE, of_x32);
#endif
  }

  void refuse(long call) {
    refuse_if(BPF_JEQ, static_cast<std::uint32_t>(call));
  }
  /// Refuses a call, as if the kernel did not have it.
  void hide(long call) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
  }
  /// Refuses a call if an argument has one of these bits.
  void refuse_bits(long call, unsigned argument, std::uint32_t bits) {
    begin(call, argument, 2);
    refuse_if(BPF_JSET, bits);
    end();
  }
  /// Refuses a call unless an argument has this bit.
  void refuse_without_bit(long call, unsigned argument, std::uint32_t bit) {
    begin(call, argument, 2);
    refuse_unless(BPF_JSET, bit);
    end();
  }
  /// Refuses a call unless an argument has one of these values.
  void refuse_other_values(long call, unsigned argument,
                           std::initializer_list<std::uint32_t> values) {
    begin(call, argument, static_cast<std::uint8_t>(2 * values.size() + 1));
    for (const auto value : values) {
      jump(BPF_JEQ, value, 0, 1);
      add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    end();
  }

  /// Allows everything else, and has the kernel run the program for this thread.
  [[nodiscard]] bool install() {
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    sock_fprog program{.len = static_cast<unsigned short>(length_), .filter = instructions_.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(unsigned code, std::uint32_t operand) {
    jump_to(code, operand, 0, 0);
  }
  void jump_to(unsigned code, std::uint32_t operand, std::uint8_t yes, std::uint8_t no) {
    instructions_.at(length_++) = {static_cast<std::uint16_t>(code), yes, no, operand};
  }
  void jump(unsigned condition, std::uint32_t operand, std::uint8_t yes, std::uint8_t no) {
    jump_to(BPF_JMP | condition | BPF_K, operand, yes, no);
  }
  void load(std::size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  }
  void refuse_if(unsigned condition, std::uint32_t operand) {
    jump(condition, operand, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  void refuse_unless(unsigned condition, std::uint32_t operand) {
    jump(condition, operand, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  /// Skips the next `instructions`, and those of `begin` and `end`, unless it is this call. Then it
  /// loads the lower half of an argument.
  void begin(long call, unsigned argument, std::uint8_t instructions) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, static_cast<std::uint8_t>(instructions + 2));
    load(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t));
  }
  void end() {
    load(offsetof(seccomp_data, nr));
  }

  std::array<sock_filter, 256> instructions_{};
  std::size_t length_ = 0;
};

}  // namespace

bool restrict_thread() noexcept {
  if (this_architecture == 0) return false;
  try {
    filter_program program;
    for (const auto call : refused) program.refuse(call);
    // Its flags are in memory, which a filter cannot read. The C library then calls clone.
    program.hide(SYS_clone3);
    program.refuse_without_bit(SYS_clone, 0, CLONE_THREAD);
    for (const auto call : {SYS_mmap, SYS_mprotect, SYS_pkey_mprotect}) {
      program.refuse_bits(call, 2, PROT_EXEC);
    }
    program.refuse_bits(SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
#ifdef SYS_open
    program.refuse_bits(SYS_open, 1, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
#endif
    program.refuse_bits(SYS_socket, 1, SOCK_DGRAM);
    program.refuse_other_values(SYS_socket, 0, {AF_INET, AF_INET6, AF_UNIX});
    return program.install();
  } catch (...) {
    return false;
  }
}

}  // namespace sluice::service
