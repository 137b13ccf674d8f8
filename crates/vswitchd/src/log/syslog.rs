//! Sends lines to the system's log: datagrams to a local socket or to a host.
//!
//! References: RFC 3164, section 4.1 (what `syslog(3)` writes); RFC 5424, section 6.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;

use crate::options::{PROGRAM, SyslogMethod, udp_address};
use crate::vlog::LogLevel;

/// Where the C library's `syslog(3)` sends to.
const LOCAL_SOCKET: &str = "/dev/log";
/// The facility if none was chosen: daemon.
const FACILITY: u8 = 3;
/// A line for the host of `--syslog-target`, by RFC 5424.
const TARGET_PATTERN: &str = "<%B>1 %D{%Y-%m-%dT%H:%M:%S.###Z} %E %A %P %c - \u{feff}%m";
/// `EMSGSIZE`: the datagram is too long for its socket.
const TOO_LONG: i32 = rustix::io::Errno::MSGSIZE.raw_os_error();

#[derive(Debug)]
enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl Socket {
    fn connect(method: &SyslogMethod) -> std::io::Result<Socket> {
        let unix = |path: &std::path::Path| {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            socket.set_nonblocking(true)?;
            Ok(Socket::Unix(socket))
        };
        match method {
            SyslogMethod::Null => Err(ErrorKind::Unsupported.into()),
            SyslogMethod::Libc => unix(LOCAL_SOCKET.as_ref()),
            SyslogMethod::Unix(path) => unix(path),
            SyslogMethod::Udp(address) => {
                let any = match address {
                    SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                    SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                Ok(Socket::Udp(socket))
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.send(bytes),
            Socket::Udp(socket) => socket.send(bytes),
        }
    }
}

/// A way to the system's log, which is opened at the first line.
#[derive(Debug)]
struct Way {
    method: SyslogMethod,
    socket: Option<Socket>,
    /// Most bytes that the socket takes, as far as is known.
    bytes_max: usize,
}

impl Way {
    fn new(method: SyslogMethod) -> Way {
        Way {
            method,
            socket: None,
            bytes_max: usize::MAX,
        }
    }

    /// Sends a line, or as much of it as the socket takes.
    fn send(&mut self, line: &str) {
        if self.method == SyslogMethod::Null {
            return;
        }
        if self.socket.is_none() {
            self.socket = Socket::connect(&self.method).ok();
        }
        let Some(socket) = &self.socket else {
            return;
        };
        let is_too_long = |error: &Error| error.raw_os_error() == Some(TOO_LONG);
        let mut bytes = &line.as_bytes()[..line.len().min(self.bytes_max)];
        loop {
            match socket.send(bytes) {
                Err(error) if is_too_long(&error) && bytes.len() > 1 => {
                    self.bytes_max = bytes.len() - (bytes.len() / 20).max(1);
                    bytes = &bytes[..self.bytes_max];
                }
                // A log that does not keep up loses lines; it does not hold up the daemon.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The system's log may have started again: the next line tries.
                    self.socket = None;
                    return;
                }
                Ok(_) => return,
            }
        }
    }
}

/// The system's log.
#[derive(Debug)]
pub(super) struct Syslog {
    way: Way,
    target: Option<Way>,
}

impl Syslog {
    pub(super) fn new(method: &SyslogMethod, target: Option<&str>) -> Syslog {
        let target = target.and_then(udp_address);
        Syslog {
            way: Way::new(method.clone()),
            target: target.map(|address| Way::new(SyslogMethod::Udp(address))),
        }
    }

    /// The pattern of lines for the host of `--syslog-target`, if there is one.
    pub(super) fn target_pattern(&self) -> Option<&'static str> {
        self.target.as_ref().map(|_| TARGET_PATTERN)
    }

    /// Sends the lines of a message, and the message for the other host.
    pub(super) fn send(
        &mut self,
        facility: Option<u8>,
        level: LogLevel,
        lines: &str,
        targeted: Option<&str>,
    ) {
        let priority = u32::from(facility.unwrap_or(FACILITY)) * 8 + u32::from(level.severity());
        let is_libc = self.way.method == SyslogMethod::Libc;
        for line in lines.lines().filter(|line| !line.is_empty()) {
            let line = match is_libc {
                true => {
                    let time = chrono::Local::now().format("%h %e %T");
                    format!("<{priority}>{time} {PROGRAM}: {line}")
                }
                false => format!("<{priority}>{line}"),
            };
            self.way.send(&line);
        }
        if let (Some(target), Some(line)) = (&mut self.target, targeted) {
            target.send(line);
        }
    }
}
