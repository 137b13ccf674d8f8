//! The limits of a control socket.

/// The permissions and limits of a control socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlConfig {
    /// Permissions of the socket's file, before the process's mask.
    pub mode: u32,
    /// Most connections at a time.
    pub connections_max: usize,
    /// Most bytes of a request.
    pub request_bytes_max: usize,
    /// Most bytes of an answer; a longer one is an error.
    pub answer_bytes_max: usize,
}

impl ControlConfig {
    /// As Open vSwitch has it: for the owner and the group, and answers of any length.
    pub const OPEN_VSWITCH: ControlConfig = ControlConfig {
        mode: 0o770,
        connections_max: 100,
        request_bytes_max: 16 << 20,
        answer_bytes_max: usize::MAX,
    };

    /// For the owner only, and with a bound for everything.
    pub const BOUNDED: ControlConfig = ControlConfig {
        mode: 0o600,
        connections_max: 16,
        request_bytes_max: 1 << 20,
        answer_bytes_max: 64 << 20,
    };
}
