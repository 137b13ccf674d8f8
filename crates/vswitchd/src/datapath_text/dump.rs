//! The line of a flow in `dpctl/dump-flows`: key, statistics, actions.

use std::time::Duration;

use super::flow::DatapathFlow;
use super::format::FlowWriter;

/// What a flow's packets have counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowStatistics {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The time since the last of them; `None` if there was none.
    pub unused_for: Option<Duration>,
    /// The TCP flags of all of them together.
    pub tcp_flags: u16,
}

/// The text for each TCP flag, in the order of `tcpdump`, and the bit of the flag.
const LETTERS: [(&str, u16); 12] = [
    ("S", 0x002),
    ("F", 0x001),
    ("P", 0x008),
    ("R", 0x004),
    ("U", 0x020),
    (".", 0x010),
    ("E", 0x040),
    ("C", 0x080),
    ("N", 0x100),
    ("[200]", 0x200),
    ("[400]", 0x400),
    ("[800]", 0x800),
];

impl std::fmt::Display for FlowStatistics {
    /// `packets:2, bytes:120, used:0.017s, flags:SFP.`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "packets:{}, bytes:{}, used:", self.packets, self.bytes)?;
        match self.unused_for {
            Some(time) => write!(f, "{}.{:03}s", time.as_secs(), time.subsec_millis())?,
            None => f.write_str("never")?,
        }
        let set = LETTERS.iter().filter(|(_, bit)| self.tcp_flags & bit != 0);
        for (place, (letter, _)) in set.enumerate() {
            f.write_str(if place == 0 { ", flags:" } else { "" })?;
            f.write_str(letter)?;
        }
        Ok(())
    }
}

/// The line of a flow, without its end.
pub fn dump_line(
    writer: &FlowWriter<'_>,
    flow: &DatapathFlow,
    statistics: &FlowStatistics,
    actions: &str,
) -> String {
    format!("{}, {statistics}, actions:{actions}", writer.write(flow))
}
