//! Interfaces of type `afxdp`: their options and what is shown of them, as in Open vSwitch
//! (`lib/netdev-afxdp.c`).

use std::collections::BTreeMap;

use thalweg_io::{XdpMode, XdpSettings};

use super::Interface;
use super::wanted::WantedInterface;

/// `MAX_XSKQ`: the most queues of an interface.
const MOST_QUEUES: i64 = 16;

/// The options that cannot change while an interface is open.
const OPTIONS: [&str; 2] = ["n_rxq", "xdp-mode"];

/// What the options ask for: one queue and the best mode by default.
///
/// # Errors
/// If they cannot be.
pub(super) fn settings(options: &BTreeMap<String, String>) -> Result<XdpSettings, String> {
    let refused = |what: String| {
        Err(format!(
            "could not set configuration (Invalid argument): {what}"
        ))
    };
    let queues = queues(options);
    if queues > MOST_QUEUES {
        return refused(format!("Too big 'n_rxq' ({queues} > {MOST_QUEUES})."));
    }
    let mode = match options.get("xdp-mode") {
        None => Some(XdpMode::BestEffort),
        Some(word) => word.to_ascii_lowercase().parse().ok(),
    };
    let Some(mode) = mode else {
        let word = options.get("xdp-mode").map_or("", String::as_str);
        return refused(format!("Incorrect xdp-mode ({word})."));
    };
    Ok(XdpSettings {
        mode,
        queues: Some(queues as u32),
        busy_poll_us: None,
    })
}

/// A number that cannot be read counts as none, as in Open vSwitch (`smap_get_int`).
fn queues(options: &BTreeMap<String, String>) -> i64 {
    let given = options.get("n_rxq").and_then(|text| text.parse().ok());
    given.unwrap_or(1).max(1)
}

/// What `dpif/show` tells behind the type.
pub(crate) fn shown(options: &BTreeMap<String, String>) -> String {
    match settings(options) {
        Ok(settings) => format!(": n_rxq={}, xdp-mode={}", queues(options), settings.mode),
        Err(_) => String::new(),
    }
}

/// Whether an open interface can stay if this is wanted of it.
pub(super) fn stays_as(interface: &Interface, wanted: &WantedInterface) -> bool {
    let has = &interface.wanted;
    let is_same = |name: &&str| has.options.get(*name) == wanted.options.get(*name);
    // The MTU says how long the memory of a frame is.
    OPTIONS.iter().all(is_same) && has.mtu == wanted.mtu
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> BTreeMap<String, String> {
        let given = given.iter();
        given
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn options_are_read_as_open_vswitch_reads_them() {
        for (given, expected) in [
            (&[][..], ": n_rxq=1, xdp-mode=best-effort"),
            (
                &[("n_rxq", "4"), ("xdp-mode", "Native")],
                ": n_rxq=4, xdp-mode=native",
            ),
            (
                &[("n_rxq", "-3"), ("xdp-mode", "generic")],
                ": n_rxq=1, xdp-mode=generic",
            ),
            (
                &[("n_rxq", "many"), ("xdp-mode", "native-with-zerocopy")],
                ": n_rxq=1, xdp-mode=native-with-zerocopy",
            ),
        ] {
            assert_eq!(shown(&options(given)), expected);
        }
    }

    #[test]
    fn what_open_vswitch_refuses_is_refused() {
        for (given, what) in [
            (("n_rxq", "17"), "Too big 'n_rxq' (17 > 16)."),
            (("xdp-mode", "fast"), "Incorrect xdp-mode (fast)."),
            (
                ("xdp-mode", "unspecified"),
                "Incorrect xdp-mode (unspecified).",
            ),
        ] {
            let text = settings(&options(&[given])).unwrap_err();
            assert_eq!(
                text,
                format!("could not set configuration (Invalid argument): {what}")
            );
            assert_eq!(shown(&options(&[given])), "");
        }
    }
}
