//! Commands that Open vSwitch does not have: why entries are as they are, why packets are
//! dropped, what became of connections and of learned rules, what came back from a former run,
//! how entries follow changes, and counts and busy entries for programs that ask often.

use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::trace::ARGUMENTS_MAX;
use crate::daemon::Daemon;
use crate::trace::{explain, why_drop};
use crate::views::{
    drops_text, learning_text, live_text, repairs_text, talkers_text, tracking_text,
};

const QUESTION: &str = "{[dp_name] odp_flow | bridge br_flow} [packet]";

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("thalweg/explain", QUESTION, 1, ARGUMENTS_MAX),
        explain_entry,
    ),
    (
        ControlCommand::new(
            "thalweg/why-drop",
            "[{[dp_name] odp_flow | bridge br_flow} [packet]]",
            0,
            ARGUMENTS_MAX,
        ),
        explain_drops,
    ),
    (
        ControlCommand::new("thalweg/connections", "", 0, 0),
        |daemon, _| Ok(tracking_text(&daemon.switch)),
    ),
    (
        ControlCommand::new("thalweg/comeback", "", 0, 0),
        |daemon, _| Ok(daemon.comeback_text()),
    ),
    (
        ControlCommand::new("thalweg/learning", "", 0, 0),
        |daemon, _| Ok(learning_text(&mut daemon.switch)),
    ),
    (
        ControlCommand::new("thalweg/repairs", "", 0, 0),
        |daemon, _| Ok(repairs_text(&mut daemon.switch)),
    ),
    (
        ControlCommand::new("thalweg/live", "", 0, 0),
        |daemon, _| Ok(live_text(&mut daemon.switch, &daemon.bridges)),
    ),
    (
        ControlCommand::new("thalweg/talkers", "[filter=..] [limit=N]", 0, 2),
        |daemon, arguments| talkers_text(&mut daemon.switch, &daemon.bridges, arguments),
    ),
];

fn explain_entry(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let answer = explain(&daemon.switch.pipeline(), &daemon.bridges, arguments);
    answer.map_err(|refusal| refusal.to_string())
}

/// With a packet, why it is dropped; without, how many were and the last of them, by reason.
fn explain_drops(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    if !arguments.is_empty() {
        let answer = why_drop(&daemon.switch.pipeline(), &daemon.bridges, arguments);
        return answer.map_err(|refusal| refusal.to_string());
    }
    Ok(drops_text(&mut daemon.switch, &daemon.bridges))
}
