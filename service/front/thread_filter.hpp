// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::service {

/// Has the kernel refuse system calls of this thread, and of the threads that it starts, that no
/// thread needs which reads what strangers send. They fail with EPERM:
///
///     execve, fork, a new process, ptrace, kill          no other program, no other process
///     mmap and mprotect with PROT_EXEC                   no new machine code
///     connect, sockets other than TCP and Unix           no way out
///     open for writing, rename, link, chmod, mount       fewer changed files; openat2, unlink and
///                                                        fchmod stay, which servers need
///     setuid, unshare, bpf, io_uring, keyctl and others  no more rights, fewer ways into the
///     kernel
///
/// The filter is that of seccomp (Documentation/userspace-api/seccomp_filter.rst of Linux). It does
/// not apply to the other threads of the process, whose memory these threads share.
/// @returns false if the kernel or the architecture has no such filters: then nothing changes
[[nodiscard]] bool restrict_thread() noexcept;

}  // namespace sluice::service
