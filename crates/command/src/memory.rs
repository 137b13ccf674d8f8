//! Refuses sizes that need more memory than the machine or the process has.
//!
//! Buffers and the exact-match cache are allocated at the start, in sizes that the user chooses. A
//! failed allocation would end the process without saying which size to lower.

use anyhow::{Result, ensure};

use crate::failure::bad_input;
use crate::report::format_bytes;

/// Refuses to start if `bytes` of memory are not available; `remedy` says which sizes to lower.
///
/// # Errors
/// If the machine has less memory, or the process may not have that much.
pub fn check(bytes: u64, remedy: &str) -> Result<()> {
    let machine = machine_bytes();
    ensure!(
        bytes <= machine,
        bad_input(format!(
            "the buffers and caches made at the start need {}, and this machine has {}; {remedy}",
            format_bytes(bytes),
            format_bytes(machine),
        ))
    );
    // The probe is never written, so it takes address space but no memory.
    let mut probe = Vec::<u8>::new();
    let granted = usize::try_from(bytes).is_ok_and(|bytes| probe.try_reserve_exact(bytes).is_ok());
    ensure!(
        granted,
        bad_input(format!(
            "the buffers and caches made at the start need {}, which this process may not have; \
             {remedy}, or raise its limit (ulimit -v)",
            format_bytes(bytes),
        ))
    );
    Ok(())
}

/// Memory of this machine.
pub fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit.max(1));
    #[allow(
        clippy::useless_conversion,
        reason = "the type is not the same everywhere"
    )]
    u64::from(info.totalram).saturating_mul(unit)
}
