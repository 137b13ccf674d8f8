//! Commands about connections: `dpctl/dump-conntrack` and its kind.

use thalweg_conntrack::text::{
    ConnectionStatistics, flush_text, parse_flush, parse_set_limits, parse_zones, zone_limits_text,
};
use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::datapath::{datapaths, is_datapath, is_datapath_of};
use crate::daemon::Daemon;
use crate::views::dump_connections;
use crate::vlog::{LogLevel, modules};

impl Daemon {
    /// Logs which connections were flushed.
    pub(in crate::daemon) fn log_flushes(&mut self) {
        for asked in self.switch.take_flushes() {
            self.log.write(modules::CT_DPIF, LogLevel::Debug, || {
                let (kind, name) = datapaths(self).into_iter().next().unwrap_or_default();
                format!("{kind}@{name}: ct_flush: {}", flush_text(&asked))
            });
        }
    }
}

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("dpctl/dump-conntrack", "[-m] [-s] [dp] [zone=N]", 0, 4),
        dump,
    ),
    (
        ControlCommand::new(
            "dpctl/flush-conntrack",
            "[dp] [zone=N] [ct-orig-tuple [ct-reply-tuple]]",
            0,
            4,
        ),
        flush,
    ),
    (
        ControlCommand::new("dpctl/ct-stats-show", "[dp] [zone=N]", 0, 3),
        statistics,
    ),
    (
        ControlCommand::new("dpctl/ct-set-maxconns", "[dp] maxconns", 1, 2),
        set_max,
    ),
    (
        ControlCommand::new("dpctl/ct-get-maxconns", "[dp]", 0, 1),
        max,
    ),
    (
        ControlCommand::new("dpctl/ct-get-nconns", "[dp]", 0, 1),
        count,
    ),
    (
        ControlCommand::new("dpctl/ct-enable-tcp-seq-chk", "[dp]", 0, 1),
        |daemon, arguments| set_sequence_checks(daemon, arguments, true),
    ),
    (
        ControlCommand::new("dpctl/ct-disable-tcp-seq-chk", "[dp]", 0, 1),
        |daemon, arguments| set_sequence_checks(daemon, arguments, false),
    ),
    (
        ControlCommand::new("dpctl/ct-get-tcp-seq-chk", "[dp]", 0, 1),
        sequence_checks,
    ),
    (
        ControlCommand::new(
            "dpctl/ct-set-limits",
            "[dp] [default=L] [zone=N,limit=L]...",
            1,
            usize::MAX,
        ),
        set_limits,
    ),
    (
        ControlCommand::new("dpctl/ct-del-limits", "[dp] zone=N1[,N2]...", 1, 2),
        delete_limits,
    ),
    (
        ControlCommand::new("dpctl/ct-get-limits", "[dp] [zone=N1[,N2]...]", 0, 2),
        limits,
    ),
];

/// The arguments behind the datapath's name, if they begin with one.
pub(super) fn behind_datapath<'a>(
    daemon: &Daemon,
    arguments: &'a [String],
) -> Result<Vec<&'a str>, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((first, rest)) if is_datapath(daemon, first) => Ok(rest.to_vec()),
        Some((first, _)) if first.contains('@') => {
            Err(format!("{first}: there is no such datapath"))
        }
        _ => Ok(words),
    }
}

/// The same for a command that has no other arguments.
pub(super) fn only_datapath(daemon: &Daemon, arguments: &[String]) -> Result<(), String> {
    match behind_datapath(daemon, arguments)?.first() {
        None => Ok(()),
        Some(other) => Err(format!("{other}: there is no such datapath")),
    }
}

fn dump(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let datapaths = datapaths(daemon);
    let is_datapath = |name: &str| is_datapath_of(&datapaths, name);
    dump_connections(&mut daemon.switch, arguments, &is_datapath)
}

fn flush(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let words = behind_datapath(daemon, arguments)?;
    let request = parse_flush(&words).map_err(|error| error.to_string())?;
    let ended = daemon.switch.flush_connections(&request);
    match ended {
        0 if request.is_exact() => {
            Err("failed to flush conntrack (No such file or directory)".to_owned())
        }
        _ => Ok(String::new()),
    }
}

fn statistics(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut is_verbose = false;
    let mut zone = None;
    while let Some(last) = words.last() {
        match last.strip_prefix("zone=").map(str::parse) {
            Some(Ok(number)) => zone = Some(number),
            None if last.starts_with("verbose") || *last == "-m" => is_verbose = true,
            _ => break,
        }
        words.pop();
    }
    let rest: Vec<String> = words.into_iter().map(str::to_owned).collect();
    only_datapath(daemon, &rest)?;
    let mut statistics = ConnectionStatistics::default();
    daemon
        .switch
        .each_connection(zone, |_, entry| statistics.count(&entry));
    Ok(statistics.text(is_verbose) + "\n")
}

fn set_max(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let words = behind_datapath(daemon, arguments)?;
    let [limit] = words[..] else {
        return Err("maxconns missing or malformed (Invalid argument)".to_owned());
    };
    let limit = limit.parse();
    let limit = limit.map_err(|_| "maxconns missing or malformed (Invalid argument)")?;
    daemon.switch.tracker().set_max_connections(limit);
    Ok("setting maxconns successful".to_owned())
}

fn max(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    only_datapath(daemon, arguments)?;
    Ok(format!("{}\n", daemon.switch.tracker().max_connections()))
}

fn count(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    only_datapath(daemon, arguments)?;
    Ok(format!("{}\n", daemon.switch.tracker().connection_count()))
}

fn set_sequence_checks(
    daemon: &mut Daemon,
    arguments: &[String],
    checks: bool,
) -> Result<String, String> {
    only_datapath(daemon, arguments)?;
    daemon.switch.tracker().set_tcp_sequence_checks(checks);
    let done = if checks { "enabling" } else { "disabling" };
    Ok(format!("{done} TCP sequence checking successful"))
}

fn sequence_checks(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    only_datapath(daemon, arguments)?;
    let state = match daemon.switch.tracker().tcp_sequence_checks() {
        true => "enabled",
        false => "disabled",
    };
    Ok(format!("TCP sequence checking: {state}\n"))
}

fn set_limits(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let words = behind_datapath(daemon, arguments)?;
    if words.is_empty() {
        return Err("too few arguments (Invalid argument)".to_owned());
    }
    let changes = parse_set_limits(&words);
    let changes = changes.map_err(|error| format!("{error} (Invalid argument)"))?;
    let tracker = daemon.switch.tracker();
    if let Some(limit) = changes.default {
        tracker.set_default_zone_limit(limit);
    }
    for (zone, limit) in changes.zones {
        tracker.set_zone_limit(zone, Some(limit));
    }
    Ok(String::new())
}

fn delete_limits(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let words = behind_datapath(daemon, arguments)?;
    let [zones] = words[..] else {
        return Err("too few arguments (Invalid argument)".to_owned());
    };
    let zones = parse_zones(zones).map_err(|error| format!("{error} (Invalid argument)"))?;
    for zone in zones {
        daemon.switch.tracker().set_zone_limit(zone, None);
    }
    Ok(String::new())
}

fn limits(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let words = behind_datapath(daemon, arguments)?;
    let tracker = daemon.switch.tracker();
    let zones = match words.first() {
        Some(zones) => {
            let zones = parse_zones(zones);
            let zones = zones.map_err(|error| format!("{error} (Invalid argument)"))?;
            let shown = zones
                .into_iter()
                .map(|zone| (zone, tracker.zone_limit(zone)));
            shown.collect()
        }
        None => tracker.zone_limits(),
    };
    let shown = zones.into_iter();
    let zones: Vec<_> = shown
        .map(|(zone, limit)| (zone, limit.limit, limit.count))
        .collect();
    Ok(zone_limits_text(tracker.default_zone_limit(), &zones) + "\n")
}
