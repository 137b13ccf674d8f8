//! Commands that put flows into a datapath, change them and remove them.

use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::datapath::is_datapath;
use crate::daemon::Daemon;
use crate::daemon::by_hand::HandWork;
use crate::options::PROGRAM;

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("dpctl/add-flow", "[dp] flow actions", 2, 3),
        |daemon, arguments| put(daemon, HandWork::Add, arguments),
    ),
    (
        ControlCommand::new("dpctl/mod-flow", "[dp] flow actions", 2, 3),
        |daemon, arguments| put(daemon, HandWork::Modify, arguments),
    ),
    (
        ControlCommand::new("dpctl/del-flow", "[dp] flow", 1, 2),
        delete,
    ),
    (
        ControlCommand::new("dpctl/add-flows", "[dp] file", 1, 2),
        |daemon, arguments| follow_file(daemon, HandWork::Add, arguments),
    ),
    (
        ControlCommand::new("dpctl/mod-flows", "[dp] file", 1, 2),
        |daemon, arguments| follow_file(daemon, HandWork::Modify, arguments),
    ),
    (
        ControlCommand::new("dpctl/del-flows", "[dp] [file]", 0, 2),
        delete_many,
    ),
];

/// The datapath that the first of the arguments names, if there are more than `others`.
fn datapath<'a>(
    daemon: &Daemon,
    arguments: &'a [String],
    others: usize,
) -> Result<Option<&'a str>, String> {
    match arguments.first().filter(|_| arguments.len() > others) {
        Some(name) if !is_datapath(daemon, name) => {
            Err(format!("{name}: there is no such datapath"))
        }
        named => Ok(named.map(String::as_str)),
    }
}

/// Does something with a flow; errors begin as those of `dpctl`.
fn work_by_hand(
    daemon: &mut Daemon,
    work: HandWork,
    datapath: Option<&str>,
    texts: (&str, &str),
) -> Result<(), String> {
    let done = daemon.work_by_hand(work, datapath, texts);
    done.map_err(|error| format!("{PROGRAM}: {error}"))
}

fn put(daemon: &mut Daemon, work: HandWork, arguments: &[String]) -> Result<String, String> {
    let datapath = datapath(daemon, arguments, 2)?;
    let [.., flow, actions] = arguments else {
        unreachable!("the command has two arguments at least");
    };
    work_by_hand(daemon, work, datapath, (flow, actions))?;
    Ok(String::new())
}

fn delete(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let datapath = datapath(daemon, arguments, 1)?;
    let [.., flow] = arguments else {
        unreachable!("the command has an argument at least");
    };
    work_by_hand(daemon, HandWork::Delete, datapath, (flow, ""))?;
    Ok(String::new())
}

/// Does what the lines of a file say: `[add|modify|delete] flow [actions]`. The first line that
/// cannot be done ends that; earlier lines stay done.
fn follow_file(
    daemon: &mut Daemon,
    usual: HandWork,
    arguments: &[String],
) -> Result<String, String> {
    let datapath = datapath(daemon, arguments, 1)?;
    let [.., path] = arguments else {
        unreachable!("the command has an argument at least");
    };
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{path}: open failed ({error})"))?;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let known = [
            ("add", HandWork::Add),
            ("modify", HandWork::Modify),
            ("delete", HandWork::Delete),
        ];
        let named = known.into_iter().find_map(|(word, work)| {
            let rest = line.strip_prefix(word)?;
            rest.starts_with(' ').then(|| (work, rest.trim()))
        });
        let (work, rest) = named.unwrap_or((usual, line));
        if rest.is_empty() {
            continue;
        }
        let parts = rest.rsplit_once(' ').filter(|_| work != HandWork::Delete);
        let (flow, actions) = parts.unwrap_or((rest, ""));
        work_by_hand(daemon, work, datapath, (flow.trim(), actions))?;
    }
    Ok(String::new())
}

/// Empties the caches: flows come back with the packets that need them, but not those that were
/// put by hand. With a file, removes what that names.
fn delete_many(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let is_file = |argument: &String| !is_datapath(daemon, argument);
    match arguments {
        [_, _] => follow_file(daemon, HandWork::Delete, arguments),
        [only] if is_file(only) && std::path::Path::new(only).exists() => {
            follow_file(daemon, HandWork::Delete, arguments)
        }
        [unknown] if is_file(unknown) => Err(format!("{unknown}: there is no such datapath")),
        _ => {
            daemon.switch.flush_caches();
            Ok(String::new())
        }
    }
}
