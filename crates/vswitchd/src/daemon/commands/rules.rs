//! Commands about the rules of bridges.

use thalweg_unixctl::ControlCommand;

use super::Entry;
use crate::daemon::Daemon;
use crate::views::rules_text;

pub(super) const COMMANDS: &[Entry] = &[(
    ControlCommand::new("bridge/dump-flows", "[--offload-stats] bridge", 1, 2),
    dump,
)];

/// Shows all rules of a bridge, and behind them those of table 254.
fn dump(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let (name, options) = arguments.split_last().ok_or("a bridge is needed")?;
    if let Some(other) = options.iter().find(|option| *option != "--offload-stats") {
        return Err(format!("{other}: only --offload-stats may be given"));
    }
    let bridge = daemon.bridges.by_name.get(name);
    let bridge = bridge.ok_or("Unknown bridge")?.id;
    Ok(rules_text(&mut daemon.switch, bridge, !options.is_empty()))
}
