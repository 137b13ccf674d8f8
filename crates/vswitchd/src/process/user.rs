//! Runs the daemon as another user, with the capabilities that it needs.
//!
//! It keeps `IPC_LOCK`, `NET_BIND_SERVICE`, `NET_ADMIN`, `NET_RAW` and `NET_BROADCAST`, as Open
//! vSwitch does, and has no others. Users and groups are those of `/etc/passwd` and
//! `/etc/group`; of the group's file only the daemon's own group is taken.
//!
//! The calls change the calling thread, so they come before there is another.

use std::fs::File;
use std::path::Path;

use rustix::fs::{Gid, Uid, fchown};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::log::Log;

/// What the daemon keeps.
const KEPT: CapabilitySet = CapabilitySet::IPC_LOCK
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::NET_BROADCAST);

/// Becomes `USER`, `USER:GROUP` or `:GROUP`. The log file becomes that user's.
///
/// # Errors
///
/// This process is not root's, there is no such user or group, or the system refuses.
pub(super) fn become_user(text: &str, log: &Log) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can use --user option".to_owned());
    }
    let read = |path: &str| {
        let text = std::fs::read_to_string(Path::new(path));
        text.map_err(|error| format!("--user: cannot read {path}: {error}"))
    };
    let (user, group) = find(text, &read("/etc/passwd")?, &read("/etc/group")?)?;
    switch(user, group, log.file().as_ref())
        .map_err(|error| format!("--user={text}: the system refuses: {error}"))
}

fn switch(user: Uid, group: Gid, log: Option<&File>) -> Result<(), Errno> {
    if let Some(log) = log {
        fchown(log, Some(user), Some(group))?;
    }
    // Capabilities survive the change of user only if that is asked for.
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_groups(&[group])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    let sets = CapabilitySets {
        effective: KEPT,
        permitted: KEPT,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_keep_capabilities(false)
}

/// The numbers of a user and a group, from texts as passwd(5) and group(5) have them.
fn find(text: &str, users: &str, groups: &str) -> Result<(Uid, Gid), String> {
    let (user, group) = match text.trim().split_once(':') {
        Some((user, group)) => (user.trim(), group.trim()),
        None => (text.trim(), ""),
    };
    let user = if user.is_empty() { "root" } else { user };
    let fields = field(users, user).ok_or_else(|| format!("user {user} not found, aborting"))?;
    let number = |fields: &[&str], index: usize| fields.get(index)?.parse::<u32>().ok();
    let broken = || format!("user {user} has no numbers in /etc/passwd, aborting");
    let uid = number(&fields, 2).ok_or_else(broken)?;
    let gid = match group {
        "" => number(&fields, 3).ok_or_else(broken)?,
        name => field(groups, name)
            .and_then(|fields| number(&fields, 2))
            .ok_or_else(|| format!("group {name} not found, aborting"))?,
    };
    Ok((Uid::from_raw(uid), Gid::from_raw(gid)))
}

/// The fields of the line that begins with a name.
fn field<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| fields.first() == Some(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\nopen:x:101:102::/:/bin/false\nbad:x\n";
    const GROUPS: &str = "root:x:0:\nhuge:x:103:open\n";

    #[test]
    fn users_and_groups_are_found_by_name() {
        let numbers = |text| {
            let (user, group) = find(text, USERS, GROUPS)?;
            Ok::<_, String>((user.as_raw(), group.as_raw()))
        };
        assert_eq!(numbers("open"), Ok((101, 102)));
        assert_eq!(numbers("open:huge"), Ok((101, 103)));
        assert_eq!(numbers(" open: huge"), Ok((101, 103)));
        assert_eq!(numbers(":huge"), Ok((0, 103)));
        assert_eq!(numbers("op"), Err("user op not found, aborting".into()));
        assert_eq!(
            numbers("open:no"),
            Err("group no not found, aborting".into())
        );
        assert!(numbers("bad").is_err());
    }
}
