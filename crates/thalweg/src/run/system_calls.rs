//! Refuses system calls that a run never makes once its files and ports are open.
//!
//! A switch reads hostile packets. An attacker who gets code into it through a fault could start
//! programs, look into other processes, or change mounts, clocks and the kernel. The kernel refuses
//! these calls with `EPERM` from then on, in all threads, and nothing takes the filter away
//! (seccomp(2)). Calls that are not in the list go on: libraries and kernels change which ones they
//! use, and a switch must not end because of that.

use anyhow::{Context, Result};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The calls that are refused. Most of them need a capability too, which a process may have kept.
const REFUSED: &[libc::c_long] = &[
    // Starting programs; threads go on.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes.
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // Mounts and namespaces.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // The kernel and the machine.
    libc::SYS_acct,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
    // Keys, clocks and names.
    libc::SYS_add_key,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
];

/// Refuses the calls from now on, in this thread and those that it starts.
///
/// # Errors
/// If the kernel has no such filters.
pub(super) fn refuse_unneeded() -> Result<()> {
    let refused = "cannot filter system calls; allow them with keep_system_calls in [process]";
    let rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into().context(refused)?,
    );
    let program: BpfProgram = filter.context(refused)?.try_into().context(refused)?;
    seccompiler::apply_filter(&program).context(refused)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_thread_behind_the_filter_starts_no_program_and_works_on() {
        // A filter holds for its thread, and for what that starts.
        let thread = std::thread::spawn(|| {
            Command::new("true").status().expect("it may");
            refuse_unneeded().expect("the kernel has filters");
            let started = std::thread::spawn(|| Command::new("true").status());
            let refused = started.join().expect("threads may be started");
            assert_eq!(
                refused.expect_err("refused").kind(),
                ErrorKind::PermissionDenied
            );
            std::fs::read("/proc/self/status").expect("files may be read");
        });
        thread.join().expect("no panic");
        Command::new("true").status().expect("it may");
    }
}
