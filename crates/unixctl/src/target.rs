//! Which switch a client asks: by its socket's path, its process's number, or the pidfile.

use std::path::{Path, PathBuf};

use crate::client::ControlClientError;
use crate::find::control_path;

/// Where daemons have their pidfiles and sockets, if `OVS_RUNDIR` does not say.
const RUN_FOLDER: &str = "/var/run/openvswitch";
/// The daemon's name in its pidfile and socket.
const DAEMON: &str = "ovs-vswitchd";

/// The control socket of a target: the path of a socket or the number of a process; without one,
/// of the daemon that has the pidfile, as `ovs-appctl` finds it.
///
/// # Errors
/// If no process has the number, or no daemon the pidfile.
pub fn target_path(target: Option<&str>) -> Result<PathBuf, ControlClientError> {
    let Some(target) = target else {
        return daemon_path();
    };
    match target.parse::<u32>() {
        Ok(pid) => control_path(pid).map_err(|error| ControlClientError::NoProcess { pid, error }),
        Err(_) => Ok(PathBuf::from(target)),
    }
}

fn daemon_path() -> Result<PathBuf, ControlClientError> {
    let folder = std::env::var_os("OVS_RUNDIR").unwrap_or_else(|| RUN_FOLDER.into());
    let folder = Path::new(&folder);
    let pidfile = folder.join(format!("{DAEMON}.pid"));
    let pid = std::fs::read_to_string(&pidfile).map_err(|error| ControlClientError::NoDaemon {
        pidfile: pidfile.display().to_string(),
        error,
    })?;
    Ok(folder.join(format!("{DAEMON}.{}.ctl", pid.trim())))
}
