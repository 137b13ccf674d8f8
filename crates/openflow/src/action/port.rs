//! Ports in actions.

use crate::error::{ErrorCode, Refusal, refuse};
use crate::port_number::PortNumber;

/// A port's number in 16 bits; `ANY` for one that needs more.
pub(super) fn narrow(port: PortNumber) -> u16 {
    port.to_u16().unwrap_or(u16::MAX)
}

/// Refuses numbers to which no packet can be sent.
pub(super) fn check_output_port(port: PortNumber) -> Result<(), Refusal> {
    let is_kind = PortNumber::IN_PORT <= port && port <= PortNumber::LOCAL;
    if port.0 < PortNumber::MAX_10 || is_kind {
        return Ok(());
    }
    Err(refuse(
        ErrorCode::OFPBAC_BAD_OUT_PORT,
        format!("no packet goes to {port}"),
    ))
}
