//! Drops the rights that a run does not need once its files and ports are open.
//!
//! The rights that stay open interfaces that come back, and ports that a reload or a command adds:
//!
//! | capability | if |
//! | --- | --- |
//! | `CAP_NET_RAW` | always |
//! | `CAP_NET_ADMIN` | a port is a tap or of AF_XDP |
//! | `CAP_BPF`, `CAP_IPC_LOCK` | a port is of AF_XDP |
//! | `CAP_NET_BIND_SERVICE` | something is served by network |
//! | `CAP_DAC_OVERRIDE` | the configuration, or a folder of its files, is another user's |
//!
//! 1. Capabilities are a thread's, so they are dropped before there is a second thread.
//! 2. Nothing is gained by starting another program (`no_new_privs`).
//! 3. An interface of kind `auto` that comes back is opened with what is left: by a packet socket.
//! 4. A capability that the process does not have is not missed here: opening a port says so.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::thread::{CapabilitySet, CapabilitySets};
use thalweg_config::Configuration;
use thalweg_control::Listen;
use thalweg_control::openflow::{ListenAddress, Remote};
use thalweg_io::PortKind;
use tracing::info;

use super::logging::module::RUN;
use super::system_calls;

/// Drops what the configuration does not need.
///
/// # Errors
/// If the system refuses.
pub(super) fn drop_unneeded(path: &Path, config: &Configuration) -> Result<()> {
    drop_capabilities(path, config)?;
    match config.process.keeps_system_calls {
        true => Ok(()),
        false => system_calls::refuse_unneeded(),
    }
}

fn drop_capabilities(path: &Path, config: &Configuration) -> Result<()> {
    let refused = "cannot drop capabilities; keep them with keep_capabilities in [process]";
    if config.process.keeps_capabilities {
        return Ok(());
    }
    rustix::thread::set_no_new_privs(true).context(refused)?;
    let had = rustix::thread::capabilities(None).context(refused)?;
    let kept = had.permitted & needed(path, config);
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).context(refused)?;
    info!(target: RUN, "capabilities: {}", names(kept));
    Ok(())
}

/// What the configuration needs while the switch runs.
fn needed(path: &Path, config: &Configuration) -> CapabilitySet {
    let mut set = CapabilitySet::NET_RAW;
    let has = |kinds: &[PortKind]| config.ports.iter().any(|port| kinds.contains(&port.kind));
    if has(&[PortKind::Tap, PortKind::AfXdp]) {
        set |= CapabilitySet::NET_ADMIN;
    }
    if has(&[PortKind::AfXdp]) {
        set |= CapabilitySet::BPF | CapabilitySet::IPC_LOCK;
    }
    let is_read = config.metrics.is_some() || config.dashboard.is_some();
    if config.openflow.is_some() || is_read || config.p4.is_some() {
        set |= CapabilitySet::NET_BIND_SERVICE;
    }
    if is_of_another(path) || named_files(config).into_iter().any(is_of_another) {
        set |= CapabilitySet::DAC_OVERRIDE;
    }
    set
}

/// The files and sockets that a configuration names and that are opened, or opened again, while
/// the switch runs.
fn named_files(config: &Configuration) -> Vec<&Path> {
    let mut files: Vec<&Path> = Vec::new();
    let rules = config.rules.iter().chain(&config.groups);
    files.extend(rules.map(PathBuf::as_path));
    files.extend(config.control.as_deref());
    files.extend(config.snapshot.iter().map(|snapshot| snapshot.file.path()));
    files.extend(config.v2p.iter().map(|v2p| v2p.map.as_path()));
    let mut keys = Vec::new();
    if let Some(openflow) = &config.openflow {
        let server = &openflow.server;
        let sockets = server.listen.iter().chain(&server.snoop);
        files.extend(sockets.filter_map(ListenAddress::path));
        files.extend(server.controllers.iter().filter_map(
            |controller| match &controller.address {
                Remote::Unix(path) => Some(path.as_path()),
                _ => None,
            },
        ));
        keys.extend(&server.tls);
    }
    if let Some(p4) = &config.p4 {
        if let Listen::Unix(path) = &p4.listen {
            files.push(path);
        }
        keys.extend(&p4.tls);
    }
    for key in keys {
        files.extend([&key.certificate, &key.key, &key.client_authorities].map(PathBuf::as_path));
    }
    files
}

/// Whether a file or its folder belongs to another user than the process.
fn is_of_another(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let own = rustix::process::geteuid().as_raw();
    let owner = |path: &Path| Some(std::fs::metadata(path).ok()?.uid());
    [path, folder]
        .into_iter()
        .filter_map(owner)
        .any(|owner| owner != own)
}

/// The names of capabilities that [`needed`] can have.
fn names(set: CapabilitySet) -> String {
    let all = [
        (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::IPC_LOCK, "CAP_IPC_LOCK"),
        (CapabilitySet::NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE"),
        (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    ];
    let has = all.iter().filter(|(one, _)| set.contains(*one));
    let names: Vec<&str> = has.map(|(_, name)| *name).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}
