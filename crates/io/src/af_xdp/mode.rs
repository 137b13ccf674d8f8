//! What can be asked of an AF_XDP port, by the words that Open vSwitch has for it.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::sys::{AttachMode, CopyMode};

/// How an [`AfXdpPort`](crate::AfXdpPort) gets its frames.
///
/// ```
/// use thalweg_io::XdpMode;
///
/// assert_eq!("generic".parse::<XdpMode>().ok(), Some(XdpMode::Generic));
/// assert_eq!(XdpMode::default().to_string(), "best-effort");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum XdpMode {
    /// The first of the others that the interface has.
    #[default]
    BestEffort,
    /// In the driver; the card reads and writes the frames' memory itself.
    NativeWithZeroCopy,
    /// In the driver; the kernel copies frames.
    Native,
    /// Behind the driver, on any interface; the kernel copies frames.
    Generic,
}

impl XdpMode {
    /// Every mode.
    pub const ALL: [XdpMode; 4] = [
        XdpMode::BestEffort,
        XdpMode::NativeWithZeroCopy,
        XdpMode::Native,
        XdpMode::Generic,
    ];
    /// The words that [`XdpMode::from_str`] accepts, for messages.
    pub const SUPPORTED: &str = "`best-effort`, `native-with-zerocopy`, `native`, `generic`";

    /// The modes to try, the best first.
    pub(super) fn attempts(self) -> Vec<XdpMode> {
        match self {
            XdpMode::BestEffort => XdpMode::ALL[1..].to_vec(),
            mode => vec![mode],
        }
    }

    /// What the kernel is asked for.
    pub(super) fn parts(self) -> (AttachMode, CopyMode) {
        match self {
            XdpMode::NativeWithZeroCopy => (AttachMode::Native, CopyMode::ZeroCopy),
            XdpMode::Native => (AttachMode::Native, CopyMode::Copy),
            XdpMode::BestEffort | XdpMode::Generic => (AttachMode::Generic, CopyMode::Copy),
        }
    }
}

impl FromStr for XdpMode {
    type Err = Error;

    fn from_str(word: &str) -> Result<XdpMode, Error> {
        let mode = XdpMode::ALL.into_iter().find(|mode| mode.word() == word);
        mode.ok_or_else(|| Error::UnknownXdpMode { given: word.into() })
    }
}

impl XdpMode {
    fn word(self) -> &'static str {
        match self {
            XdpMode::BestEffort => "best-effort",
            XdpMode::NativeWithZeroCopy => "native-with-zerocopy",
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What an [`AfXdpPort`](crate::AfXdpPort) is asked for; by default the best that there is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct XdpSettings {
    /// Where its frames come from.
    pub mode: XdpMode,
    /// The number of receive queues, from the first one on; all by default. Frames of other queues
    /// stay the kernel's.
    pub queues: Option<u32>,
    /// How long a call may poll the driver instead of waiting for an interrupt, in microseconds; no
    /// polling by default.
    pub busy_poll_us: Option<u32>,
}

impl XdpSettings {
    /// The most queues that can be asked for.
    pub const MOST_QUEUES: u32 = 64;
    /// The longest time that can be asked for, in microseconds.
    pub const MOST_BUSY_POLL_US: u32 = 10_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_a_word_and_others_are_refused() {
        for mode in XdpMode::ALL {
            let word = mode.to_string();
            assert_eq!(word.parse::<XdpMode>().unwrap(), mode);
            assert!(XdpMode::SUPPORTED.contains(&format!("`{word}`")));
        }
        let text = "fast".parse::<XdpMode>().unwrap_err().to_string();
        assert!(
            text.contains("`fast`") && text.contains("`best-effort`"),
            "{text}"
        );
    }

    #[test]
    fn best_effort_tries_all_others_and_these_only_themselves() {
        assert_eq!(XdpMode::BestEffort.attempts(), XdpMode::ALL[1..]);
        for mode in &XdpMode::ALL[1..] {
            assert_eq!(mode.attempts(), [*mode]);
        }
    }
}
