//! Finds the control socket of a process, by what the kernel says of its sockets.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// The ending of a control socket's name, by which it is preferred to other sockets.
const ENDING: &str = "ctl";

/// The socket at which a process takes commands.
///
/// A process that listens at several is asked at the one that ends in `.ctl`.
///
/// # Errors
/// If the process does not exist, may not be looked at, or listens at no such socket.
pub fn control_path(pid: u32) -> Result<PathBuf, Error> {
    let owned = sockets_of(Path::new(&format!("/proc/{pid}/fd")))?;
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/unix"))?;
    choose(&table, &owned).ok_or_else(|| {
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
///
/// A line of the kernel's table: address, references, protocol, flags (10000 if it listens),
/// type, state, number, path.
fn choose(table: &str, owned: &BTreeSet<u64>) -> Option<PathBuf> {
    let listening = table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let flags = words.nth(3)?;
        let number: u64 = words.nth(2)?.parse().ok()?;
        // A path may have spaces.
        let path = &line[line.find('/')?..];
        (flags == "00010000" && owned.contains(&number)).then(|| PathBuf::from(path))
    });
    let mut all: Vec<PathBuf> = listening.collect();
    let is_control = |path: &PathBuf| path.extension().is_some_and(|ending| ending == ENDING);
    if all.iter().any(is_control) {
        all.retain(is_control);
    }
    match &all[..] {
        [one] => Some(one.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 11 /run/a b.ctl
0000000000000000: 00000002 00000000 00010000 0001 01 12 /run/br0.mgmt
0000000000000000: 00000002 00000000 00010000 0001 01 13 /run/other.ctl
0000000000000000: 00000003 00000000 00000000 0001 03 14 /run/a b.ctl
0000000000000000: 00000002 00000000 00010000 0001 01 15 @abstract
";

    fn chosen(owned: &[u64]) -> Option<String> {
        let owned = owned.iter().copied().collect();
        choose(TABLE, &owned).map(|path| path.display().to_string())
    }

    #[test]
    fn the_control_socket_is_the_one_that_listens_and_has_the_ending() {
        assert_eq!(chosen(&[11, 12, 14, 15]).as_deref(), Some("/run/a b.ctl"));
        assert_eq!(chosen(&[12]).as_deref(), Some("/run/br0.mgmt"));
        assert_eq!(chosen(&[11, 13]), None);
        assert_eq!(chosen(&[14, 15]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn a_listening_process_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("this.ctl");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("it listens");
        assert_eq!(control_path(std::process::id()).expect("it is found"), path);
        drop(listener);
        assert!(control_path(u32::MAX).is_err());
    }
}
