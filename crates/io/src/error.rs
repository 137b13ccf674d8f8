//! Errors of opening a port or reading a capture, with advice on what to do.

use std::io;
use std::path::PathBuf;

use crate::{PortKind, ReceiveMethod, XdpMode, interfaces};

/// The most interfaces that a message lists.
const LISTED: usize = 20;

/// Error for a port that cannot be opened, or a capture that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kind of port is not a known word.
    #[error("unknown port kind `{given}`: use one of {}", PortKind::SUPPORTED)]
    UnknownKind {
        /// The word.
        given: String,
    },
    /// The receive method is not a known word.
    #[error(
        "unknown way to receive `{given}`: use one of {}",
        ReceiveMethod::SUPPORTED
    )]
    UnknownReceiveMethod {
        /// The word.
        given: String,
    },
    /// A receive method was chosen for a port that has only one.
    #[error(
        "port `{port}` is no packet socket but of kind `{kind}`, and cannot choose how to receive: \
         remove `receive`, or use kind `af_packet`"
    )]
    NoReceiveMethod {
        /// The port's name.
        port: String,
        /// The port's kind.
        kind: PortKind,
    },
    /// The mode of AF_XDP is not a known word.
    #[error("unknown mode of AF_XDP `{given}`: use one of {}", XdpMode::SUPPORTED)]
    UnknownXdpMode {
        /// The word.
        given: String,
    },
    /// Something was asked of AF_XDP for a port of another kind.
    #[error(
        "port `{port}` is of kind `{kind}` and has no mode, queues or polling of AF_XDP: remove \
         them, or use kind `af_xdp`"
    )]
    NoXdpSettings {
        /// The port's name.
        port: String,
        /// The port's kind.
        kind: PortKind,
    },
    /// The interface's frames are too long for AF_XDP.
    #[error(
        "interface `{interface}` has an MTU of {mtu_bytes} bytes, and a frame by AF_XDP has room \
         for {most_bytes}: lower it (`ip link set dev {interface} mtu {most_bytes}`), or use kind \
         `af_packet`"
    )]
    XdpMtu {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu_bytes: usize,
        /// The longest MTU.
        most_bytes: usize,
    },
    /// The interface does not have as many queues.
    #[error(
        "interface `{interface}` has {existing} receive queues, and {wanted} were asked for: ask \
         for 1 to {existing} (at most 64), or change them (`ethtool -L {interface}`)"
    )]
    XdpQueues {
        /// The interface.
        interface: String,
        /// The number that was asked for.
        wanted: u32,
        /// The number that it has.
        existing: u32,
    },
    /// Something else has the interface's frames.
    #[error(
        "interface `{interface}` has an XDP program or socket that is not this switch's: stop the \
         one who put it there (`bpftool net` names it), or take it off (`ip link set dev \
         {interface} xdp off`)"
    )]
    XdpTaken {
        /// The interface.
        interface: String,
    },
    /// The kernel or the interface's driver refuses AF_XDP.
    #[error(
        "interface `{interface}` has no AF_XDP in mode `{mode}`: {action} failed: {source}{}",
        xdp_advice(.source, *.mode)
    )]
    XdpRefused {
        /// The interface.
        interface: String,
        /// The mode.
        mode: XdpMode,
        /// The attempted action.
        action: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A capture port has neither a file to read nor one to write.
    #[error("port `{port}` is of kind `pcap` but names no file: set `read`, `write`, or both")]
    MissingFile {
        /// The port's name.
        port: String,
    },
    /// The name is not a valid interface name.
    #[error("`{interface}` cannot name an interface: use 1 to 15 bytes without `/` or blanks")]
    InterfaceName {
        /// The name.
        interface: String,
    },
    /// There is no such interface.
    #[error(
        "there is no interface `{interface}` in this network namespace{}: correct the name, create \
         it first (`ip link add`), or use kind `tap` to have one made",
        known(.existing)
    )]
    NoInterface {
        /// The name.
        interface: String,
        /// The existing interfaces, as far as they are known.
        existing: Vec<String>,
    },
    /// Another port has the interface.
    #[error(
        "interface `{interface}` is a port {} already, and two would each hand over every packet: \
         use another interface, or stop the other switch",
        holder(.process)
    )]
    InterfaceTaken {
        /// The name.
        interface: String,
        /// The process that has it, if known.
        process: Option<u32>,
    },
    /// The host's interfaces cannot be listed or watched.
    #[error("{action} failed: {source}; the kernel needs netlink (`CONFIG_NETLINK_ROUTE`)")]
    Netlink {
        /// The attempted action.
        action: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The interface does not carry Ethernet frames.
    #[error(
        "interface `{interface}` is not Ethernet (hardware type {hardware_type}): use a veth, tap, \
         bridge or physical interface"
    )]
    NotEthernet {
        /// The name.
        interface: String,
        /// The kernel's `ARPHRD_` number.
        hardware_type: u16,
    },
    /// The process lacks permission.
    #[error(
        "{action} on interface `{interface}` is not permitted: run as root or with {capability}"
    )]
    NotPermitted {
        /// The attempted action.
        action: &'static str,
        /// The interface.
        interface: String,
        /// The missing capability.
        capability: &'static str,
    },
    /// The operating system refused.
    #[error("{action} on interface `{interface}` failed: {source}{}", advice(.source))]
    System {
        /// The attempted action.
        action: &'static str,
        /// The interface.
        interface: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A capture file cannot be opened or created.
    #[error("cannot {action} capture {}: {source}; check the path and its permissions", .path.display())]
    CaptureFile {
        /// `open` or `create`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The bytes are not a capture.
    #[error(
        "{capture} is not a capture: {what}; give a pcap or pcapng file, uncompressed (`file` and \
         `capinfos` tell what it is)"
    )]
    NotACapture {
        /// The capture's name.
        capture: String,
        /// The problem.
        what: String,
    },
    /// The capture's packets are not Ethernet frames.
    #[error(
        "{capture} has link type {number} ({name}), and only Ethernet (1) can be switched: capture \
         on an Ethernet interface (not `any`), or convert it (`editcap -T ether`, after adding \
         Ethernet headers)"
    )]
    LinkType {
        /// The capture's name.
        capture: String,
        /// The link type's number (LINKTYPE_ value).
        number: u32,
        /// Its name, or `Unknown`.
        name: String,
    },
    /// The capture ends in the middle of a packet; the packets before it were read.
    #[error(
        "{capture} ends in the middle of packet {packet} (byte {offset}): the {} before it are \
         whole; copy the file again, or cut it there (`editcap`)",
        packets(.packet.saturating_sub(1))
    )]
    CaptureCut {
        /// The capture's name.
        capture: String,
        /// The number of the packet, from 1.
        packet: u64,
        /// Where the packet's record begins, in bytes.
        offset: u64,
    },
    /// A record of the capture is invalid; nothing behind it can be read.
    #[error(
        "{capture} is damaged at packet {packet} (byte {offset}): {what}; copy the file again, or \
         keep what is before it (`editcap -r {capture} fixed.pcap 1-{}`)",
        .packet.saturating_sub(1)
    )]
    CaptureDamaged {
        /// The capture's name.
        capture: String,
        /// The number of the expected packet, from 1.
        packet: u64,
        /// Where the record begins, in bytes.
        offset: u64,
        /// The problem.
        what: String,
    },
    /// The operating system cannot read the capture further.
    #[error("cannot read {capture} at byte {offset}: {source}")]
    CaptureRead {
        /// The capture's name.
        capture: String,
        /// The position reached, in bytes.
        offset: u64,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A capture cannot be written further.
    #[error("cannot write {capture}: {source}; check the space left and the permissions")]
    CaptureWrite {
        /// The capture's name.
        capture: String,
        /// The operating system's answer.
        source: io::Error,
    },
}

impl Error {
    /// Maps the error of a system call on an interface to one of the variants above.
    pub(crate) fn from_system(
        action: &'static str,
        interface: &str,
        capability: &'static str,
        source: io::Error,
    ) -> Error {
        let interface = interface.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::NotPermitted {
                action,
                interface,
                capability,
            },
            Some(libc::ENODEV | libc::ENXIO) => Error::NoInterface {
                interface,
                existing: interfaces().unwrap_or_default(),
            },
            _ => Error::System {
                action,
                interface,
                source,
            },
        }
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EBUSY) => "; another program holds it: stop that one or use another name",
        Some(libc::ENOENT) => "; load the kernel's `tun` module (`modprobe tun`)",
        Some(libc::EINVAL) => "; check that it is an Ethernet interface of the right kind",
        Some(libc::ENOMEM | libc::ENOBUFS) => "; free some memory",
        Some(libc::EAFNOSUPPORT) => "; this kernel lacks packet sockets (`modprobe af_packet`)",
        _ => "; `ip -details link` shows its state",
    }
}

fn xdp_advice(source: &io::Error, mode: XdpMode) -> &'static str {
    match (source.raw_os_error(), mode) {
        (Some(libc::EAFNOSUPPORT), _) => {
            "; this kernel lacks AF_XDP (`CONFIG_XDP_SOCKETS`): use kind `af_packet`"
        }
        (Some(libc::ENOMEM | libc::ENOBUFS), _) => {
            "; the memory is locked: raise `ulimit -l`, or run with CAP_IPC_LOCK"
        }
        (_, XdpMode::Generic) => "; it needs Linux 5.10: use kind `af_packet`",
        _ => "; use `best-effort`, or kind `af_packet`",
    }
}

/// Lists the existing interfaces for a message.
fn known(existing: &[String]) -> String {
    if existing.is_empty() {
        return String::new();
    }
    let listed = existing.iter().take(LISTED);
    let listed: Vec<String> = listed.map(|name| format!("`{name}`")).collect();
    let more = match existing.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(", which has {}{more}", listed.join(", "))
}

/// Names the holder of an interface for a message.
fn holder(process: &Option<u32>) -> String {
    match process {
        Some(process) if *process == std::process::id() => "of this switch".to_owned(),
        Some(process) => format!("of process {process}"),
        None => "of another process".to_owned(),
    }
}

fn packets(count: u64) -> String {
    match count {
        1 => "1 packet".to_owned(),
        _ => format!("{count} packets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_becomes_advice() {
        let text = |number| {
            let source = io::Error::from_raw_os_error(number);
            Error::from_system("opening a tap", "t0", "CAP_NET_ADMIN", source).to_string()
        };
        for (number, advice) in [
            (
                libc::EPERM,
                "opening a tap on interface `t0` is not permitted: run as root or with",
            ),
            (
                libc::ENODEV,
                "there is no interface `t0` in this network namespace, which has `lo`",
            ),
            (
                libc::EBUSY,
                "another program holds it: stop that one or use another name",
            ),
            (libc::ENOENT, "modprobe tun"),
            (libc::EIO, "`ip -details link` shows its state"),
        ] {
            assert!(text(number).contains(advice), "{}", text(number));
        }
    }

    #[test]
    fn a_wrong_name_is_told_beside_those_that_exist() {
        let text = |count: usize| {
            let existing = (0..count).map(|number| format!("eth{number}")).collect();
            let interface = "eht0".to_owned();
            let error = Error::NoInterface {
                interface,
                existing,
            };
            error.to_string()
        };
        assert!(text(0).contains("in this network namespace: correct the name"));
        assert!(text(2).contains(", which has `eth0`, `eth1`: correct"));
        assert!(text(22).contains("`eth19` and 2 more: correct"));
    }
}
