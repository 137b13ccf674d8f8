//! Finds the control socket of a process, by what the kernel says of its sockets.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The ending of a control socket's name, by which it is preferred to other sockets.
const ENDING: &str = "ctl";
/// The columns of the kernel's table before the path: address, references, protocol, flags, type,
/// state, number.
const COLUMNS: usize = 7;
/// The flags of a socket that listens.
const LISTENS: &[u8] = b"00010000";

/// The socket at which a process takes commands.
///
/// A process that listens at several is asked at the one that ends in `.ctl`.
///
/// # Errors
/// If the process does not exist, may not be looked at, or listens at no such socket.
pub fn control_path(pid: u32) -> Result<PathBuf, Error> {
    let owned = sockets_of(Path::new(&format!("/proc/{pid}/fd")))?;
    // Names are bytes, of any socket of the machine.
    let table = std::fs::read(format!("/proc/{pid}/net/unix"))?;
    let chosen = choose(&table, &owned).map(|path| seen_from_outside(path, pid));
    chosen.ok_or_else(|| {
        let text =
            format!("process {pid} has no control socket, or several; name the socket by its path");
        Error::new(ErrorKind::NotFound, text)
    })
}

/// The numbers of the sockets that a process has open.
fn sockets_of(folder: &Path) -> Result<BTreeSet<u64>, Error> {
    let mut numbers = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        // A descriptor that was closed meanwhile is no socket.
        let Ok(target) = std::fs::read_link(entry?.path()) else {
            continue;
        };
        let target = target.to_string_lossy();
        let number = target.strip_prefix("socket:[");
        let number = number.and_then(|rest| rest.strip_suffix(']'));
        numbers.extend(number.and_then(|digits| digits.parse::<u64>().ok()));
    }
    Ok(numbers)
}

/// The one listening socket of the owned ones that ends in `.ctl`, else the only one at all.
fn choose(table: &[u8], owned: &BTreeSet<u64>) -> Option<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let mut all: Vec<PathBuf> = lines.filter_map(|line| listening(line, owned)).collect();
    let is_control = |path: &PathBuf| path.extension().is_some_and(|ending| ending == ENDING);
    if all.iter().any(is_control) {
        all.retain(is_control);
    }
    match &all[..] {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// The path of a line of the kernel's table, if its socket listens, is owned, and has one.
fn listening(line: &[u8], owned: &BTreeSet<u64>) -> Option<PathBuf> {
    let mut rest = line;
    let mut columns = [&[][..]; COLUMNS];
    for column in &mut columns {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        (*column, rest) = rest.split_at(end);
    }
    let [_, _, _, flags, _, _, number] = columns;
    let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    // One space, then the path, which may have spaces. Other names than paths begin with `@`.
    let path = rest
        .strip_prefix(b" ")
        .filter(|path| path.starts_with(b"/"))?;
    let is_found = flags == LISTENS && owned.contains(&number);
    is_found.then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// The path by which this process reaches what another one calls `path`: a long path goes through
/// a folder that the other one has open.
fn seen_from_outside(path: PathBuf, pid: u32) -> PathBuf {
    match path.strip_prefix("/proc/self") {
        Ok(rest) => Path::new("/proc").join(pid.to_string()).join(rest),
        Err(_) => path,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use rustix::net::{AddressFamily, SocketType};

    use super::*;
    use crate::address::SocketAddress;

    const TABLE: &[u8] = b"\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 11 /run/a b.ctl
0000000000000000: 00000002 00000000 00010000 0001 01 12 /run/br0.mgmt
0000000000000000: 00000002 00000000 00010000 0001 01 13 /run/other.ctl
0000000000000000: 00000003 00000000 00000000 0001 03 14 /run/a b.ctl
0000000000000000: 00000002 00000000 00010000 0001 01 15 @abstract
0000000000000000: 00000002 00000000 00010000 0001 01 16 @abstract/run/c.ctl
0000000000000000: 00000002 00000000 00010000 0001 01    17 /run/\xff.ctl
0000000000000000: 00000002 00000000 00010000 0001 01 18 here/d.ctl
0000000000000000: 00000002 00000000 00010000 0001 01 19
";

    fn chosen(owned: &[u64]) -> Option<PathBuf> {
        choose(TABLE, &owned.iter().copied().collect())
    }

    #[test]
    fn the_control_socket_is_the_one_that_listens_and_has_the_ending() {
        assert_eq!(chosen(&[11, 12, 14, 15]), Some("/run/a b.ctl".into()));
        assert_eq!(chosen(&[12]), Some("/run/br0.mgmt".into()));
        assert_eq!(chosen(&[11, 13]), None);
        assert_eq!(chosen(&[14, 15, 16, 18, 19]), None);
        let bytes = OsStr::from_bytes(b"/run/\xff.ctl");
        assert_eq!(chosen(&[12, 16, 17]), Some(bytes.into()));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn a_listening_process_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("this.ctl");
        let listener = UnixListener::bind(&path).expect("it listens");
        // Another socket's name is no text.
        let bytes = folder.path().join(OsStr::from_bytes(b"\xff"));
        let _other = UnixListener::bind(bytes).expect("it listens");
        let pid = std::process::id();
        assert_eq!(control_path(pid).expect("it is found"), path);
        drop(listener);
        // A path too long for the kernel is found as the process reached it.
        let long = folder.path().join("a".repeat(200));
        std::fs::create_dir(&long).expect("it is made");
        let long = long.join("this.ctl");
        let address = SocketAddress::of(&long).expect("its folder is there");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None);
        let socket = socket.expect("a socket");
        rustix::net::bind(&socket, address.get()).expect("it is bound");
        rustix::net::listen(&socket, 1).expect("it listens");
        let found = control_path(pid).expect("it is found");
        assert!(found.starts_with(format!("/proc/{pid}/fd")), "{found:?}");
        UnixStream::connect(&found).expect("it listens there");
        assert!(control_path(u32::MAX).is_err());
    }
}
