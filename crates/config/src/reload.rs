//! Decides which parts of a configuration a running switch can change.
//!
//! Names, ports, files, and the limits of rules, groups and stations take effect at once. The
//! rest is fixed when the switch starts: [`Configuration::keep_what_is_fixed`] lists the
//! changed keys that wait for the next start.

use thalweg_conntrack::Timeout;
use thalweg_switch::{SwitchConfig, TrackingConfig};

use crate::conntrack::TIMEOUT_KEYS;
use crate::{Configuration, P4Settings, V2pSettings};

/// A section, one of its keys, and whether the value has changed.
type Key = (&'static str, &'static str, bool);

impl Configuration {
    /// Copies from `running` what only a start can change; returns the changed keys among it.
    pub fn keep_what_is_fixed(&mut self, running: &Configuration) -> Vec<String> {
        let mut keys = switch_keys(&self.switch, &running.switch);
        keys.extend(v2p_keys(self.v2p.as_ref(), running.v2p.as_ref()));
        keys.extend(p4_keys(self.p4.as_ref(), running.p4.as_ref()));
        keys.push(("openflow", "", self.openflow != running.openflow));
        keys.push(("control", "", self.control != running.control));
        keys.push(("metrics", "", self.metrics != running.metrics));
        let has_changed = self.dashboard != running.dashboard;
        keys.push(("dashboard", "", has_changed));
        keys.push(("snapshot", "", self.snapshot != running.snapshot));
        let kept = |config: &Configuration| config.process.keeps_capabilities;
        keys.push(("process", "keep_capabilities", kept(self) != kept(running)));
        let kept = |config: &Configuration| config.process.keeps_system_calls;
        keys.push(("process", "keep_system_calls", kept(self) != kept(running)));
        let changed = keys.iter().filter(|(_, _, has_changed)| *has_changed);
        let name = |(section, key, _): &Key| match *key {
            "" => format!("[{section}]"),
            key => format!("{key} in [{section}]"),
        };
        let changed = changed.map(name).collect();
        let live = self.switch.pipeline.clone();
        self.switch = running.switch.clone();
        let pipeline = &mut self.switch.pipeline;
        pipeline.rules = live.rules;
        pipeline.groups = live.groups;
        pipeline.stations = live.stations;
        let map = self.v2p.take().map(|next| next.map);
        self.v2p = running.v2p.clone();
        if let (Some(part), Some(map)) = (&mut self.v2p, map) {
            part.map = map;
        }
        self.p4 = running.p4.clone();
        self.openflow = running.openflow.clone();
        self.control = running.control.clone();
        self.metrics = running.metrics;
        self.dashboard = running.dashboard;
        self.snapshot.clone_from(&running.snapshot);
        self.process = running.process;
        changed
    }
}

/// Whether a running switch takes a new value of a key; `section` without its brackets.
pub(crate) fn is_live(section: &str, key: &str) -> bool {
    let default = SwitchConfig::default();
    let fixed = switch_keys(&default, &default);
    match section {
        "openflow" | "control" | "metrics" | "dashboard" | "snapshot" | "p4" | "p4runtime"
        | "process" => false,
        "v2p" => key == "map",
        _ => !fixed
            .iter()
            .any(|fixed| (fixed.0, fixed.1) == (section, key)),
    }
}

fn switch_keys(next: &SwitchConfig, running: &SwitchConfig) -> Vec<Key> {
    let (new, old) = (&next.datapath, &running.datapath);
    let mut keys = vec![
        ("switch", "workers", next.workers != running.workers),
        ("switch", "maintainer", new.maintainer != old.maintainer),
        ("switch", "mode", new.mode != old.mode),
        (
            "switch",
            "classifier",
            next.pipeline.classifier != running.pipeline.classifier,
        ),
        ("switch", "seed", new.seed != old.seed),
        (
            "limits",
            "packets_per_worker",
            next.packets_per_worker != running.packets_per_worker,
        ),
        (
            "limits",
            "packet_bytes",
            next.packet_bytes != running.packet_bytes,
        ),
    ];
    keys.extend(conntrack_keys(&next.tracking, &running.tracking));
    let (section, new, old) = ("cache.microflow", &next.datapath, &running.datapath);
    let (micro, former) = (&new.microflow, &old.microflow);
    keys.push((section, "entries", micro.entries != former.entries));
    let admits = micro.admit_one_in != former.admit_one_in;
    keys.push((section, "admit_one_in", admits));
    let (section, mega, former) = ("cache.megaflow", &new.megaflow, &old.megaflow);
    keys.push((section, "entries", mega.entries != former.entries));
    keys.push((section, "bytes", mega.bytes != former.bytes));
    keys.push((section, "masks", mega.masks != former.masks));
    let has_other_idle = mega.max_idle != former.max_idle;
    keys.push((section, "max_idle_ms", has_other_idle));
    let classifier = mega.classifier != former.classifier;
    keys.push((section, "classifier", classifier));
    keys
}

fn conntrack_keys(next: &TrackingConfig, running: &TrackingConfig) -> Vec<Key> {
    let section = "conntrack";
    let (new, old) = (&next.tracker, &running.tracker);
    let mut keys = vec![
        (
            section,
            "max_connections",
            new.max_connections != old.max_connections,
        ),
        (
            section,
            "zone_connections",
            new.zone_connections != old.zone_connections,
        ),
        (
            section,
            "tcp_sequence_checks",
            new.tcp_sequence_checks != old.tcp_sequence_checks,
        ),
        (
            section,
            "follow_rules",
            next.follows_rules != running.follows_rules,
        ),
    ];
    let timeouts = Timeout::ALL.into_iter().zip(TIMEOUT_KEYS);
    keys.extend(timeouts.map(|(timeout, key)| {
        let has_changed = new.timeouts.seconds(timeout) != old.timeouts.seconds(timeout);
        ("conntrack.timeouts", key, has_changed)
    }));
    let (new, old) = (&next.fragments, &running.fragments);
    keys.extend([
        (
            section,
            "max_fragments",
            new.max_fragments != old.max_fragments,
        ),
        (
            section,
            "min_fragment_bytes",
            new.min_ipv4_bytes != old.min_ipv4_bytes,
        ),
        (
            section,
            "min_fragment6_bytes",
            new.min_ipv6_bytes != old.min_ipv6_bytes,
        ),
    ]);
    keys
}

fn v2p_keys(next: Option<&V2pSettings>, running: Option<&V2pSettings>) -> Vec<Key> {
    let (Some(next), Some(running)) = (next, running) else {
        return vec![("v2p", "", next.is_some() != running.is_some())];
    };
    let (new, old) = (&next.config, &running.config);
    let entries = new.cache_entries != old.cache_entries;
    let probability = new.learning_probability != old.learning_probability;
    vec![
        ("v2p", "role", next.role_name() != running.role_name()),
        ("v2p", "address", new.address != old.address),
        (
            "v2p",
            "profile",
            next.profile_name() != running.profile_name(),
        ),
        ("v2p", "cache_entries", entries),
        ("v2p", "learning_probability", probability),
        ("v2p", "attached", new.attached != old.attached),
    ]
}

fn p4_keys(next: Option<&P4Settings>, running: Option<&P4Settings>) -> Vec<Key> {
    let (Some(next), Some(running)) = (next, running) else {
        return vec![("p4", "", next.is_some() != running.is_some())];
    };
    let limits = (&next.limits, &running.limits);
    let of_program = |settings: &P4Settings| settings.program.clone();
    let (new, old) = (of_program(next), of_program(running));
    vec![
        ("p4", "program", new != old),
        ("p4", "cpu_port", next.cpu_port != running.cpu_port),
        ("p4", "drop_port", next.drop_port != running.drop_port),
        ("p4", "cache", next.cache != running.cache),
        (
            "p4",
            "cache_entries",
            next.cache_entries != running.cache_entries,
        ),
        ("p4", "threshold", next.threshold != running.threshold),
        ("p4runtime", "listen", next.listen != running.listen),
        ("p4runtime", "certificate", next.tls != running.tls),
        (
            "p4runtime",
            "device_id",
            next.device_id != running.device_id,
        ),
        (
            "p4runtime",
            "max_handshakes or another limit",
            limits.0 != limits.1,
        ),
    ]
}
