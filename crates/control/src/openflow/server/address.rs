//! Addresses, as Open vSwitch writes them (`ovs-vswitchd.conf.db(5)`, `ovsdb(7)`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::server::Listen;

/// The port of OpenFlow (IANA).
const PORT: u16 = 6653;

/// A text that is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{given}` is no address; write {expected}")]
pub struct AddressError {
    given: String,
    expected: &'static str,
}

/// An address to listen on: `punix:PATH` (or `unix:`), `ptcp:[PORT][:IP]`, `tcp:IP:PORT`,
/// `pssl:[PORT][:IP]`, `tls:IP:PORT` (or `ssl:`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenAddress(Listen);

impl ListenAddress {
    /// The path of its socket, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Listen::Unix(path) => Some(path),
            _ => None,
        }
    }

    /// The address with the path of its socket, if it has one, below `folder`.
    #[must_use]
    pub fn relative_to(self, folder: &Path) -> ListenAddress {
        ListenAddress(match self.0 {
            Listen::Unix(path) => Listen::Unix(folder.join(path)),
            other => other,
        })
    }

    pub(super) fn listen(&self) -> &Listen {
        &self.0
    }

    /// Whether it is plain TCP that other machines can reach.
    pub(super) fn is_plain_and_remote(&self) -> bool {
        matches!(&self.0, Listen::Plain(address) if !address.ip().is_loopback())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<ListenAddress, AddressError> {
        let error = || AddressError {
            given: text.escape_default().to_string(),
            expected: "punix:PATH, ptcp:PORT:IP or pssl:PORT:IP (or unix:PATH, tcp:IP:PORT, \
                       tls:IP:PORT)",
        };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let listen = match kind {
            "unix" | "punix" if !rest.is_empty() => Listen::Unix(PathBuf::from(rest)),
            "tcp" => Listen::Plain(rest.parse().map_err(|_| error())?),
            "tls" | "ssl" => Listen::Tls(rest.parse().map_err(|_| error())?),
            "ptcp" => Listen::Plain(passive(rest).ok_or_else(error)?),
            "pssl" => Listen::Tls(passive(rest).ok_or_else(error)?),
            _ => return Err(error()),
        };
        Ok(ListenAddress(listen))
    }
}

/// `[PORT][:IP]`, by default OpenFlow's port on the loopback address.
fn passive(text: &str) -> Option<SocketAddr> {
    let (port, host) = text.split_once(':').unwrap_or((text, ""));
    let port = match port {
        "" => PORT,
        port => port.parse().ok()?,
    };
    let host = host.trim_matches(['[', ']']);
    let ip = match host {
        "" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port))
}

/// A controller to connect to: `tcp:HOST[:PORT]`, `tls:HOST[:PORT]` (or `ssl:`), `unix:PATH`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remote {
    /// A socket in the file system.
    Unix(PathBuf),
    /// Plain TCP: host and port.
    Tcp(String, u16),
    /// TCP with TLS.
    Tls(String, u16),
}

impl Remote {
    /// The address with the path of its socket, if it has one, below `folder`.
    #[must_use]
    pub fn relative_to(self, folder: &Path) -> Remote {
        match self {
            Remote::Unix(path) => Remote::Unix(folder.join(path)),
            other => other,
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Unix(path) => write!(f, "unix:{}", path.display()),
            Remote::Tcp(host, port) => write!(f, "tcp:{}:{port}", bracketed(host)),
            Remote::Tls(host, port) => write!(f, "tls:{}:{port}", bracketed(host)),
        }
    }
}

/// The host as an address has it: in brackets if it has colons of its own.
fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

impl FromStr for Remote {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Remote, AddressError> {
        let error = || AddressError {
            given: text.escape_default().to_string(),
            expected: "tcp:HOST:PORT, tls:HOST:PORT or unix:PATH",
        };
        let (kind, rest) = text.split_once(':').ok_or_else(error)?;
        if rest.is_empty() {
            return Err(error());
        }
        let host_and_port = || {
            let (host, port) = match rest.rsplit_once(':') {
                Some((host, port)) if !host.ends_with(':') => {
                    (host, port.parse().map_err(|_| error())?)
                }
                _ => (rest, PORT),
            };
            match host.trim_matches(['[', ']']) {
                "" => Err(error()),
                host => Ok((host.to_owned(), port)),
            }
        };
        match kind {
            "unix" => Ok(Remote::Unix(PathBuf::from(rest))),
            "tcp" => host_and_port().map(|(host, port)| Remote::Tcp(host, port)),
            "tls" | "ssl" => host_and_port().map(|(host, port)| Remote::Tls(host, port)),
            _ => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_open_vswitch_writes_them() {
        let read = |text: &str| {
            text.parse::<ListenAddress>()
                .map(|address| address.to_string())
        };
        assert_eq!(read("punix:/run/br0.mgmt").unwrap(), "unix:/run/br0.mgmt");
        assert_eq!(read("ptcp:").unwrap(), "tcp:127.0.0.1:6653");
        assert_eq!(read("ptcp:6633:0.0.0.0").unwrap(), "tcp:0.0.0.0:6633");
        assert_eq!(read("pssl:6640:[::1]").unwrap(), "tls:[::1]:6640");
        assert!(read("tcp:localhost:1").is_err());
        assert!(
            read("unix:")
                .unwrap_err()
                .to_string()
                .contains("punix:PATH")
        );
        let remote = |text: &str| text.parse::<Remote>().map(|remote| remote.to_string());
        assert_eq!(remote("tcp:10.0.0.1").unwrap(), "tcp:10.0.0.1:6653");
        assert_eq!(remote("ssl:ctl.example:1").unwrap(), "tls:ctl.example:1");
        assert_eq!(remote("tcp:[::1]").unwrap(), "tcp:[::1]:6653");
        assert_eq!(remote("tls:[fd00::1]:1").unwrap(), "tls:[fd00::1]:1");
        assert_eq!(remote("tcp:::").unwrap(), "tcp:[::]:6653");
        assert!(remote("tcp:a:b").is_err());
        assert!(remote("tcp::6653").is_err());
        assert!(remote("tcp:[]:6653").is_err());
        assert!(remote("http://x").is_err());
    }
}
