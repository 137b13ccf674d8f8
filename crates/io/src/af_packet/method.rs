//! The ways to receive from a packet socket, by their names in a configuration.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// How an [`AfPacketPort`](crate::AfPacketPort) receives; it sends the same way with each.
///
/// ```
/// use thalweg_io::ReceiveMethod;
///
/// assert_eq!("ring".parse::<ReceiveMethod>().ok(), Some(ReceiveMethod::Ring));
/// assert_eq!(ReceiveMethod::default().to_string(), "messages");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ReceiveMethod {
    /// One system call for each burst. A frame can be received as soon as it has arrived.
    #[default]
    Messages,
    /// From memory shared with the kernel (`TPACKET_V3`).
    ///
    /// A frame waits until its block is full or a timer of one millisecond ends.
    Ring,
}

impl ReceiveMethod {
    /// Every method.
    pub const ALL: [ReceiveMethod; 2] = [ReceiveMethod::Messages, ReceiveMethod::Ring];

    /// The words that [`ReceiveMethod::from_str`] accepts, for messages.
    pub const SUPPORTED: &str = "`messages`, `ring`";
}

impl FromStr for ReceiveMethod {
    type Err = Error;

    fn from_str(word: &str) -> Result<ReceiveMethod, Error> {
        match word {
            "messages" => Ok(ReceiveMethod::Messages),
            "ring" => Ok(ReceiveMethod::Ring),
            _ => Err(Error::UnknownReceiveMethod { given: word.into() }),
        }
    }
}

impl fmt::Display for ReceiveMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReceiveMethod::Messages => "messages",
            ReceiveMethod::Ring => "ring",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_word_and_others_are_refused() {
        for method in ReceiveMethod::ALL {
            let word = method.to_string();
            assert_eq!(word.parse::<ReceiveMethod>().unwrap(), method);
            assert!(ReceiveMethod::SUPPORTED.contains(&format!("`{word}`")));
        }
        let text = "poll".parse::<ReceiveMethod>().unwrap_err().to_string();
        assert!(text.contains("`poll`") && text.contains("`messages`, `ring`"));
    }
}
