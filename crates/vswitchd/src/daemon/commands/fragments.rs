//! Commands about the fragments that wait to be tracked: `dpctl/ipf-get-status` and its kind.
//!
//! The texts are those of Open vSwitch (`lib/dpctl.c`).

use thalweg_conntrack::text::{fragment_list_text, fragments_text};
use thalweg_conntrack::{Fragments, IpFamily};
use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::connections::{behind_datapath, only_datapath};
use crate::daemon::Daemon;

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("dpctl/ipf-set-enabled", "[dp] v4|v6", 1, 2),
        |daemon, arguments| {
            let words = behind_datapath(daemon, arguments)?;
            set_enabled(&mut daemon.switch.fragments(), &words, true)
        },
    ),
    (
        ControlCommand::new("dpctl/ipf-set-disabled", "[dp] v4|v6", 1, 2),
        |daemon, arguments| {
            let words = behind_datapath(daemon, arguments)?;
            set_enabled(&mut daemon.switch.fragments(), &words, false)
        },
    ),
    (
        ControlCommand::new("dpctl/ipf-set-min-frag", "[dp] v4|v6 minfragment", 2, 3),
        |daemon, arguments| {
            let words = behind_datapath(daemon, arguments)?;
            set_min(&mut daemon.switch.fragments(), &words)
        },
    ),
    (
        ControlCommand::new("dpctl/ipf-set-max-nfrags", "[dp] maxfrags", 1, 2),
        |daemon, arguments| {
            let words = behind_datapath(daemon, arguments)?;
            set_max(&mut daemon.switch.fragments(), &words)
        },
    ),
    (
        ControlCommand::new("dpctl/ipf-get-status", "[-m] [dp]", 0, 2),
        show_status,
    ),
];

/// Lists that are described while workers wait.
const SLICE: usize = 256;

fn family_of(word: Option<&str>) -> Option<IpFamily> {
    match word?.get(..2)? {
        "v4" => Some(IpFamily::V4),
        "v6" => Some(IpFamily::V6),
        _ => None,
    }
}

fn set_enabled<T>(
    fragments: &mut Fragments<T>,
    words: &[&str],
    is_enabled: bool,
) -> Result<String, String> {
    let family = family_of(words.last().copied());
    let family =
        family.ok_or("parameter missing: 'v4' for IPv4 or 'v6' for IPv6 (Invalid argument)")?;
    fragments.set_enabled(family, is_enabled);
    let done = if is_enabled { "enabling" } else { "disabling" };
    Ok(format!("{done} fragmentation reassembly successful"))
}

fn set_min<T>(fragments: &mut Fragments<T>, words: &[&str]) -> Result<String, String> {
    let family = family_of(words.first().copied());
    let family =
        family.ok_or("parameter missing: v4 for IPv4 or v6 for IPv6 (Invalid argument)")?;
    let bytes = words.get(1).and_then(|word| word.parse().ok());
    let bytes = bytes.ok_or("parameter missing for minimum fragment size (Invalid argument)")?;
    fragments.set_min(family, bytes).map_err(|_| {
        "requested minimum fragment size too small; see documentation \
         (Operation not permitted)"
    })?;
    Ok("setting minimum fragment size successful".to_owned())
}

fn set_max<T>(fragments: &mut Fragments<T>, words: &[&str]) -> Result<String, String> {
    let count = words.last().and_then(|word| word.parse().ok());
    let count = count.ok_or("parameter missing for maximum fragments (Invalid argument)")?;
    fragments
        .set_max_fragments(count)
        .map_err(|_| "setting maximum fragments failed (Operation not permitted)")?;
    Ok("setting maximum fragments successful".to_owned())
}

fn show_status(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let is_option = |word: &String| matches!(word.as_str(), "-m" | "--more");
    let (options, rest): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(is_option);
    only_datapath(daemon, &rest)?;
    let mut text = fragments_text(&daemon.switch.fragments().status()) + "\n";
    if !options.is_empty() {
        text += "\n        Fragment Lists:\n\n";
        let mut place = Some(0);
        while let Some(from) = place {
            let (lists, next) = daemon.switch.fragments().lists(from, SLICE);
            place = next;
            for list in lists {
                text += &fragment_list_text(&list);
                text.push('\n');
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use thalweg_conntrack::FragmentSettings;

    use super::*;

    fn fragments() -> Fragments<()> {
        Fragments::new(FragmentSettings::default())
    }

    #[test]
    fn a_family_is_turned_off_and_on() {
        let mut fragments = fragments();
        let done = set_enabled(&mut fragments, &["v6"], false);
        assert_eq!(
            done.as_deref(),
            Ok("disabling fragmentation reassembly successful")
        );
        assert!(!fragments.is_enabled(IpFamily::V6) && fragments.is_enabled(IpFamily::V4));
        let done = set_enabled(&mut fragments, &["v6"], true);
        assert_eq!(
            done.as_deref(),
            Ok("enabling fragmentation reassembly successful")
        );
        assert!(fragments.is_enabled(IpFamily::V6));
        assert_eq!(
            set_enabled(&mut fragments, &["v5"], true).unwrap_err(),
            "parameter missing: 'v4' for IPv4 or 'v6' for IPv6 (Invalid argument)"
        );
    }

    #[test]
    fn sizes_and_numbers_are_set_within_their_bounds() {
        let mut fragments = fragments();
        let done = set_min(&mut fragments, &["v4", "500"]);
        assert_eq!(
            done.as_deref(),
            Ok("setting minimum fragment size successful")
        );
        let done = set_max(&mut fragments, &["5000"]);
        assert_eq!(done.as_deref(), Ok("setting maximum fragments successful"));
        for (words, error) in [
            (
                &["v4", "399"][..],
                "requested minimum fragment size too small; see documentation \
                 (Operation not permitted)",
            ),
            (
                &["v4", "many"],
                "parameter missing for minimum fragment size (Invalid argument)",
            ),
            (
                &["500", "v4"],
                "parameter missing: v4 for IPv4 or v6 for IPv6 (Invalid argument)",
            ),
        ] {
            assert_eq!(set_min(&mut fragments, words).unwrap_err(), error);
        }
        assert_eq!(
            set_max(&mut fragments, &["5001"]).unwrap_err(),
            "setting maximum fragments failed (Operation not permitted)"
        );
        assert_eq!(
            set_max(&mut fragments, &[]).unwrap_err(),
            "parameter missing for maximum fragments (Invalid argument)"
        );
        let status = fragments.status();
        assert_eq!((status.v4.min_bytes, status.max_fragments), (500, 5000));
    }
}
