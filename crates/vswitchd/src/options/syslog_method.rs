//! How to reach the system's log (`--syslog-method`).

use std::net::SocketAddr;
use std::path::PathBuf;

/// The port of a method `udp:` without one.
const UDP_PORT: u16 = 514;

/// How to reach the system's log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SyslogMethod {
    /// Not at all.
    Null,
    /// As the C library does.
    #[default]
    Libc,
    /// By a local socket.
    Unix(PathBuf),
    /// By a host's address and port.
    Udp(SocketAddr),
}

impl SyslogMethod {
    /// Reads a method of `--syslog-method`; the C library's if the text is empty.
    ///
    /// # Errors
    ///
    /// There is no such method.
    pub fn parse(text: &str) -> Result<SyslogMethod, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(SyslogMethod::Unix(path.into()));
        }
        if let Some(address) = text.strip_prefix("udp:") {
            let address = udp_address(address);
            let wrong = || format!("{text}: an IP address is needed, and maybe :PORT");
            return address.map(SyslogMethod::Udp).ok_or_else(wrong);
        }
        match text {
            "null" => Ok(SyslogMethod::Null),
            "libc" | "" => Ok(SyslogMethod::Libc),
            _ => Err(format!("unsupported syslog method '{text}'")),
        }
    }

    /// The text in front of a line, as a pattern, for `vlog/list-pattern`.
    pub(crate) fn prefix(&self) -> &'static str {
        match self {
            SyslogMethod::Null => "",
            SyslogMethod::Libc => "<%B> %D{%h %e %T} %E %A:",
            SyslogMethod::Unix(_) | SyslogMethod::Udp(_) => "<%B>",
        }
    }
}

/// An address with a port, or the port of the protocol.
pub(crate) fn udp_address(text: &str) -> Option<SocketAddr> {
    let alone = || {
        let inner = text.trim_start_matches('[').trim_end_matches(']');
        Some(SocketAddr::new(inner.parse().ok()?, UDP_PORT))
    };
    text.parse().ok().or_else(alone)
}
